// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "mrc/core/error.hpp"
#include "mrc/plane/verbs/uc.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// The options, or an Error.
[[nodiscard]] inline const UcReceiverOptions& checked(const UcReceiverOptions& o) {
  if (o.paths < 1 || o.paths > kMaxUcPaths || o.ring < 2 || o.ring > 65536 || o.waits < 1 ||
      o.waits > 1u << 20 || o.reset_after <= Duration{})
    throw Error(Errc::invalid_argument, "UC receiver: options are out of range");
  return o;
}

}  // namespace detail

UcReceiver::UcReceiver(const UcReceiverOptions& o)
    : reset_after_(detail::checked(o).reset_after),
      ring_mask_(std::bit_ceil(o.ring) - 1),
      paths_(o.paths),
      slots_(std::size_t{o.paths} * std::bit_ceil(o.ring)),
      waits_(o.paths, o.waits) {
  for (std::uint16_t path = 0; path < o.paths; ++path) empty_ring(path);
}

void UcReceiver::vacate(Slot& s) noexcept {
  if (s.has == Has::header) ++stats_.unmatched_headers;
  if (s.has == Has::payload) ++stats_.unmatched_arrivals;
  s.has = Has::nothing;
}

void UcReceiver::empty_ring(std::uint16_t path) noexcept {
  for (std::uint32_t i = 0; i <= ring_mask_; ++i) {
    Slot& s = slot(path, i);
    vacate(s);
    s.arrived = i + 1;  // belongs to another slot: none
  }
}

const UcJoined* UcReceiver::join(const UcHeader& h, std::uint32_t length) noexcept {
  if (h.payload_length != length) {
    ++stats_.length_mismatches;
    return nullptr;
  }
  ++stats_.joined;
  joined_ = {.header = h.header,
             .payload_length = h.payload_length,
             .path = h.name.path,
             .pad = h.pad,
             .check = h.check};
  return &joined_;
}

void UcReceiver::promise_broken(std::uint16_t path, std::uint32_t seq, std::uint32_t length,
                                Time now) noexcept {
  Path& p = paths_[path];
  if (slot(path, seq).arrived == seq)
    ++stats_.duplicates;
  else
    ++stats_.overtaken;
  if (length > 0) ++stats_.late_writes;
  slot(path, seq).arrived = seq;
  broken_ = true;
  if (p.broken) return;
  p.broken = true;
  p.deadline = now;
}

const UcJoined* UcReceiver::arrived(std::uint16_t path, std::uint8_t epoch, std::uint32_t seq,
                                    std::uint32_t length, Time now) noexcept {
  if (path >= paths_.size()) return nullptr;
  Path& p = paths_[path];
  if (epoch != p.epoch) {
    ++stats_.stale_epochs;
    return nullptr;
  }
  if (length == 0) ++stats_.markers;
  if (uc_steps(p.highest, seq) <= 0) {
    promise_broken(path, seq, length, now);
    return nullptr;
  }
  p.highest = seq;
  Slot& s = slot(path, seq);
  s.arrived = seq;
  if (p.broken) {
    if (length > 0) ++stats_.unmatched_arrivals;
    return nullptr;
  }
  if (p.deadline != kNever) {
    waits_.reach(path, seq);
    p.deadline = waits_.waits_for(path) ? now + reset_after_ : kNever;
  }
  if (length == 0) return nullptr;

  if (s.has == Has::header && s.seq == seq) {
    s.has = Has::both;
    UcHeader h;
    h.name = {path, epoch, seq};
    h.payload_length = s.length;
    h.pad = s.pad;
    h.check = s.check;
    h.header = {s.header.data(), s.header_length};
    return join(h, length);
  }
  if (s.has != Has::nothing && uc_steps(seq, s.seq) > 0) {  // a later packet's header is here
    ++stats_.unmatched_arrivals;
    return nullptr;
  }
  vacate(s);
  s.seq = seq;
  s.length = static_cast<std::uint16_t>(std::min(length, 0xFFFFu));
  s.has = Has::payload;
  return nullptr;
}

const UcJoined* UcReceiver::header(const UcHeader& h) noexcept {
  const UcName& name = h.name;
  if (name.path >= paths_.size() || h.header.size() > wire::kMaxTransportHeader) {
    ++stats_.malformed;
    return nullptr;
  }
  const Path& p = paths_[name.path];
  if (name.epoch != p.epoch) {
    ++stats_.stale_epochs;
    return nullptr;
  }
  Slot& s = slot(name.path, name.seq);
  const bool here = s.has != Has::nothing && s.seq == name.seq;
  if (here && s.has != Has::payload) return nullptr;  // the same message twice
  if (here && !p.broken) {
    s.has = Has::both;
    return join(h, s.length);
  }
  // The packet has been lost, or is so far ahead that it will be; or its place is taken by a later
  // one.
  const std::int32_t ahead = uc_steps(p.highest, name.seq);
  if (p.broken || ahead <= 0 || static_cast<std::uint32_t>(ahead) > ring_mask_ + 1 ||
      (s.has != Has::nothing && uc_steps(name.seq, s.seq) > 0)) {
    ++stats_.unmatched_headers;
    return nullptr;
  }
  vacate(s);
  s.seq = name.seq;
  s.length = h.payload_length;
  s.pad = h.pad;
  s.check = h.check;
  s.header_length = static_cast<std::uint8_t>(h.header.size());
  std::memcpy(s.header.data(), h.header.data(), h.header.size());
  s.has = Has::header;
  return nullptr;
}

UcVerdict UcReceiver::retransmitted(std::span<const UcName> origins, const wire::PacketName& packet,
                                    Time now) noexcept {
  UcOrigins open;
  bool good = !origins.empty() && origins.size() <= kMaxUcPaths;
  for (std::size_t i = 0; good && i < origins.size(); ++i) {
    const UcName& origin = origins[i];
    if (origin.path >= paths_.size()) {
      good = false;
      break;
    }
    const Path& p = paths_[origin.path];
    const std::int32_t steps = uc_epoch_steps(p.epoch, origin.epoch);
    good = steps <= 0;  // it is this end that makes epochs
    if (steps == 0 && (p.broken || uc_steps(p.highest, origin.seq) > 0)) open.add(origin);
  }
  if (!good) {
    ++stats_.malformed;
    return UcVerdict::drop;
  }
  if (open.count == 0)  // nor may what an earlier retransmission has named be forgotten
    return waits_.contains(packet) ? UcVerdict::unsettled : UcVerdict::settled;
  if (!waits_.add(packet, open.all())) {
    ++stats_.no_room;
    return UcVerdict::drop;
  }
  for (const UcName& origin : open.all()) {
    Path& p = paths_[origin.path];
    if (p.deadline == kNever) p.deadline = now + reset_after_;
  }
  return UcVerdict::unsettled;
}

bool UcReceiver::reset(std::uint16_t path, std::uint8_t epoch) noexcept {
  if (path >= paths_.size() || uc_epoch_steps(paths_[path].epoch, epoch) <= 0) return false;
  empty_ring(path);
  waits_.reach_all(path);
  paths_[path] = {};
  paths_[path].epoch = epoch;
  ++stats_.resets;
  return true;
}

std::uint64_t UcReceiver::wants_reset(Time now) noexcept {
  std::uint64_t wanted = 0;
  if (idle()) return wanted;
  for (std::size_t path = 0; path < paths_.size(); ++path) {
    if (paths_[path].deadline > now) continue;
    wanted |= std::uint64_t{1} << path;
    paths_[path].deadline = now + reset_after_;
  }
  return wanted;
}

Time UcReceiver::next_deadline() const noexcept {
  Time next = kNever;
  if (idle()) return next;
  for (const Path& p : paths_) next = std::min(next, p.deadline);
  return next;
}

}  // namespace mrc::inline v0_1::port
