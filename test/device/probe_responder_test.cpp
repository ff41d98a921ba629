// SPDX-License-Identifier: Apache-2.0
// Devices as those who answer the EV probes of strangers: which way, to whom, and which process.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/fabric/packet_kind.hpp"
#include "mrc/fabric/probe_responder.hpp"
#include "plane/packet_rig.hpp"

using namespace mrc;
using namespace std::chrono_literals;
using detail::ProbeResponder;
using mrc::test::in_new_network;
using port::test::make_veth;
using port::test::packet_options;

namespace probe_responder_test {

/// h0 is at pa, h1 at pb; the others are nowhere.
fabric::Description describe(const std::string& more = {}) {
  std::string others;
  for (int i = 0; i < 40; ++i) others += ", {}";
  return fabric::parse("f.json", R"({ "t0": 4, "t1": 3, )" + more + R"("hosts": [
      { "addresses": ["fd00::a"] }, { "t0": 1, "addresses": ["fd00::b"] })" +
                                     others + "]}");
}

/// The responder of h0, and what h1 sees of it.
struct Responding {
  explicit Responding(const fabric::Description& description)
      : d(description), responder(d, d.hosts[0], config) {}

  /// The EV of the answer to a probe from that address; nothing if there is none.
  std::optional<Ev> ask(const std::string& from, Ev ev, Time now = Time{1s}) {
    wire::UnconnectedRequest probe;
    probe.source = port::source_tag(port::parse_ip(from));
    probe.entropy = ev;
    probe.id = ++id;
    probe.timestamp = 0x4711;
    rx.clear();
    asker.receive(monotonic_now(), rx);  // what others were sent
    if (!responder.answer(now, probe, port)) return std::nullopt;
    responder.flush(now, port);
    return arrived();
  }
  std::optional<Ev> arrived() {
    std::optional<Ev> ev;
    (void)eventually([&] {
      rx.clear();
      asker.receive(monotonic_now(), rx);
      for (const wire::RxPacket& packet : rx.packets()) {
        const auto& p = wire::view_as<wire::EndpointResponsePacket>(packet.bytes);
        CHECK(p.bth.opcode() == wire::Opcode::endpoint_response);
        CHECK(p.bth.psn().value() == id);
        CHECK(p.eeth.op() == wire::EndpointOp::ev_probe);
        CHECK(p.eeth.tx_timestamp.value() == 0x4711);
        ev = packet.entropy;
      }
      return ev.has_value();
    });
    return ev;
  }

  fabric::Description d;
  Config config;
  port::PacketPort port{packet_options(true)};
  port::PacketPort asker{packet_options(false)};
  ProbeResponder responder;
  port::RxBurst rx{64};
  std::uint16_t id = 0;
};

TEST_CASE("probe responder: back over the uplink of the probe, denied or not") {
  in_new_network([] {
    make_veth();
    Responding h0(describe(R"("deny": [{ "plane": 0, "t1": 1 }], )"));
    for (unsigned uplink = 0; uplink < 3; ++uplink) {
      const Ev ev = fabric::path_ev(h0.d, 0, uplink);
      CHECK(h0.ask("fd00::b", ev) == ev);
      CHECK(h0.ask("fd00::b", Ev{value(ev) | detail::kSecondEv}) == ev);
    }
    CHECK(h0.ask("fd00::b", Ev{0xFFFF}).has_value());  // whatever that one means
  });
}

TEST_CASE("probe responder: strangers and the own host get nothing") {
  in_new_network([] {
    make_veth();
    Responding h0(describe());
    CHECK(!h0.ask("fd00::c", Ev{0}).has_value());
    CHECK(!h0.ask("fd00::a", Ev{0}).has_value());
    CHECK(h0.ask("fd00::b", Ev{0}).has_value());
  });
}

TEST_CASE("probe responder: with ECMP the EV comes back as it is") {
  in_new_network([] {
    make_veth();
    Responding h0(describe(R"("forwarding": "ecmp", )"));
    CHECK(h0.ask("fd00::b", Ev{0x1C003}) == Ev{0x1C003});
    CHECK(h0.ask("fd00::b", Ev{0x1D003}).has_value());  // it has more paths than this host
  });
}

TEST_CASE("probe responder: more strangers than it keeps are answered all the same") {
  in_new_network([] {
    make_veth();
    Responding h0(describe());
    const auto ask_nobody = [&](int host) {
      wire::UnconnectedRequest probe;
      probe.source = port::source_tag(h0.d.hosts[static_cast<std::size_t>(host)].addresses[0]);
      return h0.responder.answer(Time{1s} + host * 1ms, probe, h0.port);
    };
    REQUIRE(h0.ask("fd00::b", Ev{1}) == Ev{1});
    for (int host = 2; host < 42; ++host) CHECK(ask_nobody(host));
    h0.responder.flush(Time{2s}, h0.port);
    CHECK(h0.port.stats().tx_packets == 41);
    CHECK(h0.port.stats().tx_errors == 0);
    CHECK(h0.ask("fd00::b", Ev{2}) == Ev{2});
  });
}

TEST_CASE("probe responder: one process of a host answers, and another one when it is gone") {
  in_new_network([] {
    make_veth();
    auto first = std::make_unique<Responding>(describe());
    auto second = std::make_unique<Responding>(describe());
    CHECK(first->ask("fd00::b", Ev{1}) == Ev{1});
    CHECK(!second->ask("fd00::b", Ev{1}).has_value());
    first.reset();
    CHECK(!second->ask("fd00::b", Ev{1}, Time{1500ms}).has_value());  // it looks once a second
    CHECK(second->ask("fd00::b", Ev{1}, Time{2500ms}) == Ev{1});
  });
}

TEST_CASE("probe responder: processes of other hosts and UDP ports do not count") {
  in_new_network([] {
    make_veth();
    Responding h0(describe());
    REQUIRE(h0.ask("fd00::b", Ev{1}) == Ev{1});
    wire::UnconnectedRequest probe;
    probe.source = port::source_tag(port::parse_ip("fd00::b"));
    Config config;
    config.udp_port = 4971;
    CHECK(ProbeResponder(h0.d, h0.d.hosts[0], config).answer(Time{1s}, probe, h0.port));
    CHECK(!ProbeResponder(h0.d, h0.d.hosts[0], h0.config).answer(Time{1s}, probe, h0.port));
    probe.source = port::source_tag(port::parse_ip("fd00::a"));
    CHECK(ProbeResponder(h0.d, h0.d.hosts[1], h0.config).answer(Time{1s}, probe, h0.port));
  });
}

TEST_CASE("probe responder: so many answers per host, and in all, however many probes come") {
  in_new_network([] {
    make_veth();
    Responding h0(describe());
    const auto answers = [&](const port::IpAddress& from, Time now, int probes) {
      std::uint32_t n = 0;
      wire::UnconnectedRequest probe;
      probe.source = port::source_tag(from);
      for (; probes > 0; --probes) n += h0.responder.answer(now, probe, h0.port);
      return n;
    };
    const port::IpAddress b = port::parse_ip("fd00::b");
    CHECK(answers(b, Time{1s}, 2000) == ProbeResponder::kBurstPerHost);
    CHECK(answers(b, Time{1s} + 10ms, 2000) == ProbeResponder::kAnswersPerHost / 100);
    std::uint32_t all = 0;
    for (const fabric::Host& host : h0.d.hosts) all += answers(host.addresses[0], Time{9s}, 2000);
    CHECK(all == ProbeResponder::kBurst);
  });
}

}  // namespace probe_responder_test
