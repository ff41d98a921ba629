// SPDX-License-Identifier: Apache-2.0
// Unreliable datagrams between two engines, in virtual time.
#include <doctest/doctest.h>

#include <set>

#include "support/datagrams.hpp"
#include "support/traffic.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE("datagram: arrives behind 40 bytes, with its sender's number, immediate and event") {
  Datagrams d;
  std::vector<SeenDatagram> seen;
  watch(d, seen);
  REQUIRE(d.receive(1, 3) == Errc::ok);
  REQUIRE(d.receive(1, 4) == Errc::ok);
  REQUIRE(d.post(0, {.id = 9,
                     .offset = 50,
                     .length = 333,
                     .immediate = 0xCAFE'0001,
                     .flags = {.solicited = true}}) == Errc::ok);
  REQUIRE(d.post(0, {.id = 10, .length = 0}) == Errc::ok);
  d.pair.run_for(1ms);
  const auto got = d.receives(1);
  REQUIRE(got.size() == 2);
  CHECK(got[0].wr_id == 3);
  CHECK(got[0].status == WcStatus::success);
  CHECK(got[0].opcode == WcOpcode::recv);
  CHECK(got[0].byte_len == 333 + 40);
  CHECK(got[0].qpn == d.ends[1].qpn);
  CHECK(got[0].source_qpn == d.ends[0].qpn);
  CHECK(got[0].has_immediate);
  CHECK(got[0].immediate == 0xCAFE'0001);
  CHECK(got[0].solicited);
  CHECK(d.holds(1, 3, 50, 333));
  CHECK(d.target(1, 3)[40 + 333] == 0xEE);
  CHECK(got[1].byte_len == 40);
  CHECK_FALSE(got[1].has_immediate);
  CHECK_FALSE(got[1].solicited);
  const auto sent = d.sends(0);
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].wr_id == 9);
  CHECK(sent[0].opcode == WcOpcode::send);
  CHECK(sent[1].wr_id == 10);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].header.pad == 3);
  CHECK(seen[1].header.psn == seen[0].header.psn + 1);
  CHECK(d.b().stats().rx_datagrams == 2);
  CHECK(d.b().stats().rx_data == 0);
}

TEST_CASE("datagram: the first 40 bytes are the IP header") {
  Datagrams d;
  REQUIRE(d.receive(1, 0) == Errc::ok);
  REQUIRE(d.receive(1, 1) == Errc::ok);
  std::array<std::uint8_t, 48> bytes{};
  wire::DatagramHeader h;
  h.dqp = d.ends[1].qpn;
  h.q_key = Datagrams::kQKey;
  h.source = Qpn{0xABCDEF};
  const std::size_t header = wire::build_datagram_header(bytes.data(), h);
  wire::Origin origin;
  origin.source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1};
  origin.destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 2};
  origin.traffic_class = 0x29;
  wire::RxPacket packet;
  packet.bytes = Bytes(bytes).first(header + 8);
  packet.udp_length = static_cast<std::uint32_t>(packet.bytes.size()) + 12;
  packet.origin = &origin;
  d.pair.inject(1, packet);
  origin.source[0] = 0x20;
  origin.destination[0] = 0x20;
  origin.flow_label = 0x54321;
  d.pair.inject(1, packet);
  const auto got = d.receives(1);
  REQUIRE(got.size() == 2);
  CHECK(got[0].has_grh);
  CHECK(got[0].source_qpn == Qpn{0xABCDEF});
  const std::uint8_t* v4 = d.target(1, 0);
  CHECK(std::all_of(v4, v4 + 20, [](std::uint8_t b) { return b == 0; }));
  CHECK(wire::ipv4_checksum({v4 + 20, 20}) == 0);
  const auto& ip4 = wire::view_as<wire::Ipv4>(Bytes{v4 + 20, 20});
  CHECK(ip4.version_ihl == 0x45);
  CHECK(ip4.tos == 0x29);
  CHECK(ip4.total_length.value() == 20 + packet.udp_length);
  CHECK(ip4.source == wire::Ipv4Address{192, 0, 2, 1});
  CHECK(ip4.destination == wire::Ipv4Address{192, 0, 2, 2});
  const auto& ip6 = wire::view_as<wire::Ipv6>(Bytes{d.target(1, 1), 40});
  CHECK(ip6.version() == 6);
  CHECK(ip6.flow_label() == 0x54321);
  CHECK(ip6.traffic_class() == 0x29);
  CHECK(ip6.payload_length.value() == packet.udp_length);
  CHECK(ip6.next_header == 17);
  CHECK(ip6.source == origin.source);
  CHECK(ip6.destination == origin.destination);
}

TEST_CASE("datagram: scatter and gather lists may split anywhere, inline data is copied at once") {
  Datagrams d;
  const auto& from = d.ends[0];
  const Sge into[] = {{d.target(1, 0), 7, d.ends[1].target_key},
                      {d.target(1, 1), 0, d.ends[1].target_key},
                      {d.target(1, 2), 2000, d.ends[1].target_key}};
  REQUIRE(post_datagram_receive(d.b(), d.ends[1].qpn, {1, into}) == Errc::ok);
  REQUIRE(d.receive(1, 5) == Errc::ok);
  const Sge out[] = {{from.source.data() + 10, 1, from.source_key},
                     {from.source.data(), 0, from.source_key},
                     {from.source.data() + 500, 900, from.source_key}};
  DatagramRequest request;
  request.sges = out;
  request.remote_qpn = d.ends[1].qpn;
  request.remote_q_key = Datagrams::kQKey;
  REQUIRE(post_datagram(d.a(), from.qpn, request, from.other) == Errc::ok);
  std::array<std::uint8_t, 100> now{};
  now.fill(0x77);
  const Sge inlined{now.data(), 100, 0};
  request.sges = {&inlined, 1};
  request.flags.inline_data = true;
  REQUIRE(post_datagram(d.a(), from.qpn, request, from.other) == Errc::ok);
  now.fill(0);
  d.pair.run_for(1ms);
  REQUIRE(d.receives(1).size() == 2);
  CHECK(d.target(1, 2)[33] == from.source[10]);
  CHECK(std::memcmp(d.target(1, 2) + 34, from.source.data() + 500, 900) == 0);
  CHECK(d.target(1, 0)[7] == 0xEE);
  CHECK(d.target(1, 5)[40] == 0x77);
  CHECK(d.target(1, 5)[139] == 0x77);
}

TEST_CASE("datagram: limits of posting") {
  Datagrams d;
  CHECK(d.post(0, {.length = 1025}) == Errc::too_long);
  CHECK(d.post(0, {.length = 101, .flags = {.inline_data = true}}) == Errc::too_long);
  CHECK(d.post(0, {.remote = Qpn{1u << 24}}) == Errc::invalid_argument);
  CHECK(d.post(0, {.offset = (1 << 16) - 50}) == Errc::invalid_lkey);
  DatagramRequest request;
  const std::array<Sge, 4> four{};
  request.sges = four;
  CHECK(post_datagram(d.a(), d.ends[0].qpn, request, d.ends[0].other) == Errc::too_many_sges);
  CHECK(post_datagram(d.a(), d.ends[0].qpn, request, engine::DestinationId{9}) == Errc::not_found);
  CHECK(post_datagram(d.a(), Qpn{5}, request, d.ends[0].other) == Errc::not_found);
  for (unsigned i = 0; i < 64; ++i) REQUIRE(d.post(0, {}) == Errc::ok);
  CHECK(d.post(0, {}) == Errc::queue_full);
  CHECK(remove_destination(d.a(), d.ends[0].other) == Errc::in_use);
  CHECK(d.a().deregister_memory(d.ends[0].source_key) == Errc::in_use);
  d.pair.run_for(1ms);
  CHECK(d.sends(0).size() == 64);
  CHECK(remove_destination(d.a(), d.ends[0].other) == Errc::ok);
  CHECK(remove_destination(d.a(), d.ends[0].other) == Errc::not_found);
  CHECK(d.a().deregister_memory(d.ends[0].source_key) == Errc::ok);  // no use is left over
  CHECK(add_destination(d.a(), {}).error() == Errc::invalid_argument);
}

TEST_CASE("datagram: what nobody wants is dropped and counted, and the sender never knows") {
  Datagrams d;
  (void)d.post(0, {});  // no receive
  d.pair.run_for(1ms);
  CHECK(d.b().stats().drops.no_receive == 1);
  REQUIRE(d.receive(1, 0) == Errc::ok);
  (void)d.post(0, {.q_key = Datagrams::kQKey + 1});
  (void)d.post(0, {.remote = Qpn{0x010777}});
  d.pair.run_for(1ms);
  CHECK(d.b().stats().drops.bad_qkey == 1);
  CHECK(find_datagram_qp(d.b(), d.ends[1].qpn)->stats.bad_qkey == 1);
  CHECK(d.b().stats().drops.unknown_qp == 1);
  CHECK(d.receives(1).empty());
  const auto sent = d.sends(0);
  CHECK(sent.size() == 3);
  for (const Completion& c : sent) CHECK(c.status == WcStatus::success);
  (void)d.post(0, {.id = 5, .q_key = kOwnQKey | 1});  // its own, which is the same
  d.pair.run_for(1ms);
  CHECK(d.receives(1).size() == 1);
  REQUIRE(modify_datagram_qp(d.b(), d.ends[1].qpn, {QpState::err, {}, {}}) == Errc::ok);
  (void)d.post(0, {});
  d.pair.run_for(1ms);
  CHECK(d.b().stats().drops.wrong_state == 1);
}

TEST_CASE("datagram: a receive that is too short fails its queue pair, as in RoCE") {
  Datagrams d;
  REQUIRE(d.receive(1, 0, 139) == Errc::ok);
  REQUIRE(d.receive(1, 1) == Errc::ok);
  REQUIRE(d.post(0, {.length = 100}) == Errc::ok);
  d.pair.run_for(1ms);
  const auto got = d.receives(1);
  REQUIRE(got.size() == 2);
  CHECK(got[0].wr_id == 0);
  CHECK(got[0].status == WcStatus::loc_len_err);
  CHECK(got[1].status == WcStatus::wr_flush_err);
  CHECK(d.target(1, 0)[0] == 0xEE);
  const auto* qp = find_datagram_qp(d.b(), d.ends[1].qpn);
  CHECK(qp->state == QpState::err);
  CHECK(qp->cause == QpErrorCause::receive_too_short);
  Engine::Event event;
  bool told = false;
  while (d.b().poll_event(event)) told = told || event.kind == Engine::Event::Kind::qp_error;
  CHECK(told);
  REQUIRE(modify_datagram_qp(d.b(), d.ends[1].qpn, {QpState::reset, {}, {}}) == Errc::ok);
  d.start(1, d.ends[1].qpn);
  REQUIRE(d.receive(1, 2, 140) == Errc::ok);
  REQUIRE(d.post(0, {.length = 100}) == Errc::ok);
  d.pair.run_for(1ms);
  CHECK(d.receives(1).size() == 1);
  CHECK(d.holds(1, 2, 0, 100));
}

TEST_CASE("datagram: states, one step at a time") {
  Datagrams d;
  const Qpn q = d.create(0);
  const auto step = [&](QpState s, std::optional<std::uint32_t> key = {},
                        std::optional<Psn> psn = {}) {
    return modify_datagram_qp(d.a(), q, {s, key, psn});
  };
  CHECK(step(QpState::rtr) == Errc::invalid_state);
  CHECK(step(QpState::err) == Errc::invalid_state);
  CHECK(post_datagram_receive(d.a(), q, {}) == Errc::invalid_state);
  CHECK(step(QpState::init, 1, Psn{5}) == Errc::invalid_argument);
  CHECK(step(QpState::init, 1) == Errc::ok);
  CHECK(post_datagram_receive(d.a(), q, {}) == Errc::ok);
  CHECK(step(QpState::init, 2) == Errc::ok);
  CHECK(step(QpState::rts) == Errc::invalid_state);
  CHECK(step(QpState::rtr) == Errc::ok);
  CHECK(post_datagram(d.a(), q, {}, d.ends[0].other) == Errc::invalid_state);
  CHECK(step(QpState::rts, {}, Psn{0xFFFFFF}) == Errc::ok);
  CHECK(step(QpState::rts, 3) == Errc::ok);
  CHECK(find_datagram_qp(d.a(), q)->q_key == 3);
  std::vector<SeenDatagram> seen;
  watch(d, seen);
  DatagramRequest request;
  request.remote_qpn = d.ends[1].qpn;
  REQUIRE(post_datagram(d.a(), q, request, d.ends[0].other) == Errc::ok);
  REQUIRE(post_datagram(d.a(), q, request, d.ends[0].other) == Errc::ok);
  d.pair.run_for(1ms);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].header.psn == Psn{0xFFFFFF});
  CHECK(seen[1].header.psn == Psn{0});
  CHECK(seen[0].header.source == q);
  CHECK(step(QpState::err, 3) == Errc::invalid_argument);
  CHECK(step(QpState::err) == Errc::ok);
  CHECK(d.receives(0).size() == 1);  // flushed
  CHECK(d.a().destroy_cq(d.ends[0].send_cq) == Errc::in_use);
  CHECK(destroy_datagram_qp(d.a(), q) == Errc::ok);
  CHECK(destroy_datagram_qp(d.a(), q) == Errc::not_found);
  CHECK(d.a().destroy_qp(d.ends[0].qpn) == Errc::not_found);  // it is of the other kind
  CHECK(d.a().datagram_qp_count() == 1);
}

TEST_CASE("datagram: losses, duplicates and damage cost datagrams and nothing else") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    DatagramSetup setup;
    setup.pair.queue = 64 << 20;
    Datagrams d(setup, seed);
    d.pair.faults.loss = 0.1;
    d.pair.faults.duplicate = 0.1;
    d.pair.faults.corrupt = 0.05;
    d.pair.faults.reorder = 0.2;
    std::size_t posted = 0, sent = 0, received = 0;
    std::vector<std::uint32_t> times(2000);
    for (std::uint32_t i = 0; i < 128; ++i) REQUIRE(d.receive(1, i) == Errc::ok);
    (void)d.pair.run_for(1s, [&] {
      while (posted < 2000) {
        const auto n = static_cast<std::uint32_t>(posted);
        if (d.post(0, {.id = n, .offset = n * 16, .length = 1 + n % 1024, .immediate = n}) !=
            Errc::ok)
          break;
        ++posted;
      }
      for (const Completion& c : d.sends(0)) {
        CHECK(c.status == WcStatus::success);
        CHECK(c.wr_id == sent++);
      }
      for (const Completion& c : d.receives(1)) {
        REQUIRE(c.status == WcStatus::success);
        REQUIRE(c.immediate < 2000);
        CHECK(c.byte_len == 41 + c.immediate % 1024);
        CHECK(d.holds(1, c.wr_id, c.immediate * 16, c.byte_len - 40));
        ++times[c.immediate];
        ++received;
        REQUIRE(d.receive(1, static_cast<std::uint32_t>(c.wr_id)) == Errc::ok);
      }
      return false;
    });
    CHECK(sent == 2000);
    CHECK(received > 1500);
    CHECK(std::count(times.begin(), times.end(), 0u) > 100);
    CHECK(d.b().stats().drops.no_receive == 0);
  }
}

TEST_CASE("datagram: an overrun queue and withdrawn memory fail the queue pair, no other") {
  DatagramSetup setup;
  setup.cq_depth = 4;
  Datagrams d(setup);
  for (std::uint32_t i = 0; i < 6; ++i) REQUIRE(d.receive(1, i) == Errc::ok);
  for (std::uint32_t i = 0; i < 5; ++i)
    REQUIRE(d.post(0, {.flags = {.signaled = false}}) == Errc::ok);
  d.pair.run_for(1ms);
  const auto* b = find_datagram_qp(d.b(), d.ends[1].qpn);
  CHECK(b->state == QpState::err);
  CHECK(b->cause == QpErrorCause::cq_overrun);
  CHECK(d.sends(0).empty());  // unsignaled
  CHECK(find_datagram_qp(d.a(), d.ends[0].qpn)->state == QpState::rts);

  REQUIRE(d.post(0, {.id = 1}) == Errc::ok);
  REQUIRE(d.a().deregister_memory(d.ends[0].source_key, true) == Errc::ok);
  const auto* a = find_datagram_qp(d.a(), d.ends[0].qpn);
  CHECK(a->state == QpState::err);
  CHECK(a->cause == QpErrorCause::memory_withdrawn);
  const auto flushed = d.sends(0);
  REQUIRE(flushed.size() == 1);
  CHECK(flushed[0].status == WcStatus::wr_flush_err);
  CHECK_FALSE(d.a().has_output());
  REQUIRE(d.receive(0, 0) == Errc::invalid_state);
}

TEST_CASE("datagram: connections and datagrams do not take each other's packets") {
  Datagrams d;
  Traffic traffic(d.pair, {.messages = 20}, 1);
  REQUIRE(traffic.run(10s));
  REQUIRE(d.receive(1, 0) == Errc::ok);
  const DropStats& drops = d.b().stats().drops;
  std::array<std::uint8_t, 64> bytes{};
  const auto inject = [&](wire::Opcode opcode, Qpn to, Psn psn, std::uint32_t check = 0) {
    wire::DatagramHeader h;
    h.dqp = to;
    h.psn = psn;
    h.q_key = Datagrams::kQKey;
    const std::size_t n = wire::build_datagram_header(bytes.data(), h);
    bytes[0] = static_cast<std::uint8_t>(opcode);
    wire::RxPacket packet;
    packet.bytes = Bytes(bytes).first(wire::is_write(opcode) ? 48 : n + 16);
    packet.udp_length = static_cast<std::uint32_t>(packet.bytes.size()) + 12;
    packet.source = EnginePair::source_tag(0, 0);
    packet.check = check;
    d.pair.inject(1, packet);
  };
  const auto* connected = d.b().find_qp(traffic.peer_qpn());
  REQUIRE(connected != nullptr);
  const QpStats before = d.b().qp_stats(*connected);
  const Psn expected = connected->rx.window.cack() + 1;
  inject(wire::Opcode::datagram, traffic.peer_qpn(), expected);
  CHECK(drops.unknown_qp == 1);
  inject(wire::Opcode::datagram, traffic.peer_qpn(), expected, connected->tag.check());
  CHECK(drops.bad_icrc == 1);
  CHECK(connected->state == QpState::rts);
  CHECK(connected->rx.window.cack() + 1 == expected);
  CHECK(d.b().qp_stats(*connected).rx_packets == before.rx_packets);
  for (const wire::Opcode opcode : {wire::Opcode::write_only, wire::Opcode::write_only_imm})
    inject(opcode, d.ends[1].qpn, Psn{0});
  CHECK(drops.unknown_qp == 3);
  inject(wire::Opcode::datagram, d.ends[1].qpn, Psn{0}, 1);
  CHECK(drops.bad_icrc == 2);
  CHECK(d.receives(1).empty());
  bytes = {};
  inject(wire::Opcode::datagram, d.ends[1].qpn, Psn{0});  // so that the others could have arrived
  CHECK(d.receives(1).size() == 1);
  wire::TxBurst burst(64, 256);
  d.b().poll_transmit(d.pair.now(), ~PlaneMask{0}, burst);
  CHECK(burst.empty());  // nobody is answered
}
