// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "mrc/engine/object_tables.hpp"

namespace mrc::inline v0_1::engine {

ObjectTables::ObjectTables(const EngineOptions& options, SecretRandom& secrets)
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

Result<PdId> ObjectTables::add_pd() {
  for (std::uint32_t i = 0; i < options_.max_pds; ++i) {
    if (i == pds_.size()) pds_.push_back(0);
    if (pds_[i] == 0) {
      pds_[i] = 1;
      return PdId{i};
    }
  }
  return Errc::no_resources;
}

Result<Qpn> ObjectTables::next_number() {
  if (free_qps_.empty()) return Errc::no_resources;
  const std::uint32_t index = free_qps_.front();
  const auto draw = [&] {
    const std::uint32_t random = secrets_.bits(16) >> index_bits_ << index_bits_;
    return Qpn{(std::uint32_t{options_.slot} << 16) | random | (index + kFirstUserQpn)};
  };
  Qpn qpn = draw();
  while (value(qpn) == 0xFFFFFF && index_bits_ < 16) qpn = draw();  // multicast in IBTA's terms
  return qpn;
}

Result<Qpn> ObjectTables::add_qp(const QpInit& init, SendPool& writes,
                                 reliability::PacketPool& records) {
  Result<Qpn> qpn = next_number();
  if (!qpn) return qpn;
  qps_[place_of(*qpn)] =
      std::make_unique<QueuePairState>(*qpn, init, writes, records, options_.placing_planes != 0);
  take_number();
  ++qp_count_;
  return qpn;
}

void ObjectTables::remove_qp(Qpn qpn) noexcept {
  --qp_count_;
  qps_[place_of(qpn)].reset();
  return_number(qpn);
}

Result<SrqId> ObjectTables::add_srq(PdId pd, std::uint32_t depth, std::uint32_t sges) {
  std::uint32_t i = 0;
  while (i < srqs_.size() && srqs_[i]) ++i;
  if (i >= options_.max_srqs) return Errc::no_resources;
  auto srq = std::make_unique<SharedReceiveQueue>(SrqId{i}, pd, depth, sges);
  if (i == srqs_.size()) srqs_.emplace_back();
  srqs_[i] = std::move(srq);
  return SrqId{i};
}

Result<PeerId> ObjectTables::add_peer(const PeerSpec& spec, Random& random) {
  std::uint32_t i = 0;
  while (i < peers_.size() && peers_[i]) ++i;
  if (i >= options_.max_peers) return Errc::no_resources;
  auto peer = std::make_unique<Peer>(PeerId{i}, spec, options_, random.next());
  std::vector<std::uint64_t> tags(spec.source_tags.begin(), spec.source_tags.end());
  std::sort(tags.begin(), tags.end());
  tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
  for (const std::uint64_t tag : tags)
    if (tag != 0) peers_by_source_.emplace(tag, Source{peer->id, next_serial_});
  ++next_serial_;
  if (i == peers_.size()) peers_.emplace_back();
  peers_[i] = std::move(peer);
  ++peer_count_;
  return PeerId{i};
}

/// The newest of the peers at a source address that suit.
template <class F>
Peer* ObjectTables::newest_at(std::uint64_t tag, F&& suits) noexcept {
  const auto [first, last] = peers_by_source_.equal_range(tag);
  Peer* newest = nullptr;
  std::uint64_t serial = 0;
  for (auto it = first; it != last; ++it) {
    Peer* found = peer(it->second.id);
    if ((newest != nullptr && it->second.serial < serial) || !suits(*found)) continue;
    newest = found;
    serial = it->second.serial;
  }
  return newest;
}

Peer* ObjectTables::plain_peer_at(std::uint64_t tag, std::uint8_t slot) noexcept {
  const auto plain = [](const Peer& p) { return p.tagged.empty(); };
  Peer* exact = newest_at(tag, [&](const Peer& p) { return p.slot == slot && plain(p); });
  return exact != nullptr ? exact : newest_at(tag, plain);
}

void ObjectTables::remove_peer(Peer& peer) noexcept {
  std::erase_if(peers_by_source_, [&](const auto& entry) { return entry.second.id == peer.id; });
  --peer_count_;
  peers_[value(peer.id)].reset();
}

}  // namespace mrc::inline v0_1::engine
