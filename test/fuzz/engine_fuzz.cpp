// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/engine_fuzz_datagrams.hpp"
#include "fuzz/engine_fuzz_packets.hpp"
#include "fuzz/engine_fuzz_rig.hpp"
#include "mrc/engine/engine.hpp"

// Fuzzes two engines that talk to each other. The input is a program: each step is an opcode byte
// and its operands, from making and destroying objects over posting and letting time pass to
// delivering, dropping, copying, changing and inventing packets, as if their iCRC had been right.
// What must hold throughout: no undefined behaviour, nothing written outside the memory that was
// granted, and accounts that add up. (A changed packet may write nonsense where its sender had the
// right to write, so contents are not looked at.)

namespace {

using namespace mrc;
using namespace mrc::engine;
using namespace mrc::fuzz;

class World {
 public:
  explicit World(Input& in) : in_(in) {
    for (unsigned i = 0; i < 2; ++i) {
      EngineOptions o;
      o.slot = static_cast<std::uint8_t>(i);
      o.seed = in.byte();
      o.start = now_;
      o.max_qps = 6;
      o.max_cqs = 4;
      o.max_mrs = 8;
      o.max_pds = 3;
      o.max_peers = 3;
      o.max_outstanding = 192;
      o.control_queue = 24;
      o.deferred_stores = 3;
      o.burst = 1 + in.below(3);
      o.timestamps = in.below(4) != 0;
      o.cc.algorithm = static_cast<cc::Algorithm>(in.below(3));
      if (o.cc.algorithm == cc::Algorithm::nscc) o.timestamps = true;
      sides_[i].engine = std::make_unique<Engine>(o);
      make_pd(i);
      make_peer(i);
      sides_[i].cqs.push_back(*sides_[i].engine->create_cq(32));
      register_slot(i, 0, Access::none, sides_[i].pds[0]);
      register_slot(i, 1, Access::remote_write | Access::remote_read | Access::remote_atomic,
                    sides_[i].pds[0]);
      make_srq(i);
      make_qp(i);
      datagrams_.start(i);
    }
    connect();  // so that every program starts where something can happen
  }

  void step() {
    const unsigned side = in_.below(2);
    switch (in_.below(30)) {
      case 0:
        return make_pd(side);
      case 1:
        return make_cq(side);
      case 2:
        return make_qp(side);
      case 3:
        return make_peer(side);
      case 4:
        return make_region(side);
      case 5:
        return destroy(side);
      case 6:
        return change_state(side);
      case 7:
        return connect();
      case 8:
      case 9:
        return post_send(side);
      case 10:
        return post_receive(side, in_.below(2) != 0);
      case 11:
      case 12:
        return transmit(side, in_.below(4) == 3 ? in_.byte() : ~PlaneMask{0});
      case 13:
      case 14:
        return deliver(side);
      case 15:
        return tamper(side);
      case 16:
        return invent(side);
      case 17:
        return pass_time();
      case 18:
        sides_[side].engine->set_plane_up(now_, static_cast<Plane>(in_.below(34)),
                                          in_.below(2) != 0);
        return;
      case 19:
        return poll(side);
      case 20:
        (void)sides_[side].engine->set_mpr(any_qp(side), in_.byte());
        return;
      case 21:
        return refuse(side);
      case 22:
        return datagrams_.change(side);
      case 23:
      case 24:
        return datagrams_.post(side);
      case 25:
        return datagrams_.post_receive(side);
      case 26:
        if (in_.below(4) == 0) return make_srq(side);
        (void)sides_[side].engine->set_srq_limit(any_srq(side), in_.below(8));
        return;
      default:
        return talk();
    }
  }

  /// What must hold at any time.
  void check() {
    for (Side& s : sides_) {
      s.arena.check();
      const Engine& e = *s.engine;
      require(e.qp_count() == s.qps.size());
      require(e.peer_count() == s.peers.size());
      require(e.datagram_qp_count() == s.datagram_qps.size());
      for (const PeerId id : s.peers) check_peer(s, *e.find_peer(id));
      for (const Qpn q : s.qps) {
        const QueuePairState& qp = *e.find_qp(q);
        const auto& w = qp.tx.window;
        require(w.outstanding() + w.lost() <= w.span());
        require(qp.tx.queue.posted() - qp.tx.queue.done() <= qp.init.capacity.send);
        if (!qp.active) require(w.empty() && qp.tx.inflight == 0);
        if (qp.state == QpState::err) require(qp.cause != QpErrorCause::none);
      }
    }
  }

  /// Takes everything down; nothing may be left over.
  void finish() {
    check();
    for (Side& s : sides_) {
      Engine& e = *s.engine;
      for (const Qpn q : s.qps) require(e.destroy_qp(q) == Errc::ok);
      for (const Qpn q : s.datagram_qps) require(destroy_datagram_qp(e, q) == Errc::ok);
      for (const DestinationId d : s.destinations) require(remove_destination(e, d) == Errc::ok);
      require(e.quiet());
      for (const PeerId p : s.peers) {
        const Peer& peer = *e.find_peer(p);
        require(peer.queue_pairs == 0 && peer.congestion.inflight() == 0);
        for (const auto bytes : peer.plane_inflight) require(bytes == 0);
        require(e.remove_peer(p) == Errc::ok);
      }
      for (const SrqId q : s.srqs) require(e.destroy_srq(q) == Errc::ok);
      for (const CqId c : s.cqs) require(e.destroy_cq(c) == Errc::ok);
      for (const Region& r : s.regions) require(e.deregister_memory(r.key) == Errc::ok);
      for (const PdId p : s.pds) require(e.dealloc_pd(p) == Errc::ok);
      s.arena.check();
    }
  }

 private:
  Qpn any_qp(unsigned side) { return choose(in_, sides_[side].qps, Qpn{in_.byte()}); }
  SrqId any_srq(unsigned side) { return choose(in_, sides_[side].srqs, SrqId{in_.byte()}); }
  static std::uint64_t tag(unsigned side, Plane plane) { return 0x100 + side * 0x10 + plane; }

  void make_pd(unsigned side) {
    if (const auto r = sides_[side].engine->alloc_pd()) sides_[side].pds.push_back(r.value());
  }
  void make_cq(unsigned side) {
    if (const auto r = sides_[side].engine->create_cq(in_.byte() % 64))
      sides_[side].cqs.push_back(r.value());
  }
  void make_srq(unsigned side) {
    Side& s = sides_[side];
    const PdId pd = choose(in_, s.pds, PdId{77});
    if (const auto r = s.engine->create_srq(pd, in_.byte() % 8, in_.below(4)))
      s.srqs.push_back(r.value());
  }
  void make_qp(unsigned side) {
    Side& s = sides_[side];
    QpInit init;
    init.pd = choose(in_, s.pds, PdId{77});
    init.send_cq = choose(in_, s.cqs, CqId{77});
    init.receive_cq = choose(in_, s.cqs, CqId{77});
    init.capacity = {1 + in_.below(60), in_.below(20), 1 + in_.below(4), in_.below(100),
                     in_.below(4)};
    if (in_.below(3) == 0) init.srq = any_srq(side);
    auto& a = init.attributes;
    a.mtu = 256;
    a.mpr = static_cast<std::uint8_t>(1 + in_.below(3));
    a.mpr_dest = static_cast<std::uint8_t>(1 + in_.below(3));
    a.max_wimm = a.max_wimm_dest = static_cast<std::uint16_t>(1 + in_.below(4));
    a.timeout = static_cast<std::uint8_t>(in_.below(12));
    a.retry_linear = static_cast<std::uint8_t>(in_.below(4));
    a.retry_exponential = static_cast<std::uint8_t>(in_.below(26));
    a.dynamic_mpr = in_.below(2) != 0;
    a.trim_nack = in_.below(2) != 0;
    draw_rc(in_, init);
    if (const auto r = s.engine->create_qp(init)) s.qps.push_back(r.value());
  }
  void make_peer(unsigned side) {
    PeerSpec spec;
    spec.slot = static_cast<std::uint8_t>(1 - side);
    spec.planes = 0b11;
    spec.plane_window = in_.below(3) == 0 ? 4000 : 0;
    for (Plane p = 0; p < 2; ++p) spec.source_tags[p] = tag(1 - side, p);
    const std::uint32_t paths = 1 + in_.below(6);
    for (std::uint32_t i = 0; i < paths; ++i)
      spec.paths.push_back({Ev{i}, static_cast<Plane>(i % 2), static_cast<std::uint16_t>(i)});
    if (const auto r = sides_[side].engine->add_peer(spec)) sides_[side].peers.push_back(r.value());
  }
  void make_region(unsigned side) {
    const std::size_t slot = in_.below(Arena::kSlots);
    const auto access = static_cast<Access>(in_.below(64));
    register_slot(side, slot, access, choose(in_, sides_[side].pds, PdId{77}));
  }
  void register_slot(unsigned side, std::size_t slot, Access access, PdId pd) {
    Side& s = sides_[side];
    const auto r = s.engine->register_memory(s.arena.slot(slot), Arena::kSlotBytes, access, pd);
    if (!r) return;
    if (has(in_force(access), Access::local_write)) s.arena.grant(slot);
    s.regions.push_back({r.value(), slot});
  }

  void destroy(unsigned side) {
    Side& s = sides_[side];
    Engine& e = *s.engine;
    switch (in_.below(6)) {
      case 5:
        return drop_one(in_, s.srqs, [&](SrqId q) { return e.destroy_srq(q); });
      case 0:
        return drop_one(in_, s.qps, [&](Qpn q) { return e.destroy_qp(q); });
      case 1:
        return drop_one(in_, s.cqs, [&](CqId c) { return e.destroy_cq(c); });
      case 2:
        return drop_one(in_, s.pds, [&](PdId p) { return e.dealloc_pd(p); });
      case 3:
        return drop_one(in_, s.peers, [&](PeerId p) { return e.remove_peer(p); });
      default:
        return drop_one(in_, s.regions, [&](const Region& r) {
          return e.deregister_memory(r.key, in_.below(2) != 0);
        });
    }
  }

  RemoteQp remote(unsigned side, Qpn other) {
    RemoteQp r;
    r.peer = choose(in_, sides_[side].peers, PeerId{9});
    r.qpn = other;
    if (const auto* qp = sides_[1 - side].engine->find_qp(other)) {
      r.start_psn = qp->start_psn;
      r.mpr_dest = qp->attributes.mpr_dest;
      r.max_wimm_dest = qp->attributes.max_wimm_dest;
      r.dynamic_mpr = qp->attributes.dynamic_mpr;
      r.trim_nack = qp->attributes.trim_nack;
      r.rc = qp->attributes.rc;
      r.max_rd_atomic_dest = qp->attributes.max_rd_atomic_dest;
    }
    return r;
  }
  void change_state(unsigned side) {
    Engine& e = *sides_[side].engine;
    const Qpn q = any_qp(side);
    switch (in_.below(5)) {
      case 0:
        (void)e.to_init(q);
        return;
      case 1:
        (void)e.to_rtr(q, remote(side, any_qp(1 - side)));
        return;
      case 2:
        (void)e.to_rts(q, now_);
        return;
      case 3:
        (void)e.to_error(q);
        return;
      default:
        (void)e.to_reset(q);
        return;
    }
  }
  /// Connects one queue pair of each side as it should be.
  void connect() {
    for (unsigned i = 0; i < 2; ++i)
      if (sides_[i].qps.empty()) make_qp(i);
    const Qpn q[2] = {any_qp(0), any_qp(1)};
    for (unsigned i = 0; i < 2; ++i) {
      (void)sides_[i].engine->to_reset(q[i]);
      (void)sides_[i].engine->to_init(q[i]);
      for (std::uint32_t n = in_.below(8); n > 0; --n)
        (void)sides_[i].engine->post_receive(q[i], n);
    }
    for (unsigned i = 0; i < 2; ++i) {
      (void)sides_[i].engine->to_rtr(q[i], remote(i, q[1 - i]));
      (void)sides_[i].engine->to_rts(q[i], now_);
    }
  }

  void post_send(unsigned side) {
    Side& s = sides_[side];
    const Region none{in_.byte(), 0};
    SendRequest w;
    w.opcode = static_cast<SendOpcode>(in_.below(7));
    std::array<Sge, 4> sges;
    const bool lands = has_response(w.opcode);
    w.sges =
        draw_sges(in_, s, sges, lands ? 1 : 0, w.opcode >= SendOpcode::compare_swap ? 8 : 0).sges;
    w.wr_id = in_.byte();
    const auto& theirs = sides_[1 - side].regions;
    const Region to =
        in_.below(8) != 0 && theirs.size() > 1 ? theirs[1] : choose(in_, theirs, none);
    std::uint64_t offset = in_.byte();
    if (w.opcode >= SendOpcode::compare_swap && in_.below(8) != 0) offset = offset / 8 * 8;
    w.remote = {reinterpret_cast<std::uint64_t>(sides_[1 - side].arena.slot(to.slot)) + offset,
                to.key};
    const std::uint8_t flags = in_.byte();
    w.flags.fence = (flags & 1) != 0;
    w.flags.solicited = (flags & 16) != 0;
    w.immediate = flags;
    w.compare_add = w.swap = flags;
    w.flags.signaled = (flags & 2) != 0;
    w.flags.inline_data = !lands && (flags & 12) == 12;
    (void)s.engine->post_send(any_qp(side), w, now_);
  }
  void post_receive(unsigned side, bool shared) {
    std::array<Sge, 4> sges;
    const ReceiveRequest request{in_.byte(), draw_sges(in_, sides_[side], sges, 1).sges};
    if (shared)
      (void)sides_[side].engine->post_receive(any_srq(side), request);
    else
      (void)sides_[side].engine->post_receive(any_qp(side), request);
  }

  void transmit(unsigned side, PlaneMask planes) {
    burst_.clear();
    sides_[side].engine->poll_transmit(now_, planes, burst_);
    for (const auto& p : burst_.packets()) {
      require((planes & plane_bit(p.plane)) != 0);
      Packet out;
      out.bytes.assign(p.header.begin(), p.header.begin() + p.header_length);
      for (const auto& sge : burst_.sges(p))
        out.bytes.insert(out.bytes.end(), sge.data, sge.data + sge.length);
      out.bytes.insert(out.bytes.end(), p.pad, 0);
      out.source = tag(side, p.plane);
      out.entropy = p.entropy;
      out.plane = p.plane;
      auto& queue = sides_[1 - side].incoming;
      if (queue.size() < 512) queue.push_back(std::move(out));
    }
  }
  /// A port takes only the first packets of a burst.
  void refuse(unsigned side) {
    burst_.clear();
    sides_[side].engine->poll_transmit(now_, ~PlaneMask{0}, burst_);
    const auto taken = std::min<std::size_t>(in_.byte(), burst_.size());
    sides_[side].engine->on_untransmitted(now_, burst_.packets().subspan(taken));
  }

  void receive(unsigned side, const Packet& p) {
    wire::RxPacket rx;
    rx.bytes = p.bytes;
    rx.source = p.source;
    rx.udp_length = static_cast<std::uint32_t>(p.bytes.size()) + 12;
    rx.entropy = p.entropy;
    rx.plane = p.plane;
    rx.ecn = p.ecn;
    rx.trim = p.trim;
    sides_[side].engine->receive(now_, {&rx, 1});
  }
  void deliver(unsigned side) {
    auto& queue = sides_[side].incoming;
    if (queue.empty()) return;
    const std::size_t i = in_.byte() % queue.size();
    const std::uint8_t how = in_.byte();
    if ((how & 3) != 1) receive(side, queue[i]);  // 1: it is lost
    if ((how & 12) != 4) queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void tamper(unsigned side) {
    auto& queue = sides_[side].incoming;
    if (queue.empty()) return;
    Packet p = queue[in_.byte() % queue.size()];
    tamper_with(in_, p);
    receive(side, p);
  }
  /// A packet from nowhere, with an opcode and a destination that exist.
  void invent(unsigned side) {
    Packet p;
    p.bytes.resize(in_.below(120));
    for (std::size_t i = 0; i < p.bytes.size() && !in_.done(); ++i) p.bytes[i] = in_.byte();
    if (p.bytes.size() >= sizeof(wire::Bth)) {
      p.bytes[0] =
          in_.below(8) == 0 ? static_cast<std::uint8_t>(0x64 + in_.below(2)) : invented_opcode(in_);
      p.bytes[1] &= 0xF0;
      const bool endpoint = p.bytes[0] == 0xD8 || p.bytes[0] == 0xD9;
      const bool datagram = wire::is_datagram(static_cast<wire::Opcode>(p.bytes[0]));
      const std::uint32_t qpn =
          endpoint
              ? 2
              : value(datagram ? choose(in_, sides_[side].datagram_qps, Qpn{7}) : any_qp(side));
      p.bytes[5] = static_cast<std::uint8_t>(qpn >> 16);
      p.bytes[6] = static_cast<std::uint8_t>(qpn >> 8);
      p.bytes[7] = static_cast<std::uint8_t>(qpn);
      aim(in_, sides_[side], Qpn{qpn}, p.bytes);
    }
    p.plane = static_cast<Plane>(in_.below(2));
    p.source = tag(1 - side, p.plane);
    p.entropy = Ev{in_.byte()};
    receive(side, p);
  }

  void pass_time() {
    const Time end = now_ + Duration{std::int64_t{1} << in_.below(25)};
    for (unsigned n = 0;; ++n) {
      require(n < 100'000);  // a timer that fires again and again
      const Time next =
          std::min(sides_[0].engine->next_deadline(), sides_[1].engine->next_deadline());
      if (next > end) break;
      now_ = std::max(now_, next);
      for (Side& s : sides_) s.engine->on_time(now_);
      for (unsigned side = 0; side < 2; ++side) flush(side);
    }
    now_ = end;
  }
  /// Sends until nothing is left to send; what goes out is lost if it is too much.
  void flush(unsigned side) {
    for (unsigned n = 0;; ++n) {
      require(n < 1000);
      burst_.clear();
      sides_[side].engine->poll_transmit(now_, ~PlaneMask{0}, burst_);
      if (burst_.empty()) return;
    }
  }
  /// A stretch in which everything works, so that programs get somewhere.
  void talk() {
    for (unsigned round = in_.below(8); round > 0; --round) {
      for (unsigned side = 0; side < 2; ++side) {
        for (unsigned n = 0; n < 4; ++n) transmit(side, ~PlaneMask{0});
        for (const Packet& p : std::exchange(sides_[1 - side].incoming, {})) receive(1 - side, p);
      }
      now_ += std::chrono::microseconds(3);
      for (Side& s : sides_)
        if (s.engine->next_deadline() <= now_) s.engine->on_time(now_);
    }
  }
  void poll(unsigned side) {
    Side& s = sides_[side];
    std::array<Completion, 8> c;
    const CqId cq = choose(in_, s.cqs, CqId{77});
    (void)s.engine->poll_cq(cq, {c.data(), in_.below(9)});
    (void)s.engine->arm_cq(cq);
    Engine::Event e;
    while (in_.below(4) != 0 && s.engine->poll_event(e)) {
    }
  }

  Input& in_;
  Time now_{std::chrono::seconds(1)};
  std::array<Side, 2> sides_;
  DatagramSteps datagrams_{in_, sides_};
  wire::TxBurst burst_{32, 160};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  World world(in);
  for (unsigned n = 0; n < 400 && !in.done(); ++n) {
    world.step();
    world.check();
  }
  world.finish();
  return 0;
}
