// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>

#include "mrc/core/types.hpp"

namespace mrc::tools {

/// Memory shared by all frames on the wire. Frames that do not fit are dropped.
class WireMemory {
 public:
  static constexpr std::size_t kLimit = std::size_t{256} << 20;
  /// Approximate bookkeeping per frame, in bytes.
  static constexpr std::size_t kOverhead = 64;

  [[nodiscard]] bool take(std::size_t frame) noexcept {
    if (used_ + frame + kOverhead > kLimit) return false;
    used_ += frame + kOverhead;
    return true;
  }
  void give_back(std::size_t frame) noexcept { used_ -= frame + kOverhead; }

 private:
  std::size_t used_ = 0;
};

/// A frame in flight.
struct WireFrame {
  Time arrival;
  std::size_t size = 0;
  std::unique_ptr<std::byte[]> bytes;

  WireFrame(Time at, std::span<const std::byte> frame)
      : arrival(at), size(frame.size()), bytes(new std::byte[frame.size()]) {
    std::memcpy(bytes.get(), frame.data(), frame.size());
  }
};

/// One direction of a link: frames leave in order of arrival, each when the current delay has
/// passed since its arrival.
struct WireQueue {
  std::size_t port = 0;
  Duration delay{};
  std::uint64_t passed = 0, dropped = 0;
  std::deque<WireFrame> frames;

  /// When the first frame leaves; needs one.
  [[nodiscard]] Time next() const { return frames.front().arrival + delay; }
};

}  // namespace mrc::tools
