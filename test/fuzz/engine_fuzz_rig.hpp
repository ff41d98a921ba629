// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/resolve/datagrams.hpp"

// What engine_fuzz.cpp is made of: the memory that it watches, what it knows of a side.
namespace mrc::fuzz {

using namespace mrc::engine;

/// Memory of one side in slots, some of which get granted. The others must never change.
class Arena {
 public:
  static constexpr std::size_t kSlots = 16, kSlotBytes = 1024;

  Arena() : bytes_(kSlots * kSlotBytes, 0xC5) {}
  [[nodiscard]] std::uint8_t* slot(std::size_t i) {
    return bytes_.data() + i % kSlots * kSlotBytes;
  }
  [[nodiscard]] const std::uint8_t* slot(std::size_t i) const {
    return bytes_.data() + i % kSlots * kSlotBytes;
  }
  void grant(std::size_t i) { granted_[i % kSlots] = true; }
  void check() const {
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (granted_[i]) continue;
      const auto* begin = bytes_.data() + i * kSlotBytes;
      require(begin[0] == 0xC5 && std::memcmp(begin, begin + 1, kSlotBytes - 1) == 0);
    }
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::array<bool, kSlots> granted_{};
};

struct Packet {
  std::vector<std::uint8_t> bytes;
  std::uint64_t source = 0;
  Ev entropy{};
  Plane plane = 0;
  Ecn ecn = Ecn::ect0;
  wire::Trim trim = wire::Trim::none;
};

struct Region {
  std::uint32_t key;
  std::size_t slot;
};

struct Side {
  std::unique_ptr<Engine> engine;
  Arena arena;
  std::vector<Packet> incoming;  ///< under way to this side
  std::vector<Qpn> qps;
  std::vector<Qpn> datagram_qps;
  std::vector<DestinationId> destinations;
  std::vector<CqId> cqs;
  std::vector<SrqId> srqs;
  std::vector<PdId> pds;
  std::vector<PeerId> peers;
  std::vector<Region> regions;
};

/// What a queue pair has for SEND, READ and atomics.
inline void draw_rc(Input& in, QpInit& init) {
  QpAttributes& a = init.attributes;
  init.capacity.atomics = in.below(4) != 0;
  a.rc = in.below(8) != 0;
  a.max_rd_atomic = static_cast<std::uint8_t>(in.below(5));
  a.max_rd_atomic_dest = static_cast<std::uint8_t>(in.below(5));
  a.rnr_retry = static_cast<std::uint8_t>(in.below(8));
  a.min_rnr_timer = static_cast<std::uint8_t>(1 + in.below(4));
}

/// Nominal size of a packet in the window, worked out from the messages alone; 0 if it is in none
/// of these. `part`: the message at sending() has been sent in part.
inline std::uint32_t nominal_size(const engine::Engine& engine, const QueuePairState& qp,
                                  const SendQueue& q, bool part, Psn psn) {
  for (std::uint32_t i = q.acknowledged(); i != q.sending() + part; ++i) {
    const SendWqe& w = q.at(i);
    const std::int32_t k = psn - w.first;
    if (k >= 0 && k < static_cast<std::int32_t>(w.packets))
      return engine::slice_of(w, static_cast<std::uint32_t>(k), qp.mtu, engine.options().timestamps)
          .size;
  }
  return 0;
}
/// The same for requests and responses.
inline std::uint32_t nominal_size(const engine::Engine& engine, const QueuePairState& qp, Psn psn) {
  const bool part = qp.tx.next_packet > 0;
  const bool answering = qp.rc && qp.rc_state->answering;
  std::uint32_t size = nominal_size(engine, qp, qp.tx.queue, part && !answering, psn);
  if (size == 0 && qp.rc)
    size = nominal_size(engine, qp, qp.rc_state->responses, part && answering, psn);
  require(size != 0);
  return size;
}

/// The shared accounts are the sums of what the queue pairs hold.
inline void check_peer(const Side& s, const Peer& peer) {
  std::uint64_t inflight = 0;
  std::array<std::uint64_t, kMaxPlanes> planes{};
  std::uint32_t connected = 0;
  for (const Qpn q : s.qps) {
    const QueuePairState& qp = *s.engine->find_qp(q);
    if (qp.peer != &peer) continue;
    ++connected;
    inflight += qp.tx.inflight;
    for (Psn p = qp.tx.window.unacked(); p != qp.tx.window.next(); ++p) {
      const reliability::Packet packet = qp.tx.window.at(p);
      if (packet.state() == reliability::PacketState::outstanding)
        planes[peer.paths[packet.path()].plane] +=
            std::max<std::uint32_t>(nominal_size(*s.engine, qp, p), 1024);
    }
  }
  require(connected == peer.queue_pairs);
  require(static_cast<std::int64_t>(inflight) == peer.congestion.inflight());
  require(planes == peer.plane_inflight);
}

template <class T>
T choose(Input& in, const std::vector<T>& from, T otherwise) {
  const std::uint8_t b = in.byte();
  return from.empty() || b == 0xFF ? otherwise : from[b % from.size()];
}

/// SGEs of one slot.
struct DrawnSges {
  std::span<const Sge> sges;
  std::size_t slot;
};
/// As many SGEs as `sges` has room for, or fewer, mostly of the region with the index `usual`.
/// `whole`: a single one of that length.
template <std::size_t N>
DrawnSges draw_sges(Input& in, Side& s, std::array<Sge, N>& sges, std::size_t usual,
                    std::uint32_t whole = 0) {
  const Region none{in.byte(), 0};
  const Region from =
      in.below(8) != 0 && usual < s.regions.size() ? s.regions[usual] : choose(in, s.regions, none);
  const std::uint32_t count = whole != 0 ? 1 : in.below(N + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t offset = in.byte();
    sges[i] = {s.arena.slot(from.slot) + offset, whole != 0 ? whole : in.byte(), from.key};
  }
  return {{sges.data(), count}, from.slot};
}

/// Removes an entry for which `call` returns ok.
template <class T, class F>
void drop_one(Input& in, std::vector<T>& list, F&& call) {
  if (list.empty()) return;
  const std::size_t i = in.byte() % list.size();
  if (call(list[i]) == Errc::ok) list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace mrc::fuzz
