// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/brief.hpp"
#include "verbs_port_rig.hpp"

/// Traffic that does not stop while a test breaks things.
namespace mrc::test {

/// A thread that writes messages into slots of the peer's memory. When a message is complete, its
/// bytes are compared, and the slot is used for something else, as a program would: what the
/// network writes there after that is found before the slot is written to again, and at the end.
class SealedTraffic {
 public:
  /// On the first queue pair of `from`; nothing else may use it, its sources, or `memory`.
  SealedTraffic(Side& from, Side& to, const MemoryRegion& memory, std::size_t bytes = 16 << 10)
      : from_(from),
        to_(to),
        memory_(memory),
        bytes_(bytes),
        seals_(to.target.size() / bytes),
        thread_([this] { run(); }) {}
  SealedTraffic(const SealedTraffic&) = delete;
  SealedTraffic& operator=(const SealedTraffic&) = delete;
  ~SealedTraffic() { stop(); }

  /// Waits until so many more messages are complete, most of which are not posted yet.
  [[nodiscard]] bool goes_on() const {
    const std::uint64_t count = kBrief ? 16 : 40;
    const std::uint64_t end = done_ + count;
    return eventually([&] { return done_ >= end || !failure().empty(); }) && failure().empty();
  }
  /// Stops, and waits for what is under way. What went wrong, or nothing.
  [[nodiscard]] std::string finish() {
    stop();
    for (std::size_t slot = 0; slot < seals_.size(); ++slot) check_seal(slot);
    return failure();
  }
  [[nodiscard]] std::string failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  static constexpr std::size_t kWindow = 8;

  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void run() {
    std::uint64_t posted = 0;
    Time end = monotonic_now() + kPatience;
    while (!stop_ || done_ < posted) {
      while (!stop_ && posted - done_ < std::min(kWindow, seals_.size() / 2))
        if (!post(posted++)) return;
      Completion completion;
      if (from_.cq.wait({&completion, 1}, 50ms) == 0) {
        if (monotonic_now() > end) return fail("a message does not complete");
        continue;
      }
      end = monotonic_now() + kPatience;
      if (completion.status != WcStatus::success)
        return fail("message " + std::to_string(completion.wr_id) +
                    " failed: " + from_.qps[0].error_text());
      if (completion.wr_id != done_) return fail("messages complete in another order");
      seal(completion.wr_id);
      ++done_;
    }
  }
  [[nodiscard]] bool post(std::uint64_t number) {
    const std::size_t slot = number % seals_.size();
    check_seal(slot);
    const bool good =
        post_write(from_, source_of(number), bytes_, memory_, slot * bytes_, number) == Errc::ok;
    if (!good) fail("a message can't be posted: " + from_.qps[0].error_text());
    return good;
  }
  [[nodiscard]] std::size_t source_of(std::uint64_t number) const {
    return number * 1031 % (from_.source.size() - bytes_);
  }
  void seal(std::uint64_t number) {
    const std::size_t slot = number % seals_.size();
    std::uint8_t* target = to_.target.data() + slot * bytes_;
    if (!std::equal(target, target + bytes_, from_.source.data() + source_of(number)))
      fail("message " + std::to_string(number) + " is complete and has other bytes");
    seals_[slot] = static_cast<std::uint8_t>(number % 251 + 1);
    std::fill_n(target, bytes_, seals_[slot]);
  }
  void check_seal(std::size_t slot) {
    const std::uint8_t* target = to_.target.data() + slot * bytes_;
    if (seals_[slot] != 0 &&
        std::count(target, target + bytes_, seals_[slot]) != static_cast<std::ptrdiff_t>(bytes_))
      fail("slot " + std::to_string(slot) + " was written to behind a completion");
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why;
  }

  Side& from_;
  Side& to_;
  const MemoryRegion& memory_;
  std::size_t bytes_;
  std::vector<std::uint8_t> seals_;  ///< by slot; 0: none
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::string failure_;
  std::thread thread_;
};

}  // namespace mrc::test
