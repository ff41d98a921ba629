// SPDX-License-Identifier: Apache-2.0
// DeviceCore: what a fabric description (docs/fabric.md) makes of a device.
#pragma once

#include <net/if.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "mrc/device/core.hpp"
#include "mrc/device/fabric_settings.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/fabric/self.hpp"
#include "mrc/port/packet.hpp"

namespace mrc::inline v0_1::detail {

/// Packets per plane in a burst through packet ports. Each costs microseconds, a burst goes out
/// plane by plane, and a process that is interrupted meanwhile has said of all of them that they
/// are sent. 16 instead of 4 save nothing that could be measured, and beside two busy programs
/// twice as many pass for lost.
inline constexpr std::size_t kFabricBurst = 4;

inline void DeviceCore::open_fabric_ports() {
  self_ = &fabric::find_self(*fabric_, port::local_addresses(), config_.host);
  std::optional<std::uint8_t> wanted;
  if (config_.slot >= 0) wanted = static_cast<std::uint8_t>(config_.slot);
  port::PacketSlotClaim claim = port::claim_packet_slot(wanted);
  slot_ = claim.slot;
  slot_claim_ = std::move(claim.socket);
  // A host that has lost some runs without; one that has none is not set up.
  const bool any_interface =
      std::any_of(self_->interfaces.begin(), self_->interfaces.end(),
                  [](const std::string& name) { return if_nametoindex(name.c_str()) != 0; });
  for (unsigned i = 0; i < fabric_->planes; ++i) {
    port::PacketPortOptions o;
    set_shared(o, static_cast<Plane>(i));
    o.interface = self_->interfaces[i];
    o.may_be_absent = any_interface;
    o.local = self_->addresses[i];
    o.udp_port = config_.udp_port;
    o.mtu = fabric_->mtu;
    o.ev_format = fabric_->entropy;
    if (!self_->next_hops.empty()) o.next_hop = self_->next_hops[i];
    o.encapsulation = encapsulation_of(*fabric_);
    o.paths = paths_of(*fabric_, *self_, o.plane, config_.paths);
    o.receive_slots = static_cast<std::uint16_t>(std::min(256, 4 * config_.rx_batch));
    adopt(DevicePort(port::PacketPort(o)));
  }
  tx_ = wire::TxBurst(std::max<std::size_t>(16, kFabricBurst * fabric_->planes));
  few_packets_ = tx_.room() / 4;
  probe_responder_.emplace(*fabric_, *self_, config_);
  log(LogLevel::info, "host " + self_->name + " of fabric " + fabric_->name + " (" + fabric_->file +
                          "): " + std::to_string(fabric_->planes) + " planes of packet ports");
}

/// EV probes of hosts to which no queue pair is connected, mrc_probe's above all. To be called
/// after each port's receive().
inline void DeviceCore::answer_unconnected_probes(Time now, DevicePort& port) noexcept {
  engine::UnconnectedProbe probe;
  while (engine_->poll_unconnected_probe(probe))
    ++(probe_responder_->answer(now, probe, port) ? objects_.unconnected_probes_answered
                                                  : objects_.unconnected_probes_refused);
  probe_responder_->flush(now, port);
}

/// The paths to the host that has that address. Throws Error if there is none.
inline std::vector<fabric::Path> DeviceCore::fabric_paths(Plane plane,
                                                          const port::PeerAddress& peer) const {
  const fabric::Host* host = fabric_->find_host(plane, peer.ip);
  if (host == nullptr)
    throw Error(Errc::unreachable, "no host of fabric " + fabric_->file + " has address " +
                                       port::format_ip(peer.ip) + " in plane " +
                                       std::to_string(plane) + "; add the peer to it");
  return fabric::plane_paths(*fabric_, plane, *self_, *host, config_.paths);
}

}  // namespace mrc::inline v0_1::detail
