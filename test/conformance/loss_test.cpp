// SPDX-License-Identifier: Apache-2.0
// When a packet counts as lost, when the timer does, and what a round trip is measured on.
#include <doctest/doctest.h>

#include <set>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::NackReason;
using wire::Opcode;

namespace loss_test {

/// One plane, no congestion window, and a retransmission timer that stays out of the way. base_rtt
/// and target_qdelay are 12 us each, so a packet is old after 24 us.
Single::Setup patient(unsigned paths = 4) {
  Single::Setup s;
  s.planes = 1;
  s.paths = paths;
  s.attributes.timeout = 24;
  s.options.cc.algorithm = cc::Algorithm::none;
  return s;
}
/// Posts a message of `packets` packets; what goes out.
SentList send(Single& s, std::uint32_t packets) {
  REQUIRE(s.post({.length = packets * 1024}) == Errc::ok);
  SentList out = data_of(s.transmit());
  REQUIRE(out.size() == packets);
  return out;
}

TEST_CASE("round trip: measured on exactly the packet that the SACK names") {
  Single s(patient());
  const SentList out = send(s, 4);
  s.now += 7us;
  Sent forged = out[0];
  forged.bytes[16] ^= 0x55;  // another time stamp than was sent
  s.sack({.cack = 0, .trigger = &forged});
  CHECK(s.qp().tx.rtt.smoothed() == 0ns);
  s.sack({.cack = 1, .trigger = &out[1]});
  CHECK(s.qp().tx.rtt.smoothed() == 7us);
  // Sent once, so the record decides, however old: 20 ms is more than a time stamp spans.
  s.now = out[2].when + 20ms;
  s.sack({.cack = 2, .trigger = &out[2]});
  CHECK(s.qp().tx.rtt.smoothed() > 2ms);
  // Sent twice: an answer later than half that span could be to either copy.
  const Duration before = s.qp().tx.rtt.smoothed();
  s.nack(out[3], NackReason::trimmed);
  const SentList again = data_of(s.transmit());
  REQUIRE(again.size() == 1);
  s.now += 5ms;
  s.sack({.cack = 3, .trigger = &again[0]});
  CHECK(s.qp().tx.rtt.smoothed() == before);
}

TEST_CASE("round trip: of peers that reflect no time stamps, by the PSN of what was sent once") {
  Single s(patient());
  const SentList out = send(s, 40);
  const auto unstamped = [](Sent trigger) {
    trigger.bytes[16] = trigger.bytes[17] = 0;
    return trigger;
  };
  const auto measured = [&] { return s.qp().tx.rtt.smoothed(); };
  s.now += 7us;
  for (std::int32_t i = 0; i < 4; ++i) {  // it could be one answer to an earlier copy
    const Sent trigger = unstamped(out[static_cast<std::size_t>(i)]);
    s.sack({.cack = i, .trigger = &trigger});
    CHECK(measured() == 0ns);
  }
  Sent trigger = unstamped(out[9]);  // out of order, and named
  s.sack({.cack = 3, .offset = 6, .bitmap = 1, .trigger = &trigger});
  CHECK(measured() == 7us);
  s.now += 100us;
  s.sack({.cack = 3, .offset = 6, .bitmap = 1, .trigger = &trigger});  // reported before
  CHECK(measured() == 7us);
  trigger = unstamped(out[5]);  // names the cumulative PSN, but newer ones have come before
  s.sack({.cack = 5, .offset = 4, .bitmap = 1, .trigger = &trigger});
  CHECK(measured() == 7us);
  trigger = unstamped(out[10]);  // the newest of all
  s.sack({.cack = 10, .trigger = &trigger});
  CHECK(measured() > 15us);
  const Duration before = measured();
  s.nack(out[11], NackReason::trimmed);
  const SentList again = data_of(s.transmit());
  REQUIRE(again.size() == 1);
  s.now += 1ms;
  trigger = unstamped(again[0]);  // either copy
  s.sack({.cack = 11, .trigger = &trigger});
  CHECK(measured() == before);
  // A time stamp after all: from now on they count, and others are not believed.
  s.now = out[12].when + 107us;
  s.sack({.cack = 12, .trigger = &out[12]});
  CHECK(measured() != before);
  const Duration stamped = measured();
  trigger = unstamped(out[13]);
  s.sack({.cack = 13, .trigger = &trigger});
  CHECK(measured() == stamped);
}

TEST_CASE("loss: at once when passed on its path [O-3]") {
  Single s(patient(8));
  const SentList out = send(s, 40);
  // Everything behind packet 0 is in but what took its path.
  s.now += 1us;
  const SentList later = send(s, 8);  // once more around, later than the first
  std::uint64_t bits = 0;
  for (std::size_t i = 1; i < 40; ++i)
    if (out[i].ev != out[0].ev) bits |= std::uint64_t{1} << i;
  s.sack({.bitmap = bits});
  CHECK(data_of(s.transmit()).empty());
  // One that was sent on its path a microsecond later.
  std::size_t next = 0;
  while (later[next].ev != out[0].ev) ++next;
  s.sack({.bitmap = bits | std::uint64_t{1} << (40 + next)});
  SentList again = data_of(s.transmit());
  REQUIRE(again.size() >= 1);
  CHECK(again[0].psn() == out[0].psn());
  for (const Sent& p : again) CHECK(p.ev != out[0].ev);
}

TEST_CASE("loss: by age with a later report of another path [O-3]") {
  Single s(patient(8));
  const SentList out = send(s, 8);
  s.sack({.bitmap = 0b1000});  // lost when they have had 1.75 x (base_rtt + target_qdelay)
  const SentList again = data_of(s.advance(45us));
  REQUIRE(again.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(again[i].psn() == out[i].psn());
    CHECK(again[i].when == out[i].when + 42us);
  }
}

TEST_CASE("loss: a SACK that a newer one has overtaken tells of no gaps") {
  Single s(patient(1));
  const SentList out = send(s, 8);
  s.now += 1us;
  const SentList later = send(s, 1);
  REQUIRE(later[0].ev == out[0].ev);
  s.sack({.offset = 9, .bitmap = 1, .received = 64 * 1024});  // the ninth; not a word of the others
  s.sack({.bitmap = 0b10'0000, .received = 32 * 1024});       // as it was before the ninth came
  CHECK(data_of(s.transmit()).empty());
  s.sack({.bitmap = 0b10'0000, .received = 64 * 1024});
  CHECK(data_of(s.transmit()).size() == 5);  // 0 to 4; 6 and 7 stand behind what it says
}

/// Eight writes of 64 bytes, and a ninth one later: too little for the byte count to tell SACKs
/// apart.
static void send_small_writes(Single& s) {
  for (unsigned i = 0; i < 8; ++i) REQUIRE(s.post({.length = 64}) == Errc::ok);
  CHECK(data_of(s.transmit()).size() == 8);
  s.now += 1us;
  REQUIRE(s.post({.length = 64}) == Errc::ok);
  CHECK(data_of(s.transmit()).size() == 1);
}

TEST_CASE("loss: nor does one of the same byte count whose cumulative PSN is behind") {
  Single s(patient(1));
  send_small_writes(s);
  s.sack({.cack = 0, .offset = 8, .bitmap = 1, .received = 256});  // 0 and the ninth
  s.sack({.cack = -1, .bitmap = 0b10'0000, .received = 256});      // before 0 came
  CHECK(data_of(s.transmit()).empty());
  s.sack({.cack = 0, .bitmap = 0b1'0000, .received = 256});
  CHECK(data_of(s.transmit()).size() == 4);
}

TEST_CASE("loss: nor does one of the same byte count that misses what has been reported") {
  Single s(patient(1));
  send_small_writes(s);
  s.sack({.offset = 3, .bitmap = 1, .received = 512});  // the third
  s.sack({.offset = 9, .bitmap = 1, .received = 512});  // the ninth
  s.sack({.bitmap = 0b10'0000, .received = 512});       // before either of them came
  CHECK(data_of(s.transmit()).empty());
  s.sack({.bitmap = 0b10'0100, .received = 512});
  CHECK(data_of(s.transmit()).size() == 4);
}

TEST_CASE("loss: a packet that was sent twice proves nothing about the path of its second copy") {
  Single::Setup setup = patient(1);
  setup.planes = 2;
  Single s(setup);
  const Time start = s.now;
  const SentList out = send(s, 2);
  REQUIRE(out[0].plane != out[1].plane);
  s.sack({.bitmap = 0b10});
  CHECK(data_of(s.advance(40us)).empty());
  const SentList later = send(s, 8);
  const auto first_path = [&](const Sent& p) { return p.plane == out[0].plane; };
  // Two strikes on the other path; a third makes it bad, unless something arrives by it.
  for (unsigned i = 0; i < 2; ++i) s.peer_state().paths.on_inferred_loss(s.path_of(out[1]), s.now);
  const SentList again = data_of(s.advance(8us));
  REQUIRE(again.size() == 1);
  CHECK(again[0].psn() == out[0].psn());
  CHECK(again[0].plane == out[1].plane);

  // The first copy was only late. What went by the path of the second one before that has not come,
  // but it need not have: nothing is known to have passed or overtaken it.
  s.now += 1us;
  std::uint64_t bits = 0;
  std::size_t holes = 0;
  for (std::size_t i = 0; i < later.size(); ++i)
    if (first_path(later[i])) bits |= std::uint64_t{1} << i;
  for (std::size_t i = 0; i < later.size() && bits >> i != 0; ++i) holes += !first_path(later[i]);
  REQUIRE(holes >= 3);
  s.sack({.cack = 1, .bitmap = bits});
  CHECK(data_of(s.transmit()).empty());
  CHECK(s.engine.stats().inferred_losses == 1);
  CHECK(s.peer_state().paths.health(s.path_of(out[1])) == path::Health::good);

  // Absent: at 1.75 times the age. And the first of these losses is the third strike.
  const SentList lost = data_of(s.advance(100us));
  REQUIRE(lost.size() >= holes);
  for (const Sent& p : lost) {
    CHECK(p.when == start + 40us + 42us);
    CHECK(first_path(p));
  }
  CHECK(s.peer_state().paths.health(s.path_of(out[1])) == path::Health::assumed_bad);
}

TEST_CASE("loss: at once when another queue pair's packet has passed it on its path") {
  Single s(patient(2));
  const SentList out = send(s, 2);
  REQUIRE(out[0].ev != out[1].ev);
  s.nack(out[0], NackReason::trimmed_last_hop);
  const SentList second = data_of(s.transmit());
  REQUIRE(second.size() == 1);
  REQUIRE(second[0].ev == out[1].ev);
  s.sack({.bitmap = 0b10, .received = 1024});
  CHECK(data_of(s.transmit()).empty());

  const Qpn first_qp = s.qpn;
  const Psn first_psn = s.own;
  s.now += 1us;
  s.qpn = s.create();
  s.connect(s.qpn, s.remote());
  s.own = *s.engine.start_psn(s.qpn);
  const SentList other = send(s, 2);
  REQUIRE(other[0].ev != other[1].ev);
  s.now += 1us;
  s.sack({.cack = 1, .received = 2048});
  CHECK(data_of(s.transmit()).empty());

  // Of its own queue pair nothing that was sent later has arrived: the second copy is the newest.
  s.qpn = first_qp;
  s.own = first_psn;
  s.sack({.bitmap = 0b10, .received = 1024});
  const SentList third = data_of(s.transmit());
  REQUIRE(third.size() == 1);
  CHECK(third[0].psn() == out[0].psn());
  CHECK(third[0].ev != second[0].ev);
}

TEST_CASE("loss: is looked for when all that has come in is taken, not SACK by SACK") {
  Single s(patient(8));
  (void)send(s, 40);
  s.sack({.bitmap = 0x1FFE});  // packet 0 looks overtaken by twelve ...
  s.sack({.cack = 12});        // ... but its SACK was in the queue behind
  CHECK(data_of(s.transmit()).empty());
  CHECK(s.engine.stats().inferred_losses == 0);
}

TEST_CASE("loss: a report from another plane counts at the same age") {
  Single::Setup setup = patient();
  setup.planes = 2;
  Single s(setup);
  const SentList out = send(s, 8);
  const int other = out[1].plane != out[0].plane ? 1 : 2;
  REQUIRE(out[static_cast<std::size_t>(other)].plane != out[0].plane);
  s.sack({.bitmap = std::uint64_t{1} << other});
  const SentList again = data_of(s.advance(60us));
  REQUIRE_FALSE(again.empty());
  CHECK(again[0].psn() == out[0].psn());
  CHECK(again[0].when == out[0].when + 42us);
}

TEST_CASE("loss: hosts that answer late raise the age") {
  Single s(patient());
  const SentList out = send(s, 4);
  s.now += 400us;  // smoothed 400, variation 200: 1,200 us is within what round trips take
  s.sack({.bitmap = 0b100, .trigger = &out[2]});
  const SentList again = data_of(s.advance(3ms));
  REQUIRE(again.size() == 2);  // 0 and 1; nothing later than 3 is in
  CHECK(again[0].when == out[0].when + 2100us);
}

TEST_CASE("loss: what left at the same moment behind it, by the likely round trip") {
  Single s(patient(1));
  SentList out = send(s, 8);
  s.sack({.bitmap = 0xF0});
  CHECK(data_of(s.transmit()).empty());
  SentList again = data_of(s.advance(30us));
  REQUIRE(again.size() == 4);
  for (const Sent& p : again) CHECK(p.when == out[0].when + 24us);  // nothing is measured yet
  s.ack(7, 0);
  // Measured: 10 us each time. Packets on other paths prove nothing so soon.
  for (unsigned i = 0; i < 20; ++i) {
    out = send(s, 1);
    s.now += 10us;
    s.sack({.cack = 8 + static_cast<int>(i), .trigger = &out[0]});
    s.ack(8 + static_cast<int>(i), 1 + i);
  }
  const Duration likely = s.qp().tx.rtt.likely();
  CHECK(likely < 11us);
  out = send(s, 8);
  s.now += 10us;
  s.sack({.cack = 27, .bitmap = 0xFE});
  again = data_of(s.advance(20us));
  REQUIRE(again.size() == 1);
  CHECK(again[0].psn() == out[0].psn());
  CHECK(again[0].when == out[0].when + likely);
}

TEST_CASE("timeout: the oldest packet goes elsewhere, its path is suspected, the waits [C-8]") {
  Single::Setup setup = patient();
  setup.attributes.timeout = 10;
  setup.attributes.retry_linear = 1;
  setup.attributes.retry_exponential = 2;
  Single s(setup);
  REQUIRE(s.post({.id = 1}) == Errc::ok);
  REQUIRE(s.post({.id = 2}) == Errc::ok);
  const SentList out = data_of(s.transmit());
  s.now += 500us;
  s.sack({});  // the peer has received neither, but is alive
  SentList again = data_of(s.advance(20ms));
  std::erase_if(again, [&](const Sent& p) { return p.psn() != out[0].psn(); });
  // After T and T once more, then after 2T; and after 4T it is over.
  const Duration t{1'048'576};
  REQUIRE(again.size() == 3);
  CHECK(again[0].when == out[0].when + t);
  CHECK(again[1].when == out[0].when + 2 * t);
  CHECK(again[2].when == out[0].when + 4 * t);
  CHECK(again[0].ev != out[0].ev);
  CHECK(again[0].bth().rtx());
  CHECK(s.peer_state().paths.health(s.path_of(out[0])) == path::Health::assumed_bad);
  CHECK(s.qp().cause == QpErrorCause::retry_exhausted);
  const auto done = s.sends();
  REQUIRE(done.size() == 2);
  CHECK(done[0].wr_id == 1);
  CHECK(done[0].status == WcStatus::retry_exc_err);
  CHECK(done[1].status == WcStatus::wr_flush_err);
}

TEST_CASE("timeout: a peer's silence is held against no path, unless it lasts") {
  Single s;
  const auto bad = [&] {
    unsigned n = 0;
    for (path::PathIndex i = 0; i < s.peer_state().paths.size(); ++i)
      n += s.peer_state().paths.health(i) == path::Health::assumed_bad;
    return n;
  };
  const auto time_out = [&] {
    const auto before = s.qp().stats.timeouts;
    SentList sent;
    while (s.qp().stats.timeouts == before)
      for (const Sent& p : data_of(s.advance(1us))) sent.push_back(p);
    return sent;
  };
  SentList out = send(s, 1);
  for (unsigned i = 0; i < 3; ++i) {
    const path::PathIndex path = s.path_of(out.back());
    out = time_out();
    CHECK(s.peer_state().paths.stats(path).timeouts == 1);
    CHECK(bad() == 0);
  }
  (void)time_out();
  CHECK(bad() == 1);

  // A SACK that an earlier packet may have caused tells nothing; one that came later does: the peer
  // runs.
  for (const bool late : {false, true}) {
    CAPTURE(late);
    Single other;
    out = send(other, 1);
    other.now += late ? 500us : 1us;
    other.sack({});
    while (other.qp().stats.timeouts == 0) (void)other.advance(1us);
    CHECK(other.peer_state().paths.health(other.path_of(out[0])) ==
          (late ? path::Health::assumed_bad : path::Health::good));
  }
}

TEST_CASE("timeout: never shorter than two base round trips or than the measured ones [O-20]") {
  Single::Setup setup = patient();
  setup.attributes.timeout = 0;  // 1.024 us
  Single s(setup);
  SentList out = send(s, 1);
  SentList again = data_of(s.advance(30us));
  REQUIRE(again.size() == 1);
  CHECK(again[0].when == out[0].when + 24us);  // 2 x base_rtt
  s.ack(0, 0);
  out = send(s, 1);
  s.now += 400us;
  s.sack({.cack = 1, .trigger = &out[0]});
  s.ack(1, 1);
  out = send(s, 1);
  again = data_of(s.advance(2ms));
  REQUIRE_FALSE(again.empty());
  CHECK(again[0].when == out[0].when + 1200us);
}

TEST_CASE("reliability probe: after a round trip of silence, five at most, no PSN [O-6]") {
  Single s(patient());
  const SentList out = send(s, 1);
  const SentList probes = only(s.advance(10ms), Opcode::probe);
  REQUIRE(probes.size() == 5);
  std::set<std::uint16_t> ids;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const auto& p = probes[i].as<wire::ProbePacket>();
    CHECK(probes[i].when == out[0].when + (1 << i) * 24us);
    CHECK(p.bth.psn() == Psn{});
    CHECK(p.bth.dqp() == Single::kRemote);
    CHECK(p.peth.has_timestamp());
    CHECK(p.peth.tx_timestamp.value() == wire::timestamp_of(probes[i].when));
    CHECK(probes[i].dscp == s.setup.options.dscp.trimmable);  // the data class
    CHECK(probes[i].ecn == Ecn::ect0);  // marked where data would be, not dropped
    ids.insert(p.peth.probe_id.value());
  }
  CHECK(ids.size() == 5);
  // Any answer shows that its probe overtook the data: nothing was sent between the probes.
  wire::SackPacket answer{wire::Bth::make(Opcode::sack, s.qpn, s.own - 1), {}, {}};
  answer.seth.set_cack_psn(s.own - 1);
  answer.seth.set_probe(true);
  answer.seth.set_probe_id(probes[1].as<wire::ProbePacket>().peth.probe_id.value());
  s.receive_control(answer);
  const SentList again = data_of(s.transmit());
  CHECK(again.size() == 1);
  CHECK(s.engine.stats().probe_answers == 1);
  // But not the retransmission, behind which there is a new series of probes.
  const SentList more = only(s.advance(10ms), Opcode::probe);
  REQUIRE(more.size() == 5);
  CHECK(more[0].when == again[0].when + 24us);
  answer.seth.set_probe_id(probes[4].as<wire::ProbePacket>().peth.probe_id.value());
  s.receive_control(answer);
  CHECK(data_of(s.transmit()).empty());
  CHECK(s.engine.stats().probe_answers == 1);
  answer.seth.set_probe_id(more[0].as<wire::ProbePacket>().peth.probe_id.value());
  s.receive_control(answer);
  CHECK(data_of(s.transmit()).size() == 1);
  s.ack(0, 0);  // no need for any more
  CHECK(s.advance(100ms).empty());
  CHECK(s.engine.next_deadline() == kNever);
}

TEST_CASE("reliability probe: after the usual round trip, at most two measured ones") {
  Single s(patient());
  const auto step = [&](unsigned i, Duration rtt) {
    const SentList out = send(s, 1);
    s.now += rtt;
    s.sack({.cack = static_cast<int>(i), .trigger = &out[0]});
    s.ack(static_cast<int>(i), i);
  };
  for (unsigned i = 0; i < 30; ++i) step(i, 20us);
  SentList out = send(s, 1);
  SentList probes = only(s.advance(100us), Opcode::probe);
  REQUIRE_FALSE(probes.empty());
  CHECK(probes[0].when == out[0].when + s.qp().tx.rtt.usual());
  CHECK(s.qp().tx.rtt.usual() < 21us);
  s.ack(30, 30);
  for (unsigned i = 31; i < 61; ++i) step(i, i % 2 == 0 ? 10us : 200us);
  out = send(s, 1);
  probes = only(s.advance(1ms), Opcode::probe);
  REQUIRE_FALSE(probes.empty());
  CHECK(probes[0].when == out[0].when + 2 * s.qp().tx.rtt.smoothed());
  CHECK(s.qp().tx.rtt.bound() > 3 * s.qp().tx.rtt.smoothed());
}

TEST_CASE("reliability probe: with more to send, after three base round trips") {
  Single::Setup setup = patient();
  setup.attributes.mpr = 1;
  Single s(setup);
  REQUIRE(s.post({.length = 200 * 1024}) == Errc::ok);
  const SentList probes = only(s.advance(100us), Opcode::probe);
  REQUIRE_FALSE(probes.empty());
  CHECK(probes[0].when == s.setup.options.start + 36us);
}

}  // namespace loss_test
