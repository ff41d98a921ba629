// SPDX-License-Identifier: Apache-2.0
// Queue pairs that are connected step by step, by GID, QPN and PSN, as verbs programs do.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gid_rig.hpp"
#include "mrc/wire/headers.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("by GID: two devices find each other, and use all planes") {
  GidPair pair;
  copy_one(pair.a, pair.a.qps[0], pair.b);
  copy_one(pair.b, pair.b.qps[0], pair.a);
  CHECK(pair.a.device.paths(pair.a.qps[0]).size() == 8);
  const QpInfo info = pair.a.qps[0].query();
  CHECK(info.state == QpState::rts);
  CHECK_FALSE(info.resolving);
  CHECK(info.gid == pair.b.device.gid());
  CHECK(info.remote_qpn == pair.b.qps[0].qpn());
  const QpInfo other = pair.b.qps[0].query();
  CHECK(info.send_psn == other.receive_psn);  // the devices may have agreed on others than given
  CHECK(info.receive_psn == other.send_psn);
  CHECK(info.mtu == pair.a.device.default_attributes().mtu);
}

TEST_CASE("by GID: what is posted before the peer is there waits for it") {
  Side a(test_config());
  const Config config = Pair::other(test_config());
  auto late = std::make_unique<Side>(config);
  connect_by_gid(a.add_qp(), kPsnA, late->device.gid(), late->add_qp().qpn(), kPsnB);
  REQUIRE(post_copy(a, a.qps[0], *late, 0, 4096, 7) == Errc::ok);
  CHECK(a.qps[0].query().resolving);
  std::this_thread::sleep_for(100ms);  // its device answers that it is not ready
  CHECK(a.qps[0].state() == QpState::rts);
  CHECK(a.qps[0].query().resolving);
  connect_by_gid(late->qps[0], kPsnB, a.device.gid(), a.qps[0].qpn(), kPsnA);
  const Completion done = a.await_one();
  CHECK(done.wr_id == 7);
  CHECK(done.status == WcStatus::success);
}

TEST_CASE("by GID: a peer that is heard only after this side has given up asking") {
  Config config = test_config();
  config.mtu = 1408;
  config.connect_timeout = 2s;  // then it gives up after 400 ms
  Side a(config);
  port::IpAddress gid{};
  Qpn qpn{};
  Side b(Pair::other(config));
  gid = b.device.gid();
  qpn = b.add_qp().qpn();
  b.device.set_faults("blackhole");
  connect_by_gid(a.add_qp(), kPsnA, gid, qpn, kPsnB);
  REQUIRE(eventually([&] { return !a.qps[0].query().resolving; }));  // taken for plain MRC
  CHECK(a.device.stats().peers == 1);
  CHECK(a.qps[0].query().mtu == 1024);  // which has powers of two only
  CHECK(a.device.paths(a.qps[0]).size() > 0);
  b.device.set_faults("");
  REQUIRE(post_copy(a, a.qps[0], b, 0, 4096, 7) == Errc::ok);
  connect_by_gid(b.qps[0], kPsnB, a.device.gid(), a.qps[0].qpn(), kPsnA);
  CHECK(a.await_one().status == WcStatus::success);
  copy_one(b, b.qps[0], a);
  CHECK(a.device.stats().peers == 1);
  CHECK(a.qps[0].query().mtu == 1408);
  CHECK(b.qps[0].query().mtu == 1408);
}

TEST_CASE("by GID: with itself, and two queue pairs of one device") {
  Side a(test_config());
  a.qps.reserve(3);
  QueuePair& self = a.add_qp();
  connect_by_gid(self, kPsnA, a.device.gid(), self.qpn(), kPsnA);
  copy_one(a, self, a);
  QueuePair& left = a.add_qp();
  QueuePair& right = a.add_qp();
  connect_by_gid(a, left, a, right);
  std::fill(a.target.begin(), a.target.end(), std::uint8_t{0});
  copy_one(a, right, a);
}

TEST_CASE("by GID: many at once, with losses") {
  Config config = test_config();
  Side a(config), b(Pair::other(config));
  a.device.set_faults("loss=0.2");
  b.device.set_faults("loss=0.2");
  constexpr std::size_t kPairs = 40;
  a.qps.reserve(kPairs);
  b.qps.reserve(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i)
    connect_by_gid(a.add_qp(), Psn{static_cast<std::uint32_t>(i)}, b.device.gid(), b.add_qp().qpn(),
                   kPsnB);
  for (std::size_t i = 0; i < kPairs; ++i)
    connect_by_gid(b.qps[i], kPsnB, a.device.gid(), a.qps[i].qpn(),
                   Psn{static_cast<std::uint32_t>(i)});
  for (std::size_t i = 0; i < kPairs; ++i) {
    REQUIRE(post_copy(a, a.qps[i], b, 0, 10'000, i) == Errc::ok);
    REQUIRE(post_copy(b, b.qps[i], a, 0, 10'000, i) == Errc::ok);
  }
  for (Side* side : {&a, &b})
    for (const Completion& c : side->await(kPairs)) {
      INFO(side->qps[c.wr_id].error_text());
      CHECK(c.status == WcStatus::success);
    }
  CHECK(a.device.stats().peers == 1);
}

TEST_CASE("by GID: with peer=openmrc silence is an error that names the GID") {
  Config config = test_config();
  config.peer = PeerKind::openmrc;
  config.connect_timeout = 500ms;
  Side a(config);
  connect_by_gid(a.add_qp(), kPsnA, port::parse_ip("127.0.0.9"), Qpn{0x050004}, kPsnB);
  const Sge sge = a.sge(0, 100);
  SendRequest request;
  request.wr_id = 3;
  request.sges = {&sge, 1};
  REQUIRE(a.qps[0].post_send(request) == Errc::ok);
  const Completion done = a.await_one();
  CHECK(done.status == WcStatus::retry_exc_err);
  CHECK(a.qps[0].state() == QpState::err);
  CHECK(a.qps[0].error_cause() == QpErrorCause::unresolved);
  const std::string text = a.qps[0].error_text();
  CAPTURE(text);
  CHECK(contains(text, "peer not found"));
  CHECK(contains(text, "127.0.0.9, queue pair 327684"));
  CHECK(contains(text, "option peer"));
  DeviceEvent event;
  REQUIRE(a.device.poll_event(event));
  CHECK(event.kind == DeviceEvent::Kind::qp_error);
  CHECK(event.qpn == a.qps[0].qpn());
  CHECK(event.cause == QpErrorCause::unresolved);
}

TEST_CASE("by GID: with peer=mrc nobody is asked") {
  Config config = test_config();
  config.peer = PeerKind::mrc;
  config.mtu = 1408;
  Side a(config);
  connect_by_gid(a.add_qp(), kPsnA, port::parse_ip("127.0.0.9"), Qpn{0x000004}, kPsnB);
  CHECK_FALSE(a.qps[0].query().resolving);
  CHECK(a.device.stats().peers == 1);
  CHECK(a.qps[0].query().mtu == 1024);
  CHECK(a.qps[0].query().send_psn == kPsnA);
  CHECK(a.qps[0].query().receive_psn == kPsnB);
}

TEST_CASE("by GID: reset, and connected anew to another one") {
  GidPair pair;
  copy_one(pair.a, pair.a.qps[0], pair.b);
  pair.b.qps.reserve(2);
  QueuePair& other = pair.b.add_qp();
  pair.a.qps[0].modify(to(QpState::reset));
  CHECK(pair.a.device.stats().peers == 0);
  CHECK(pair.a.qps[0].query().gid == port::IpAddress{});
  connect_by_gid(pair.a.qps[0], kPsnB, pair.b.device.gid(), other.qpn(), kPsnA);
  connect_by_gid(other, kPsnA, pair.a.device.gid(), pair.a.qps[0].qpn(), kPsnB);
  std::fill(pair.b.target.begin(), pair.b.target.end(), std::uint8_t{0});
  copy_one(pair.a, pair.a.qps[0], pair.b);
}

TEST_CASE("by GID: devices that don't fit each other say so") {
  Config config = test_config();
  config.mtu = 4096;
  Config other = Pair::other(config);
  other.icrc = port::Offload::off;
  Side a(config), b(other);
  // Without iCRC there is 0 in its place, so neither hears the other.
  connect_by_gid(a, a.add_qp(), b, b.add_qp());
  REQUIRE(eventually([&] { return !a.qps[0].query().resolving; }));
  QueuePair& qp = a.add_qp();
  qp.modify(to(QpState::init));
  QpChange larger = to_rtr(b.device.gid(), Qpn{0x010004}, kPsnB);
  larger.mtu = 8192;
  CHECK_THROWS_WITH_AS(qp.modify(larger), doctest::Contains("MTU is larger"), Error);
}

TEST_CASE("by GID: of two MTUs the smaller counts, also for what is posted already") {
  std::uint32_t mtu = 1024;
  SUBCASE("a power of two") {}
  SUBCASE("another multiple of 128") {
    mtu = 1408;
  }
  Config large = test_config(), small = Pair::other(test_config());
  small.mtu = mtu;
  Side a(large), b(small);
  connect_by_gid(a.add_qp(), kPsnA, b.device.gid(), b.add_qp().qpn(), kPsnB);
  REQUIRE(post_copy(a, a.qps[0], b, 0, 100'000) == Errc::ok);
  connect_by_gid(b.qps[0], kPsnB, a.device.gid(), a.qps[0].qpn(), kPsnA);
  CHECK(a.await_one().status == WcStatus::success);
  CHECK(std::equal(a.source.begin(), a.source.begin() + 100'000, b.target.begin()));
  copy_one(b, b.qps[0], a);
  CHECK(a.qps[0].query().mtu == mtu);
  CHECK(b.qps[0].query().mtu == mtu);
}

TEST_CASE("by GID: trimmed packets while the peer is looked for") {
  Side a(test_config());
  connect_by_gid(a.add_qp(), kPsnA, port::parse_ip("127.0.0.99"), Qpn{0x050004}, kPsnB);
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  const int tos = a.device.config().expert.dscp_trimmed << 2;
  REQUIRE(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos) == 0);
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(port::parse_address(a.device.plane_names()[0]).udp_port);
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto head = wire::Bth::make(wire::Opcode::write_only, a.qps[0].qpn(), kPsnB);
  std::array<std::uint8_t, 32> bytes{};
  std::memcpy(bytes.data(), &head, sizeof head);
  for (int i = 0; i < 20; ++i)
    (void)::sendto(fd, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&target),
                   sizeof target);
  ::close(fd);
  REQUIRE(eventually([&] { return a.device.stats().engine.rx_trimmed > 0; }));
  CHECK(a.qps[0].state() == QpState::rts);
  CHECK(a.device.stats().engine.drops.wrong_state > 0);
}

TEST_CASE("modify: steps out of order, and attributes of other steps, are errors that say so") {
  Side a(test_config());
  QueuePair& qp = a.add_qp();
  const port::IpAddress gid = a.device.gid();
  const auto fails = [&](const QpChange& change, Errc code, const char* text) {
    const QpState before = qp.state();
    const Error error = thrown_by([&] { qp.modify(change); });
    CAPTURE(std::string(error.what()));
    CHECK(error.code() == code);
    CHECK(contains(error.what(), text));
    CHECK(qp.state() == before);
  };
  fails(to_rtr(gid, qp.qpn(), kPsnA), Errc::invalid_state, "it is in RESET; only one in INIT can");
  fails(to(QpState::rts), Errc::invalid_state, "only one in RTR can");
  fails(to(QpState::err), Errc::invalid_state, "to ERR");
  qp.modify(to(QpState::init));
  fails(to(QpState::init), Errc::invalid_state, "only one in RESET can");
  fails(to(QpState::rtr), Errc::invalid_argument, "a destination and a receive PSN");
  QpChange change = to_rtr(gid, Qpn{2}, kPsnA);
  fails(change, Errc::invalid_argument, "reserved");
  change = to_rtr(port::parse_ip("fd00::1"), qp.qpn(), kPsnA);
  fails(change, Errc::unreachable, "no plane of this device has its IP version");
  change = to_rtr(gid, qp.qpn(), kPsnA);
  change.rts.timeout = 3;
  fails(change, Errc::invalid_argument, "attribute of another step");
  change = to_rtr(gid, qp.qpn(), kPsnA);
  change.rtr.mpr_dest = 0;
  fails(change, Errc::invalid_argument, "to RTR: mpr_dest is 0; it can be 1 to 255");
  change = to_rtr(gid, qp.qpn(), kPsnA);
  change.connection = qp.local_info();
  fails(change, Errc::invalid_argument, "not both");
  change = to(QpState::rts);
  change.mtu = 1024;
  fails(change, Errc::invalid_argument, "attribute of another step");
  change = to_rtr(gid, qp.qpn(), kPsnA);
  change.mtu = 1024;
  change.rtr.mpr_dest = 3;
  change.rtr.max_wimm_dest = 9;
  change.rtr.max_wimm = 7;
  qp.modify(change);
  change = to(QpState::rts);
  change.rts.timeout = 30;
  fails(change, Errc::invalid_argument, "to RTS: timeout is 30; it can be 0 to 24");
  change.rts.timeout = 9;
  change.rts.mpr = 5;
  qp.modify(change);
  const QpInfo info = qp.query();
  CHECK(info.mtu == 1024);
  CHECK(info.attributes.mpr_dest == 3);
  CHECK(info.attributes.max_wimm_dest == 9);
  CHECK(info.attributes.timeout == 9);
  CHECK(info.attributes.mpr == 5);
  CHECK(info.attributes.max_wimm == 7);
  qp.modify(to(QpState::err));
  CHECK(qp.state() == QpState::err);
  qp.modify(to(QpState::reset));
  CHECK(qp.state() == QpState::reset);
}

TEST_CASE("modify: step by step with ConnectionInfo, PSNs and an MTU of one's own") {
  Side a(test_config()), b(Pair::other(test_config()));
  QueuePair& qa = a.add_qp();
  QueuePair& qb = b.add_qp();
  const auto step = [](QueuePair& qp, const ConnectionInfo& peer, Psn own, Psn theirs) {
    qp.modify(to(QpState::init));
    QpChange change = to(QpState::rtr);
    change.connection = peer;
    change.receive_psn = theirs;
    change.mtu = 512;
    qp.modify(change);
    qp.modify(to_rts(own));
  };
  step(qa, qb.local_info(), kPsnA, kPsnB);
  step(qb, qa.local_info(), kPsnB, kPsnA);
  copy_one(a, qa, b);
  copy_one(b, qb, a);
  CHECK(qa.query().mtu == 512);
  CHECK(qa.query().send_psn != kPsnA);  // OpenMRC devices have agreed on others
  CHECK(qa.query().send_psn == qb.query().receive_psn);
  CHECK(qb.query().send_psn == qa.query().receive_psn);
}

TEST_CASE("modify: with PSNs of one's own, where one side offers no more than MRC") {
  for (const bool strict : {true, false}) {
    Config config = test_config();
    config.strict = strict;
    Side a(config), b(Pair::other(test_config()));
    QueuePair& qa = a.add_qp();
    QpOptions options{.send_cq = &b.cq, .attributes = b.device.default_attributes()};
    options.attributes->rc = strict;
    QueuePair qb = b.device.create_qp(options);
    const ConnectionInfo info_a = qa.local_info(), info_b = qb.local_info();
    for (QueuePair* qp : {&qa, &qb}) {
      const bool first = qp == &qa;
      qp->modify(to(QpState::init));
      QpChange change = to(QpState::rtr);
      change.connection = first ? info_b : info_a;
      change.receive_psn = first ? kPsnB : kPsnA;
      qp->modify(change);
      qp->modify(to_rts(first ? kPsnA : kPsnB));
    }
    copy_one(a, qa, b);
    CHECK(qa.query().send_psn == kPsnA);
    CHECK(qa.query().receive_psn == kPsnB);
  }
}

TEST_CASE("events: queue pairs that fail, and queues that overrun") {
  Pair pair;
  CompletionQueue small = pair.a.device.create_cq(1);
  QpOptions options;
  options.send_cq = &small;
  QueuePair qp = pair.a.device.create_qp(options);
  connect(qp, pair.b.add_qp());
  for (int i = 0; i < 3; ++i)
    if (post_copy(pair.a, qp, pair.b, 0, 100) != Errc::ok) CHECK(qp.state() == QpState::err);
  bool failed = false, overrun = false;
  REQUIRE(eventually([&] {
    DeviceEvent event;
    while (pair.a.device.poll_event(event)) {
      failed = failed || (event.kind == DeviceEvent::Kind::qp_error && event.qpn == qp.qpn() &&
                          event.cause == QpErrorCause::cq_overrun);
      overrun = overrun || event.kind == DeviceEvent::Kind::cq_overrun;
    }
    return failed && overrun;
  }));
  CHECK(small.overrun());
}

TEST_CASE("events: more than anybody takes are dropped and counted, and nothing else suffers") {
  Side a(test_config());
  QueuePair& qp = a.add_qp();
  for (int i = 0; i < 5000; ++i) {
    qp.modify(to(QpState::init));
    qp.modify(to(QpState::err));
    qp.modify(to(QpState::reset));
  }
  CHECK(a.device.stats().events_dropped == 5000 - 4096);
  DeviceEvent event;
  int taken = 0;
  while (a.device.poll_event(event)) ++taken;
  CHECK(taken == 4096);
}
