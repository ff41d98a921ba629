// SPDX-License-Identifier: Apache-2.0
// What devices offer each other beyond MRC 1.0, and that option strict leaves nothing of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "gid_rig.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/transport.hpp"
#include "support/memory_planes.hpp"

using namespace mrc;
using namespace mrc::test;

namespace strict_test {

Config strict_config(bool strict = true) {
  Config config = test_config("loopback:1");
  config.strict = strict;
  config.rnr_retry = 3;
  config.min_rnr_timer = 20;
  config.max_rd_atomic = 5;
  config.max_rd_atomic_dest = 6;
  return config;
}

/// A device whose peer is the test: it sees every packet that the device sends, and answers none.
struct Observed : Side {
  explicit Observed(const Config& config) : Observed(config, std::make_shared<MemoryNetwork>()) {}
  Observed(const Config& config, std::shared_ptr<MemoryNetwork> of)
      : Side(config, 1 << 14, std::make_unique<MemoryKind>(of, std::uint8_t{1})),
        network(std::move(of)),
        qp(add_qp()) {
    gid[0] = 0xfd;
    gid[14] = 2;
    inbox = network->open({gid, kSlot});
    REQUIRE(inbox);
  }
  /// What the peer would say: everything there is.
  [[nodiscard]] ConnectionInfo info() const {
    ConnectionInfo info;
    info.foreign = false;
    info.device_guid = 77;
    info.qpn = Qpn{kSlot << 16 | 0x1234u};
    info.slot = kSlot;
    info.planes = {{gid, kSlot}};
    info.tag = 0xFEDC'BA98'7654'3210;
    info.solicited = info.parts = info.rc = info.mtu_multiples = true;
    info.max_rd_atomic_dest = 16;
    info.mtu = 8192;
    info.receive_window = 1 << 20;
    return info;
  }
  void find_by_gid() {
    qp.modify(to(QpState::init));
    qp.modify(to_rtr(gid, info().qpn, Psn{5}));
  }
  void post(std::uint32_t bytes) {
    const Sge data = sge(0, bytes);
    SendRequest request;
    request.opcode = SendOpcode::write_imm;
    request.sges = {&data, 1};
    request.flags.solicited = true;
    REQUIRE(qp.post_send(request) == Errc::ok);
  }

  static constexpr std::uint8_t kSlot = 9;
  port::IpAddress gid{};
  std::shared_ptr<MemoryNetwork> network;
  std::shared_ptr<Inbox> inbox;
  QueuePair& qp;
};

/// What there is of extensions in packets.
struct Seen {
  std::set<wire::Opcode> opcodes;
  bool tags = false, solicited = false;
  std::size_t largest = 0;  ///< payload
  unsigned data = 0;

  void add(const wire::RxPacket& packet) {
    REQUIRE(wire::check(packet.bytes) == wire::ParseError::none);
    const auto& bth = wire::view_as<wire::Bth>(packet.bytes);
    opcodes.insert(bth.opcode());
    tags = tags || bth.p_key() != wire::kDefaultPKey || (bth.a_rtx_ts & 0x0F) != 0 ||
           packet.check != 0;
    solicited = solicited || bth.solicited_event();
    if (!wire::is_data(bth.opcode())) return;
    ++data;
    largest = std::max(largest, wire::view_write(packet.bytes).payload.size());
  }
};

/// Everything that comes within the patience of tests until `enough`.
template <class F>
Seen watch(Inbox& inbox, F&& enough) {
  Seen seen;
  Inbox::Packets packets;
  (void)eventually([&] {
    inbox.take(packets);
    for (const auto& packet : packets.facts) seen.add(packet);
    return enough(seen);
  });
  return seen;
}

TEST_CASE("rc: queue pairs offer SEND, READ and atomics, with the limits of their attributes") {
  Side a(strict_config(false));
  a.qps.reserve(4);
  const ConnectionInfo info = a.add_qp().local_info();
  CHECK(info.rc);
  CHECK(info.max_rd_atomic_dest == 6);
  CHECK(decode_connection_info(encode(info)) == info);
  const QpAttributes attributes = a.qps[0].query().attributes;
  CHECK(attributes.rc);
  CHECK(attributes.max_rd_atomic == 5);
  CHECK(attributes.max_rd_atomic_dest == 6);
  CHECK(attributes.rnr_retry == 3);
  CHECK(attributes.min_rnr_timer == 20);

  QpOptions options{.send_cq = &a.cq, .attributes = a.device.default_attributes()};
  options.attributes->max_rd_atomic_dest = 1;
  CHECK(a.device.create_qp(options).local_info().max_rd_atomic_dest == 1);
  options.attributes->rc = false;
  const ConnectionInfo without = a.device.create_qp(options).local_info();
  CHECK_FALSE(without.rc);
  CHECK(without.max_rd_atomic_dest == 0);
}

TEST_CASE("rc: what the peer says of itself reaches the engine") {
  ConnectionInfo info;
  info.start_psn = Psn{77};
  CHECK_FALSE(detail::remote_of(info, PeerId{0}).rc);
  info.rc = true;
  info.max_rd_atomic_dest = 9;
  const RemoteQp remote = detail::remote_of(info, PeerId{3});
  CHECK(remote.rc);
  CHECK(remote.max_rd_atomic_dest == 9);
  CHECK(remote.start_psn == Psn{77});  // of a peer that was found by GID, too
}

TEST_CASE("strict: nothing is offered, whatever a program asks for") {
  Config config = strict_config();
  config.mtu = 8192;
  Side a(config);
  a.qps.reserve(2);
  QpOptions options{.send_cq = &a.cq, .attributes = a.device.default_attributes()};
  CHECK_FALSE(options.attributes->rc);
  CHECK(options.attributes->mtu == 4096);
  options.attributes->rc = true;
  options.attributes->mtu = 1408;
  for (QueuePair* qp : {&a.add_qp(), &a.qps.emplace_back(a.device.create_qp(options))}) {
    const ConnectionInfo info = qp->local_info();
    CHECK_FALSE(info.rc);
    CHECK(info.max_rd_atomic_dest == 0);
    CHECK(info.tag == 0);
    CHECK_FALSE(info.solicited);
    CHECK_FALSE(info.parts);
    CHECK_FALSE(info.mtu_multiples);
    CHECK(info.mtu == (qp == &a.qps[0] ? 4096u : 1024u));
    CHECK_FALSE(qp->query().attributes.rc);
  }
  options.attributes->mtu = 1500;  // no MTU: an error as ever
  CHECK_THROWS_AS((void)a.device.create_qp(options), Error);
}

TEST_CASE("strict: packets have nothing of OpenMRC, even if the peer offers all of it") {
  for (const bool strict : {true, false}) {
    CAPTURE(strict);
    Config config = strict_config(strict);
    config.mtu = 8192;
    Observed o(config);
    o.qp.connect(o.info());
    o.post(16 << 10);
    const unsigned packets = strict ? 4 : 2;
    const Seen seen =
        watch(*o.inbox, [&](const Seen& s) { return s.data >= packets && s.opcodes.size() > 1; });
    CHECK(seen.data >= packets);
    CHECK(seen.tags == !strict);
    CHECK(seen.solicited == !strict);
    CHECK(seen.largest == (strict ? 4096 : 8192));
    CHECK(o.qp.query().mtu == (strict ? 4096 : 8192));
  }
}

TEST_CASE("strict: a larger MTU can't be agreed on step by step") {
  Config config = strict_config();
  config.mtu = 8192;
  Observed o(config);
  o.qp.modify({.state = QpState::init});
  QpChange change{.state = QpState::rtr};
  change.connection = o.info();
  change.mtu = 8192;
  CHECK_THROWS_AS(o.qp.modify(change), Error);
  change.mtu = 2048;
  o.qp.modify(change);
  CHECK(o.qp.query().mtu == 2048);
}

TEST_CASE("strict: a peer that is known by GID is not asked") {
  for (const bool strict : {true, false}) {
    CAPTURE(strict);
    Config config = strict_config(strict);
    config.udp_port = Observed::kSlot;  // where a peer of which nothing is known receives
    Observed o(config);
    o.find_by_gid();
    CHECK(o.qp.query().resolving == !strict);
    o.qp.modify({.state = QpState::rts});
    o.post(1000);
    const auto first = strict ? wire::Opcode::write_only_imm : wire::Opcode::resolution;
    const Seen seen = watch(*o.inbox, [&](const Seen& s) { return s.opcodes.count(first) != 0; });
    CHECK(seen.opcodes.count(first) == 1);
    CHECK(seen.opcodes.count(wire::Opcode::resolution) == (strict ? 0 : 1));
  }
}

TEST_CASE("strict: who asks for a queue pair gets no answer") {
  Observed o(strict_config());
  o.find_by_gid();
  Config config = strict_config(false);
  config.seed = 99;
  Side other(config, 4096, std::make_unique<MemoryKind>(o.network, std::uint8_t{3}));
  QueuePair& asks = other.add_qp();
  asks.modify(to(QpState::init));
  asks.modify(to_rtr(o.device.gid(), o.qp.qpn(), Psn{5}));
  CHECK(asks.query().resolving);
  // Of a device that has answered it would wait for more.
  CHECK(eventually([&] { return !asks.query().resolving; }));
}

TEST_CASE("strict: devices connect and copy, whoever of them is strict") {
  for (const bool both : {true, false}) {
    Pair pair(strict_config(), strict_config(both));
    pair.copy_all();
    CHECK(pair.b.device.stats().engine.drops.bad_tag == 0);
    CHECK(pair.b.device.stats().engine.drops.bad_icrc == 0);
  }
}

TEST_CASE("rc: SEND needs the agreement of both sides, by whatever way they connect") {
  for (const bool by_gid : {false, true}) {
    for (const bool strict : {false, true}) {
      CAPTURE(by_gid);
      CAPTURE(strict);
      if (by_gid && strict) continue;  // two devices of one host: a strict one is not found by GID
      Side a(strict_config(false)), b(Pair::other(strict_config(strict)));
      QueuePair &from = a.add_qp(), &to = b.add_qp();  // receives with an SGE, by default
      // PSNs that only the programs know: those that the devices have told each other count.
      if (by_gid)
        connect_by_gid(a, from, b, to);
      else
        connect(from, to);
      const Sge target{b.target.data(), 5000, b.target_region.lkey()};
      REQUIRE(to.post_receive({.wr_id = 9, .sges = {&target, 1}}) == Errc::ok);
      const Sge sge = a.sge(100, 5000);
      SendRequest request;
      request.opcode = SendOpcode::send_imm;
      request.sges = {&sge, 1};
      request.immediate = 77;
      CHECK(from.post_send(request) == (strict ? Errc::unsupported : Errc::ok));
      if (strict) {
        request.opcode = SendOpcode::read;
        request.sges = {};
        CHECK(from.post_send(request) == Errc::unsupported);
        CHECK(to.post_send(request) == Errc::unsupported);
        continue;
      }
      CHECK(a.await_one().status == WcStatus::success);
      const Completion received = b.await_one();
      CHECK(received.opcode == WcOpcode::recv);
      CHECK(received.wr_id == 9);
      CHECK(received.byte_len == 5000);
      CHECK(received.immediate == 77);
      CHECK(std::equal(b.target.begin(), b.target.begin() + 5000, a.source.begin() + 100));
    }
  }
}

TEST_CASE("rc: a SEND posted to a peer that never says that it is an OpenMRC device fails") {
  Config config = strict_config(false);
  config.connect_timeout = 500ms;
  Observed o(config);
  o.find_by_gid();
  o.qp.modify({.state = QpState::rts});
  SendRequest request;
  request.wr_id = 5;
  request.opcode = SendOpcode::send;
  REQUIRE(o.qp.post_send(request) == Errc::ok);
  Completion done;
  REQUIRE(o.cq.wait({&done, 1}, kPatience) == 1);  // nobody answers the question who it is
  CHECK(done.wr_id == 5);
  CHECK(done.status == WcStatus::retry_exc_err);
  CHECK(o.qp.error_cause() == QpErrorCause::unresolved);
}

TEST_CASE("strict: interfaces that carry less get the power of two below") {
  const detail::Log silent(LogLevel::off);
  const auto network = std::make_shared<MemoryNetwork>();
  for (const bool strict : {true, false}) {
    Config config = strict_config(strict);
    config.mtu = 1408;
    detail::OpenedPlanes planes = MemoryKind(network, 1).open(config, std::nullopt, silent);
    CHECK(planes.mtu == (strict ? 1024 : 1408));
  }
}

}  // namespace strict_test
