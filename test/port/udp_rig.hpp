// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/port/udp.hpp"
#include "mrc/wire/bth.hpp"

/// Two UdpPorts on the loopback interface, and packets between them.
namespace mrc::port::test {

/// The loopback address of a family, or nothing where the machine has none.
inline std::optional<LocalAddress> loopback(bool v4) {
  LocalAddress local{v4 ? make_v4(127, 0, 0, 1) : parse_ip("::1"), ""};
  Socket socket(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0));
  if (!socket.open() || !try_bind(socket, SocketAddress(local.ip, 0))) return std::nullopt;
  return local;
}

/// Options of a port on a slot that is free now. UDP ports away from the well-known one, so that
/// tests can run beside other programs.
inline UdpPortOptions options_for(const LocalAddress& local, std::uint16_t paths = 4) {
  UdpPortOptions options;
  options.local = local;
  options.base_port = 24791;
  options.paths = paths;
  return options;
}

/// A port on the first free slot.
inline UdpPort open_port(UdpPortOptions options) {
  SlotClaim claim = claim_slot(std::array{options.local}, options.base_port);
  options.slot = claim.slot;
  return UdpPort(options, std::move(claim.sockets[0]));
}

/// True if the descriptor is readable now.
inline bool readable(int fd) {
  pollfd descriptor{fd, POLLIN, 0};
  return poll(&descriptor, 1, 0) == 1;
}

/// What arrived, copied out of the port's buffers.
struct Arrived {
  wire::RxPacket facts;
  std::vector<std::uint8_t> bytes;
};

/// Payload of a packet: reproducible from its number.
inline std::vector<std::uint8_t> payload_of(std::uint32_t number, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  Random random(number);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  return bytes;
}

struct Rig {
  explicit Rig(const UdpPortOptions& a, const UdpPortOptions& b)
      : sender(open_port(a)), receiver(open_port(b)) {
    tag = receiver.add_peer(PeerId{0}, sender.address());
    sender.add_peer(PeerId{5}, receiver.address());
  }

  /// Puts one packet into the burst: a BTH with the number as PSN, and payload in two pieces.
  void add(std::uint32_t number, std::size_t payload, std::uint16_t path, Ecn ecn = Ecn::ect0,
           std::uint8_t dscp = 4) {
    payloads.push_back(payload_of(number, payload));
    wire::TxPacket& p = burst.append();
    const auto bth = wire::Bth::make(wire::Opcode{0xCA}, Qpn{7}, Psn{number});
    std::memcpy(p.header.data(), &bth, sizeof bth);
    p.header_length = sizeof bth;
    p.pad = static_cast<std::uint8_t>((4 - payload % 4) % 4);
    p.dscp = dscp;
    p.ecn = ecn;
    p.peer = PeerId{5};
    p.port_path = path;
    p.entropy = path < sender.paths().size() ? sender.paths()[path].ev : Ev{};
    p.plane = 0;
    const auto& data = payloads.back();
    const auto half = static_cast<std::uint32_t>(payload / 2);
    burst.add_piece(data.data(), half);
    burst.add_piece(data.data() + half, static_cast<std::uint32_t>(payload) - half);
    burst.commit();
  }

  /// Sends all groups; returns how many packets were taken.
  std::uint32_t send() {
    std::uint32_t taken = 0;
    for (const wire::TxGroup& group : burst.groups())
      taken += sender.transmit(now(), burst, {&group, 1});
    burst.clear();
    payloads.clear();
    return taken;
  }

  /// Receives until nothing more is there. Loopback delivers within the send call.
  void receive() {
    do {
      rx.clear();
      receiver.receive(now(), rx);
      for (const wire::RxPacket& p : rx.packets())
        arrived.push_back({p, {p.bytes.begin(), p.bytes.end()}});
    } while (more());
  }
  /// Would receive() bring something?
  [[nodiscard]] bool more() const {
    return receiver.next_release() <= now() || readable(receiver.poll_fd());
  }

  [[nodiscard]] static Time now() { return monotonic_now(); }
  [[nodiscard]] static std::uint32_t number_of(const Arrived& a) {
    wire::Bth bth;
    std::memcpy(&bth, a.bytes.data(), sizeof bth);
    return bth.psn().value();
  }

  UdpPort sender;
  UdpPort receiver;
  std::uint64_t tag = 0;
  wire::TxBurst burst{256, 1024};
  std::vector<std::vector<std::uint8_t>> payloads;
  RxBurst rx{64};
  std::vector<Arrived> arrived;
};

/// A rig on one family with the same options on both sides.
inline Rig make_rig(const LocalAddress& local, std::uint16_t paths = 4) {
  const UdpPortOptions options = options_for(local, paths);
  return Rig(options, options);
}

}  // namespace mrc::port::test

/// Runs the rest of the test case for one family, or skips it with a message.
#define MRC_LOOPBACK_OR_SKIP(local, v4)                                            \
  const auto local##_found = mrc::port::test::loopback(v4);                        \
  if (!local##_found) {                                                            \
    MESSAGE("skipped: this machine has no loopback address of IPv", (v4) ? 4 : 6); \
    return;                                                                        \
  }                                                                                \
  const mrc::port::LocalAddress& local = *local##_found
