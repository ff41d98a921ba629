// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/faults/injector.hpp"

#include <algorithm>
#include <cstring>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// True if the fault needs memory for packets that are delivered later.
[[nodiscard]] inline bool holds_back(const FaultSpec& spec) noexcept {
  return spec.duplicate > 0 || spec.reorder > 0 || spec.delay > Duration{} ||
         spec.jitter > Duration{};
}

/// Sets the entry of `key`, or removes it if the spec has no faults.
void set_fault(FaultTable& table, std::uint32_t key, const FaultSpec& spec) {
  std::erase_if(table, [&](const auto& entry) { return entry.first == key; });
  if (!spec.any()) return;
  const auto above = std::find_if(table.begin(), table.end(),
                                  [&](const auto& entry) { return entry.first > key; });
  table.insert(above, {key, spec});
}

/// The entry of `key`, or null.
[[nodiscard]] inline const FaultSpec* find_fault(const FaultTable& table,
                                                 std::uint32_t key) noexcept {
  const auto at =
      std::lower_bound(table.begin(), table.end(), key,
                       [](const auto& entry, std::uint32_t k) { return entry.first < k; });
  return at != table.end() && at->first == key ? &at->second : nullptr;
}

}  // namespace detail

bool works_outbound(const FaultSpec& spec) noexcept {
  FaultSpec allowed;
  allowed.loss = spec.loss;
  allowed.black_hole = spec.black_hole;
  allowed.down = spec.down;
  return spec == allowed;
}

void check_outbound(const FaultSpec& spec) {
  check(spec);
  if (!works_outbound(spec))
    throw Error(
        Errc::unsupported,
        "fault on an outgoing path: only loss, blackhole and down work on the sending side; "
        "set the others at the receiver");
}

FaultInjector::FaultInjector(std::uint64_t seed, std::uint32_t slots, bool drops_damaged)
    : random_(seed), slots_(slots), drops_damaged_(drops_damaged) {}

FaultInjector& faults_of(Port& port, std::uint64_t seed) {
  if (port.impairment() == nullptr)
    port.set_impairment(std::make_unique<FaultInjector>(seed, FaultInjector::kSlots,
                                                        port.capabilities().drops_damaged));
  return static_cast<FaultInjector&>(*port.impairment());
}

/// What a device that checks packets itself makes of a fault.
FaultSpec FaultInjector::as_seen(FaultSpec spec) const noexcept {
  if (!drops_damaged_) return spec;
  double arrives = 1 - spec.loss;
  for (double* rate : {&spec.corrupt, &spec.trim, &spec.trim_last_hop})
    arrives *= 1 - std::exchange(*rate, 0);
  spec.loss = 1 - arrives;
  return spec;
}

void FaultInjector::set(const FaultSpec& spec) {
  check(spec);
  port_ = as_seen(spec);
  update();
}

void FaultInjector::set_inbound(Ev ev, const FaultSpec& spec) {
  check(spec);
  detail::set_fault(inbound_, value(ev), spec);
  update();
}

void FaultInjector::set_outbound(std::uint16_t port_path, const FaultSpec& asked) {
  const FaultSpec spec = as_seen(asked);
  check_outbound(spec);
  detail::set_fault(outbound_, port_path, spec);
  update();
}

void FaultInjector::clear() {
  port_ = {};
  inbound_.clear();
  outbound_.clear();
  update();
}

bool FaultInjector::vanishes(std::uint16_t port_path) noexcept {
  const FaultSpec* path = detail::find_fault(outbound_, port_path);
  if (port_.black_hole || (path != nullptr && (path->black_hole || path->down))) {
    ++stats_.black_holed;
    return true;
  }
  if (path == nullptr || !hits(path->loss)) return false;
  ++stats_.lost;
  return true;
}

void FaultInjector::update() {
  both_ = inbound_;  // combined here, so that a packet needs one look-up only
  bool holds = detail::holds_back(port_);
  for (auto& [ev, spec] : both_) {
    spec = combine(port_, spec);
    holds = holds || detail::holds_back(spec);
  }
  if (holds && hold_ == nullptr) hold_ = std::make_unique<FaultHold>(slots_);
  down_ = port_.down;
  only_loss_ = port_ == FaultSpec{.loss = port_.loss} && both_.empty() && hold_ == nullptr;
  any_ = port_.any() || !inbound_.empty() || !outbound_.empty();
  active_ = any_ || (hold_ != nullptr && !hold_->empty());
}

void FaultInjector::release(Time now, PacketSink& sink) noexcept {
  if (hold_ == nullptr) return;
  hold_->recycle();
  deliver_due(now, sink);
  if (!any_ && hold_->empty()) active_ = false;
}

void FaultInjector::receive(Time now, RawPacket& packet, PacketSink& sink) noexcept {
  if (only_loss_) {  // kept cheap: measurements with loss should show the protocol's cost
    if (hits(port_.loss))
      ++stats_.lost;
    else if (!sink.full())
      sink.deliver(packet);
    else
      ++stats_.overflow;
    return;
  }
  const FaultSpec& spec = spec_of(packet.facts.entropy);
  if (hold_ != nullptr) hold_->packet_passed();
  if (survives(spec)) {
    damage(spec, packet);
    pass_on(spec, now, packet, sink);
  }
  if (hold_ != nullptr) deliver_due(now, sink);
}

void FaultInjector::pass_on(const FaultSpec& spec, Time now, const RawPacket& packet,
                            PacketSink& sink) noexcept {
  if (hits(spec.duplicate)) {
    ++stats_.duplicated;
    send_once(spec, now, packet, sink, random_.chance(0.5));
  }
  const bool reorder = hits(spec.reorder);
  if (reorder) ++stats_.reordered;
  send_once(spec, now, packet, sink, reorder);
}

void FaultInjector::send_once(const FaultSpec& spec, Time now, const RawPacket& packet,
                              PacketSink& sink, bool overtaken) noexcept {
  const bool delayed = spec.delay > Duration{} || spec.jitter > Duration{};
  bool held = true;
  if (delayed) {
    ++stats_.delayed;
    Time due = now + spec.delay + share_of(spec.jitter);
    if (overtaken) due += share_of(FaultHold::kReorderTime);
    held = hold_->until(due, packet);
  } else if (overtaken) {
    held = hold_->overtaken(now, 1 + random_.below(FaultHold::kReorderSpan), packet);
  } else if (!sink.full()) {
    sink.deliver(packet);
  } else {
    held = hold_ != nullptr && hold_->until(now, packet);
  }
  if (!held) ++stats_.overflow;
}

void FaultInjector::deliver_due(Time now, PacketSink& sink) noexcept {
  RawPacket packet;
  while (!sink.full() && hold_->take_due(now, packet)) {
    if (spec_of(packet.facts.entropy).down)
      ++stats_.link_down;  // in flight when the link went down
    else
      sink.deliver(packet);
  }
}

const FaultSpec& FaultInjector::spec_of(Ev ev) const noexcept {
  const FaultSpec* path = both_.empty() ? nullptr : detail::find_fault(both_, value(ev));
  return path != nullptr ? *path : port_;
}

bool FaultInjector::survives(const FaultSpec& spec) noexcept {
  if (spec.down) {
    ++stats_.link_down;
  } else if (spec.black_hole) {
    ++stats_.black_holed;
  } else if (hits(spec.loss)) {
    ++stats_.lost;
  } else {
    return true;
  }
  return false;
}

void FaultInjector::damage(const FaultSpec& spec, RawPacket& packet) noexcept {
  if (packet.trimmable && packet.bytes.size() > kTrimMinimum &&
      packet.facts.trim == wire::Trim::none) {
    if (hits(spec.trim))
      trim(packet, wire::Trim::trimmed);
    else if (hits(spec.trim_last_hop))
      trim(packet, wire::Trim::trimmed_last_hop);
  }
  if (hits(spec.corrupt) && packet.bytes.size() > kVariantByte) {
    auto at = random_.below(static_cast<std::uint32_t>(packet.bytes.size()));
    if (at == kVariantByte) ++at;
    if (at == packet.bytes.size()) at = 0;
    packet.bytes[at] = static_cast<std::uint8_t>(packet.bytes[at] ^ (1u << random_.below(8)));
    ++stats_.corrupted;
  }
  // Switches mark ECN-capable packets only (RFC 3168).
  if (packet.facts.ecn != Ecn::not_ect && hits(spec.ecn)) {
    packet.facts.ecn = Ecn::ce;
    ++stats_.marked;
  }
}

void FaultInjector::trim(RawPacket& packet, wire::Trim kind) noexcept {
  packet.bytes = packet.bytes.first(kTrimKeep);
  packet.facts.trim = kind;  // udp_length keeps the length before the trim
  ++stats_.trimmed;
}

Duration FaultInjector::share_of(Duration limit) noexcept {
  const auto ns = static_cast<double>(limit.count());
  return Duration{
      static_cast<std::int64_t>(ns * (static_cast<double>(random_.next() >> 11) * 0x1.0p-53))};
}

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
