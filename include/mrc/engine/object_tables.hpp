// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/ring.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/types.hpp"

namespace mrc::inline v0_1::engine {

/// Protection domains, queue pairs and peers by number. It only stores and finds them; Engine
/// checks arguments, and Teardown disconnects a queue pair before it is removed. One thread.
class ObjectTables {
 public:
  /// `options` must outlive the tables.
  explicit ObjectTables(const EngineOptions& options);

  /// A new protection domain, or Errc::no_resources.
  Result<PdId> add_pd();
  /// Frees a protection domain; needs has_pd().
  void remove_pd(PdId pd) noexcept { pds_[static_cast<std::uint32_t>(pd)] = 0; }
  /// True if there is such a protection domain.
  [[nodiscard]] bool has_pd(PdId pd) const noexcept {
    const auto i = static_cast<std::uint32_t>(pd);
    return i < pds_.size() && pds_[i] != 0;
  }

  /// A new queue pair, or Errc::no_resources. A freed number is reused as late as possible, so that
  /// late packets of its former owner are dropped.
  Result<Qpn> add_qp(const QpInit& init, SendPool& writes, reliability::PacketPool& records);
  /// Destroys a queue pair, which must exist.
  void remove_qp(Qpn qpn) noexcept;
  /// Null when there is no such queue pair.
  [[nodiscard]] QueuePairState* qp(Qpn qpn) noexcept {
    const std::uint32_t index = (value(qpn) & 0xFFFF) - kFirstUserQpn;
    if (slot_of(qpn) != options_.slot || index >= qps_.size()) return nullptr;
    return qps_[index].get();
  }
  /// The same, read-only.
  [[nodiscard]] const QueuePairState* qp(Qpn qpn) const noexcept {
    return const_cast<ObjectTables*>(this)->qp(qpn);
  }
  /// Calls fn(QueuePairState&) for each, in the order of their numbers.
  template <class F>
  void for_each_qp(F&& fn) {
    for (auto& qp : qps_)
      if (qp) fn(*qp);
  }
  /// Number of queue pairs.
  [[nodiscard]] std::uint32_t qp_count() const noexcept { return qp_count_; }

  /// A new peer, or Errc::no_resources. Takes one random number if there is room.
  Result<PeerId> add_peer(const PeerSpec& spec, Random& random);
  /// Destroys a peer of this table.
  void remove_peer(Peer& peer) noexcept;
  /// Null when there is no such peer.
  [[nodiscard]] Peer* peer(PeerId id) noexcept {
    return value(id) < peers_.size() ? peers_[value(id)].get() : nullptr;
  }
  /// The same, read-only.
  [[nodiscard]] const Peer* peer(PeerId id) const noexcept {
    return const_cast<ObjectTables*>(this)->peer(id);
  }
  /// The peer with process number `slot` at address `tag` (RxPacket::source), or null. Of several
  /// the newest: the process may have been started again, or have peers by profile.
  [[nodiscard]] Peer* peer_at(std::uint64_t tag, std::uint8_t slot) noexcept {
    const auto [first, last] = peer_by_source_.equal_range(source_key(tag, slot));
    const auto newest = std::max_element(first, last, [](const auto& a, const auto& b) {
      return a.second.serial < b.second.serial;
    });
    return newest == last ? nullptr : peer(newest->second.id);
  }
  /// Calls fn(Peer&) for each peer of that process.
  template <class F>
  void for_each_peer_at(std::uint64_t tag, std::uint8_t slot, F&& fn) {
    const auto [first, last] = peer_by_source_.equal_range(source_key(tag, slot));
    for (auto it = first; it != last; ++it) fn(*peer(it->second.id));
  }
  /// Calls fn(Peer&) for each, in the order of their numbers.
  template <class F>
  void for_each_peer(F&& fn) {
    for (auto& peer : peers_)
      if (peer) fn(*peer);
  }
  /// Number of peers.
  [[nodiscard]] std::uint32_t peer_count() const noexcept { return peer_count_; }

 private:
  [[nodiscard]] static std::uint64_t source_key(std::uint64_t tag, std::uint8_t slot) noexcept {
    return tag ^ (std::uint64_t{slot} * 0x9E3779B97F4A7C15u);
  }

  const EngineOptions& options_;
  std::vector<std::unique_ptr<QueuePairState>> qps_;  // by QPN index - kFirstUserQpn
  Ring<std::uint32_t> free_qps_;                      // indices, the longest unused first
  std::vector<std::uint8_t> pds_;                     // 1: in use
  std::vector<std::unique_ptr<Peer>> peers_;          // by PeerId
  struct Source {
    PeerId id;
    std::uint64_t serial;  ///< later peers have larger ones
  };
  std::unordered_multimap<std::uint64_t, Source> peer_by_source_;
  std::uint64_t next_serial_ = 0;
  std::uint32_t qp_count_ = 0;
  std::uint32_t peer_count_ = 0;
};

}  // namespace mrc::inline v0_1::engine

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/engine/impl/object_tables.ipp"
#endif
