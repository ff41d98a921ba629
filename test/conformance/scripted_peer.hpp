// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mrc/engine/engine.hpp"
#include "mrc/wire/transport.hpp"

/// One engine whose peer is played by the test, packet by packet, in virtual time: for rules about
/// what exactly is sent when, and what exactly a received packet does.
namespace mrc::test {

/// A packet that the engine sent.
struct Sent {
  Time at;
  wire::TxPacket head;
  std::vector<std::uint8_t> bytes;  ///< BTH .. payload and pad

  [[nodiscard]] const wire::Bth& bth() const { return wire::view_as<wire::Bth>(Bytes{bytes}); }
  [[nodiscard]] wire::Opcode opcode() const { return bth().opcode(); }
  [[nodiscard]] Psn psn() const { return bth().psn(); }
  [[nodiscard]] wire::WriteView write() const { return wire::view_write(Bytes{bytes}); }
  template <class P>
  [[nodiscard]] const P& as() const {
    return wire::view_as<P>(Bytes{bytes});
  }
  [[nodiscard]] std::uint32_t udp_length() const {
    return static_cast<std::uint32_t>(bytes.size()) + 8 + 4;
  }
};

/// How a packet comes in.
struct Facts {
  Plane plane = 0;
  Ev entropy{0x1001};
  Ecn ecn = Ecn::not_ect;
  wire::Trim trim = wire::Trim::none;
  std::uint64_t source = 0x200;  ///< plus the plane; 0: unknown
};

/// A data packet for the engine. The default is a message of one packet.
struct Data {
  Psn psn;
  std::vector<std::uint8_t> payload = std::vector<std::uint8_t>(8, 0x5A);
  std::uint64_t offset = 0;  ///< in ScriptedPeer::memory
  wire::Opcode opcode = wire::Opcode::write_only;
  std::uint32_t dma_length = 0;  ///< 0: the payload's
  std::uint16_t msn = 0, rqmsn = 0;
  std::uint32_t immediate = 0;
  bool ack = false, rtx = false;
  std::uint16_t timestamp = 0xBEEF;
  std::uint32_t rkey = 0;  ///< 0: the region's
};

/// A SACK for the engine. The default acknowledges nothing above `cack`.
struct SackSpec {
  Psn cack;
  Psn trigger;
  std::uint16_t timestamp = 0;
  std::int16_t offset = 1;
  std::uint64_t bitmap = 0;
  wire::SackMark mark = wire::SackMark::none;
  Ev entropy{};
  std::uint32_t received = 0;  ///< unit 256 B
  std::uint8_t mpr = 0;
};

class ScriptedPeer {
 public:
  struct Setup {
    unsigned planes = 2;
    unsigned paths = 4;  ///< per plane; EV 0x1000 x (plane + 1) + path
    engine::EngineOptions options = unlimited();
    QpAttributes attributes{.mtu = 1024, .timeout = 10};
    QpCapacity capacity{.send = 64, .receive = 16, .send_sges = 2, .inline_bytes = 64};
    Access access = Access::local_write | Access::remote_write | Access::relaxed_ordering;
    RemoteQp remote = {
        .qpn = Qpn{0x01'00'07}, .start_psn = Psn{0x1000}, .dynamic_mpr = true, .trim_nack = true};
  };
  /// No congestion control: nothing waits for a window that a test does not speak of.
  static engine::EngineOptions unlimited() {
    engine::EngineOptions o;
    o.cc.algorithm = cc::Algorithm::none;
    return o;
  }

  explicit ScriptedPeer(const Setup& setup) : engine(with_start(setup.options)), memory(1 << 20) {
    engine::PeerSpec spec;
    spec.slot = 1;
    spec.planes = (PlaneMask{1} << setup.planes) - 1;
    for (unsigned p = 0; p < setup.planes; ++p) {
      spec.source_tags[p] = 0x200 + p;
      for (unsigned i = 0; i < setup.paths; ++i)
        spec.paths.push_back(
            {Ev{0x1000 * (p + 1) + i}, static_cast<Plane>(p), static_cast<std::uint16_t>(i)});
    }
    peer = *engine.add_peer(spec);
    pd = *engine.alloc_pd();
    key = *engine.register_memory(memory.data(), memory.size(), setup.access, pd);
    send_cq = *engine.create_cq(256);
    receive_cq = *engine.create_cq(256);
    remote = setup.remote;
    remote.peer = peer;
    qpn = add_qp(setup, remote);
  }
  ScriptedPeer() : ScriptedPeer(Setup{}) {}

  Qpn add_qp(const Setup& setup, RemoteQp to) {
    to.peer = peer;
    engine::QpInit init;
    init.pd = pd;
    init.send_cq = send_cq;
    init.receive_cq = receive_cq;
    init.capacity = setup.capacity;
    init.attributes = setup.attributes;
    const Qpn n = *engine.create_qp(init);
    REQUIRE(engine.to_init(n) == Errc::ok);
    REQUIRE(engine.to_rtr(n, to) == Errc::ok);
    REQUIRE(engine.to_rts(n, now) == Errc::ok);
    return n;
  }

  [[nodiscard]] const engine::QueuePairState& qp() const { return *engine.find_qp(qpn); }
  [[nodiscard]] path::PathSet& paths() { return engine.find_peer(peer)->paths; }
  /// The path with an EV.
  [[nodiscard]] path::Health health(Ev ev) { return paths().health(paths().find(ev)); }

  // ---- what the application does

  Errc post(std::uint32_t length, bool immediate = false, std::uint64_t wr_id = 0) {
    const Sge piece{memory.data(), length, key};
    WriteRequest r;
    r.wr_id = wr_id;
    if (length > 0) r.pieces = {&piece, 1};
    r.remote = {0xAB'0000'0000, 0x1234'5678};
    r.with_immediate = immediate;
    r.immediate = 0xCAFE;
    return engine.post_write(qpn, r, now);
  }
  std::vector<Completion> completions(CqId cq) {
    std::vector<Completion> all(64);
    all.resize(engine.poll_cq(cq, all));
    return all;
  }

  // ---- what the network does

  /// Lets time pass; what is sent meanwhile is kept for sent().
  void pass(Duration d) {
    const Time end = now + d;
    for (drain(); engine.next_deadline() <= end; drain()) {
      now = std::max(now, engine.next_deadline());
      engine.on_time(now);
    }
    now = end;
  }
  /// What was sent since the last call.
  std::vector<Sent> sent() {
    drain();
    return std::exchange(log_, {});
  }
  /// Only the packets with this opcode.
  std::vector<Sent> sent(wire::Opcode opcode) {
    auto all = sent();
    std::erase_if(all, [opcode](const Sent& s) { return s.opcode() != opcode; });
    return all;
  }
  /// Only the data packets.
  std::vector<Sent> sent_data() {
    auto all = sent();
    std::erase_if(all, [](const Sent& s) { return !wire::is_write(s.opcode()); });
    return all;
  }

  void receive(Bytes bytes, const Facts& facts = {}) {
    wire::RxPacket p;
    p.bytes = bytes;
    p.source = facts.source == 0 ? 0 : facts.source + facts.plane;
    p.udp_length = static_cast<std::uint32_t>(bytes.size()) + 8 + 4;
    p.entropy = facts.entropy;
    p.plane = facts.plane;
    p.ecn = facts.ecn;
    p.trim = facts.trim;
    engine.receive(now, {&p, 1});
  }
  template <class P>
  void receive_packet(const P& packet, const Facts& facts = {}) {
    receive(Bytes{reinterpret_cast<const std::uint8_t*>(&packet), sizeof packet}, facts);
  }
  [[nodiscard]] std::vector<std::uint8_t> bytes_of(const Data& d) const {
    wire::WriteHeader h;
    h.opcode = d.opcode;
    h.pad = static_cast<std::uint8_t>((4 - d.payload.size() % 4) % 4);
    h.ack_request = d.ack;
    h.rtx = d.rtx;
    h.has_timestamp = true;
    h.timestamp = d.timestamp;
    h.dqp = qpn;
    h.psn = d.psn;
    h.rqmsn = Rqmsn{d.rqmsn};
    h.msn = Msn{d.msn};
    h.va = reinterpret_cast<std::uint64_t>(memory.data()) + d.offset;
    h.rkey = d.rkey != 0 ? d.rkey : key;
    h.dma_length = d.dma_length != 0 ? d.dma_length : static_cast<std::uint32_t>(d.payload.size());
    h.immediate = d.immediate;
    std::vector<std::uint8_t> bytes(wire::kMaxWriteHeader);
    bytes.resize(wire::build_write_header(bytes.data(), h));
    bytes.insert(bytes.end(), d.payload.begin(), d.payload.end());
    bytes.insert(bytes.end(), h.pad, 0);
    return bytes;
  }
  void receive(const Data& d, const Facts& facts = {}) { receive(Bytes{bytes_of(d)}, facts); }
  void receive(const SackSpec& s, const Facts& facts = {}) {
    wire::SackPacket p{wire::Bth::make(wire::Opcode::sack, qpn, s.cack), {}, {}};
    p.seth.set_m(s.mark);
    p.seth.set_ack_psn_offset(static_cast<std::int16_t>(s.trigger - s.cack));
    p.seth.set_entropy(s.entropy);
    p.seth.set_cack_psn(s.cack);
    p.seth.set_mpr(s.mpr);
    p.seth.set_sack_offset(s.offset);
    p.seth.set_sack_bitmap(s.bitmap);
    p.cc.set_tx_timestamp(s.timestamp);
    p.cc.set_rcvd_bytes(s.received);
    receive_packet(p, facts);
  }
  /// A SACK for one packet that the engine sent; everything up to `cack` is in.
  void receive_sack(const Sent& trigger, Psn cack, wire::SackMark mark = wire::SackMark::none) {
    SackSpec s;
    s.cack = cack;
    s.trigger = trigger.psn();
    s.timestamp = trigger.write().tseth->tx_timestamp;
    s.entropy = trigger.head.entropy;
    s.mark = mark;
    if (trigger.psn().after(cack)) s.bitmap = std::uint64_t{1} << (trigger.psn() - cack - 1);
    receive(s);
  }
  void receive_nack(const Sent& about, wire::NackReason reason) {
    wire::NackPacket p{wire::Bth::make(wire::Opcode::nack, qpn, about.psn()), {}};
    p.neth.set_reason(reason);
    p.neth.set_entropy(about.head.entropy);
    p.neth.set_nack_psn(about.psn());
    p.neth.set_tx_timestamp(about.write().tseth->tx_timestamp);
    receive_packet(p);
  }
  void receive_ack(Psn psn, std::uint16_t msn, wire::Syndrome code = wire::Syndrome::ack) {
    wire::AckPacket p{wire::Bth::make(wire::Opcode::acknowledge, qpn, psn), {}};
    p.aeth.set_code(code);
    p.aeth.msn = msn;
    receive_packet(p);
  }

  engine::Engine engine;
  std::vector<std::uint8_t> memory;  ///< registered; written to by data that comes in
  Time now = kStart;
  PeerId peer{};
  PdId pd{};
  std::uint32_t key = 0;
  CqId send_cq{}, receive_cq{};
  Qpn qpn{};
  RemoteQp remote;

 private:
  static constexpr Time kStart{std::chrono::seconds(1)};

  static engine::EngineOptions with_start(engine::EngineOptions o) {
    o.start = kStart;
    return o;
  }
  void drain() {
    for (;;) {
      burst_.clear();
      engine.poll_transmit(now, ~PlaneMask{0}, burst_);
      if (burst_.empty()) return;
      for (const wire::TxPacket& p : burst_.packets()) {
        Sent s{now, p, {p.header.begin(), p.header.begin() + p.header_length}};
        for (const auto& piece : burst_.pieces(p))
          s.bytes.insert(s.bytes.end(), piece.data, piece.data + piece.length);
        s.bytes.insert(s.bytes.end(), p.pad, 0);
        log_.push_back(std::move(s));
      }
    }
  }

  wire::TxBurst burst_{64, 1024};
  std::vector<Sent> log_;
};

}  // namespace mrc::test
