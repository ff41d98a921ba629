// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/wire/burst.hpp"

/// Two engines in one thread and virtual time, one continuously posting requests to the other; the
/// real time of each is measured separately. What is between them, normally the port's work, is not
/// measured: packets are laid out as a port delivers them and arrive after a fixed delay.
namespace mrc::bench {

/// Controls the responder's copies into the application's memory. The rig sets `skip` around the
/// calls whose copies are to be skipped; the program's memcpy() (skip_copies.cpp) obeys and counts.
struct CopySwitch {
  static inline thread_local std::size_t skip = 0;       ///< length of the copies to skip, 0: none
  static inline thread_local std::uint64_t skipped = 0;  ///< copies skipped
};

struct RigSetup {
  std::uint32_t queue_pairs = 1;
  std::uint32_t paths = 8;            ///< EVs, over four planes
  std::uint32_t message = 1u << 20;   ///< bytes per request
  std::uint32_t depth = 2;            ///< requests posted per queue pair
  std::uint32_t signal_every = 1;     ///< one completion per this many requests
  std::uint32_t burst = 1;            ///< consecutive packets of a queue pair on one path
  std::uint32_t reordered_block = 0;  ///< packets arrive shuffled within blocks of this size
  bool copy = false;                  ///< make the copies of payload
  SendOpcode opcode =
      SendOpcode::write;  ///< of all requests; others than writes are of OpenMRC's RC

  /// With SEND, READ and atomics.
  [[nodiscard]] bool rc() const { return !is_write(opcode); }
};

/// Real time used by one side, and its packets.
struct Share {
  std::chrono::nanoseconds time{0};
  std::uint64_t packets = 0;  ///< data packets: sent by the requester, received by the responder
};

class Rig {
 public:
  static constexpr std::uint32_t kMtu = 4096;
  static constexpr std::uint32_t kPlanes = 4;
  static constexpr std::size_t kBurst = 64;  ///< packets per round, as one GSO call can carry
  static constexpr std::size_t kDelay = 2;   ///< rounds that a packet is in flight
  /// 64 packets of 4 KiB at 800 Gb/s: the round trip is 10.7 us and 1 MiB is in flight.
  static constexpr Duration kRound{2684};

  explicit Rig(const RigSetup& setup) : setup_(setup) {
    memory_.resize(setup.message + kMtu, 0x5A);
    for (unsigned side = 0; side < 2; ++side) open(side);
    for (std::uint32_t i = 0; i < setup.queue_pairs; ++i) connect();
    for (auto& line : lines_)
      for (Flight& flight : line) flight.room.resize(kBurst * kSlot);
    for (const Qpn qpn : qpns_)
      for (std::uint32_t i = 0; i < setup.depth; ++i) post(qpn);
  }

  /// Moves at least `packets` data packets and adds up both sides' shares. Throws
  /// std::runtime_error when traffic stops or an error occurs.
  void run(std::uint64_t packets, Share& requester, Share& responder) {
    const std::uint64_t sent = sides_[0].engine->stats().tx_data;
    const std::uint64_t taken = sides_[1].engine->stats().rx_data;
    unsigned idle = 0;
    while (sides_[0].engine->stats().tx_data - sent < packets) {
      const std::uint64_t before = sides_[0].engine->stats().tx_data;
      requester.time += turn(0);
      carry(0);
      responder.time += turn(1);
      carry(1);
      now_ += kRound;
      idle = sides_[0].engine->stats().tx_data == before ? idle + 1 : 0;
      if (idle > 100'000) throw std::runtime_error("no packet went out for 100,000 rounds");
    }
    requester.packets += sides_[0].engine->stats().tx_data - sent;
    responder.packets += sides_[1].engine->stats().rx_data - taken;
  }

  /// Set while a side works: 1 for the requester, 2 for the responder; for tools that trace memory
  /// (scripts/bench_lines).
  static inline volatile std::uint8_t at_work = 0;

  [[nodiscard]] const EngineStats& stats(unsigned side) const {
    return sides_[side].engine->stats();
  }
  /// Time per round taken by the rig's own clock readings.
  [[nodiscard]] static double clock_ns() {
    constexpr int kTimes = 10'000;
    const auto start = Clock::now();
    auto last = start;
    for (int i = 0; i < kTimes; ++i) last = Clock::now();
    return std::chrono::duration<double, std::nano>(last - start).count() / kTimes;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kSlot = kMtu + 64;  ///< header and payload of one packet

  /// What one side sent in one round.
  struct Flight {
    std::vector<std::uint8_t> room;
    std::vector<wire::RxPacket> packets;
  };
  struct Side {
    std::unique_ptr<engine::Engine> engine;
    PdId pd{};
    CqId cq{};
    PeerId peer{};
    std::uint32_t key = 0;
    wire::TxBurst burst{kBurst, 4 * kBurst};
  };

  static engine::EngineOptions options(const RigSetup& setup, unsigned side) {
    engine::EngineOptions o;
    o.slot = static_cast<std::uint8_t>(side);
    o.seed = side + 1;
    o.secret = {side, 0};
    o.start = Time{std::chrono::seconds(1)};
    o.max_qps = std::max(setup.queue_pairs, 16u);
    // A queue pair with packets in flight holds at least one chunk of records.
    o.max_outstanding = std::max(65'536u, 2 * setup.queue_pairs * reliability::kRecordsPerChunk);
    o.burst = setup.burst;
    o.cc.nscc.link_speed = 800'000'000'000;
    return o;
  }

  void open(unsigned number) {
    Side& side = sides_[number];
    side.engine = std::make_unique<engine::Engine>(options(setup_, number));
    side.pd = *side.engine->alloc_pd();
    side.cq = *side.engine->create_cq(setup_.queue_pairs * setup_.depth + 16);
    // With relaxed ordering, placement is a plain memcpy(), which CopySwitch can skip.
    side.key = *side.engine->register_memory(memory_.data(), memory_.size(),
                                             Access::remote_write | Access::remote_read |
                                                 Access::remote_atomic | Access::relaxed_ordering,
                                             side.pd);
    engine::PeerSpec spec;
    spec.slot = static_cast<std::uint8_t>(1 - number);
    spec.planes = (PlaneMask{1} << kPlanes) - 1;
    for (Plane p = 0; p < kPlanes; ++p) spec.source_tags[p] = tag(1 - number, p);
    for (std::uint32_t i = 0; i < setup_.paths; ++i)
      spec.paths.push_back({Ev{0x1'0000 + i}, static_cast<Plane>(i % kPlanes),
                            static_cast<std::uint16_t>(i / kPlanes)});
    side.peer = *side.engine->add_peer(spec);
  }

  void connect() {
    Qpn qpn[2];
    for (unsigned i = 0; i < 2; ++i) {
      engine::QpInit init;
      init.pd = sides_[i].pd;
      init.send_cq = init.receive_cq = sides_[i].cq;
      init.capacity = {.send = setup_.depth, .receive = 0, .send_sges = 1, .inline_bytes = 0};
      init.attributes.mtu = kMtu;
      if (setup_.rc()) {
        init.capacity.receive = 2 * setup_.depth;  // so that no SEND waits for one
        init.capacity.receive_sges = 1;
        init.capacity.atomics = true;
        init.attributes.max_rd_atomic = init.attributes.max_rd_atomic_dest =
            static_cast<std::uint8_t>(std::min(setup_.depth, 128u));
      }
      qpn[i] = *sides_[i].engine->create_qp(init);
    }
    for (unsigned i = 0; i < 2; ++i) {
      engine::Engine& e = *sides_[i].engine;
      RemoteQp remote;
      remote.peer = sides_[i].peer;
      remote.qpn = qpn[1 - i];
      remote.start_psn = *sides_[1 - i].engine->start_psn(qpn[1 - i]);
      remote.tag = *sides_[1 - i].engine->tag(qpn[1 - i]);
      remote.dynamic_mpr = remote.trim_nack = true;
      remote.rc = setup_.rc();
      remote.max_rd_atomic_dest = e.find_qp(qpn[i])->attributes.max_rd_atomic;
      const bool ok = e.to_init(qpn[i]) == Errc::ok && e.to_rtr(qpn[i], remote) == Errc::ok &&
                      e.to_rts(qpn[i], now_) == Errc::ok;
      if (!ok) throw std::runtime_error("queue pair did not connect");
    }
    qpns_.push_back(qpn[0]);
    if (setup_.opcode == SendOpcode::send)
      for (std::uint32_t i = 0; i < 2 * setup_.depth; ++i) post_receive(qpn[1]);
  }

  void post_receive(Qpn qpn) {
    const Sge sge{memory_.data(), setup_.message, sides_[1].key};
    if (sides_[1].engine->post_receive(qpn, {0, {&sge, 1}}) != Errc::ok)
      throw std::runtime_error("post_receive failed");
  }
  /// All requests use the same bytes, so that memory other than the engine's stays in cache.
  void post(Qpn qpn) {
    const Sge sge{memory_.data(), setup_.message, sides_[0].key};
    SendRequest request;
    request.opcode = setup_.opcode;
    request.sges = {&sge, 1};
    request.remote = {reinterpret_cast<std::uint64_t>(memory_.data()), sides_[1].key};
    request.flags.signaled = ++posted_ % setup_.signal_every == 0;
    if (sides_[0].engine->post_send(qpn, request, now_) != Errc::ok)
      throw std::runtime_error("post_send failed");
  }

  /// One round of one side; returns its duration.
  std::chrono::nanoseconds turn(unsigned number) {
    Side& side = sides_[number];
    engine::Engine& e = *side.engine;
    Flight& in = lines_[1 - number][round(number) % kDelay];
    CopySwitch::skip = setup_.copy ? 0 : std::min(setup_.message, kMtu);
    const auto start = Clock::now();
    at_work = static_cast<std::uint8_t>(1 + number);
    if (!in.packets.empty()) e.receive(now_, in.packets);
    CopySwitch::skip = 0;
    std::array<Completion, 64> done;
    for (std::size_t n; (n = e.poll_cq(side.cq, done)) > 0;) {
      for (std::size_t i = 0; i < n; ++i) complete(done[i]);
    }
    if (e.next_deadline() <= now_) e.on_time(now_);
    side.burst.clear();
    e.poll_transmit(now_, ~PlaneMask{0}, side.burst);
    at_work = 0;
    const auto time = Clock::now() - start;
    in.packets.clear();
    return time;
  }

  void complete(const Completion& completion) {
    if (completion.status != WcStatus::success) throw std::runtime_error("a request failed");
    if (completion.opcode == WcOpcode::recv) return post_receive(completion.qpn);
    for (std::uint32_t i = 0; i < setup_.signal_every; ++i) post(completion.qpn);
  }

  /// The network, and the ports at its ends.
  void carry(unsigned from) {
    Flight& out = lines_[from][rounds_[from]++ % kDelay];
    out.packets.clear();
    for (const wire::TxPacket& p : sides_[from].burst.packets()) {
      std::uint8_t* const to = out.room.data() + out.packets.size() * kSlot;
      std::memcpy(to, p.header.data(), p.header.size());
      wire::RxPacket& r = out.packets.emplace_back();
      r.bytes = {to, p.header_length + p.payload_length + p.pad};
      r.source = tag(from, p.plane);
      r.udp_length = 8 + p.transport_length();
      r.entropy = p.entropy;
      r.plane = p.plane;
      r.ecn = p.ecn;
      r.check = p.check_seed;
    }
    const std::size_t block = setup_.reordered_block;
    if (from != 0 || block == 0) return;
    const std::span<wire::RxPacket> all = out.packets;
    for (std::size_t i = 0; i < all.size(); i += block)
      random_.shuffle(all.subspan(i, std::min(block, all.size() - i)));
  }

  /// The round whose packets from the other side arrive now: the oldest in the line, which carry()
  /// of that side reuses next.
  [[nodiscard]] std::uint64_t round(unsigned number) const { return rounds_[1 - number]; }
  [[nodiscard]] static std::uint64_t tag(unsigned side, Plane plane) {
    return 0x1000 + side * 0x100 + plane;
  }

  RigSetup setup_;
  Random random_{7};
  Time now_{std::chrono::seconds(1)};
  std::array<Side, 2> sides_;
  std::vector<Qpn> qpns_;
  std::vector<std::uint8_t> memory_;
  std::array<std::array<Flight, kDelay>, 2> lines_;  ///< by sender
  std::array<std::uint64_t, 2> rounds_{};
  std::uint64_t posted_ = 0;
};

}  // namespace mrc::bench
