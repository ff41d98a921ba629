// SPDX-License-Identifier: Apache-2.0
#include "support/single.hpp"

#include <algorithm>

namespace mrc::test {

Single::Single(const Setup& s)
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

PeerId Single::add_peer() {
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

Qpn Single::create() {
  engine::QpInit init;
  init.pd = pd;
  init.send_cq = send_cq;
  init.receive_cq = receive_cq;
  init.capacity = setup.capacity;
  init.attributes = setup.attributes;
  init.as_verbs = setup.as_verbs;
  return *engine.create_qp(init);
}

RemoteQp Single::remote() const {
  RemoteQp r;
  r.peer = peer;
  r.qpn = kRemote;
  r.start_psn = first;
  r.mpr_dest = setup.remote_mpr;
  r.max_wimm_dest = setup.remote_wimm;
  r.dynamic_mpr = setup.remote_dynamic_mpr;
  r.trim_nack = setup.remote_trim_nack;
  r.solicited = setup.remote_solicited;
  r.rc = setup.rc;
  r.tag = setup.remote_tag;
  return r;
}

void Single::connect() {
  REQUIRE(engine.to_init(qpn) == Errc::ok);
  for (unsigned i = 0; i < setup.receives; ++i)
    REQUIRE(engine.post_receive(qpn, 1000 + i) == Errc::ok);
  REQUIRE(engine.to_rtr(qpn, remote()) == Errc::ok);
  if (setup.rts) REQUIRE(engine.to_rts(qpn, now) == Errc::ok);
  own = *engine.start_psn(qpn);
}

void Single::connect(Qpn q, const RemoteQp& to) {
  REQUIRE(engine.to_init(q) == Errc::ok);
  REQUIRE(engine.to_rtr(q, to) == Errc::ok);
  REQUIRE(engine.to_rts(q, now) == Errc::ok);
}

void Single::receive(std::vector<std::uint8_t> bytes, const wire::RxPacket& facts) {
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

wire::RxPacket Single::from(Plane plane, Ecn ecn) {
  wire::RxPacket p;
  p.source = kTag + plane;
  p.plane = plane;
  p.ecn = ecn;
  p.entropy = Ev{0xABC00000u + plane};
  return p;
}

std::vector<std::uint8_t> Single::build(const Data& d) const {
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

void Single::data(const Data& d) {
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

void Single::sack(const SackOf& s) {
  const Psn cack = own + s.cack;
  wire::SackPacket p{wire::Bth::make(wire::Opcode::sack, qpn, cack), {}, {}};
  p.seth.set_cack_psn(cack);
  p.seth.set_m(s.mark);
  p.seth.mpr = s.mpr;
  p.seth.set_sack_offset(s.offset);
  p.seth.sack_bitmap = s.bitmap;
  if (s.trigger != nullptr) {
    p.seth.set_ack_psn_offset(static_cast<std::int16_t>(s.trigger->psn() - cack));
    p.seth.set_entropy(s.trigger->ev);
    p.cc.tx_timestamp = s.trigger->write().tseth->tx_timestamp.value();
  }
  p.cc.rcvd_bytes = (s.received + 255) / 256;
  receive_control(p, s.plane);
}

void Single::answer_probe(const Sent& probe, std::int32_t cack) {
  wire::SackPacket p{wire::Bth::make(wire::Opcode::sack, qpn, own + cack), {}, {}};
  p.seth.set_cack_psn(own + cack);
  p.seth.set_probe(true);
  p.seth.set_probe_id(probe.as<wire::ProbePacket>().peth.probe_id.value());
  p.cc.tx_timestamp = probe.as<wire::ProbePacket>().peth.tx_timestamp.value();
  receive_control(p, probe.plane);
}

void Single::nack(const Sent& about, wire::NackReason reason, std::uint8_t timer) {
  wire::NackPacket p{wire::Bth::make(wire::Opcode::nack, qpn, about.psn()), {}};
  p.neth.reason = reason;
  if (reason == wire::NackReason::receiver_not_ready) p.neth.vendor_info = timer;
  p.neth.set_nack_psn(about.psn());
  p.neth.set_entropy(about.ev);
  p.neth.tx_timestamp = about.write().tseth->tx_timestamp.value();
  receive_control(p, about.plane);
}

void Single::ack(std::uint16_t msn, std::uint32_t last, wire::Syndrome code) {
  wire::AckPacket p{};
  p.bth = wire::Bth::make(wire::Opcode::acknowledge, qpn, own + static_cast<std::int32_t>(last));
  p.aeth.set_code(code);
  p.aeth.msn = msn;
  receive_control(p);
}

Errc Single::post(const Post& m) {
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

std::vector<Completion> Single::poll(CqId cq) {
  std::vector<Completion> all(2048);
  all.resize(engine.poll_cq(cq, all));
  return all;
}

SentList Single::transmit(PlaneMask planes) {
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

SentList Single::advance(Duration d) {
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

}  // namespace mrc::test
