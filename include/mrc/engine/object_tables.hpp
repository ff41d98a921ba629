// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/queues.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::engine {

/// Protection domains, queue pairs and peers by number. It only stores and finds them; Engine
/// checks arguments, and Teardown disconnects a queue pair before it is removed. One thread.
class ObjectTables {
 public:
  /// Both must outlive the tables. `secrets`: of the numbers of queue pairs.
  ObjectTables(const EngineOptions& options, SecretRandom& secrets);

  /// A new protection domain, or Errc::no_resources.
  Result<PdId> add_pd();
  /// Frees a protection domain; needs has_pd().
  void remove_pd(PdId pd) noexcept { pds_[static_cast<std::uint32_t>(pd)] = 0; }
  /// True if there is such a protection domain.
  [[nodiscard]] bool has_pd(PdId pd) const noexcept {
    const auto i = static_cast<std::uint32_t>(pd);
    return i < pds_.size() && pds_[i] != 0;
  }

  /// A new queue pair, or Errc::no_resources. All bits of its number but the slot are random, and
  /// its place in the table is reused as late as possible: late packets of its former owner are
  /// dropped.
  Result<Qpn> add_qp(const QpInit& init, SendPool& writes, reliability::PacketPool& records);
  /// Destroys a queue pair, which must exist.
  void remove_qp(Qpn qpn) noexcept;

  /// The number of the next queue pair, of whatever kind, or Errc::no_resources; take_number()
  /// follows once there is one.
  Result<Qpn> next_number();
  /// The number that next_number() has returned is in use from now on.
  void take_number() noexcept { free_qps_.pop_front(); }
  /// It no longer is.
  void return_number(Qpn qpn) noexcept { (void)free_qps_.push_back(place_of(qpn)); }
  /// The place of a number in tables of queue pairs: less than EngineOptions::max_qps for one that
  /// is in use.
  [[nodiscard]] std::uint32_t place_of(Qpn qpn) const noexcept {
    return (value(qpn) & ((1u << index_bits_) - 1)) - kFirstUserQpn;
  }

  /// The queue pair in the place of that number; it may have another number. Null if it is empty.
  [[nodiscard]] QueuePairState* candidate(Qpn qpn) noexcept {
    const std::uint32_t index = place_of(qpn);
    return index < qps_.size() ? qps_[index].get() : nullptr;
  }
  /// Null when there is no such queue pair.
  [[nodiscard]] QueuePairState* qp(Qpn qpn) noexcept {
    QueuePairState* qp = candidate(qpn);
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  /// The same, read-only.
  [[nodiscard]] const QueuePairState* qp(Qpn qpn) const noexcept {
    return const_cast<ObjectTables*>(this)->qp(qpn);
  }
  /// Calls fn(QueuePairState&) for each.
  template <class F>
  void for_each_qp(F&& fn) {
    for (auto& qp : qps_)
      if (qp) fn(*qp);
  }
  /// The same, read-only.
  template <class F>
  void for_each_qp(F&& fn) const {
    for (const auto& qp : qps_)
      if (qp) fn(static_cast<const QueuePairState&>(*qp));
  }
  /// Places for queue pairs, of which the most may be empty.
  [[nodiscard]] std::size_t qp_places() const noexcept { return qps_.size(); }
  /// The queue pair in a place below qp_places(); null if it is empty.
  [[nodiscard]] const QueuePairState* qp_at(std::size_t place) const noexcept {
    return qps_[place].get();
  }
  /// Number of queue pairs.
  [[nodiscard]] std::uint32_t qp_count() const noexcept { return qp_count_; }

  /// A new shared receive queue, or Errc::no_resources.
  Result<SrqId> add_srq(PdId pd, std::uint32_t depth, std::uint32_t sges);
  /// Destroys a shared receive queue, which must exist.
  void remove_srq(SrqId srq) noexcept { srqs_[static_cast<std::uint32_t>(srq)].reset(); }
  /// Null when there is no such queue.
  [[nodiscard]] SharedReceiveQueue* srq(SrqId id) noexcept {
    const auto i = static_cast<std::uint32_t>(id);
    return i < srqs_.size() ? srqs_[i].get() : nullptr;
  }
  /// Calls fn(SharedReceiveQueue&) for each.
  template <class F>
  void for_each_srq(F&& fn) {
    for (auto& srq : srqs_)
      if (srq) fn(*srq);
  }

  /// A new peer, or Errc::no_resources. Takes one number of `random` if there is room.
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
  /// Calls fn(Peer&) for each peer with process number `slot` at address `tag` (RxPacket::source).
  template <class F>
  void for_each_peer_at(std::uint64_t tag, std::uint8_t slot, F&& fn) {
    const auto [first, last] = peers_by_source_.equal_range(tag);
    for (auto it = first; it != last; ++it)
      if (Peer& found = *peer(it->second.id); found.slot == slot) fn(found);
  }
  /// A peer without tags at address `tag`, that with process number `slot` if there is one, or
  /// null: other implementations have no slots, and put into an endpoint request what they like
  /// where OpenMRC has its slot. Of several the newest: the process may have been started again.
  [[nodiscard]] Peer* plain_peer_at(std::uint64_t tag, std::uint8_t slot) noexcept;
  /// Calls fn(Peer&) for each, in the order of their numbers.
  template <class F>
  void for_each_peer(F&& fn) {
    for (auto& peer : peers_)
      if (peer) fn(*peer);
  }
  /// Number of peers.
  [[nodiscard]] std::uint32_t peer_count() const noexcept { return peer_count_; }

 private:
  template <class F>
  [[nodiscard]] Peer* newest_at(std::uint64_t tag, F&& suits) noexcept;

  const EngineOptions& options_;
  SecretRandom& secrets_;
  const unsigned index_bits_;
  /// By place_of(): low bits of a QPN, less kFirstUserQpn. Those between them and the slot are
  /// random.
  std::vector<std::unique_ptr<QueuePairState>> qps_;
  Ring<std::uint32_t> free_qps_;   // indices, in random order, then the longest unused first
  std::vector<std::uint8_t> pds_;  // 1: in use
  std::vector<std::unique_ptr<SharedReceiveQueue>> srqs_;  // by SrqId
  std::vector<std::unique_ptr<Peer>> peers_;               // by PeerId
  struct Source {
    PeerId id;
    std::uint64_t serial;  ///< later peers have larger ones
  };
  std::unordered_multimap<std::uint64_t, Source> peers_by_source_;  // by source tag
  std::uint64_t next_serial_ = 0;
  std::uint32_t qp_count_ = 0;
  std::uint32_t peer_count_ = 0;
};

}  // namespace mrc::inline v0_1::engine
