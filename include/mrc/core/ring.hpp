// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace mrc::inline v0_1 {

/// A FIFO queue of fixed capacity. The constructor allocates; after that nothing allocates or
/// throws. T must be default constructible; a popped element keeps its value until its slot is
/// reused, so T should own nothing that must be released early. One thread at a time.
template <class T>
class Ring {
 public:
  /// Holds at most `capacity` elements; 0 makes a ring that is always full.
  explicit Ring(std::size_t capacity)
      : slots_(new T[std::bit_ceil(capacity)]),
        mask_(std::bit_ceil(capacity) - 1),
        capacity_(capacity) {}

  /// Leaves `other` empty, with capacity 0.
  Ring(Ring&& other) noexcept
      : slots_(std::move(other.slots_)),
        mask_(std::exchange(other.mask_, 0)),
        capacity_(std::exchange(other.capacity_, 0)),
        head_(std::exchange(other.head_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  /// Leaves `other` empty, with capacity 0.
  Ring& operator=(Ring&& other) noexcept {
    Ring taken(std::move(other));
    swap(taken);
    return *this;
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Largest number of elements.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Whether there are no elements.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Whether push_back() would fail.
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }

  /// Appends `value`; returns false and changes nothing when full.
  bool push_back(T value) noexcept {
    T* slot = push_slot();
    if (slot == nullptr) return false;
    *slot = std::move(value);
    return true;
  }

  /// Appends an element for the caller to fill in place; nullptr when full. The element holds the
  /// slot's previous content.
  [[nodiscard]] T* push_slot() noexcept {
    if (full()) return nullptr;
    return &slots_[(head_ + size_++) & mask_];
  }

  /// Oldest element; the ring must not be empty.
  [[nodiscard]] T& front() noexcept { return slots_[head_]; }
  /// Oldest element; the ring must not be empty.
  [[nodiscard]] const T& front() const noexcept { return slots_[head_]; }
  /// Newest element; the ring must not be empty.
  [[nodiscard]] T& back() noexcept { return (*this)[size_ - 1]; }
  /// Newest element; the ring must not be empty.
  [[nodiscard]] const T& back() const noexcept { return (*this)[size_ - 1]; }

  /// Element `i` counted from the front; i < size().
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return slots_[(head_ + i) & mask_]; }
  /// Element `i` counted from the front; i < size().
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
    return slots_[(head_ + i) & mask_];
  }

  /// Removes the oldest element; the ring must not be empty.
  void pop_front() noexcept {
    head_ = (head_ + 1) & mask_;
    --size_;
  }

  /// Removes the newest element, for instance to undo push_slot(); the ring must not be empty.
  void pop_back() noexcept { --size_; }

  /// Removes all elements.
  void clear() noexcept { head_ = size_ = 0; }

  /// Exchanges contents and capacities.
  void swap(Ring& other) noexcept {
    std::swap(slots_, other.slots_);
    std::swap(mask_, other.mask_);
    std::swap(capacity_, other.capacity_);
    std::swap(head_, other.head_);
    std::swap(size_, other.size_);
  }

 private:
  std::unique_ptr<T[]> slots_;  // bit_ceil(capacity) slots, so that an index is reduced by a mask
  std::size_t mask_;
  std::size_t capacity_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mrc::inline v0_1
