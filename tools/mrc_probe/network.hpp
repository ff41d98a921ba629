// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/types.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "mrc/fabric/packet_port.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/transport.hpp"
#include "probe/part.hpp"

namespace mrc::probe_tool {

using namespace probe;

/// A way for packets through one of the ports.
struct Way {
  Plane plane = 0;
  unsigned peer = 0;        ///< number given to Network::add_peer()
  std::uint16_t route = 0;  ///< place in its list of routes
  Ev ev{};
};

/// The packet ports of this host, one for each plane. Where the interface is missing, probes are
/// lost. One thread at a time.
class Network {
 public:
  /// Throws mrc::Error if this process may not use packet ports.
  /// `program`: is named in messages.
  Network(const fabric::Description& d, const fabric::Host& self, const Config& config,
          const char* program = "mrc_probe");

  /// Which process of this host this is: put into requests, so that others know whose they are.
  [[nodiscard]] std::uint8_t slot() const noexcept { return claim_.slot; }
  [[nodiscard]] bool link_up(Plane plane) const noexcept { return ports_[plane].link_up(); }

  /// A destination with its routes; replaces the one of that number.
  void add_peer(Plane plane, unsigned peer, const wire::IpAddress& ip,
                std::vector<path::UsidRoute> routes);

  /// Bytes of the IP packets that carry the most data; 0 if the MTU of a port is too small for any.
  /// Devices use the same in all planes.
  [[nodiscard]] std::uint32_t full_size() const noexcept;

  /// Takes a control packet; it leaves with flush(), if not before. What can't leave is lost.
  /// `padding`: zeros behind it.
  template <class Packet>
  void send(const Way& way, const Packet& packet, std::uint32_t padding = 0) {
    if (bursts_[way.plane].room() == 0) flush(way.plane);
    wire::TxPacket& p = bursts_[way.plane].append();
    std::memcpy(p.header.data(), &packet, sizeof packet);
    p.header_length = sizeof packet;
    if (padding != 0) bursts_[way.plane].add_sge(kPadding.data(), padding, 0);
    commit(way, p);
  }
  void flush();

  /// Calls f(const wire::RxPacket&) for each whole MRC packet that has arrived.
  template <class F>
  void receive(F&& f) {
    for (auto& port : ports_) {
      do {
        arrived_.clear();
        port.receive(monotonic_now(), arrived_);
        for (const wire::RxPacket& packet : arrived_.packets())
          if (packet.trim == wire::Trim::none &&
              wire::check(packet.bytes) == wire::ParseError::none)
            f(packet);
      } while (arrived_.room() == 0);
    }
  }
  /// Sleeps until something arrives, at most to that time; less, if the program is interrupted.
  void wait(Time until) noexcept;

 private:
  static constexpr std::array<std::uint8_t, kLargestMtu + wire::kMaxWriteHeader> kPadding{};
  /// How long to wait for a next hop's Ethernet address.
  static constexpr Duration kResolveTime = std::chrono::milliseconds{20};

  /// Says on standard error, once, what the port of a plane misses.
  void tell_notes(Plane plane);
  void tell(Plane plane, const std::string& note);
  void flush(Plane plane);
  void commit(const Way& way, wire::TxPacket& packet);

  const char* program_;
  std::uint8_t dscp_;
  std::uint32_t mtu_;  ///< of devices, unless a port has no room for it
  wire::Encapsulation encapsulation_;
  port::PacketSlotClaim claim_;
  std::vector<port::PacketPort> ports_;  ///< [plane]
  std::vector<wire::TxBurst> bursts_;    ///< [plane]
  std::vector<Duration> patience_;       ///< [plane]: with next hops
  std::vector<pollfd> events_;
  port::RxBurst arrived_{256};
  std::set<std::string> told_;
};

}  // namespace mrc::probe_tool
