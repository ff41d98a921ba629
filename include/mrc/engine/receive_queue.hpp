// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::engine {

/// An SGE of a posted receive, checked when posted.
struct ReceiveSge {
  std::uint8_t* address;  ///< first byte
  std::uint32_t length;   ///< bytes
  std::uint32_t lkey;     ///< of the region that holds the SGE
};

/// A receive queue: posted receive requests in order, each with its scatter list. It knows no queue
/// pair. Fixed size; one thread.
class ReceiveQueue {
 public:
  /// Room for `capacity` requests of up to `sges` SGEs each.
  ReceiveQueue(std::uint32_t capacity, std::uint32_t sges)
      : ids_(capacity),
        room_(sges),
        counts_(sges > 0 ? capacity : 0),
        sges_(std::size_t{capacity} * sges) {}

  /// True if there are no requests.
  [[nodiscard]] bool empty() const noexcept { return ids_.empty(); }
  /// True if post() would fail.
  [[nodiscard]] bool full() const noexcept { return ids_.size() + kept_ >= ids_.capacity(); }
  /// Most requests.
  [[nodiscard]] std::size_t capacity() const noexcept { return ids_.capacity(); }
  /// Number of requests.
  [[nodiscard]] std::size_t size() const noexcept { return ids_.size(); }
  /// SGEs that a request can have.
  [[nodiscard]] std::uint32_t sge_limit() const noexcept { return room_; }

  /// Appends a request and returns the room for its SGEs, at most sge_limit(), for the caller to
  /// fill; needs !full().
  [[nodiscard]] std::span<ReceiveSge> post(std::uint64_t wr_id, std::size_t sges) noexcept {
    const std::size_t i = ids_.size();
    (void)ids_.push_back(wr_id);
    if (room_ == 0) return {};
    counts_[slot(i)] = static_cast<std::uint8_t>(sges);
    return sges_of(i);
  }
  /// wr_id of the oldest request; needs !empty().
  [[nodiscard]] std::uint64_t front() const noexcept { return ids_.front(); }
  /// Scatter list of the oldest request; needs !empty().
  [[nodiscard]] std::span<const ReceiveSge> front_sges() noexcept { return sges_of(0); }
  /// Scatter list of the request behind the `ahead` oldest; needs ahead < size().
  [[nodiscard]] std::span<const ReceiveSge> sges_at(std::size_t ahead) noexcept {
    return sges_of(ahead);
  }
  /// Takes over the oldest request of another queue with no more SGEs per request; needs !full()
  /// here and !empty() there.
  void take_front(ReceiveQueue& from) noexcept {
    const std::span<const ReceiveSge> theirs = from.front_sges();
    const std::span<ReceiveSge> own = post(from.front(), theirs.size());
    std::copy(theirs.begin(), theirs.end(), own.begin());
    from.pop_front();
  }
  /// Removes the oldest request; needs !empty().
  void pop_front() noexcept {
    ids_.pop_front();
    if (++first_ == ids_.capacity()) first_ = 0;
  }

  /// The slot of a request that is not in the queue any more is not free yet,
  void keep_slot() noexcept { ++kept_; }
  /// and now it is.
  void free_slot() noexcept { kept_ -= kept_ > 0; }
  /// No slot is kept any more.
  void free_slots() noexcept { kept_ = 0; }

  /// Calls fn(SGE) for each SGE of each request.
  template <class F>
  void for_each_sge(F&& fn) noexcept {
    for (std::size_t i = 0; i < ids_.size(); ++i)
      for (const ReceiveSge& sge : sges_of(i)) fn(sge);
  }

  /// Heap bytes of this queue.
  [[nodiscard]] std::size_t memory() const noexcept {
    return ids_.capacity() * sizeof(std::uint64_t) + counts_.capacity() +
           sges_.capacity() * sizeof(ReceiveSge);
  }

 private:
  static_assert(kMaxReceiveSges <= UINT8_MAX);

  [[nodiscard]] std::size_t slot(std::size_t i) const noexcept {
    return (first_ + i) % ids_.capacity();
  }
  [[nodiscard]] std::span<ReceiveSge> sges_of(std::size_t i) noexcept {
    if (room_ == 0) return {};
    return {sges_.data() + slot(i) * room_, counts_[slot(i)]};
  }

  Ring<std::uint64_t> ids_;
  std::uint32_t room_;
  std::size_t kept_ = 0;              ///< slots of requests that were taken out
  std::size_t first_ = 0;             ///< slot of the oldest request
  std::vector<std::uint8_t> counts_;  ///< by slot: SGEs
  std::vector<ReceiveSge> sges_;      ///< by slot, room_ each
};

}  // namespace mrc::inline v0_1::engine
