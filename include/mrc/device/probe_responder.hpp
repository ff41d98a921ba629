// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/device/device_port.hpp"
#include "mrc/device/fabric_settings.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/port/address.hpp"
#include "mrc/port/packet_slot.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::detail {

/// Answers EV probes of the fabric's hosts to which no queue pair is connected (mrc-1.0 §5), so
/// that mrc_probe finds every host on which a device is open. Of the processes of a host, all of
/// which get such probes, one answers. One thread at a time.
class ProbeResponder {
 public:
  /// Probes that wait to be answered: as many as a port receives at once.
  static constexpr std::uint32_t kQueue = 256;
  /// Hosts that a port knows as guests at a time, per plane. It looks after all that it knows when
  /// the network changes, so those that have asked longest ago are forgotten.
  static constexpr std::size_t kGuests = 32;

  /// `config` is the one in force. All three must outlive it.
  ProbeResponder(const fabric::Description& d, const fabric::Host& self, const Config& config)
      : d_(d), self_(self), config_(config), guests_(d.planes) {}

  /// Answers over the plane and the uplink of the probe; the answer leaves with flush(). False, and
  /// nothing done, if it came from no other host of the fabric, or another process answers.
  bool answer(Time now, const engine::UnconnectedProbe& probe, DevicePort& port) noexcept try {
    const fabric::Host* host = find_host(probe);
    if (host == nullptr || !claim(now)) return false;
    const Guest& guest = enter(now, *host, probe.plane, port);
    const fabric::Path& way = way_back(guest, probe.entropy);
    wire::EndpointResponsePacket answer{
        wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, Psn{probe.id}), {}};
    answer.eeth.set_op(wire::EndpointOp::ev_probe);
    answer.eeth.set_tx_timestamp(probe.timestamp);
    if (burst_.room() == 0) flush(now, port);
    wire::TxPacket& packet = burst_.append();
    std::memcpy(packet.header.data(), &answer, sizeof answer);
    packet.header_length = sizeof answer;
    packet.dscp = config_.dscp_control;
    packet.ecn = Ecn::not_ect;  // mrc-1.0 [O-22]
    packet.peer = number_of(guest.host);
    packet.plane = probe.plane;
    packet.entropy = way.ev;
    packet.port_path = way.uplink;
    burst_.commit();
    return true;
  } catch (const std::exception&) {  // no memory, or no way by the description's templates
    return false;
  }

  /// Sends the answers to probes that have come by this port. What it does not take is lost, as any
  /// answer may be.
  void flush(Time now, DevicePort& port) noexcept {
    if (!burst_.empty()) (void)port.transmit(now, burst_, burst_.groups());
    burst_.clear();
  }

 private:
  struct Guest {
    const fabric::Host* host = nullptr;
    std::vector<fabric::Path> paths;  ///< back to it, by uplink
    Time asked{};
  };
  /// How often a process that does not answer looks whether the one that did is gone.
  static constexpr Duration kClaimInterval = std::chrono::seconds{1};

  /// Ports know guests under numbers that the engine gives to no peer.
  [[nodiscard]] PeerId number_of(const fabric::Host* host) const noexcept {
    return PeerId{config_.max_peers + static_cast<std::uint32_t>(host - d_.hosts.data())};
  }

  [[nodiscard]] const fabric::Host* find_host(const engine::UnconnectedProbe& probe) {
    if (probe.plane >= d_.planes) return nullptr;
    if (hosts_.empty()) list_hosts();
    const auto found = hosts_[probe.plane].find(probe.source);
    return found == hosts_[probe.plane].end() ? nullptr : found->second;
  }

  void list_hosts() {
    std::vector<std::unordered_map<std::uint64_t, const fabric::Host*>> hosts(d_.planes);
    for (const fabric::Host& host : d_.hosts)
      for (unsigned p = 0; p < d_.planes && &host != &self_; ++p)
        hosts[p].emplace(port::source_tag(host.addresses[p]), &host);
    hosts_ = std::move(hosts);
  }

  /// Whether it is this process that answers for the host, which is known by its address.
  [[nodiscard]] bool claim(Time now) {
    if (claim_.open() || now < next_claim_) return claim_.open();
    next_claim_ = now + kClaimInterval;
    claim_ = port::claim_name("openmrc/packet/probes/" + std::to_string(config_.udp_port) + "/" +
                              port::format_ip(self_.addresses.front()));
    return claim_.open();
  }

  /// The guest as the port knows it.
  [[nodiscard]] Guest& enter(Time now, const fabric::Host& host, Plane plane, DevicePort& port) {
    std::vector<Guest>& guests = guests_[plane];
    const auto known = std::find_if(guests.begin(), guests.end(),
                                    [&](const Guest& guest) { return guest.host == &host; });
    if (known != guests.end()) {
      known->asked = now;
      return *known;
    }
    Guest guest{&host, fabric::plane_paths(d_, plane, self_, host, config_.paths), now};
    if (guests.size() == kGuests) {
      flush(now, port);  // answers to the one that is forgotten
      const auto oldest =
          std::min_element(guests.begin(), guests.end(),
                           [](const Guest& a, const Guest& b) { return a.asked < b.asked; });
      port.remove_peer(number_of(oldest->host));
      guests.erase(oldest);
    }
    // Without waiting for the next hop: if it is not known, this answer is lost.
    (void)port.add_peer(number_of(&host), {host.addresses[plane], port.address().udp_port},
                        routes_of(guest.paths), Duration::zero());
    return guests.emplace_back(std::move(guest));
  }

  /// The path with the EV of the probe, if it is one of this fabric's.
  [[nodiscard]] const fabric::Path& way_back(const Guest& guest, Ev ev) const noexcept {
    if (d_.forwarding == fabric::Forwarding::srv6) ev = Ev{value(ev) & (kSecondEv - 1)};
    for (const fabric::Path& path : guest.paths)
      if (path.ev == ev) return path;
    return guest.paths[value(ev) % guest.paths.size()];
  }

  const fabric::Description& d_;
  const fabric::Host& self_;
  const Config& config_;
  std::vector<std::unordered_map<std::uint64_t, const fabric::Host*>> hosts_;  ///< by source tag
  std::vector<std::vector<Guest>> guests_;                                     ///< [plane]
  port::Socket claim_;
  Time next_claim_ = Time::min();
  wire::TxBurst burst_{64, 1};
};

}  // namespace mrc::inline v0_1::detail
