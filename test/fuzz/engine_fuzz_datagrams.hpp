// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "fuzz/engine_fuzz_rig.hpp"
#include "mrc/datagram.hpp"
#include "mrc/resolve/datagrams.hpp"

// The steps of engine_fuzz.cpp that are about datagrams.
namespace mrc::fuzz {

class DatagramSteps {
 public:
  DatagramSteps(Input& in, std::array<Side, 2>& sides) : in_(in), sides_(sides) {}

  /// A queue pair in RTS with receives, and where it can send to, so that every program starts
  /// where something can happen.
  void start(unsigned side) {
    make_destination(side, 2);
    make_qp(side, sides_[side].pds[0], sides_[side].cqs[0]);
    to_rts(side, sides_[side].datagram_qps[0]);
    for (std::uint32_t n = in_.below(4); n > 0; --n) post_receive(side);
  }

  void make_destination(unsigned side, std::uint32_t paths) {
    DestinationSpec spec;
    spec.peer = PeerId{100};
    for (std::uint32_t i = paths; i > 0; --i)
      spec.paths.push_back({Ev{i}, static_cast<Plane>(i % 2), static_cast<std::uint16_t>(i)});
    const auto r = add_destination(*sides_[side].engine, spec);
    if (r) sides_[side].destinations.push_back(r.value());
  }
  /// Makes, changes or destroys a datagram queue pair or a destination.
  void change(unsigned side) {
    Side& s = sides_[side];
    Engine& e = *s.engine;
    const Qpn q = choose(in_, s.datagram_qps, other_qp(side));
    DatagramChange change;
    switch (in_.below(6)) {
      case 0:
        make_qp(side, choose(in_, s.pds, PdId{77}), choose(in_, s.cqs, CqId{77}));
        return;
      case 1:
        change.state = static_cast<QpState>(in_.below(5));
        if (in_.below(4) == 3) change.q_key = in_.below(2);
        (void)modify_datagram_qp(e, q, change);
        return;
      case 2:
        return drop_one(in_, s.datagram_qps, [&](Qpn d) { return destroy_datagram_qp(e, d); });
      case 3:
        return make_destination(side, in_.below(4));
      case 4:
        return drop_one(in_, s.destinations,
                        [&](DestinationId d) { return remove_destination(e, d); });
      default:
        to_rts(side, q);
    }
  }
  void post(unsigned side) {
    Side& s = sides_[side];
    std::array<Sge, 3> sges;
    DatagramRequest r;
    r.sges = draw_sges(in_, s, sges, 0).sges;
    r.remote_qpn = choose(in_, sides_[1 - side].datagram_qps, other_qp(1 - side));
    r.remote_q_key = in_.below(8) == 7 ? 1 : 0;
    const std::uint8_t flags = in_.byte();
    if ((flags & 1) != 0) r.immediate = flags;
    r.flags.signaled = (flags & 2) != 0;
    r.flags.inline_data = (flags & 12) == 12;
    r.to.traffic_class = in_.byte();
    const DestinationId to = choose(in_, s.destinations, DestinationId{9});
    (void)post_datagram(*s.engine, choose(in_, s.datagram_qps, Qpn{7}), r, to);
  }
  void post_receive(unsigned side) {
    Side& s = sides_[side];
    std::array<Sge, 3> sges;
    const DrawnSges to = draw_sges(in_, s, sges, 1);
    const Qpn q = choose(in_, s.datagram_qps, Qpn{7});
    const ReceiveRequest r{in_.byte(), to.sges};
    // What is received there is no breach of the arena.
    if (post_datagram_receive(*s.engine, q, r) == Errc::ok && !to.sges.empty())
      s.arena.grant(to.slot);
  }

 private:
  void make_qp(unsigned side, PdId pd, CqId cq) {
    Side& s = sides_[side];
    DatagramInit init;
    init.pd = pd;
    init.send_cq = init.receive_cq = cq;
    init.capacity = {1 + in_.below(20), in_.below(20), in_.below(4), in_.below(100), in_.below(4)};
    init.mtu = 256;
    if (const auto r = create_datagram_qp(*s.engine, init)) s.datagram_qps.push_back(r.value());
  }
  void to_rts(unsigned side, Qpn q) {
    Engine& e = *sides_[side].engine;
    (void)modify_datagram_qp(e, q, {QpState::init, 0u, {}});
    (void)modify_datagram_qp(e, q, {QpState::rtr, {}, {}});
    (void)modify_datagram_qp(e, q, {QpState::rts, {}, {}});
  }
  /// A queue pair of the other kind.
  Qpn other_qp(unsigned side) { return choose(in_, sides_[side].qps, Qpn{in_.byte()}); }

  Input& in_;
  std::array<Side, 2>& sides_;
};

}  // namespace mrc::fuzz
