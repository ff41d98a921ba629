// SPDX-License-Identifier: Apache-2.0
// Datagrams between two devices of one process, over real sockets.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/system.hpp"
#include "rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace datagram_test {

constexpr std::uint32_t kKey = 0x1EE7'0001;

/// A device with a datagram queue pair, and receives in slots of its memory.
struct DatagramSide : Side {
  static constexpr std::uint32_t kSlot = 8192;

  explicit DatagramSide(const Config& config, std::uint32_t depth = 64)
      : Side(config, std::size_t{depth} * kSlot) {
    DatagramOptions options;
    options.send_cq = &cq;
    options.capacity = {
        .send = 256, .receive = depth, .send_sges = 3, .inline_bytes = 200, .receive_sges = 1};
    ud = device.create_datagram_qp(options);
    REQUIRE(ud.start(kKey) == Errc::ok);
  }
  void receive(std::uint32_t slot) {
    const Sge into{target.data() + std::size_t{slot} * kSlot, kSlot, target_region.lkey()};
    REQUIRE(ud.post_receive({slot, {&into, 1}}) == Errc::ok);
  }
  [[nodiscard]] Bytes slot(std::uint64_t n) const {
    return Bytes(target).subspan(n * kSlot, kSlot);
  }

  DatagramQueuePair ud;
};

DatagramRequest to(const DatagramSide& side, const port::IpAddress& gid) {
  DatagramRequest request;
  request.to.gid = gid;
  request.remote_qpn = side.ud.qpn();
  request.remote_q_key = kKey;
  return request;
}

/// The sender's address, as the receiver reads it from the first 40 bytes.
port::IpAddress sender_of(Bytes slot) {
  const std::optional<AddressHandle> sender = answer_to(slot);
  REQUIRE(sender.has_value());
  return sender->gid;
}

/// One datagram there, and an answer to what its receiver knows of it.
void exchange_one(const Config& config) {
  DatagramSide a(config), b(Pair::other(config));
  b.receive(1);
  a.receive(2);
  const Sge sge = a.sge(10, 777);
  DatagramRequest request = to(b, b.device.gid());
  request.wr_id = 5;
  request.sges = {&sge, 1};
  request.immediate = 0xFEED;
  request.to.traffic_class = 0x20;
  a.ud.prepare(request.to, request.remote_qpn);
  REQUIRE(a.ud.post_send(request) == Errc::ok);
  const Completion sent = a.await_one();
  CHECK(sent.opcode == WcOpcode::send);
  CHECK(sent.wr_id == 5);
  const Completion got = b.await_one();
  REQUIRE(got.status == WcStatus::success);
  CHECK(got.opcode == WcOpcode::recv);
  CHECK(got.wr_id == 1);
  CHECK(got.byte_len == 777 + kGrhBytes);
  CHECK(got.immediate == 0xFEED);
  CHECK(got.source_qpn == a.ud.qpn());
  REQUIRE(got.has_grh);
  CHECK(std::memcmp(b.slot(1).data() + kGrhBytes, a.source.data() + 10, 777) == 0);
  CHECK(sender_of(b.slot(1)) == a.device.gid());

  const char text[] = "an answer";
  const Sge inlined{text, sizeof text, 0};
  DatagramRequest answer = to(a, sender_of(b.slot(1)));
  answer.remote_qpn = got.source_qpn;
  answer.sges = {&inlined, 1};
  answer.flags.inline_data = true;
  answer.flags.signaled = false;
  REQUIRE(b.ud.post_send(answer) == Errc::ok);
  const Completion back = a.await_one();
  CHECK(back.wr_id == 2);
  CHECK(back.byte_len == sizeof text + kGrhBytes);
  CHECK_FALSE(back.has_immediate);
  CHECK(std::memcmp(a.slot(2).data() + kGrhBytes, text, sizeof text) == 0);
  CHECK(a.ud.query().stats.tx_packets == 1);
  CHECK(a.ud.query().stats.rx_packets == 1);
}

TEST_CASE("datagram: there and back over IPv4") {
  exchange_one(test_config("loopback:2"));
}

TEST_CASE("datagram: there and back over IPv6") {
  MRC_NEED_IPV6();
  exchange_one(test_config("::1"));
}

TEST_CASE("datagram: there and back without iCRC, and between lanes") {
  Config config = test_config("loopback:1");
  config.icrc = port::Offload::off;
  exchange_one(config);
  config.icrc = port::Offload::on;
  config.lanes = 2;
  exchange_one(config);
}

TEST_CASE("datagram: the address of any plane, each by the own plane of the same number") {
  Config config = test_config();
  config.planes = {"127.0.0.1", "127.0.0.2"};
  DatagramSide a(config), b(Pair::other(config));
  for (unsigned plane = 0; plane < 2; ++plane) {
    b.receive(plane);
    DatagramRequest request = to(b, port::make_v4(127, 0, 0, static_cast<std::uint8_t>(1 + plane)));
    request.flags.signaled = false;
    REQUIRE(a.ud.post_send(request) == Errc::ok);
    const Completion got = b.await_one();
    CHECK(got.byte_len == kGrhBytes);
    CHECK(sender_of(b.slot(plane)) == request.to.gid);  // own plane of that address
  }
}

TEST_CASE("datagram: bad use is told apart") {
  DatagramSide a(test_config("loopback:1"));
  DatagramRequest request = to(a, a.device.gid());
  const Sge large = a.sge(0, 4097), small = a.sge(0, 10);
  request.sges = {&large, 1};
  CHECK(a.ud.query().mtu == 4096);
  CHECK(a.ud.post_send(request) == Errc::too_long);
  request.sges = {&small, 1};
  request.to.gid = {};
  CHECK(a.ud.post_send(request) == Errc::unreachable);
  CHECK(thrown_by([&] { a.ud.prepare(request.to, {}); }).code() == Errc::unreachable);
  request.to.gid = port::parse_ip("2001:db8::1");  // no plane has that version
  CHECK(a.ud.post_send(request) == Errc::unreachable);
  CHECK(thrown_by([&] { a.ud.prepare(request.to, {}); }).code() == Errc::unreachable);
  DatagramOptions options;
  CHECK(thrown_by([&] { (void)a.device.create_datagram_qp(options); }).code() ==
        Errc::invalid_argument);
  options.send_cq = &a.cq;
  options.lane = 7;
  CHECK(thrown_by([&] { (void)a.device.create_datagram_qp(options); }).code() ==
        Errc::invalid_argument);
  CHECK(a.ud.start(1) == Errc::invalid_state);
  CHECK(a.cq.close() == Errc::in_use);
  CHECK(a.ud.close() == Errc::ok);
  CHECK(a.ud.post_send(request) == Errc::not_found);
  CHECK(a.ud.post_receive({}) == Errc::not_found);
  CHECK(a.ud.state() == QpState::reset);
  CHECK(thrown_by([&] { (void)a.ud.query(); }).code() == Errc::not_found);
  CHECK(a.device.stats().qps == 0);
  CHECK(a.cq.close() == Errc::ok);
}

TEST_CASE("datagram: receives of a shared queue, whose lane counts; its limit and last receive") {
  Config config = test_config("loopback:1");
  config.lanes = 2;
  DatagramSide a(config), b(Pair::other(config));
  SharedReceiveQueue srq = b.device.create_srq({.depth = 4, .sges = 1, .lane = 1});
  DatagramOptions options;
  options.send_cq = &b.cq;
  options.srq = &srq;
  options.lane = 0;
  const Error elsewhere = thrown_by([&] { (void)b.device.create_datagram_qp(options); });
  CHECK(elsewhere.code() == Errc::invalid_argument);
  CHECK(std::string(elsewhere.what()).find("DatagramOptions::lane is 0") != std::string::npos);
  options.lane.reset();
  b.ud = b.device.create_datagram_qp(options);
  REQUIRE(b.ud.start(kKey) == Errc::ok);
  CHECK(b.ud.lane() == 1);
  CHECK(b.ud.query().srq == srq.id());
  CHECK(srq.query().users == 1);
  CHECK(b.ud.post_receive({}) == Errc::unsupported);
  const Sge into{b.target.data(), DatagramSide::kSlot, b.target_region.lkey()};
  REQUIRE(srq.post_receive({77, {&into, 1}}) == Errc::ok);
  REQUIRE(srq.set_limit(1) == Errc::ok);

  const Sge sge = a.sge(30, 500);
  DatagramRequest request = to(b, b.device.gid());
  request.sges = {&sge, 1};
  a.ud.prepare(request.to, request.remote_qpn);
  REQUIRE(a.ud.post_send(request) == Errc::ok);
  const Completion got = b.await_one();
  CHECK(got.status == WcStatus::success);
  CHECK(got.wr_id == 77);
  CHECK(got.qpn == b.ud.qpn());
  CHECK(std::memcmp(b.slot(0).data() + kGrhBytes, a.source.data() + 30, 500) == 0);
  CHECK(await_event(b.device, DeviceEvent::Kind::srq_limit).srq == srq.id());
  REQUIRE(b.ud.modify({QpState::err, {}, {}}) == Errc::ok);
  const DeviceEvent failed = await_event(b.device, DeviceEvent::Kind::qp_error);
  CHECK(failed.qpn == b.ud.qpn());
  CHECK(failed.cause == QpErrorCause::requested);
  CHECK(await_event(b.device, DeviceEvent::Kind::last_wqe).qpn == b.ud.qpn());
  CHECK(srq.close() == Errc::in_use);
  CHECK(b.ud.close() == Errc::ok);
  CHECK(srq.close() == Errc::ok);
}

TEST_CASE("datagram: more devices than are kept at a time") {
  DatagramSide a(test_config("loopback:1"));
  DatagramRequest request = to(a, {});
  request.remote_qpn = Qpn{0xFF0005};  // nobody is there
  for (unsigned i = 0; i < 5000; ++i) {
    request.to.gid =
        port::make_v4(127, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i));
    REQUIRE(a.ud.post_send(request) == Errc::ok);
    const Completion sent = a.await_one();
    CHECK(sent.status == WcStatus::success);
  }
  a.receive(0);
  request.to.gid = a.device.gid();
  request.remote_qpn = a.ud.qpn();
  REQUIRE(a.ud.post_send(request) == Errc::ok);  // to itself
  CHECK(a.await(2).back().status == WcStatus::success);
}

TEST_CASE("datagram: very many, each whole or not at all; most arrive") {
#if defined(MRC_THREAD_SANITIZER)  // takes ten times as long for each
  constexpr std::uint32_t kCount = 10'000;
#else
  constexpr std::uint32_t kCount = 100'000;
#endif
  DatagramSide a(test_config("loopback:2")), b(test_config("loopback:2", 1001), 1024);
  for (std::uint32_t i = 0; i < 1024; ++i) b.receive(i);
  std::array<Completion, 64> some;
  std::uint32_t posted = 0, sent = 0, received = 0;
  std::uint64_t before = 0;
  bool first = true;
  const Time end = monotonic_now() + 4 * kPatience;
  Time idle = monotonic_now();
  while ((sent < kCount || monotonic_now() - idle < 100ms) && monotonic_now() < end) {
    // So far ahead of the receiver that its receives mostly suffice.
    while (posted < kCount && posted - received < 700) {
      const Sge sge = a.sge(posted % 4000, 1 + posted % 2000);
      DatagramRequest request = to(b, b.device.gid());
      request.sges = {&sge, 1};
      request.immediate = posted;
      if (a.ud.post_send(request) != Errc::ok) break;
      ++posted;
    }
    for (std::size_t n = a.cq.poll(some); n > 0; --n) {
      REQUIRE(some[n - 1].status == WcStatus::success);
      ++sent;
    }
    const std::size_t n = b.cq.poll(some);
    for (std::size_t i = 0; i < n; ++i) {
      const Completion& c = some[i];
      REQUIRE(c.status == WcStatus::success);
      REQUIRE(c.immediate < kCount);
      REQUIRE(c.byte_len == kGrhBytes + 1 + c.immediate % 2000);
      CHECK(std::memcmp(b.slot(c.wr_id).data() + kGrhBytes, a.source.data() + c.immediate % 4000,
                        c.byte_len - kGrhBytes) == 0);
      CHECK((first || c.immediate > before));  // one flow, one path, no loss of order
      first = false;
      before = c.immediate;
      b.receive(static_cast<std::uint32_t>(c.wr_id));
      ++received;
    }
    if (n > 0) idle = monotonic_now();
    // What was lost must not keep the sender waiting for ever.
    if (posted < kCount && posted - received >= 700 && monotonic_now() - idle > 20ms)
      received = posted;
  }
  CHECK(sent == kCount);
  const DatagramStats in = b.ud.query().stats;
  CHECK(in.rx_packets > kCount / 2);
  CHECK(a.ud.query().stats.tx_packets == kCount);
  CHECK(b.device.stats().engine.drops.malformed == 0);
  MESSAGE("arrived: " << in.rx_packets << ", without a receive: " << in.no_receive);
}

TEST_CASE("datagram: a flood that nobody receives leaves writes alone") {
  const Config config = test_config("loopback:1");
  DatagramSide a(config), b(Pair::other(config));
  connect(a.add_qp(), b.add_qp());
  const Sge sge = a.sge(0, 64);
  std::vector<DatagramRequest> flood(64, to(b, b.device.gid()));
  for (DatagramRequest& request : flood) {
    request.sges = {&sge, 1};
    request.flags.signaled = false;
  }
  for (unsigned i = 0; i < 400; ++i) {
    std::size_t posted = 0;
    (void)a.ud.post_sends(flood, posted);
    REQUIRE(post_copy(a, a.qps[0], b, 1000 * (i % 64), 1000, i) == Errc::ok);
    const Completion done = a.await_one();
    CHECK(done.wr_id == i);
    REQUIRE(done.status == WcStatus::success);
  }
  CHECK(std::memcmp(a.source.data(), b.target.data(), 64'000) == 0);
  CHECK(b.ud.query().stats.no_receive > 1000);
  CHECK(b.ud.state() == QpState::rts);
  CHECK(b.qps[0].state() == QpState::rts);
}

/// Datagrams, each again after a while, until one arrives. Returns how many were sent.
unsigned send_until_received(DatagramSide& from, DatagramSide& to_side,
                             const port::IpAddress& gid) {
  to_side.receive(1);
  DatagramRequest request = to(to_side, gid);
  request.flags.signaled = false;
  std::array<Completion, 1> got;
  unsigned sent = 0;
  REQUIRE(eventually([&] {
    REQUIRE(from.ud.post_send(request) == Errc::ok);
    ++sent;
    return to_side.cq.wait(got, 100ms) == 1;
  }));
  return sent;
}

TEST_CASE("datagram: a plane that is a black hole at the receiver, or at the sender") {
  bool at_sender = false;
  SUBCASE("receiver") {}
  SUBCASE("sender") {
    at_sender = true;
  }
  const Config config = test_config("loopback:2");
  DatagramSide a(config), b(Pair::other(config));
  const port::IpAddress gid = b.device.gid();
  CHECK(send_until_received(a, b, gid) >= 1);
  (at_sender ? a : b).device.set_faults("plane=0,blackhole");
  CHECK(send_until_received(a, b, gid) >= 1);
  CHECK(send_until_received(a, b, gid) <= 3);  // now it knows; asking again does no harm
  // The plane is back: it is as good as the other one, or better.
  (at_sender ? a : b).device.set_faults("");
  for (int i = 0; i < 3; ++i) CHECK(send_until_received(a, b, gid) >= 1);
}

}  // namespace datagram_test
