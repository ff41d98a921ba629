// SPDX-License-Identifier: Apache-2.0
// Who may cause what (docs/security.md): packets of hosts that are no peer, of those who send in a
// peer's name, and of peers. And peers of other makes: what they count and number in their own way
// must not matter (mrc-1.0 [C-15], [O-15]).
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/brief.hpp"
#include "support/single.hpp"
#include "support/steps.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::EndpointOp;
using wire::NackReason;
using wire::Opcode;

namespace strangers_test {

/// Who sends a packet to a queue pair.
enum class PacketSource {
  nobody,  ///< its address is no peer's
  forger,  ///< in the name of an OpenMRC peer, whose tag it does not know
  other,   ///< a peer of another make, or whoever sends in its name
  peer     ///< an OpenMRC peer
};
constexpr PacketSource kPacketSources[] = {PacketSource::nobody, PacketSource::forger,
                                           PacketSource::other, PacketSource::peer};

/// An engine to which somebody sends one packet after having been sent one of 100 bytes, `sent`.
struct Visited : Single {
  explicit Visited(PacketSource who) : Single(setup_for(who)), sender(who) {
    forged = who == PacketSource::forger;
    REQUIRE(post({}) == Errc::ok);
    sent = data_of(transmit()).at(0);
  }
  static Setup setup_for(PacketSource who) {
    Setup s;
    s.options.unconnected_requests = 1;
    if (who == PacketSource::forger || who == PacketSource::peer)
      s.remote_tag = 0x1234'5678'9ABC'DEF0;
    return s;
  }
  void hand_in(std::vector<std::uint8_t> bytes, wire::RxPacket facts = Single::from(0)) {
    if (sender == PacketSource::nobody) facts.source = 0x9999;
    receive(std::move(bytes), facts);
  }
  template <class P>
  void hand_in(const P& packet) {
    std::vector<std::uint8_t> bytes(sizeof packet);
    std::memcpy(bytes.data(), &packet, sizeof packet);
    hand_in(std::move(bytes));
  }
  void ask(Qpn to, EndpointOp op, PlaneMask planes = 0) {
    wire::EndpointRequestPacket r{wire::Bth::make(Opcode::endpoint_request, to, Psn{77}), {}};
    r.erth.set_op(op);
    r.erth.vendor_info = 1;  // the peer's slot
    r.erth.port_status_mask = planes;
    forged = forged || to == kEndpointQpn;  // names no connection, so nobody's tag is in it
    if (sender == PacketSource::peer) r.erth.tag = wire::Tag(*engine.tag(qpn)).endpoint();
    hand_in(r);
  }
  void refuse(NackReason reason) {
    wire::NackPacket p{wire::Bth::make(Opcode::nack, qpn, own), {}};
    p.neth.reason = reason;
    p.neth.set_nack_psn(own);
    p.neth.set_entropy(sent.ev);
    p.neth.tx_timestamp = sent.write().tseth->tx_timestamp.value();
    hand_in(p);
  }
  void answer(wire::Syndrome code) {
    wire::AckPacket p{wire::Bth::make(Opcode::acknowledge, qpn, own), {}};
    p.aeth.set_code(code);
    hand_in(p);
  }
  /// What has come of it, in words; the counter that it was dropped under.
  std::string outcome() {
    const DropStats& d = engine.stats().drops;
    const SentList out = transmit();
    wire::UnconnectedRequest request;
    std::string all;
    const auto note = [&all](bool happened, const char* what) {
      if (happened) all += (all.empty() ? "" : ", ") + std::string(what);
    };
    note(target[0] != 0xEE, "written");
    note(!receives().empty() && qp().state == QpState::rts, "received");
    note(!sends().empty() && qp().state == QpState::rts, "completed");
    note(qp().tx.inflight == 0 && qp().state == QpState::rts, "reported");
    note(!data_of(out).empty(), "sent again");
    note(out.size() > data_of(out).size(), "answered");
    note(peer_state().remote_up != ~PlaneMask{0}, "planes out");
    note(engine.stats().port_updates_received != 0 && peer_state().remote_up == ~PlaneMask{0},
         "hint");
    note(engine.endpoint().poll_unconnected_request(request), "driver");
    note(qp().state != QpState::rts, "ends");
    note(d.foreign != 0, "foreign");
    note(d.bad_tag + d.bad_icrc != 0, "tag");
    note(d.malformed != 0, "malformed");
    note(d.bad_key != 0, "bad key");
    note(d.refused_hint != 0, "refused");
    note(d.stale != 0, "stale");
    return all;
  }
  const PacketSource sender;
  Sent sent;
};

/// A kind of packet, right in all but what its name says, and what comes of it from each sender.
struct PacketKind {
  const char* name;
  void (*send)(Visited&);
  const char* outcome[4];  ///< in the order of kPacketSources
};
const PacketKind kPacketKinds[] = {
    {"data",
     [](Visited& v) { v.hand_in(v.build({.n = 0})); },
     {"foreign", "tag", "written, answered", "written, answered"}},
    {"data with immediate",
     [](Visited& v) { v.hand_in(v.build({.n = 0, .opcode = Opcode::write_only_imm})); },
     {"foreign", "tag", "written, received, answered", "written, received, answered"}},
    {"data, wrong key",
     [](Visited& v) { v.hand_in(v.build({.n = 0, .rkey = v.rkey ^ 1})); },
     {"foreign", "tag", "bad key", "answered, ends"}},
    {"data, longer than the MTU",
     [](Visited& v) { v.hand_in(v.build({.length = 5000})); },
     {"foreign", "tag", "answered, ends", "answered, ends"}},
    {"data, trimmed",
     [](Visited& v) {
       wire::RxPacket facts = Single::from(0);
       facts.trim = wire::Trim::trimmed;
       std::vector<std::uint8_t> head = v.build({.n = 0});
       head.resize(sizeof(wire::Bth));
       v.hand_in(head, facts);
     },
     {"foreign", "tag", "answered", "answered"}},
    {"SACK",
     [](Visited& v) {
       wire::SackPacket p{wire::Bth::make(Opcode::sack, v.qpn, v.own), {}, {}};
       p.seth.set_cack_psn(v.own);
       v.hand_in(p);
     },
     {"foreign", "tag", "reported", "reported"}},
    {"SACK for a probe that was not sent",
     [](Visited& v) {
       wire::SackPacket p{wire::Bth::make(Opcode::sack, v.qpn, v.own), {}, {}};
       p.seth.set_cack_psn(v.own);
       p.seth.set_probe(true);
       p.seth.set_probe_id(0xBEEF);
       v.hand_in(p);
     },
     {"foreign", "tag", "stale", "stale"}},
    {"NACK",
     [](Visited& v) { v.refuse(NackReason::trimmed); },
     {"foreign", "tag", "sent again", "sent again"}},
    {"NACK from ERR",
     [](Visited& v) { v.refuse(NackReason::unexp_event); },
     {"foreign", "tag", "ends", "ends"}},
    {"Transport ACK",
     [](Visited& v) { v.answer(wire::Syndrome::ack); },
     {"foreign", "tag", "completed, reported", "completed, reported"}},
    {"NAK",
     [](Visited& v) { v.answer(wire::Syndrome::remote_operational_error); },
     {"foreign", "tag", "ends", "ends"}},
    {"reliability probe",
     [](Visited& v) {
       v.hand_in(wire::ProbePacket{wire::Bth::make(Opcode::probe, v.qpn, Psn{}), {}});
     },
     {"foreign", "tag", "answered", "answered"}},
    {"EV probe",
     [](Visited& v) { v.ask(kEndpointQpn, EndpointOp::ev_probe); },
     {"driver", "driver", "answered", "driver"}},
    {"EV probe to the queue pair",
     [](Visited& v) { v.ask(v.qpn, EndpointOp::ev_probe); },
     {"malformed", "tag", "malformed", "answered"}},
    {"unknown request",
     [](Visited& v) { v.ask(kEndpointQpn, static_cast<EndpointOp>(3)); },
     {"malformed", "malformed", "malformed", "malformed"}},
    {"port status",
     [](Visited& v) { v.ask(kEndpointQpn, EndpointOp::port_status, 1); },
     {"driver", "driver", "answered, hint", "driver"}},
    {"port status that leaves no plane",
     [](Visited& v) { v.ask(kEndpointQpn, EndpointOp::port_status, 0xFFFF'FFF0); },
     {"driver", "driver", "refused", "driver"}},
    {"port status to the queue pair",
     [](Visited& v) { v.ask(v.qpn, EndpointOp::port_status, 1); },
     {"malformed", "tag", "malformed", "answered, planes out"}},
    {"port status to the queue pair that leaves no plane",
     [](Visited& v) { v.ask(v.qpn, EndpointOp::port_status); },
     {"malformed", "tag", "malformed", "refused"}},
};

/// What a responder may put into CC_STATE.rcvd_bytes.
enum class Counts { nominal, udp_length, payload, frames, nothing, too_much };
constexpr Counts kAllCounts[] = {Counts::nominal, Counts::udp_length, Counts::payload,
                                 Counts::frames,  Counts::nothing,    Counts::too_much};

[[nodiscard]] std::uint32_t counted(const engine::QueuePairState& qp, Counts way) {
  const std::uint64_t nominal = qp.rx.rcvd_bytes, packets = qp.rx.rx_packets;
  const auto units = [](std::uint64_t bytes) {
    return static_cast<std::uint32_t>((bytes + 255) / 256);
  };
  switch (way) {
    case Counts::nominal:
      return units(nominal);
    case Counts::udp_length:
      return units(nominal - packets * wire::kNominalIp);
    case Counts::payload:
      return units(qp.rx.rx_bytes);
    case Counts::frames:
      return static_cast<std::uint32_t>(packets);
    case Counts::too_much:
      return units(10 * nominal) & 0xFFFFFF;
    case Counts::nothing:
      break;
  }
  return 0;
}

/// What a responder may put into AETH.MSN.
enum class Numbers { newest, finished, nothing };

/// Makes side 1 of a pair answer like another implementation. `stamps`: it reflects time stamps.
void disguise(EnginePair& pair, Qpn responder, Counts way, Numbers numbers = Numbers::newest,
              bool stamps = true) {
  pair.tap = [&pair, responder, way, numbers, stamps](unsigned side, const wire::TxPacket&,
                                                      std::vector<std::uint8_t>& bytes) {
    const wire::Opcode opcode = wire::view_as<wire::Bth>(bytes).opcode();
    if (side == 1 && opcode == wire::Opcode::sack) {
      auto& sack = reinterpret_cast<wire::SackPacket&>(*bytes.data());
      sack.cc.rcvd_bytes = counted(*pair[1].find_qp(responder), way);
      if (!stamps) sack.cc.tx_timestamp = 0;
    }
    if (side == 1 && opcode == wire::Opcode::acknowledge && numbers != Numbers::newest) {
      auto& ack = reinterpret_cast<wire::AckPacket&>(*bytes.data());
      ack.aeth.msn = numbers == Numbers::finished ? ack.aeth.msn.value() + 1 : 0;
    }
  };
}

/// 100 Gb/s, 12 us of round trip.
EnginePair::Setup pipe() {
  EnginePair::Setup s;
  s.planes = 1;
  s.delay = 5'800ns;
  s.options.cc.nscc.mtu = 4200;
  return s;
}

struct Streamed {
  double gbps = 0;
  std::int64_t over = 0;  ///< most bytes under way beyond the window
};

/// A stream of writes through a pipe to a peer that counts in its way. `stamps`: see disguise().
Streamed stream(const EnginePair::Setup& setup, Counts way, double loss = 0, bool stamps = true) {
  EnginePair pair(setup, 5);
  pair.faults.loss = loss;
  constexpr std::uint32_t kMessage = 256 * 1024, kMessages = 200;
  Steps steps(pair, {.steps = kMessages, .size = kMessage, .depth = 16, .attributes = {}});
  disguise(pair, steps.qpn(1), way, Numbers::newest, stamps);
  Streamed result;
  std::int64_t sent = 0;
  pair.filter = [&](unsigned side, const wire::TxPacket&, const std::vector<std::uint8_t>& bytes) {
    if (side == 1 || !wire::is_write(wire::view_as<wire::Bth>(bytes).opcode())) return true;
    const auto& c = pair[0].find_peer(pair.peer(0))->congestion;
    sent += static_cast<std::int64_t>(bytes.size()) + wire::kIcrcSize + wire::kNominalOverhead;
    const auto received = static_cast<std::int64_t>(pair[1].find_qp(steps.qpn(1))->rx.rcvd_bytes);
    const auto window = static_cast<std::int64_t>(c.window());
    result.over = std::max({result.over, sent - received - window, c.inflight() - window});
    return true;
  };
  CHECK(steps.run(1s));
  result.gbps = 8.0 * kMessage * kMessages / static_cast<double>(steps.elapsed().count());
  CHECK(pair[0].find_peer(pair.peer(0))->congestion.inflight() == 0);
  return result;
}

TEST_CASE("strangers: who may cause what") {
  for (const PacketKind& kind : kPacketKinds)
    for (const PacketSource who : kPacketSources) {
      const std::string name = kind.name;
      CAPTURE(name);
      CAPTURE(static_cast<int>(who));
      Visited v(who);
      kind.send(v);
      CHECK(v.outcome() == std::string(kind.outcome[static_cast<int>(who)]));
    }
}

TEST_CASE("strangers: a peer may count received bytes as it likes [C-15]" *
          doctest::skip(kBrief)) {  // rates; the accounts are below
  const double own = stream(pipe(), Counts::nominal).gbps;
  CHECK(own > 90);
  for (const Counts way : kAllCounts) {
    CAPTURE(static_cast<int>(way));
    const Streamed s = stream(pipe(), way);
    CHECK(s.gbps >= 0.97 * own);
    CHECK(s.over <= 4200);
  }
}

TEST_CASE("strangers: a peer that reflects no time stamps gets as much as one that does") {
  EnginePair::Setup setup = pipe();
  setup.paths = 16;
  for (const double loss : {0.001, 0.005}) {
    CAPTURE(loss);
    const double with = stream(setup, Counts::nominal, loss).gbps;
    const double without = stream(setup, Counts::nominal, loss, false).gbps;
    CAPTURE(with);
    CAPTURE(without);
    CHECK(without >= 0.9 * with);
  }
}

TEST_CASE("strangers: with every way of counting the accounts are exact under all faults") {
  for (const Counts way : kAllCounts) {
    CAPTURE(static_cast<int>(way));
    EnginePair::Setup setup;
    setup.trimming_switch = true;
    EnginePair pair(setup, 7);
    pair.faults.loss = pair.faults.duplicate = pair.faults.trim = pair.faults.ecn = 0.02;
    pair.faults.reorder = 0.1;
    // They share one window; all tell the count of the first.
    Traffic traffic(pair, {.queue_pairs = 3, .messages = 60}, 7);
    disguise(pair, traffic.peer_qpn(), way);
    CHECK(traffic.run(20s));
    pair.faults = {};
    traffic.check();
    CHECK(pair[0].stats().inferred_losses > 0);
  }
}

TEST_CASE("strangers: a packet that is reported after it was given up is counted once") {
  Single::Setup setup;
  setup.planes = setup.paths = 1;
  setup.attributes.timeout = 24;
  Single s(setup);
  REQUIRE(s.post({.length = 40 * 1024}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 40);
  const std::int64_t one = s.peer_state().congestion.inflight() / 40;
  const auto inflight = [&] { return s.peer_state().congestion.inflight(); };
  s.sack({.bitmap = 0b1000});  // packet 3
  CHECK(inflight() == 39 * one);
  const SentList again = data_of(s.advance(40us));  // 0 to 2 are taken for lost, and sent again
  REQUIRE(again.size() == 3);
  CHECK(inflight() == 39 * one);
  s.sack({.bitmap = 0b1001});  // packet 0 was only late
  s.sack({.bitmap = 0b1001});
  CHECK(inflight() == 38 * one);
  s.nack(again[1], NackReason::trimmed);  // given up
  CHECK(inflight() == 37 * one);
  s.sack({.bitmap = 0b1011});  // and there after all: its first copy
  CHECK(inflight() == 37 * one);
  s.sack({.cack = 39});
  CHECK(inflight() == 0);
  CHECK(s.qp().tx.inflight == 0);
}

TEST_CASE("strangers: a Transport ACK empties the window, and its SACK still counts") {
  Single s;
  const auto& congestion = s.peer_state().congestion;
  REQUIRE(s.post({.length = 1024 * 30}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 30);
  const auto one = static_cast<std::uint64_t>(congestion.inflight() / 30);
  s.now += 12us;
  s.ack(0, 29);  // it has overtaken the SACK
  CHECK(congestion.inflight() == 0);
  CHECK(s.qp().tx.reported_early == 30 * one);
  s.sack({.cack = 29, .trigger = &out[29], .received = 1});
  CHECK(s.qp().tx.reported_early == 0);
  CHECK(congestion.inflight() == 0);
}

TEST_CASE("strangers: messages complete by the PSN, however a peer numbers them [O-15]") {
  for (const Numbers numbers : {Numbers::newest, Numbers::finished, Numbers::nothing}) {
    CAPTURE(static_cast<int>(numbers));
    EnginePair pair({}, 9);
    Traffic traffic(pair, {.messages = 200}, 9);
    disguise(pair, traffic.peer_qpn(), Counts::nominal, numbers);
    CHECK(traffic.run(5s));
    CHECK(pair[0].stats().timeouts == 0);
    traffic.check();
  }
}

TEST_CASE("strangers: a Transport ACK completes what ends with its PSN and was sent whole") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::fixed;
  setup.options.cc.fixed_window = 10'000;  // nine packets
  Single s(setup);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(s.post({.id = i, .length = 3000}) == Errc::ok);
  CHECK(data_of(s.transmit()).size() == 9);
  s.ack(0, 1);  // inside of message 0
  CHECK(s.sends().empty());
  s.ack(1, 4);  // inside of message 1: message 0 is done
  CHECK(s.sends().size() == 1);
  CHECK(data_of(s.transmit()).size() == 3);  // window for all of message 3
  s.ack(0, 10);                              // inside of message 3, MSN 0 for ever
  CHECK(s.sends().size() == 2);
  CHECK(s.engine.stats().drops.stale == 1);
  s.ack(4, 11);  // IBTA: four are finished
  CHECK(s.sends().size() == 1);
  CHECK(s.qp().state == QpState::rts);
}

TEST_CASE("strangers: a Transport ACK whose number fits no way of counting is not for us") {
  Single s;
  for (std::uint64_t i = 0; i < 6; ++i) REQUIRE(s.post({.id = i}) == Errc::ok);
  (void)s.transmit();
  s.ack(1, 1);
  CHECK(s.sends().size() == 2);
  for (const unsigned number : {1u, 7u, 100u, 65'535u}) s.ack(number, 5);
  CHECK(s.sends().empty());
  CHECK(s.engine.stats().drops.implausible == 4);
  s.ack(6, 5);
  CHECK(s.sends().size() == 4);
}

TEST_CASE("overtaken: a SACK from before changes no Dynamic MPR") {
  Single::Setup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  setup.attributes.dynamic_mpr = setup.remote_dynamic_mpr = true;
  setup.attributes.mpr = 32;
  Single s(setup);
  REQUIRE(s.post({.length = 1024 * 500}) == Errc::ok);
  REQUIRE(data_of(s.transmit()).size() == 500);
  const auto range = [&] { return s.qp().tx.range; };
  s.sack({.cack = 99, .bitmap = 0b100, .mpr = 1, .received = 101 * 1100});
  CHECK(range() == 128);
  s.sack({.cack = 98, .mpr = 32, .received = 200 * 1100});  // whatever it counts
  CHECK(range() == 128);
  s.sack({.cack = 99, .mpr = 32, .received = 100 * 1100});  // before packet 102
  CHECK(range() == 128);
  s.sack({.cack = 99, .bitmap = 0b1000, .mpr = 32, .received = 101 * 1100});  // without 102
  CHECK(range() == 128);
  s.sack({.cack = 99, .bitmap = 0b1100, .mpr = 3, .received = 102 * 1100});
  CHECK(range() == 384);
  Single none(setup);  // a peer that counts nothing
  REQUIRE(none.post({.length = 1024 * 500}) == Errc::ok);
  (void)none.transmit();
  none.sack({.cack = 9, .bitmap = 0b100, .mpr = 1});
  none.sack({.cack = 9, .bitmap = 0b1000, .mpr = 32});  // lacks what was reported
  CHECK(none.qp().tx.range == 128);
  none.sack({.cack = 9, .bitmap = 0b1100, .mpr = 2});
  CHECK(none.qp().tx.range == 256);
  none.sack({.cack = 10, .mpr = 4});
  CHECK(none.qp().tx.range == 512);
}

TEST_CASE("overtaken: a SACK from before does not steer the window, but its bits count") {
  Single s;
  const auto& congestion = s.peer_state().congestion;
  REQUIRE(s.post({.length = 1024 * 100}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  REQUIRE(out.size() == 100);
  const std::int64_t one = congestion.inflight() / 100;
  s.now += 12us;
  s.sack({.cack = 19, .trigger = &out[19], .received = 20 * 1100});
  CHECK(congestion.window() == 225'000);
  s.now += 90us;
  const std::int64_t before = congestion.inflight();
  // Delayed by ten round trips, marked, and with a penalty: quick adapt would cut the window.
  s.sack({.cack = 10,
          .offset = 40,
          .bitmap = 1,
          .trigger = &out[50],
          .mark = wire::SackMark::skip_once,
          .received = 12 * 1100});
  CHECK(congestion.window() == 225'000);
  CHECK(congestion.inflight() == before - one);
  s.sack({.cack = 20, .trigger = &out[60], .received = 21 * 1100});  // a new one does steer
  CHECK(congestion.window() < 225'000);
}

TEST_CASE("NACK in: when retries are exhausted the error is the oldest request's") {
  Single::Setup setup;
  setup.attributes.retry_linear = 0;
  setup.attributes.retry_exponential = 0;
  Single s(setup);
  for (std::uint64_t i = 0; i < 4; ++i)
    REQUIRE(s.post({.id = i, .length = 2000, .signaled = false}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  s.ack(0, 1);
  s.sack({.cack = 6});
  s.nack(out.at(7), NackReason::no_resource);  // a packet of the last message
  CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
  const auto c = s.sends();
  REQUIRE(c.size() == 3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    CHECK(c[i].wr_id == i + 1);
    CHECK(c[i].status == (i == 0 ? WcStatus::retry_exc_err : WcStatus::wr_flush_err));
  }
}

TEST_CASE("strangers: byte_len is what was placed, whatever DMALEN says [C-7]") {
  // By packet, by message, and what is left of the message.
  for (const unsigned way : {0u, 1u, 2u})
    for (const bool reversed : {false, true}) {
      CAPTURE(way);
      CAPTURE(reversed);
      Single s;
      std::vector<Single::Data> packets;
      const auto add = [&](Opcode opcode, std::uint32_t length, std::uint32_t left,
                           std::uint32_t message, std::uint32_t immediate) {
        const auto n = static_cast<std::uint32_t>(packets.size());
        packets.push_back({.n = n,
                           .opcode = opcode,
                           .offset = n * 1024,
                           .length = length,
                           .dma_length = way == 0   ? length
                                         : way == 1 ? message
                                                    : left,
                           .rqmsn = immediate,
                           .immediate = immediate});
      };
      add(Opcode::write_first, 1024, 2148, 2148, 0);
      add(Opcode::write_middle, 1024, 1124, 2148, 0);
      add(Opcode::write_last_imm, 100, 100, 2148, 0);
      add(Opcode::write_only, 64, 64, 64, 0);  // a plain write in between
      add(Opcode::write_only_imm, 7, 7, 7, 1);
      add(Opcode::write_first, 1024, 1025, 1025, 2);
      add(Opcode::write_last_imm, 1, 1, 1025, 2);
      if (reversed) std::reverse(packets.begin(), packets.end());
      for (const Single::Data& d : packets) s.data(d);
      const auto c = s.receives();
      REQUIRE(c.size() == 3);
      CHECK(c[0].byte_len == 2148);
      CHECK(c[1].byte_len == 7);
      CHECK(c[2].byte_len == 1025);
    }
}

TEST_CASE("strangers: the mark of a late copy is told") {
  Single s;
  s.data({.n = 0});
  s.data({.n = 2, .offset = 64});
  (void)s.transmit();
  for (const std::uint32_t n : {0u, 2u}) {  // below the window, and in it
    s.data({.n = n, .offset = n * 32, .plane = 1, .ecn = Ecn::ce});
    const SentList out = only(s.transmit(), wire::Opcode::sack);
    REQUIRE(out.size() == 1);
    CHECK(out[0].sack().seth.m() == wire::SackMark::skip_once);
    CHECK(out[0].sack().seth.entropy() == Ev{0xABC00001});
    CHECK(out[0].sack().seth.cack_psn() + out[0].sack().seth.ack_psn_offset() ==
          s.first + static_cast<std::int32_t>(n));
  }
  s.data({.n = 0});
  CHECK(s.transmit().empty());
}

TEST_CASE("strangers: a Transport ACK numbers messages as the peer does [O-15]") {
  for (const std::uint32_t begin : {0u, 1u, 0x8000u, 0xFFFEu}) {
    CAPTURE(begin);
    Single::Setup setup;
    setup.options.placing_planes = 0xF;
    Single s(setup);
    const auto write = [&](std::uint32_t n, bool unsettled = false) {
      s.data({.n = n, .msn = begin + n, .unsettled = unsettled});
    };
    const auto settle = [&](std::uint32_t n) {
      const wire::PacketName name{s.qpn, s.first + static_cast<std::int32_t>(n)};
      s.engine.on_settled(s.now, 0, {&name, 1});
    };
    const auto answers = [&] { return only(s.transmit(), wire::Opcode::acknowledge); };
    const auto named = [&](std::uint32_t n) {
      const SentList acks = answers();
      REQUIRE(acks.size() == 1);
      CHECK(acks[0].psn() == s.first + static_cast<std::int32_t>(n));
      CHECK(acks[0].ack().aeth.msn.value() == (begin + n) % 0x10000);
    };
    write(0);
    named(0);
    write(3);
    write(2);
    write(1);  // fills the gap
    named(3);
    write(5, true);
    write(4);
    named(4);
    write(6);
    CHECK(answers().empty());
    settle(5);
    named(6);
  }
}

}  // namespace strangers_test
