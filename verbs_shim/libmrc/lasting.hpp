// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <new>

#include "mrc/core/system.hpp"

namespace mrc_verbs {

/// Why an object can't be used; true if it can't.
struct Trouble {
  int error = 0;  ///< an errno value
  const char* why = "";
  explicit operator bool() const noexcept { return error != 0; }
};

inline constexpr const char* kNoObject = "there is no such object";

/// Of the memory that serves no object. Held while the process forks.
[[nodiscard]] inline std::mutex& lasting_mutex() {
  static std::mutex& instance = *new std::mutex;  // programs may still call while they exit
  return instance;
}

/// Base of a kind of objects of MRC that programs have pointers to. The memory of one that is
/// destroyed serves a later one of the same kind, and is never given back: so a call on the data
/// path sees without a lock that its object is gone. Any thread.
template <class Object>
class Lasting {
 public:
  static void* operator new(std::size_t size) {
    static_assert(alignof(Object) <= alignof(Head));
    Head* head = spare_block();
    if (head == nullptr) head = ::new (::operator new(sizeof(Head) + size)) Head;
    head->mark = mrc::detail::ForkMark();
    head->lives.store(true, std::memory_order_release);
    return head + 1;
  }
  static void operator delete(void* object) noexcept {
    Head* head = static_cast<Head*>(object) - 1;
    head->lives.store(false, std::memory_order_release);
    const std::lock_guard lock(lasting_mutex());
    head->next = spare_;
    spare_ = head;
  }
  /// Of an object that exists or has existed.
  [[nodiscard]] static Trouble trouble(const Object* object) noexcept {
    const Head* head = static_cast<const Head*>(static_cast<const void*>(object)) - 1;
    if (!head->lives.load(std::memory_order_acquire)) return {EINVAL, kNoObject};
    if (head->mark.forked()) return {EIO, "the object is that of this process's parent"};
    return {};
  }

 private:
  /// In front of each object.
  struct alignas(16) Head {
    std::atomic<bool> lives{false};
    mrc::detail::ForkMark mark;
    Head* next = nullptr;  ///< while it serves no object
  };
  [[nodiscard]] static Head* spare_block() {
    const std::lock_guard lock(lasting_mutex());
    Head* head = spare_;
    if (head != nullptr) spare_ = head->next;
    return head;
  }

  static inline Head* spare_ = nullptr;
};

/// Of an object that exists or has existed: whether, and why, it can't be used.
template <class Object>
[[nodiscard]] Trouble trouble_with(const Object* object) noexcept {
  return Object::trouble(object);
}

}  // namespace mrc_verbs
