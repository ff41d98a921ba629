// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// The copies of payload that ports still read after they have taken a packet, each with what must
/// wait for it: a posted request, whose completion gives the memory back to the application, and
/// the memory regions, whose deregistration does. Fixed size; one thread.
class CopyTable {
 public:
  /// A posted request, by its place in a send queue.
  struct Request {
    Qpn qpn{};                   ///< queue pair
    std::uint32_t position = 0;  ///< SendQueue position
    bool response = false;       ///< in the queue of responses
  };
  /// Most copies of a table: a request counts its copies in 16 bits.
  static constexpr std::uint32_t kMaxCopies = 0xFFFF;

  /// Room for `limit` copies of one memory region each, up to kMaxCopies.
  explicit CopyTable(std::uint32_t limit) : entries_(limit) {
    free_.reserve(limit);
    for (std::uint32_t i = limit; i > 0; --i) free_.push_back(i - 1);
  }

  /// Memory regions that further copies can name.
  [[nodiscard]] std::size_t room() const noexcept { return free_.size(); }
  /// True if ports hold no copy.
  [[nodiscard]] bool empty() const noexcept { return free_.size() == entries_.size(); }

  /// A copy of payload from region `key`. Needs room() > 0. Without a request only the region
  /// waits.
  [[nodiscard]] wire::CopyId add(std::optional<Request> request, std::uint32_t key) noexcept {
    const std::uint32_t i = take(key);
    entries_[i].request = request;
    entries_[i].first = true;
    return wire::CopyId{i + 1};
  }
  /// The copy also has payload from region `key`. Needs room() > 0.
  void add_region(wire::CopyId copy, std::uint32_t key) noexcept {
    const std::uint32_t i = take(key);
    Entry& head = entries_[index(copy)];
    entries_[i].next = head.next;
    head.next = i;
  }

  /// Removes a copy and calls region(key) for each of its regions; returns its request. Nothing
  /// happens if there is no such copy.
  template <class F>
  std::optional<Request> remove(wire::CopyId copy, F&& region) noexcept {
    const std::uint32_t head = index(copy);
    if (head >= entries_.size() || !entries_[head].first) return std::nullopt;
    const std::optional<Request> request = entries_[head].request;
    for (std::uint32_t i = head; i != kEnd;) {
      region(entries_[i].key);
      const std::uint32_t next = entries_[i].next;
      entries_[i] = {};
      free_.push_back(i);
      i = next;
    }
    return request;
  }

  /// The queue pair's requests are gone: its copies keep only their regions.
  void forget_requests(Qpn qpn) noexcept {
    if (empty()) return;
    for (Entry& e : entries_)
      if (e.request && e.request->qpn == qpn) e.request.reset();
  }

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  struct Entry {
    std::optional<Request> request;
    std::uint32_t key = 0;
    std::uint32_t next = kEnd;  ///< further region of the same copy
    bool first = false;         ///< a CopyId names it
  };

  [[nodiscard]] static std::uint32_t index(wire::CopyId copy) noexcept {
    return static_cast<std::uint32_t>(copy) - 1;  // none: beyond any table
  }
  [[nodiscard]] std::uint32_t take(std::uint32_t key) noexcept {
    const std::uint32_t i = free_.back();
    free_.pop_back();
    entries_[i].key = key;
    return i;
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
};

}  // namespace mrc::inline v0_1::engine
