// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include "mrc/net/address.hpp"

namespace mrc_nccl {

/// Those who have connected to a listener and have not shown yet that they know its secret. There
/// are few places, and whoever comes gets one: the oldest stranger of the most crowded address
/// leaves for it. So a flood from one address never displaces a peer at another, and a flood from
/// many displaces only who is silent for as long as all places take to fill. One thread at a time.
template <typename Guest>
class Strangers {
 public:
  /// Takes one in. `places`: for all; half of them for one address.
  void admit(const mrc::port::IpAddress& from, Guest guest, std::size_t places) {
    while (count(from) >= std::max<std::size_t>(1, places / 2)) drop_oldest(from);
    while (!entries_.empty() && entries_.size() >= places) drop_oldest();
    entries_.push_back({from, std::move(guest)});
    ++counts_[from];
  }

  /// The oldest of the most crowded addresses leaves. False if nobody is there.
  bool drop_oldest() {
    std::size_t most = 0;
    for (const auto& [from, guests] : counts_) most = std::max(most, guests);
    if (most == 0) return false;
    leave(std::find_if(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return count(entry.from) == most; }));
    return true;
  }

  /// Calls visit(guest) for each, the oldest first; who gets false leaves.
  template <typename Visit>
  void attend(Visit&& visit) {
    for (auto entry = entries_.begin(); entry != entries_.end();)
      entry = visit(entry->guest) ? std::next(entry) : leave(entry);
  }

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// How many are of this address.
  [[nodiscard]] std::size_t count(const mrc::port::IpAddress& from) const {
    const auto found = counts_.find(from);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  struct Entry {
    mrc::port::IpAddress from;
    Guest guest;
  };
  using Position = typename std::list<Entry>::iterator;

  void drop_oldest(const mrc::port::IpAddress& from) {
    leave(std::find_if(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return entry.from == from; }));
  }
  Position leave(Position entry) {
    const auto counted = counts_.find(entry->from);
    if (--counted->second == 0) counts_.erase(counted);
    return entries_.erase(entry);
  }

  std::list<Entry> entries_;  // the oldest first
  std::map<mrc::port::IpAddress, std::size_t> counts_;
};

}  // namespace mrc_nccl
