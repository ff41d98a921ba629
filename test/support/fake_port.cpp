// SPDX-License-Identifier: Apache-2.0
#include "support/fake_port.hpp"

#include <algorithm>
#include <cstring>

#include "mrc/wire/transport.hpp"

namespace mrc::test {

bool PlaceableCopies::remove(wire::PacketName name) {
  const auto at = copies_.find(key(name));
  if (at == copies_.end() || --at->second > 0) return false;
  copies_.erase(at);
  return true;
}

FakePort::FakePort(const PortHabits& habits, std::uint64_t seed, Out out)
    : habits_(habits), random_(seed), out_(std::move(out)) {
  capabilities_.holds_payload = habits.holds;
  capabilities_.places_payload = habits.places;
  capabilities_.max_packet = 65'536;
}

std::uint32_t FakePort::transmit(Time now, const wire::TxBurst& burst,
                                 std::span<const wire::TxGroup> groups) noexcept {
  std::uint32_t taken = 0;
  for (const wire::TxGroup& group : groups) {
    for (const wire::TxPacket& p : burst.packets(group)) take(now, p, burst.sges(p));
    taken += group.count;
  }
  return taken;
}

std::span<const wire::CopyId> FakePort::take_released() noexcept {
  released_given_.swap(released_);
  released_.clear();
  return released_given_;
}

void FakePort::receive(Time now, port::RxBurst& rx) noexcept {
  work(now);
  arrived_given_.clear();
  while (!arrived_.empty() && arrived_.front().when <= now && rx.room() > 0) {
    arrived_given_.push_back(std::move(arrived_.front()));
    arrived_.pop_front();
    Arrived& a = arrived_given_.back();
    a.facts.bytes = a.bytes;
    // Judged when it is reported: what settles before is of no interest to the engine.
    a.facts.unsettled = a.copies != nullptr && a.copies->any(a.name);
    if (a.facts.unsettled) unsettled_.insert({value(a.name.qpn), a.name.psn.value()});
    rx.push(a.facts);
  }
}

std::span<const wire::PacketName> FakePort::take_settled() noexcept {
  settled_given_.swap(settled_);
  settled_.clear();
  return settled_given_;
}

Time FakePort::next_release() const noexcept {
  Time next = kNever;
  for (const Held& h : held_) next = std::min(next, h.due);
  for (const auto& [when, name] : to_settle_) next = std::min(next, when);
  if (!arrived_.empty()) next = std::min(next, arrived_.front().when);
  return next;
}

bool FakePort::deliver(Time now, const wire::RxPacket& facts, Packet bytes,
                       PlaceableCopies& copies) {
  Arrived a{now, facts, std::move(bytes), {}, nullptr};
  const bool last = habits_.places && a.facts.trim == wire::Trim::none && place(now, a, copies);
  // One path keeps its order; announcements of different packets need not.
  const auto later = [](Time when, const Arrived& x) { return when < x.when; };
  arrived_.insert(std::upper_bound(arrived_.begin(), arrived_.end(), a.when, later), std::move(a));
  return last;
}

void FakePort::settle(Time now, wire::PacketName name) {
  if (unsettled_.erase({value(name.qpn), name.psn.value()}) > 0)
    to_settle_.emplace_back(now + share(habits_.longest_announce), name);
}

bool FakePort::placeable(const wire::TxPacket& p) {
  const auto& bth = wire::view_as<wire::Bth>(Bytes(p.header));
  return wire::is_write(bth.opcode()) && !bth.rtx() && p.payload_length > 0;
}

wire::PacketName FakePort::name_of(const wire::TxPacket& p) {
  const auto& bth = wire::view_as<wire::Bth>(Bytes(p.header));
  return {bth.dqp(), bth.psn()};
}

Duration FakePort::share(Duration longest) {
  return longest.count() == 0
             ? Duration{}
             : Duration{random_.below(static_cast<std::uint32_t>(longest.count()) + 1)};
}

FakePort::Packet FakePort::read(const wire::TxPacket& p, std::span<const wire::TxSge> sges) {
  Packet bytes(p.header.begin(), p.header.begin() + p.header_length);
  for (const wire::TxSge& sge : sges) bytes.insert(bytes.end(), sge.data, sge.data + sge.length);
  bytes.insert(bytes.end(), p.pad, 0);
  return bytes;
}

void FakePort::take(Time now, const wire::TxPacket& p, std::span<const wire::TxSge> sges) {
  if (p.copy == wire::CopyId::none) return out_(now, p, read(p, sges));
  held_.push_back({now + share(habits_.longest_hold), p, {sges.begin(), sges.end()}});
}

void FakePort::work(Time now) {
  for (std::size_t i = 0; i < held_.size();) {
    Held& h = held_[i];
    if (h.due <= now && !h.read) {
      h.read = true;
      h.due = now + share(habits_.longest_hold);
      out_(now, h.packet, read(h.packet, h.sges));
    }
    if (h.due <= now && h.read) {
      (void)read(h.packet, h.sges);  // the sanitizers see whether it may
      released_.push_back(h.packet.copy);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  std::erase_if(to_settle_, [&](const auto& entry) {
    if (entry.first > now) return false;
    settled_.push_back(entry.second);
    return true;
  });
}

bool FakePort::place(Time now, Arrived& a, PlaceableCopies& copies) {
  const auto& bth = wire::view_as<wire::Bth>(a.bytes);
  if (!wire::is_write(bth.opcode())) return false;
  const wire::WriteView w = wire::view_write(a.bytes);
  const wire::PacketName name{bth.dqp(), bth.psn()};
  const auto region = memory_.find(w.reth->rkey);
  bool last = false;
  if (!bth.rtx() && !w.payload.empty()) {
    last = copies.remove(name);
    if (region != memory_.end() && has(region->second.access, Access::relaxed_ordering)) {
      const port::MemorySpan& m = region->second;
      const std::uint64_t offset = w.reth->va - reinterpret_cast<std::uint64_t>(m.address);
      if (offset <= m.length && w.payload.size() <= m.length - offset) {
        std::memcpy(m.address + offset, w.payload.data(), w.payload.size());
        a.facts.placed = static_cast<std::uint32_t>(w.payload.size());
        a.bytes.resize(static_cast<std::size_t>(w.payload.data() - a.bytes.data()));
        a.bytes[1] &= 0xCF;  // pad
        a.when = now + share(habits_.longest_announce);
        ++placed_;
      }
    }
  }
  a.name = name;
  a.copies = &copies;
  return last;
}

}  // namespace mrc::test
