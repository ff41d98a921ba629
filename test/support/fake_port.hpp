// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/wire/transport.hpp"
#include "mrc/wire/write_header.hpp"

/// A port in virtual time that does all that the contract allows, at random: it
/// reads payload late and gives it back later still, places payload by itself and tells of it
/// later, refuses packets. What it reads, places and leaves alone is real, so a driver or an engine
/// that breaks the contract shows up as wrong bytes.
namespace mrc::test {

/// Which copies of data packets ports may still place, by packet: those of all planes of one
/// direction. Real ports know it from the order of their paths; these are told.
class PlaceableCopies {
 public:
  void add(wire::PacketName name) { ++copies_[key(name)]; }
  /// A copy was placed, or is lost. True if it was the last.
  bool remove(wire::PacketName name) {
    const auto at = copies_.find(key(name));
    if (at == copies_.end() || --at->second > 0) return false;
    copies_.erase(at);
    return true;
  }
  [[nodiscard]] bool any(wire::PacketName name) const { return copies_.count(key(name)) != 0; }

 private:
  [[nodiscard]] static std::uint64_t key(wire::PacketName name) {
    return std::uint64_t{value(name.qpn)} << 32 | name.psn.value();
  }
  std::map<std::uint64_t, unsigned> copies_;
};

/// What a FakePort does.
struct PortHabits {
  bool holds = false;           ///< reads payload late
  bool places = false;          ///< places payload
  Duration longest_hold{};      ///< of payload before it is read, and again before it is released
  Duration longest_announce{};  ///< of placed payload before the packet is reported
};

class FakePort final : public port::Port {
 public:
  struct Route {
    std::uint64_t tag = 0;
  };
  /// A packet on its way: the bytes from BTH to pad.
  using Packet = std::vector<std::uint8_t>;
  /// Takes packets to the network.
  using Out = std::function<void(Time, const wire::TxPacket&, Packet)>;

  FakePort(const PortHabits& habits, std::uint64_t seed, Out out)
      : habits_(habits), random_(seed), out_(std::move(out)) {
    capabilities_.holds_payload = habits.holds;
    capabilities_.places_payload = habits.places;
    capabilities_.max_packet = 65'536;
  }

  // --- port::Port
  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept override {
    std::uint32_t taken = 0;
    for (const wire::TxGroup& group : groups) {
      for (const wire::TxPacket& p : burst.packets(group)) take(now, p, burst.sges(p));
      taken += group.count;
    }
    return taken;
  }
  std::span<const wire::CopyId> take_released() noexcept override {
    released_given_.swap(released_);
    released_.clear();
    return released_given_;
  }
  void receive(Time now, port::RxBurst& rx) noexcept override {
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
  std::span<const wire::PacketName> take_settled() noexcept override {
    settled_given_.swap(settled_);
    settled_.clear();
    return settled_given_;
  }
  void register_memory(const port::MemorySpan& memory) override { memory_[memory.key] = memory; }
  void deregister_memory(std::uint32_t key) noexcept override { memory_.erase(key); }
  std::uint64_t add_peer(PeerId, const port::PeerRoute& route) override {
    return route.as<Route>().tag;
  }
  void remove_peer(PeerId) noexcept override {}
  bool arm() noexcept override { return arrived_.empty() && released_.empty(); }
  [[nodiscard]] bool link_up() const noexcept override { return true; }
  [[nodiscard]] int poll_fd() const noexcept override { return -1; }
  [[nodiscard]] int link_fd() const noexcept override { return -1; }
  [[nodiscard]] Time next_release() const noexcept override {
    Time next = kNever;
    for (const Held& h : held_) next = std::min(next, h.due);
    for (const auto& [when, name] : to_settle_) next = std::min(next, when);
    if (!arrived_.empty()) next = std::min(next, arrived_.front().when);
    return next;
  }
  [[nodiscard]] port::PortStats stats() const noexcept override { return {}; }
  [[nodiscard]] std::span<const port::PortPath> paths() const noexcept override { return {}; }
  [[nodiscard]] port::PeerAddress address() const noexcept override { return {}; }

  // --- for the network
  /// A packet has arrived. `copies`: of this direction. True if it was the last copy that could be
  /// placed: all ports of this side are to settle() it.
  [[nodiscard]] bool deliver(Time now, const wire::RxPacket& facts, Packet bytes,
                             PlaceableCopies& copies) {
    Arrived a{now, facts, std::move(bytes), {}, nullptr};
    const bool last = habits_.places && a.facts.trim == wire::Trim::none && place(now, a, copies);
    // One path keeps its order; announcements of different packets need not.
    const auto later = [](Time when, const Arrived& x) { return when < x.when; };
    arrived_.insert(std::upper_bound(arrived_.begin(), arrived_.end(), a.when, later),
                    std::move(a));
    return last;
  }
  /// No copy of this packet can be placed any more.
  void settle(Time now, wire::PacketName name) {
    if (unsettled_.erase({value(name.qpn), name.psn.value()}) > 0)
      to_settle_.emplace_back(now + share(habits_.longest_announce), name);
  }
  /// Does the port that receives this packet try to place it?
  [[nodiscard]] static bool placeable(const wire::TxPacket& p) {
    const auto& bth = wire::view_as<wire::Bth>(Bytes(p.header));
    return wire::is_write(bth.opcode()) && !bth.rtx() && p.payload_length > 0;
  }
  [[nodiscard]] static wire::PacketName name_of(const wire::TxPacket& p) {
    const auto& bth = wire::view_as<wire::Bth>(Bytes(p.header));
    return {bth.dqp(), bth.psn()};
  }
  /// Payload that it may still read.
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  /// Packets whose payload it has placed.
  [[nodiscard]] std::uint64_t placed() const { return placed_; }

 private:
  struct Held {
    Time due;
    wire::TxPacket packet;
    std::vector<wire::TxSge> sges;
    bool read = false;
  };
  struct Arrived {
    Time when;
    wire::RxPacket facts;
    Packet bytes;
    wire::PacketName name{};                  ///< of a data packet that could be placed
    const PlaceableCopies* copies = nullptr;  ///< null for any other packet
  };

  [[nodiscard]] Duration share(Duration longest) {
    return longest.count() == 0
               ? Duration{}
               : Duration{random_.below(static_cast<std::uint32_t>(longest.count()) + 1)};
  }
  [[nodiscard]] static Packet read(const wire::TxPacket& p, std::span<const wire::TxSge> sges) {
    Packet bytes(p.header.begin(), p.header.begin() + p.header_length);
    for (const wire::TxSge& sge : sges) bytes.insert(bytes.end(), sge.data, sge.data + sge.length);
    bytes.insert(bytes.end(), p.pad, 0);
    return bytes;
  }
  void take(Time now, const wire::TxPacket& p, std::span<const wire::TxSge> sges) {
    if (p.copy == wire::CopyId::none) return out_(now, p, read(p, sges));
    held_.push_back({now + share(habits_.longest_hold), p, {sges.begin(), sges.end()}});
  }
  void work(Time now) {
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
  /// What a NIC does with a data packet: writes its payload, whatever the engine thinks of it.
  [[nodiscard]] bool place(Time now, Arrived& a, PlaceableCopies& copies) {
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

  PortHabits habits_;
  Random random_;
  Out out_;
  std::unordered_map<std::uint32_t, port::MemorySpan> memory_;
  std::vector<Held> held_;
  std::vector<wire::CopyId> released_, released_given_;
  std::deque<Arrived> arrived_, arrived_given_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> unsettled_;  ///< QPN, PSN
  std::vector<std::pair<Time, wire::PacketName>> to_settle_;
  std::vector<wire::PacketName> settled_, settled_given_;
  std::uint64_t placed_ = 0;
};

}  // namespace mrc::test
