// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "mrc/engine/object_tables.hpp"

namespace mrc::inline v0_1::engine {

MRC_SETUP ObjectTables::ObjectTables(const EngineOptions& options, SecretRandom& secrets)
    : options_(options),
      secrets_(secrets),
      index_bits_(std::min(16u, static_cast<unsigned>(std::bit_width(options.max_qps + 2)))),
      free_qps_(options.max_qps) {
  qps_.resize(options.max_qps);
  std::vector<std::uint32_t> order(options.max_qps);
  std::iota(order.begin(), order.end(), 0u);
  secrets.shuffle(std::span(order));
  for (const std::uint32_t i : order) free_qps_.push_back(i);
  pds_.reserve(options.max_pds);
  peers_.reserve(options.max_peers);
}

MRC_SETUP Result<PdId> ObjectTables::add_pd() {
  for (std::uint32_t i = 0; i < options_.max_pds; ++i) {
    if (i == pds_.size()) pds_.push_back(0);
    if (pds_[i] == 0) {
      pds_[i] = 1;
      return PdId{i};
    }
  }
  return Errc::no_resources;
}

MRC_SETUP Result<Qpn> ObjectTables::add_qp(const QpInit& init, SendPool& writes,
                                           reliability::PacketPool& records) {
  if (free_qps_.empty()) return Errc::no_resources;
  const std::uint32_t index = free_qps_.front();
  const std::uint32_t random = secrets_.bits(16) >> index_bits_ << index_bits_;
  const Qpn qpn{(std::uint32_t{options_.slot} << 16) | random | (index + kFirstUserQpn)};
  qps_[index] =
      std::make_unique<QueuePairState>(qpn, init, writes, records, options_.placing_planes != 0);
  free_qps_.pop_front();
  ++qp_count_;
  return qpn;
}

MRC_SETUP void ObjectTables::remove_qp(Qpn qpn) noexcept {
  const std::uint32_t index = index_of(qpn);
  --qp_count_;
  qps_[index].reset();
  free_qps_.push_back(index);
}

/// Enters where its packets come from, unless another peer is known there.
MRC_SETUP void ObjectTables::list_sources(const Peer& peer) {
  for (const std::uint64_t tag : peer.source_tags) {
    if (tag == 0) continue;
    peer_by_source_.try_emplace(source_key(tag, peer.slot), peer.id);
    plain_by_source_.try_emplace(tag, peer.id);
  }
}

MRC_SETUP Result<PeerId> ObjectTables::add_peer(const PeerSpec& spec, Random& random) {
  std::uint32_t i = 0;
  while (i < peers_.size() && peers_[i]) ++i;
  if (i >= options_.max_peers) return Errc::no_resources;
  auto peer = std::make_unique<Peer>(PeerId{i}, spec, options_, random.next());
  list_sources(*peer);
  if (i == peers_.size()) peers_.emplace_back();
  peers_[i] = std::move(peer);
  ++peer_count_;
  return PeerId{i};
}

MRC_DECL Peer* ObjectTables::plain_peer_at(std::uint64_t tag, std::uint8_t slot) noexcept {
  if (Peer* exact = peer_at(tag, slot); exact != nullptr && exact->tagged.empty()) return exact;
  const auto it = plain_by_source_.find(tag);
  Peer* any = it == plain_by_source_.end() ? nullptr : peer(it->second);
  return any != nullptr && any->tagged.empty() ? any : nullptr;
}

MRC_SETUP void ObjectTables::remove_peer(Peer& peer) noexcept {
  const auto forget = [&peer](std::unordered_map<std::uint64_t, PeerId>& map, std::uint64_t key) {
    const auto it = map.find(key);
    if (it != map.end() && it->second == peer.id) map.erase(it);
  };
  for (const std::uint64_t tag : peer.source_tags) {
    forget(peer_by_source_, source_key(tag, peer.slot));
    forget(plain_by_source_, tag);
  }
  --peer_count_;
  const std::unique_ptr<Peer> gone = std::move(peers_[value(peer.id)]);
  // Another peer may have the same address and slot: another way to, or process of, that device.
  for_each_peer([this](const Peer& other) { list_sources(other); });
}

}  // namespace mrc::inline v0_1::engine
