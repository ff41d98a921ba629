// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/completion_queue.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::engine {

/// What an application waits for, beside completions themselves. Each event stays queued until it
/// is polled.
struct EngineEvent {
  /// What happened.
  enum class Kind : std::uint8_t {
    completion,  ///< an armed completion queue got a completion
    cq_overrun,  ///< a completion queue had no room for a completion
    qp_error,    ///< a queue pair moved to ERR
    srq_limit,   ///< fewer receives are left in a shared receive queue than its limit
    last_wqe,    ///< a queue pair in ERR takes no more receives from its shared receive queue
  };
  Kind kind{};             ///< what happened
  CqId cq{};               ///< completion, cq_overrun: the queue
  Qpn qpn{};               ///< qp_error, last_wqe: the queue pair
  SrqId srq{};             ///< srq_limit: the queue
  bool solicited = false;  ///< completion: one at least was solicited, or an error
};

/// Removes every entry equal to `value` from a ring.
template <class T>
void remove_all(Ring<T>& ring, const T& value) noexcept {
  for (std::size_t n = ring.size(); n > 0; --n) {
    const T entry = ring.front();
    ring.pop_front();
    if (entry != value) ring.push_back(entry);
  }
}

/// The completion queues of an engine and the events about them and about failed queue pairs.
/// Inputs: complete(), report_error() from requester, responder and teardown. Outputs: poll(),
/// poll_event(). Calls no other part.
class Completions {
 public:
  /// Room for `max_queues` completion queues, and for one event of each kind of each of `max_qps`
  /// queue pairs and `max_srqs` shared receive queues.
  Completions(std::uint32_t max_queues, std::uint32_t max_qps, std::uint32_t max_srqs);

  /// A new queue for `depth` completions. Errc::invalid_argument unless `depth` is 1 .. 4,194,304;
  /// Errc::no_resources if there are as many queues as allowed.
  Result<CqId> create(std::uint32_t depth);
  /// Errc::in_use while a queue pair uses it.
  Errc destroy(CqId id) noexcept;
  /// Null when there is no such queue.
  [[nodiscard]] CompletionRing* find(CqId id) noexcept {
    const auto i = static_cast<std::uint32_t>(id);
    return i < queues_.size() ? queues_[i].get() : nullptr;
  }
  /// The same, read-only.
  [[nodiscard]] const CompletionRing* find(CqId id) const noexcept {
    return const_cast<Completions*>(this)->find(id);
  }

  /// Appends a completion and raises the event of an armed queue. False: no room; the queue is
  /// overrun, and take_overrun() says so.
  bool complete(CqId id, const Completion& completion) noexcept;
  /// Moves the oldest completions of a queue to `out`; returns how many, 0 if there is no such
  /// queue.
  std::size_t poll(CqId id, std::span<Completion> out) noexcept;
  /// The next such completion of this queue raises an event, once. `solicited` does not change a
  /// queue that is armed for all. Errc::not_found if there is no such queue.
  Errc arm(CqId id, Arm what) noexcept;

  /// Does an event wait to be polled?
  [[nodiscard]] bool has_event() const noexcept {
    return !signalled_.empty() || !overrun_.empty() || !failed_.empty() || !drained_.empty() ||
           !limits_.empty();
  }
  /// Was a queue overrun since the last call?
  [[nodiscard]] bool take_overrun() noexcept { return std::exchange(overrun_pending_, false); }

  /// Queues a qp_error event; the caller makes sure that there is one at a time per queue pair.
  bool report_error(Qpn qpn) noexcept { return failed_.push_back(qpn); }
  /// Queues a last_wqe event; at most one per queue pair waits.
  void report_last_wqe(Qpn qpn) noexcept {
    remove_all(drained_, qpn);
    (void)drained_.push_back(qpn);
  }
  /// Queues an srq_limit event; the caller makes sure that there is one at a time per queue.
  void report_srq_limit(SrqId srq) noexcept { (void)limits_.push_back(srq); }
  /// The number will be used again: removes its events.
  void forget(Qpn qpn) noexcept {
    remove_all(failed_, qpn);
    remove_all(drained_, qpn);
  }
  /// The same.
  void forget(SrqId srq) noexcept { remove_all(limits_, srq); }
  /// The next event: completions first, then overruns, errors, and those of shared receive queues.
  /// False if there is none.
  bool poll_event(EngineEvent& event) noexcept;

 private:
  std::vector<std::unique_ptr<CompletionRing>> queues_;  // by CqId
  std::uint32_t max_queues_;
  Ring<CqId> signalled_;  // armed queues that got a completion
  Ring<CqId> overrun_;
  Ring<Qpn> failed_;
  Ring<Qpn> drained_;   // in ERR, with a shared receive queue
  Ring<SrqId> limits_;  // queues that have fewer receives than their limit
  bool overrun_pending_ = false;
};

}  // namespace mrc::inline v0_1::engine
