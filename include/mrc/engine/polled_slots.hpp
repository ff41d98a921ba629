// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::engine {

/// Which slots of a send queue are taken. By default those of requests that are not complete; if
/// they are kept, as in verbs, those of all requests behind the newest whose completion was polled.
/// Positions are those of the queue. One thread.
class PolledSlots {
 public:
  /// `kept`: until they are polled.
  explicit PolledSlots(bool kept) noexcept : kept_(kept) {}

  /// Slots that are taken.
  [[nodiscard]] std::uint32_t taken(std::uint32_t posted, std::uint32_t retired) const noexcept {
    return posted - (kept_ ? freed_ : retired) + made_;
  }
  /// A completion that no request of the queue stands for takes a slot (Completion::made).
  void make() noexcept { ++made_; }
  /// A completion of the queue was polled. One that came before free_all() changes nothing.
  void on_polled(const Completion& c, std::uint32_t retired) noexcept {
    if (c.made) {
      made_ -= made_ > 0;
      return;
    }
    const auto count = static_cast<std::uint16_t>(c.position + 1u - freed_);
    if (count <= retired - freed_) freed_ += count;
  }
  /// The queue is empty, and no completion of it will be polled.
  void free_all(std::uint32_t posted) noexcept {
    freed_ = posted;
    made_ = 0;
  }

 private:
  bool kept_;
  std::uint32_t freed_ = 0;  ///< position of the oldest request whose slot is kept
  std::uint32_t made_ = 0;   ///< completions without request that were not polled
};

}  // namespace mrc::inline v0_1::engine
