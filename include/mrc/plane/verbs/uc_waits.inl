// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "mrc/plane/verbs/uc_waits.hpp"

namespace mrc::inline v0_1::port {

UcWaits::UcWaits(std::size_t paths, std::size_t waits)
    : waits_(waits), packets_(waits), buckets_(std::bit_ceil(waits), kNone), lists_(paths) {
  settled_.reserve(waits);
  given_.reserve(waits);
  for (std::size_t i = waits; i-- > 0;) {
    const auto index = static_cast<Index>(i);
    waits_[i].sibling = free_wait_;
    packets_[i].chain = free_packet_;
    free_wait_ = free_packet_ = index;
  }
}

UcWaits::Index& UcWaits::bucket(const wire::PacketName& name) noexcept {
  const std::uint32_t hash = (value(name.qpn) * 0x9E3779B1u + name.psn.value()) * 0x85EBCA6Bu;
  return buckets_[(hash ^ hash >> 16) & (buckets_.size() - 1)];
}

UcWaits::Index UcWaits::find(const wire::PacketName& name) noexcept {
  Index packet = bucket(name);
  while (packet != kNone && !(packets_[packet].name == name)) packet = packets_[packet].chain;
  return packet;
}

UcWaits::Index UcWaits::new_packet(const wire::PacketName& name) noexcept {
  const auto settled = std::find(settled_.begin(), settled_.end(), name);
  if (settled != settled_.end()) {  // not any more
    *settled = settled_.back();
    settled_.pop_back();
  } else if (packet_count_ + settled_.size() >= packets_.size()) {
    return kNone;  // so that settled_ never grows
  }
  const Index packet = free_packet_;
  Packet& p = packets_[packet];
  free_packet_ = p.chain;
  Index& head = bucket(name);
  p = {.name = name, .first = kNone, .chain = head};
  head = packet;
  ++packet_count_;
  return packet;
}

bool UcWaits::add(const wire::PacketName& name, std::span<const UcName> origins) noexcept {
  if (origins.empty() || waits_.size() - wait_count_ < origins.size()) return false;
  Index packet = find(name);
  if (packet == kNone) packet = new_packet(name);
  if (packet == kNone) return false;
  for (const UcName& origin : origins) {
    Index wait = packets_[packet].first;
    while (wait != kNone && waits_[wait].path != origin.path) wait = waits_[wait].sibling;
    if (wait != kNone) {
      if (uc_steps(waits_[wait].seq, origin.seq) <= 0) continue;
      unlink(wait);
    } else {
      wait = free_wait_;
      free_wait_ = waits_[wait].sibling;
      ++wait_count_;
      waits_[wait].packet = packet;
      waits_[wait].path = origin.path;
      waits_[wait].sibling = packets_[packet].first;
      packets_[packet].first = wait;
    }
    waits_[wait].seq = origin.seq;
    link(wait);
  }
  return true;
}

void UcWaits::link(Index wait) noexcept {
  Wait& w = waits_[wait];
  List& list = lists_[w.path];
  Index before = list.last;  // most come in their order
  while (before != kNone && uc_steps(w.seq, waits_[before].seq) > 0) before = waits_[before].before;
  w.before = before;
  w.after = before == kNone ? list.first : waits_[before].after;
  (before == kNone ? list.first : waits_[before].after) = wait;
  (w.after == kNone ? list.last : waits_[w.after].before) = wait;
}

void UcWaits::unlink(Index wait) noexcept {
  const Wait& w = waits_[wait];
  List& list = lists_[w.path];
  (w.before == kNone ? list.first : waits_[w.before].after) = w.after;
  (w.after == kNone ? list.last : waits_[w.after].before) = w.before;
}

void UcWaits::finish(Index wait) noexcept {
  unlink(wait);
  const Index packet = waits_[wait].packet;
  Packet& p = packets_[packet];
  Index* from = &p.first;
  while (*from != wait) from = &waits_[*from].sibling;
  *from = waits_[wait].sibling;
  waits_[wait].sibling = free_wait_;
  free_wait_ = wait;
  --wait_count_;
  if (p.first != kNone) return;

  settled_.push_back(p.name);
  Index* chain = &bucket(p.name);
  while (*chain != packet) chain = &packets_[*chain].chain;
  *chain = p.chain;
  p.chain = free_packet_;
  free_packet_ = packet;
  --packet_count_;
}

void UcWaits::reach(std::uint16_t path, std::uint32_t seq) noexcept {
  const List& list = lists_[path];
  while (list.first != kNone && uc_steps(waits_[list.first].seq, seq) >= 0) finish(list.first);
}

void UcWaits::reach_all(std::uint16_t path) noexcept {
  while (lists_[path].first != kNone) finish(lists_[path].first);
}

std::span<const wire::PacketName> UcWaits::take_settled() noexcept {
  given_.clear();
  given_.swap(settled_);
  return given_;
}

}  // namespace mrc::inline v0_1::port
