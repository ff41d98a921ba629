// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/core/error.hpp"
#include "mrc/plane/fault.hpp"

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

FaultInjector::FaultInjector(std::uint64_t seed, std::uint32_t slots)
    : random_(seed), slots_(slots) {}

void FaultInjector::set(const FaultSpec& spec) {
  check(spec);
  port_ = spec;
  update();
}

void FaultInjector::set_inbound(Ev ev, const FaultSpec& spec) {
  check(spec);
  detail::set_fault(inbound_, value(ev), spec);
  update();
}

void FaultInjector::set_outbound(std::uint16_t port_path, const FaultSpec& spec) {
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
  only_loss_ = port_ == FaultSpec{.loss = port_.loss} && both_.empty() && hold_ == nullptr;
  any_ = port_.any() || !inbound_.empty() || !outbound_.empty();
  active_ = any_ || (hold_ != nullptr && !hold_->empty());
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

}  // namespace mrc::inline v0_1::port
