// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/peers.hpp"

#include <algorithm>

#include "mrc/net/address.hpp"

namespace mrc_nccl {

std::uint64_t Peers::add(const mrc::QueuePair& qp, const mrc::ConnectionInfo& peer,
                         const std::string& name) {
  const Key key{peer.device_guid, peer.slot, qp.lane()};
  const std::lock_guard lock(mutex_);
  const auto [entry, made] = peers_.try_emplace(key);
  if (made) {
    entry->second.number = count_++;
    entry->second.name = name;
    if (!peer.planes.empty())
      entry->second.name += " (" + mrc::port::format_ip(peer.planes.front().ip) + ")";
  }
  entry->second.members.push_back({&qp});
  return entry->second.number;
}

void Peers::ignore(const mrc::QueuePair& qp, bool process) noexcept {
  if (fork_.forked()) return;
  const std::lock_guard lock(mutex_);
  for (auto& [key, peer] : peers_) {
    const auto own = std::find_if(peer.members.begin(), peer.members.end(),
                                  [&](const Member& member) { return member.qp == &qp; });
    if (own == peer.members.end()) continue;
    own->ignored = true;
    for (Member& member : peer.members) member.ignored |= process;
    return;
  }
}

void Peers::remove(const mrc::QueuePair& qp) noexcept {
  if (fork_.forked()) return;
  const std::lock_guard lock(mutex_);
  for (auto entry = peers_.begin(); entry != peers_.end(); ++entry) {
    auto& members = entry->second.members;
    if (std::erase_if(members, [&](const Member& member) { return member.qp == &qp; }) == 0)
      continue;
    if (members.empty()) peers_.erase(entry);
    return;
  }
}

std::vector<PeerPaths> Peers::paths(const mrc::Device& device) const {
  const std::lock_guard lock(mutex_);
  std::vector<PeerPaths> all;
  for (const auto& [key, peer] : peers_) {
    const auto alive = std::find_if(peer.members.begin(), peer.members.end(),
                                    [](const Member& member) { return !member.ignored; });
    if (alive != peer.members.end())
      all.push_back({peer.number, peer.name, device.paths(*alive->qp)});
  }
  return all;
}

}  // namespace mrc_nccl
