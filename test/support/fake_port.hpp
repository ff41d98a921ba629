// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
#include "mrc/plane/plane.hpp"
#include "mrc/wire/transport.hpp"

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
  bool remove(wire::PacketName name);
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

  FakePort(const PortHabits& habits, std::uint64_t seed, Out out);

  // --- port::Port
  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept override;
  std::span<const wire::CopyId> take_released() noexcept override;
  void receive(Time now, port::RxBurst& rx) noexcept override;
  std::span<const wire::PacketName> take_settled() noexcept override;
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
  [[nodiscard]] Time next_release() const noexcept override;
  [[nodiscard]] port::PortStats stats() const noexcept override { return {}; }
  [[nodiscard]] std::span<const port::PortPath> paths() const noexcept override { return {}; }
  [[nodiscard]] port::PeerAddress address() const noexcept override { return {}; }

  // --- for the network
  /// A packet has arrived. `copies`: of this direction. True if it was the last copy that could be
  /// placed: all ports of this side are to settle() it.
  [[nodiscard]] bool deliver(Time now, const wire::RxPacket& facts, Packet bytes,
                             PlaceableCopies& copies);
  /// No copy of this packet can be placed any more.
  void settle(Time now, wire::PacketName name);
  /// Does the port that receives this packet try to place it?
  [[nodiscard]] static bool placeable(const wire::TxPacket& p);
  [[nodiscard]] static wire::PacketName name_of(const wire::TxPacket& p);
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

  [[nodiscard]] Duration share(Duration longest);
  [[nodiscard]] static Packet read(const wire::TxPacket& p, std::span<const wire::TxSge> sges);
  void take(Time now, const wire::TxPacket& p, std::span<const wire::TxSge> sges);
  void work(Time now);
  /// What a NIC does with a data packet: writes its payload, whatever the engine thinks of it.
  [[nodiscard]] bool place(Time now, Arrived& a, PlaceableCopies& copies);

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
