// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <span>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/object_tables.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// Brings into the cache what is needed next, while something else is done. With thousands of queue
/// pairs each finds its state in main memory: these waits one by one would take as long as the work
/// (docs/performance_log.md). It reads state and changes none; what it expects wrongly costs time
/// and nothing else.
class Lookahead {
 public:
  /// Packets that are looked at together.
  static constexpr std::size_t kBatch = 16;
  /// So many queue pairs stay in the cache by themselves.
  static constexpr std::uint32_t kFew = 32;

  /// `objects` must outlive this object.
  explicit Lookahead(ObjectTables& objects) noexcept : objects_(objects) {}

  /// Are there so many queue pairs that it pays?
  [[nodiscard]] bool pays() const noexcept { return objects_.qp_count() > kFew; }

  /// These packets, at most kBatch, will be received: asks for the state of their queue pairs.
  void announce(std::span<const wire::RxPacket> packets) noexcept {
    count_ = 0;
    Qpn last{};
    for (const wire::RxPacket& packet : packets) {
      if (packet.bytes.size() < sizeof(wire::Bth)) continue;
      const auto& bth = wire::view_as<wire::Bth>(packet.bytes);
      if (count_ > 0 && bth.dqp() == last) continue;
      last = bth.dqp();
      const QueuePairState* const qp = objects_.candidate(last);
      if (qp == nullptr) continue;
      const bool data = wire::is_data(bth.opcode());
      data ? qp->prefetch_responder() : qp->prefetch_requester();
      coming_[count_++] = {qp, data};
    }
  }
  /// The packets announced are received now: asks for what an acknowledgement finds through that
  /// state, in two steps, the second of which reads what the first has asked for.
  void deepen() const noexcept {
    const std::span<const Coming> coming(coming_.data(), count_);
    for (const auto& [qp, data] : coming)
      if (!data) prefetch_index(*qp, qp->tx.window.unacked(), qp->tx.queue.acknowledged());
    for (const auto& [qp, data] : coming)
      if (!data) prefetch_records(*qp, qp->tx.window.unacked(), qp->tx.queue.acknowledged());
  }

  /// The first queue pair that is ready at `peer` is served now, and then those behind it: asks for
  /// each of the next three what the call before has brought within reach.
  void before_service(const Peer& peer) const noexcept {
    auto next = peer.ready.begin();
    const auto end = peer.ready.end();
    if (++next == end) return;
    prefetch_records(*next, next->tx.window.next(), next->tx.queue.sending());
    if (++next == end) return;
    prefetch_index(*next, next->tx.window.next(), next->tx.queue.sending());
    if (++next != end) next->prefetch_requester();
  }

 private:
  /// A queue pair, and whether its responder half is needed.
  struct Coming {
    const QueuePairState* qp;
    bool data;
  };

  static void prefetch_index(const QueuePairState& qp, Psn psn, std::uint32_t request) noexcept {
    qp.tx.window.prefetch_index(psn);
    qp.tx.queue.prefetch_index(request);
  }
  static void prefetch_records(const QueuePairState& qp, Psn psn, std::uint32_t request) noexcept {
    qp.tx.window.prefetch_record(psn);
    qp.tx.queue.prefetch_entry(request);
  }

  ObjectTables& objects_;
  std::array<Coming, kBatch> coming_{};
  std::size_t count_ = 0;
};

}  // namespace mrc::inline v0_1::engine
