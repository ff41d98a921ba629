// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
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
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::detail {

/// Probes that a device keeps between receiving and answering: as many as it receives at once.
inline constexpr std::uint32_t kGuestProbes = 256;

/// Answers EV probes of the fabric's hosts to which no queue pair is connected (mrc-1.0 §5), so
/// that mrc_probe finds every host on which a device is open. One thread at a time.
class ProbeResponder {
 public:
  /// `config` is the one in force. All three must outlive it.
  ProbeResponder(const fabric::Description& d, const fabric::Host& self, const Config& config)
      : d_(d), self_(self), config_(config) {}

  /// Answers over the plane and the uplink of the probe, at once; what the port does not take is
  /// lost, as any probe may be. False, and nothing sent, if it came from no host of the fabric.
  bool answer(Time now, const engine::Engine::GuestProbe& probe, DevicePort& port) noexcept try {
    Guest* guest = find(probe);
    if (guest == nullptr) return false;
    if (guest->paths.empty()) enter(*guest, probe.plane, port);
    const fabric::Path& way = way_back(*guest, probe.entropy);
    wire::EndpointResponsePacket answer{
        wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, Psn{probe.id}), {}};
    answer.eeth.set_op(wire::EndpointOp::ev_probe);
    answer.eeth.set_tx_timestamp(probe.timestamp);
    burst_.clear();
    wire::TxPacket& packet = burst_.append();
    std::memcpy(packet.header.data(), &answer, sizeof answer);
    packet.header_length = sizeof answer;
    packet.dscp = config_.dscp_control;
    packet.ecn = Ecn::not_ect;  // mrc-1.0 [O-22]
    packet.peer = peer_of(*guest);
    packet.plane = probe.plane;
    packet.entropy = way.ev;
    packet.port_path = way.uplink;
    burst_.commit();
    (void)port.transmit(now, burst_, burst_.groups());
    return true;
  } catch (const std::exception&) {  // no memory, or a peer number too many
    return false;
  }

 private:
  struct Guest {
    unsigned host = 0;
    std::vector<fabric::Path> paths;  ///< back to it, by uplink; empty: not yet known to the port
  };

  /// Ports know hosts under numbers that the engine gives to no peer.
  [[nodiscard]] PeerId peer_of(const Guest& guest) const noexcept {
    return PeerId{config_.max_peers + guest.host};
  }

  [[nodiscard]] Guest* find(const engine::Engine::GuestProbe& probe) {
    if (guests_.empty()) list_guests();
    if (probe.plane >= guests_.size()) return nullptr;
    const auto found = guests_[probe.plane].find(probe.source);
    return found == guests_[probe.plane].end() ? nullptr : &found->second;
  }

  void list_guests() {
    std::vector<std::unordered_map<std::uint64_t, Guest>> guests(d_.planes);
    for (unsigned h = 0; h < d_.hosts.size(); ++h)
      for (unsigned p = 0; p < d_.planes && &d_.hosts[h] != &self_; ++p)
        guests[p].emplace(port::source_tag(d_.hosts[h].addresses[p]), Guest{h, {}});
    guests_ = std::move(guests);
  }

  void enter(Guest& guest, Plane plane, DevicePort& port) {
    const fabric::Host& host = d_.hosts[guest.host];
    std::vector<fabric::Path> paths = fabric::plane_paths(d_, plane, self_, host, config_.paths);
    // Without waiting for the next hop: if it is not known, this answer is lost.
    (void)port.add_peer(peer_of(guest), {host.addresses[plane], port.address().udp_port},
                        make_plane_paths(paths, d_.planes).routes, Duration{});
    guest.paths = std::move(paths);
  }

  /// The path with the EV of the probe, if it is one of this fabric's.
  [[nodiscard]] static const fabric::Path& way_back(const Guest& guest, Ev ev) noexcept {
    for (const fabric::Path& path : guest.paths)
      if (path.ev == ev) return path;
    return guest.paths[value(ev) % guest.paths.size()];
  }

  const fabric::Description& d_;
  const fabric::Host& self_;
  const Config& config_;
  std::vector<std::unordered_map<std::uint64_t, Guest>> guests_;  ///< [plane], by source tag
  wire::TxBurst burst_{1, 1};
};

}  // namespace mrc::detail
