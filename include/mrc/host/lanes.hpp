// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/host/lane.hpp"

namespace mrc::inline v0_1::detail {

/// The lanes of a device, and which of them serve which completion queue: those in which a queue
/// pair uses it, or has used it. Polling a queue makes progress in these lanes only, so threads
/// with a queue and lanes of their own never meet.
///
/// Thread contract: any thread. Numbers of completion queues are below Config::max_cqs.
class MRC_LOCAL Lanes {
 public:
  /// Opens as many lanes as option lanes asks for; fewer, and logs why, if there are not enough
  /// slots or open files. Throws mrc::Error if not even one can be opened.
  explicit Lanes(const LaneSurroundings& around);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  /// Starts their helper threads. Throws mrc::Error.
  void start();

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(lanes_.size()); }
  [[nodiscard]] Lane& operator[](unsigned lane) const noexcept { return *lanes_[lane]; }
  [[nodiscard]] auto begin() const noexcept { return lanes_.begin(); }
  [[nodiscard]] auto end() const noexcept { return lanes_.end(); }

  /// The lane with the fewest queue pairs; of several the first with the fewest shared receive
  /// queues, whose queue pairs are still to come.
  [[nodiscard]] Lane& emptiest() noexcept;
  /// A queue pair of the lane uses the queue from now on.
  void serve(CqId cq, Lane& lane) noexcept;
  /// The queue is new: no lane serves it.
  void reset(CqId cq) noexcept;

  /// One round in each lane, by a thread that polls. True if anything moved or is still to go out.
  bool poll() noexcept;
  /// Completions of a queue. Makes a round in the lanes that serve it, until one has completions.
  std::size_t poll_cq(CqId cq, std::span<Completion> out) noexcept;
  /// Polls, then sleeps.
  std::size_t wait_cq(CqId cq, std::span<Completion> out, Duration timeout) noexcept;
  /// Arms a queue for the application.
  Errc arm_cq(CqId cq, Arm what) noexcept;

 private:
  /// Lanes by number, one bit each.
  using Mask = std::uint64_t;
  static_assert(kMaxLanes <= 64);
  struct alignas(64) Serving {  // a cache line of its own: polled by different threads
    std::atomic<Mask> mask{0};
    std::atomic<unsigned> turn{0};  ///< the lane that the next poll looks at first
  };

  [[nodiscard]] std::string open_next(const LaneSurroundings& around, std::size_t open,
                                      std::size_t each);
  [[nodiscard]] static std::size_t index(CqId cq) noexcept { return static_cast<std::size_t>(cq); }
  /// Never empty: a queue that nobody uses yet is served by the first lane.
  [[nodiscard]] Mask serving(CqId cq) const noexcept;
  template <class F>
  void for_each(Mask mask, F&& f) const;
  std::size_t sleep(CqId cq, Mask lanes, std::span<Completion> out, Time until) noexcept;

  const Config& config_;
  CqEvents& cq_events_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Serving> serving_;  ///< by CqId; empty if there is one lane
};

/// Holds the locks of all lanes, for what must happen in all of them at once.
class MRC_LOCAL AllLanes {
 public:
  explicit AllLanes(Lanes& lanes) noexcept : lanes_(lanes) {
    for (const auto& lane : lanes_) lane->mutex().lock();  // always in this order
  }
  ~AllLanes() {
    for (const auto& lane : lanes_) lane->mutex().unlock();
  }
  AllLanes(const AllLanes&) = delete;
  AllLanes& operator=(const AllLanes&) = delete;

 private:
  Lanes& lanes_;
};

}  // namespace mrc::inline v0_1::detail
