// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mrc/engine/engine.hpp"

/// One engine against hand-made packets: what it sends can be looked at byte by byte, and what it
/// receives is built here.
namespace mrc::test {

using engine::Engine;
using engine::EngineOptions;

/// A packet that the engine sent, with its payload.
struct Sent {
  std::vector<std::uint8_t> bytes;
  Plane plane = 0;
  Ev ev{};
  std::uint8_t dscp = 0;
  Ecn ecn{};
  Time when{};
  wire::CopyId copy{};  ///< payload that the port may still read

  [[nodiscard]] const wire::Bth& bth() const { return wire::view_as<wire::Bth>(bytes); }
  [[nodiscard]] wire::Opcode opcode() const { return bth().opcode(); }
  [[nodiscard]] Psn psn() const { return bth().psn(); }
  [[nodiscard]] bool is_data() const { return wire::is_data(opcode()); }
  template <class P>
  [[nodiscard]] const P& as() const {
    REQUIRE(bytes.size() == sizeof(P));
    return wire::view_as<P>(bytes);
  }
  [[nodiscard]] const wire::SackPacket& sack() const { return as<wire::SackPacket>(); }
  [[nodiscard]] const wire::NackPacket& nack() const { return as<wire::NackPacket>(); }
  [[nodiscard]] const wire::AckPacket& ack() const { return as<wire::AckPacket>(); }
  [[nodiscard]] wire::WriteView write() const { return wire::view_write(bytes); }
};

using SentList = std::vector<Sent>;

/// The packets of one kind.
[[nodiscard]] inline SentList only(const SentList& list, wire::Opcode opcode) {
  SentList found;
  for (const Sent& s : list)
    if (s.opcode() == opcode) found.push_back(s);
  return found;
}
[[nodiscard]] inline SentList data_of(const SentList& list) {
  SentList found;
  for (const Sent& s : list)
    if (s.is_data()) found.push_back(s);
  return found;
}

/// What the other side of the connection is, and what it starts with.
struct SingleSetup {
  EngineOptions options{.start = Time{std::chrono::seconds(1)}, .rtt_probes = 0};
  std::uint64_t remote_tag = 0;  ///< 0: the peer is not an OpenMRC peer
  QpCapacity capacity{.send = 64, .receive = 64, .send_sges = 3, .inline_bytes = 64};
  QpAttributes attributes{.mtu = 1024, .dynamic_mpr = false};
  unsigned planes = 4;
  unsigned paths = 4;                   ///< per plane
  std::uint32_t remote_psn = 0xFFFFF0;  ///< first PSN that it sends
  bool remote_dynamic_mpr = false;
  bool remote_trim_nack = true;
  bool remote_solicited = false;
  std::uint8_t remote_mpr = 255;
  std::uint16_t remote_wimm = 1000;
  Access access = Access::local_write | Access::remote_write | Access::relaxed_ordering;
  unsigned receives = 16;
  bool rts = true;
};

/// With QpAttributes::timeout `n`, and so many retries.
[[nodiscard]] inline SingleSetup with_retries(unsigned n, unsigned linear, unsigned exponential) {
  SingleSetup s;
  s.attributes.timeout = static_cast<std::uint8_t>(n);
  s.attributes.retry_linear = static_cast<std::uint8_t>(linear);
  s.attributes.retry_exponential = static_cast<std::uint8_t>(exponential);
  return s;
}

class Single {
 public:
  using Setup = SingleSetup;
  static constexpr Qpn kRemote{0x010203};
  static constexpr std::uint64_t kTag = 0x77;

  explicit Single(const Setup& s = {})
      : setup(s),
        first{s.remote_psn},
        engine(s.options),
        now(s.options.start),
        target(1 << 20, 0xEE),
        source(1 << 20) {
    for (std::size_t i = 0; i < source.size(); ++i)
      source[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
    pd = *engine.alloc_pd();
    send_cq = *engine.create_cq(1024);
    receive_cq = *engine.create_cq(1024);
    rkey = *engine.register_memory(target.data(), target.size(), s.access, pd);
    lkey = *engine.register_memory(source.data(), source.size(), Access::none, pd);
    peer = add_peer();
    qpn = create();
    connect();
  }

  [[nodiscard]] PeerId add_peer() {
    engine::PeerSpec spec;
    spec.slot = 1;
    spec.planes = (PlaneMask{1} << setup.planes) - 1;
    for (unsigned p = 0; p < setup.planes; ++p) {
      spec.source_tags[p] = kTag + p;
      for (unsigned i = 0; i < setup.paths; ++i)
        spec.paths.push_back(
            {Ev{0x100 * (p + 1) + i}, static_cast<Plane>(p), static_cast<std::uint16_t>(i)});
    }
    return *engine.add_peer(spec);
  }
  [[nodiscard]] Qpn create() {
    engine::QpInit init;
    init.pd = pd;
    init.send_cq = send_cq;
    init.receive_cq = receive_cq;
    init.capacity = setup.capacity;
    init.attributes = setup.attributes;
    return *engine.create_qp(init);
  }
  [[nodiscard]] RemoteQp remote() const {
    RemoteQp r;
    r.peer = peer;
    r.qpn = kRemote;
    r.start_psn = first;
    r.mpr_dest = setup.remote_mpr;
    r.max_wimm_dest = setup.remote_wimm;
    r.dynamic_mpr = setup.remote_dynamic_mpr;
    r.trim_nack = setup.remote_trim_nack;
    r.solicited = setup.remote_solicited;
    r.tag = setup.remote_tag;
    return r;
  }
  void connect() {
    REQUIRE(engine.to_init(qpn) == Errc::ok);
    for (unsigned i = 0; i < setup.receives; ++i)
      REQUIRE(engine.post_receive(qpn, 1000 + i) == Errc::ok);
    REQUIRE(engine.to_rtr(qpn, remote()) == Errc::ok);
    if (setup.rts) REQUIRE(engine.to_rts(qpn, now) == Errc::ok);
    own = *engine.start_psn(qpn);
  }

  // ---- in

  /// A peer with a tag puts that of the queue pair into all packets to it, but for forged ones.
  void receive(std::vector<std::uint8_t> bytes, const wire::RxPacket& facts) {
    wire::RxPacket p = facts;
    if (setup.remote_tag != 0 && !forged && bytes.size() >= sizeof(wire::Bth)) {
      wire::Bth bth = wire::view_as<wire::Bth>(bytes);
      const wire::Tag tag(*engine.tag(qpn));
      tag.stamp(bth);
      std::memcpy(bytes.data(), &bth, sizeof bth);
      if (p.trim == wire::Trim::none) p.check = tag.check();
    }
    p.bytes = bytes;
    if (p.udp_length == 0) p.udp_length = static_cast<std::uint32_t>(bytes.size()) + 12;
    engine.receive(now, {&p, 1});
  }
  template <class P>
  void receive_control(const P& packet, Plane plane = 0) {
    std::vector<std::uint8_t> bytes(sizeof packet);
    std::memcpy(bytes.data(), &packet, sizeof packet);
    receive(bytes, from(plane));
  }
  [[nodiscard]] static wire::RxPacket from(Plane plane, Ecn ecn = Ecn::ect0) {
    wire::RxPacket p;
    p.source = kTag + plane;
    p.plane = plane;
    p.ecn = ecn;
    p.entropy = Ev{0xABC00000u + plane};
    return p;
  }

  /// A data packet for the engine's responder; PSN `n` counts from its first expected one.
  struct Data {
    std::uint32_t n = 0;
    wire::Opcode opcode = wire::Opcode::write_only;
    std::size_t offset = 0;  ///< into target
    std::uint32_t length = 64;
    std::uint32_t dma_length = 0;  ///< 0: length
    std::uint8_t fill = 0x11;
    bool ack_request = false, rtx = false, timestamp = true;
    std::uint16_t stamp = 0x4242;
    std::uint32_t rqmsn = 0, msn = 0, immediate = 0;
    std::uint32_t rkey = 0;  ///< 0: that of target
    Plane plane = 0;
    Ecn ecn = Ecn::ect0;
    wire::Trim trim = wire::Trim::none;
    bool placed = false, unsettled = false;  ///< by the port
    bool solicited = false;
    std::size_t cut = ~std::size_t{0};  ///< keep so many bytes
  };
  [[nodiscard]] std::vector<std::uint8_t> build(const Data& d) const {
    wire::WriteHeader h;
    h.opcode = d.opcode;
    h.pad = static_cast<std::uint8_t>((4 - d.length % 4) % 4);
    h.ack_request = d.ack_request;
    h.rtx = d.rtx;
    h.solicited = d.solicited;
    h.has_timestamp = d.timestamp;
    h.timestamp = d.stamp;
    h.dqp = qpn;
    h.psn = first + static_cast<std::int32_t>(d.n);
    h.rqmsn = Rqmsn{d.rqmsn};
    h.msn = Msn{d.msn};
    h.va = reinterpret_cast<std::uint64_t>(target.data()) + d.offset;
    h.rkey = d.rkey == 0 ? rkey : d.rkey;
    h.dma_length = d.dma_length == 0 ? d.length : d.dma_length;
    h.immediate = d.immediate;
    std::vector<std::uint8_t> bytes(wire::kMaxTransportHeader);
    bytes.resize(wire::build_write_header(bytes.data(), h));
    bytes.resize(bytes.size() + d.length, d.fill);
    bytes.resize(bytes.size() + h.pad, 0);
    return bytes;
  }
  void data(const Data& d) {
    std::vector<std::uint8_t> bytes = build(d);
    wire::RxPacket p = from(d.plane, d.ecn);
    p.udp_length = static_cast<std::uint32_t>(bytes.size()) + 12;
    p.trim = d.trim;
    p.unsettled = d.unsettled;
    if (d.placed) {
      p.placed = d.length;
      bytes.resize(static_cast<std::size_t>(wire::view_write(bytes).payload.data() - bytes.data()));
      bytes[1] &= 0xCF;  // pad
    }
    bytes.resize(std::min(bytes.size(), d.cut));
    receive(bytes, p);
  }

  /// A SACK for the engine's requester; `cack` counts from the first PSN it sent, -1: none.
  struct SackOf {
    std::int32_t cack = -1;
    std::int16_t offset = 1;
    std::uint64_t bitmap = 0;
    const Sent* trigger = nullptr;  ///< reflected: PSN, EV, time stamp
    wire::SackMark mark = wire::SackMark::none;
    std::uint8_t mpr = 0;
    std::uint32_t received = 0;  ///< bytes
    Plane plane = 0;
  };
  void sack(const SackOf& s) {
    const Psn cack = own + s.cack;
    wire::SackPacket p{wire::Bth::make(wire::Opcode::sack, qpn, cack), {}, {}};
    p.seth.set_cack_psn(cack);
    p.seth.set_m(s.mark);
    p.seth.set_mpr(s.mpr);
    p.seth.set_sack_offset(s.offset);
    p.seth.set_sack_bitmap(s.bitmap);
    if (s.trigger != nullptr) {
      p.seth.set_ack_psn_offset(static_cast<std::int16_t>(s.trigger->psn() - cack));
      p.seth.set_entropy(s.trigger->ev);
      p.cc.set_tx_timestamp(s.trigger->write().tseth->tx_timestamp.value());
    }
    p.cc.set_rcvd_bytes((s.received + 255) / 256);
    receive_control(p, s.plane);
  }
  void nack(const Sent& about, wire::NackReason reason) {
    wire::NackPacket p{wire::Bth::make(wire::Opcode::nack, qpn, about.psn()), {}};
    p.neth.set_reason(reason);
    p.neth.set_nack_psn(about.psn());
    p.neth.set_entropy(about.ev);
    p.neth.set_tx_timestamp(about.write().tseth->tx_timestamp.value());
    receive_control(p, about.plane);
  }
  /// A Transport ACK for message `msn`, whose last packet is the `last`-th sent.
  void ack(std::uint16_t msn, std::uint32_t last, wire::Syndrome code = wire::Syndrome::ack) {
    wire::AckPacket p{};
    p.bth = wire::Bth::make(wire::Opcode::acknowledge, qpn, own + static_cast<std::int32_t>(last));
    p.aeth.set_code(code);
    p.aeth.msn = msn;
    receive_control(p);
  }

  // ---- application

  struct Post {
    std::uint64_t id = 1;
    std::uint32_t length = 100;
    bool with_immediate = false, signaled = true, inlined = false, solicited = false;
    std::uint32_t immediate = 0;
    std::size_t offset = 0;
  };
  Errc post(const Post& m) {
    const Sge sge{source.data() + m.offset, m.length, lkey};
    SendRequest r;
    r.wr_id = m.id;
    if (m.length > 0) r.sges = {&sge, 1};
    r.remote = {0x5000'0000, 0x1234};
    if (m.with_immediate) r.opcode = SendOpcode::write_imm;
    r.immediate = m.immediate;
    r.flags.signaled = m.signaled;
    r.flags.inline_data = m.inlined;
    r.flags.solicited = m.solicited;
    return engine.post_send(qpn, r, now);
  }
  std::vector<Completion> poll(CqId cq) {
    std::vector<Completion> all(2048);
    all.resize(engine.poll_cq(cq, all));
    return all;
  }
  std::vector<Completion> sends() { return poll(send_cq); }
  std::vector<Completion> receives() { return poll(receive_cq); }

  // ---- out

  /// What the engine sends now.
  SentList transmit(PlaneMask planes = ~PlaneMask{0}) {
    SentList all;
    for (;;) {
      burst.clear();
      engine.poll_transmit(now, planes, burst);
      if (burst.empty()) return all;
      for (const auto& p : burst.packets()) {
        Sent s;
        s.bytes.assign(p.header.begin(), p.header.begin() + p.header_length);
        for (const auto& sge : burst.sges(p))
          s.bytes.insert(s.bytes.end(), sge.data, sge.data + sge.length);
        s.bytes.insert(s.bytes.end(), p.pad, 0);
        s.plane = p.plane;
        s.ev = p.entropy;
        s.dscp = p.dscp;
        s.ecn = p.ecn;
        s.when = now;
        s.copy = p.copy;
        all.push_back(std::move(s));
      }
    }
  }
  /// Lets time pass with all timers; what is sent meanwhile.
  SentList advance(Duration d) {
    const Time end = now + d;
    SentList all = transmit();
    while (engine.next_deadline() <= end) {
      now = std::max(now, engine.next_deadline());
      engine.on_time(now);
      for (Sent& s : transmit()) all.push_back(std::move(s));
    }
    now = end;
    return all;
  }

  [[nodiscard]] const engine::QueuePairState& qp() const { return *engine.find_qp(qpn); }
  [[nodiscard]] engine::Peer& peer_state() { return *engine.find_peer(peer); }
  [[nodiscard]] path::PathIndex path_of(const Sent& s) { return peer_state().paths.find(s.ev); }

  Setup setup;
  const Psn first;  ///< that the engine expects
  Psn own;          ///< first that it sends
  Engine engine;
  Time now;
  std::vector<std::uint8_t> target, source;
  PdId pd{};
  CqId send_cq{}, receive_cq{};
  std::uint32_t rkey = 0, lkey = 0;
  PeerId peer{};
  Qpn qpn{};
  bool forged = false;  ///< packets come from somebody else, who knows no tag
  wire::TxBurst burst{64, 1024};
};

}  // namespace mrc::test
