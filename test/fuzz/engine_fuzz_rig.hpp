// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "mrc/engine/engine.hpp"

// What engine_fuzz.cpp is made of: its input, the memory that it watches, what it knows of a side.
namespace mrc::fuzz {

using namespace mrc::engine;

inline void require(bool condition) {
  if (!condition) std::abort();
}

/// The rest of the input; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  [[nodiscard]] bool done() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::uint32_t word() {
    std::uint32_t w = 0;
    for (int i = 0; i < 4; ++i) w = w << 8 | byte();
    return w;
  }
  std::uint32_t below(std::uint32_t n) { return n == 0 ? 0 : byte() % n; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// Memory of one side in slots, some of which get granted. The others must never change.
class Arena {
 public:
  static constexpr std::size_t kSlots = 16, kSlotBytes = 1024;

  Arena() : bytes_(kSlots * kSlotBytes, 0xC5) {}
  [[nodiscard]] std::uint8_t* slot(std::size_t i) {
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
  std::vector<CqId> cqs;
  std::vector<PdId> pds;
  std::vector<PeerId> peers;
  std::vector<Region> regions;
};

/// Nominal size of a packet in the window, worked out from the messages alone.
inline std::uint32_t nominal_size(const engine::Engine& engine, const QueuePairState& qp, Psn psn) {
  const SendQueue& q = qp.tx.queue;
  const std::uint32_t end = q.sending() + (qp.tx.next_packet > 0);
  for (std::uint32_t i = q.done(); i != end; ++i) {
    const SendWqe& w = q.at(i);
    const std::int32_t k = psn - w.first;
    if (k >= 0 && k < static_cast<std::int32_t>(w.packets))
      return engine::slice_of(w, static_cast<std::uint32_t>(k), qp.mtu, engine.options().timestamps)
          .size;
  }
  require(false);
  return 0;
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

}  // namespace mrc::fuzz
