// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::engine {

/// Stores that are deferred so that memory becomes visible in message order: the last bytes of a
/// message that arrived before packets in front of it, in a memory region in that order
/// (MemoryEntry::in_message_order()). They are written once those packets have arrived. One pool
/// per engine, one list per queue pair, in PSN order. Fixed size; one thread.
class DeferredStores {
 public:
  /// Index of a store in the pool.
  using Index = std::uint32_t;
  /// No store: the end of a list.
  static constexpr Index kNone = ~Index{0};
  /// Bytes deferred per message: the largest word that a program polls. At most as many stores, in
  /// a scatter list of single bytes.
  static constexpr std::uint32_t kBytes = 8;

  /// A deferred store.
  struct Store {
    std::uint64_t address;       ///< destination, virtual address on this host
    std::uint32_t key;           ///< of the memory region, which is looked up before the store
    Psn psn;                     ///< packet that carried the bytes
    Index next;                  ///< next store of the list, or kNone
    std::uint8_t length;         ///< bytes, at most kBytes
    std::uint8_t bytes[kBytes];  ///< data to store
  };
  /// A queue pair's deferred stores, in PSN order.
  struct List {
    Index head = kNone;  ///< lowest PSN; kNone if the list is empty
    Index last = kNone;  ///< highest PSN; kNone if the list is empty
  };

  /// A pool of `capacity` stores.
  explicit DeferredStores(std::size_t capacity) : stores_(capacity) {
    free_.reserve(capacity);
    for (std::size_t i = capacity; i > 0; --i) free_.push_back(static_cast<Index>(i - 1));
  }

  /// Number of free stores.
  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }
  /// Number of stores.
  [[nodiscard]] std::size_t capacity() const noexcept { return stores_.size(); }
  /// True if the pool has no free store.
  [[nodiscard]] bool full() const noexcept { return free_.empty(); }

  /// Keeps `length` <= kBytes bytes for `address` until release() reaches `psn`. Several of one PSN
  /// are written in the order of these calls. Needs !full().
  void defer(List& list, Psn psn, std::uint32_t key, std::uint64_t address,
             const std::uint8_t* bytes, std::uint32_t length) noexcept {
    const Index i = free_.back();
    free_.pop_back();
    Store& s = stores_[i];
    s = {address, key, psn, kNone, static_cast<std::uint8_t>(length), {}};
    std::memcpy(s.bytes, bytes, length);
    if (list.head == kNone) {
      list.head = list.last = i;
    } else if (!psn.before(stores_[list.last].psn)) {
      stores_[list.last].next = i;
      list.last = i;
    } else {
      Index* link = &list.head;
      while (!psn.before(stores_[*link].psn)) link = &stores_[*link].next;
      s.next = *link;
      *link = i;
    }
  }

  /// Removes the stores of PSNs up to `cack` and calls write(store) for each, in PSN order.
  template <class F>
  void release(List& list, Psn cack, F&& write) noexcept {
    while (list.head != kNone && !stores_[list.head].psn.after(cack)) {
      const Store& s = stores_[list.head];
      write(s);
      free_.push_back(list.head);
      list.head = s.next;
    }
    if (list.head == kNone) list.last = kNone;
  }
  /// Empties a list without writing.
  void drop(List& list) noexcept {
    for (Index i = list.head; i != kNone; i = stores_[i].next) free_.push_back(i);
    list = {};
  }

 private:
  std::vector<Store> stores_;
  std::vector<Index> free_;
};

}  // namespace mrc::inline v0_1::engine
