// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>

#include "mrc/plane/fault_hold.hpp"

namespace mrc::inline v0_1::port {

FaultHold::FaultHold(std::uint32_t slots)
    : memory_(std::make_unique_for_overwrite<std::uint8_t[]>(slots * kSlotBytes)), held_(slots) {
  free_.reserve(slots);
  given_.reserve(slots);
  timed_.reserve(slots);
  for (std::uint32_t i = slots; i > 0; --i) free_.push_back(i - 1);
}

bool FaultHold::until(Time release, const RawPacket& packet) noexcept {
  std::uint32_t slot = 0;
  if (!store(packet, slot)) return false;
  timed_.push_back({release, sequence_++, slot});
  std::push_heap(timed_.begin(), timed_.end(), later);
  return true;
}

bool FaultHold::overtaken(Time now, std::uint32_t packets, const RawPacket& packet) noexcept {
  std::uint32_t slot = 0;
  if (counted_size_ == counted_.size() || !store(packet, slot)) return false;
  counted_[counted_size_++] = {now + kReorderTime, passed_ + packets, slot};
  return true;
}

bool FaultHold::take_due(Time now, RawPacket& packet) noexcept {
  for (std::size_t i = 0; i < counted_size_; ++i) {
    if (counted_[i].release > now && counted_[i].passed > passed_) continue;
    const std::uint32_t slot = counted_[i].slot;
    std::copy(counted_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              counted_.begin() + static_cast<std::ptrdiff_t>(counted_size_),
              counted_.begin() + static_cast<std::ptrdiff_t>(i));
    --counted_size_;
    return give(slot, packet);
  }
  if (timed_.empty() || timed_.front().release > now) return false;
  std::pop_heap(timed_.begin(), timed_.end(), later);
  const std::uint32_t slot = timed_.back().slot;
  timed_.pop_back();
  return give(slot, packet);
}

Time FaultHold::next_release() const noexcept {
  Time next = timed_.empty() ? kNever : timed_.front().release;
  for (std::size_t i = 0; i < counted_size_; ++i) {
    const Counted& c = counted_[i];
    next = std::min(next, c.passed <= passed_ ? Time::min() : c.release);
  }
  return next;
}

void FaultHold::recycle() noexcept {
  free_.insert(free_.end(), given_.begin(), given_.end());
  given_.clear();
}

bool FaultHold::later(const Timed& a, const Timed& b) noexcept {
  return a.release != b.release ? a.release > b.release : a.sequence > b.sequence;
}

bool FaultHold::store(const RawPacket& packet, std::uint32_t& slot) noexcept {
  if (free_.empty() || packet.bytes.size() > kSlotBytes) return false;
  slot = free_.back();
  free_.pop_back();
  std::uint8_t* copy = memory_.get() + slot * kSlotBytes;
  std::memcpy(copy, packet.bytes.data(), packet.bytes.size());
  held_[slot] = packet;
  held_[slot].bytes = {copy, packet.bytes.size()};
  return true;
}

bool FaultHold::give(std::uint32_t slot, RawPacket& packet) noexcept {
  packet = held_[slot];
  given_.push_back(slot);
  return true;
}

}  // namespace mrc::inline v0_1::port
