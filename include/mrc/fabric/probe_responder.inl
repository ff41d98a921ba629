// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "mrc/fabric/packet_kind.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "mrc/fabric/packet_port.hpp"
#include "mrc/fabric/probe_responder.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1::detail {

bool ProbeResponder::answer(Time now, const wire::UnconnectedRequest& probe,
                            port::Port& port) noexcept try {
  Guest* guest = find_guest(probe);
  if (guest == nullptr || !claim(now)) return false;
  if (!guest->answers.take(now) || !answers_.take(now)) return false;
  const UnconnectedHost* entry = enter(now, *guest->host, probe.plane, port);
  if (entry == nullptr) return false;
  const fabric::Path& way = way_back(*entry, probe.entropy);
  if (burst_.room() == 0) flush(now, port);
  append_answer(burst_, probe, number_of(entry->host),
                {way.ev, probe.plane, static_cast<std::uint16_t>(way.uplink)},
                config_.expert.dscp_control);
  return true;
} catch (const std::exception&) {  // out of memory, or the templates give no route
  return false;
}

void ProbeResponder::flush(Time now, port::Port& port) noexcept {
  if (!burst_.empty()) (void)port.transmit(now, burst_, burst_.groups());
  burst_.clear();
}

ProbeResponder::Guest* ProbeResponder::find_guest(const wire::UnconnectedRequest& probe) {
  if (probe.plane >= d_.planes) return nullptr;
  if (guests_.empty()) list_hosts();
  const auto found = guests_[probe.plane].find(probe.source);
  return found == guests_[probe.plane].end() ? nullptr : &found->second;
}

void ProbeResponder::list_hosts() {
  const AllowedPeers allowed(config_.peers_allowed);
  std::vector<std::unordered_map<std::uint64_t, Guest>> guests(d_.planes);
  for (const fabric::Host& host : d_.hosts)
    for (unsigned p = 0; p < d_.planes && &host != &self_; ++p)
      if (allowed.contains(host.addresses[p]))
        guests[p].emplace(port::source_tag(host.addresses[p]), Guest{&host});
  guests_ = std::move(guests);
}

/// Claims the task of answering for this host, which one process per host can have.
bool ProbeResponder::claim(Time now) {
  if (claim_.open() || now < next_claim_) return claim_.open();
  next_claim_ = now + kClaimInterval;
  claim_ =
      port::claim_lock(config_.lock_folder, "probes-" + std::to_string(config_.udp_port) + "-" +
                                                port::format_ip(self_.addresses.front()));
  return claim_.open();
}

/// The host as the port knows it; made known to the port first if it is new. Null if too many were.
ProbeResponder::UnconnectedHost* ProbeResponder::enter(Time now, const fabric::Host& host,
                                                       Plane plane, port::Port& port) {
  std::vector<UnconnectedHost>& entries = unconnected_[plane];
  const auto known =
      std::find_if(entries.begin(), entries.end(),
                   [&](const UnconnectedHost& entry) { return entry.host == &host; });
  if (known != entries.end()) {
    known->asked = now;
    return &*known;
  }
  if (!entries_.take(now)) return nullptr;
  UnconnectedHost entry{&host, fabric::plane_paths(d_, plane, self_, host, config_.paths), now};
  if (entries.size() == kUnconnectedHosts) {
    flush(now, port);  // may hold answers to the host that is forgotten
    const auto oldest = std::min_element(
        entries.begin(), entries.end(),
        [](const UnconnectedHost& a, const UnconnectedHost& b) { return a.asked < b.asked; });
    port.remove_peer(number_of(oldest->host));
    entries.erase(oldest);
  }
  // Without waiting for the next hop: if it is not known, this answer is lost.
  (void)port.add_peer(number_of(&host), port::PeerRoute(port::PacketPort::Route{
                                            {host.addresses[plane], port.address().udp_port},
                                            routes_of(entry.paths)}));
  return &entries.emplace_back(std::move(entry));
}

/// The path with the EV of the probe, or any if the EV is not of this fabric.
const fabric::Path& ProbeResponder::way_back(const UnconnectedHost& entry, Ev ev) const noexcept {
  if (d_.forwarding == fabric::Forwarding::srv6) ev = Ev{value(ev) & (kSecondEv - 1)};
  for (const fabric::Path& path : entry.paths)
    if (path.ev == ev) return path;
  return entry.paths[value(ev) % entry.paths.size()];
}

}  // namespace mrc::inline v0_1::detail
