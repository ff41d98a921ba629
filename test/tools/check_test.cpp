// SPDX-License-Identifier: Apache-2.0
// Parts of `mrc_ctl check`: what is made of two hosts' facts, and what others may send.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <vector>

#include "mrc_ctl/check/facts.hpp"
#include "mrc_ctl/check/judge.hpp"
#include "mrc_ctl/check/port_owner.hpp"
#include "mrc_ctl/check/probe_packet.hpp"
#include "mrc_ctl/check/report.hpp"
#include "mrc_ctl/check/session.hpp"
#include "mrc_ctl/check/token_text.hpp"

namespace check_test {

using namespace mrc;
using namespace mrc::check_tool;

constexpr unsigned kPaths = 4;

/// Host N of two, with three planes that fit.
HostFacts good_host(unsigned number) {
  HostFacts host;
  host.host = "node" + std::to_string(number);
  host.version = "0.1.0";
  host.protocol = 2;
  host.kind = "udp";
  host.mtu = 4096;
  host.paths = 16;
  host.probed = kPaths;
  host.receive_wanted = host.receive_got = 8 << 20;
  host.send_wanted = host.send_got = 1 << 20;
  host.rmem_max = host.wmem_max = 212'992;
  host.gso = host.gro = true;
  for (unsigned i = 0; i < 3; ++i) {
    PlaneFacts plane;
    plane.address = port::parse_ip("10.0." + std::to_string(i) + "." + std::to_string(number));
    plane.interface = "eth" + std::to_string(i);
    plane.interface_mtu = 9000;
    plane.running = true;
    plane.udp_port = plane.probe_port = 4791;
    plane.leaves = {"eth0", "eth1", "eth2"};
    host.planes.push_back(plane);
  }
  return host;
}

Way way(unsigned passed, std::uint32_t size) {
  return {true, kPaths, passed, 0, size, 0};
}

/// Two hosts, and what was measured between them.
struct Checked {
  HostFacts here = good_host(1), there = good_host(2);
  Results results;

  Checked() {
    for (int i = 0; i < 3; ++i)
      results.planes.push_back(
          {way(kPaths, 284), way(kPaths, 284), way(kPaths, 4168), way(kPaths, 4168)});
  }
  [[nodiscard]] std::vector<Row> rows() const { return judge(here, there, results); }
  /// The only row that is not ok.
  [[nodiscard]] Row fault() const {
    std::vector<Row> bad = rows();
    std::erase_if(bad, [](const Row& row) { return row.verdict == Verdict::ok; });
    REQUIRE(bad.size() == 1);
    CHECK(!bad[0].remedy.empty());
    return bad[0];
  }
};

bool says(const Row& row, const std::string& text) {
  INFO(row.remedy);
  CHECK(row.remedy.find(text) != std::string::npos);
  return row.remedy.find(text) != std::string::npos;
}

TEST_CASE("check: two hosts that fit") {
  const Checked checked;
  const std::vector<Row> rows = checked.rows();
  CHECK(rows.size() > 10);
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(row.verdict == Verdict::ok);
    CHECK(row.remedy.empty());
  }
  Report report{"node2", "node1", "node2", "", rows};
  CHECK(report.fits());
  CHECK(report_text(report).find("node2") != std::string::npos);
  CHECK(report_json(report)["fits"] == true);
  report.problem = "silence";
  CHECK(!report.fits());
  CHECK(report_json(report)["problem"] == "silence");
}

TEST_CASE("check: releases and clocks") {
  Checked checked;
  checked.there.version = "0.2.0";
  CHECK(checked.fault().verdict == Verdict::warning);
  checked = {};
  checked.there.protocol = 3;
  CHECK(checked.fault().verdict == Verdict::failed);
  checked = {};
  checked.results.clock_ahead = -3.25;
  CHECK(checked.fault().verdict == Verdict::warning);
  CHECK(says(checked.fault(), "3.2 s apart"));
  checked.results.round_trip = 8;  // that is no precise question
  CHECK(checked.rows()[3].verdict == Verdict::ok);
}

TEST_CASE("check: planes in another order are named") {
  Checked checked;
  std::swap(checked.there.planes[1], checked.there.planes[2]);
  // By which interfaces packets leave, at both.
  for (PlaneFacts& plane : checked.here.planes) std::swap(plane.leaves[1], plane.leaves[2]);
  std::vector<Row> bad = checked.rows();
  std::erase_if(bad, [](const Row& row) { return row.verdict == Verdict::ok; });
  REQUIRE(bad.size() == 2);
  CHECK(bad[0].what == "plane 1");
  CHECK(bad[0].verdict == Verdict::failed);
  CHECK(says(bad[0],
             "plane 1 of node1 is eth1 10.0.1.1, and that of node2 is 10.0.2.2, which belongs with "
             "plane 2 of node1: give MRC_PLANES in the same order"));
  CHECK(belongs_to(checked.here, 0) == -1);
  CHECK(belongs_to(checked.here, 1) == 2);
  CHECK(belongs_to(checked.here, 9) == -1);
}

TEST_CASE("check: planes in one subnet are no wrong order") {
  Checked checked;
  for (PlaneFacts& plane : checked.here.planes) plane.leaves = {"eth0", "eth0", "eth0"};
  std::vector<Row> bad = checked.rows();
  std::erase_if(bad, [](const Row& row) { return row.verdict == Verdict::ok; });
  REQUIRE(bad.size() == 2);
  for (const Row& row : bad) {
    CHECK(row.verdict == Verdict::warning);
    CHECK(says(row, "give each plane a subnet of its own"));
  }
}

TEST_CASE("check: where either link may get the packets of planes in one subnet") {
  Checked checked;
  checked.there.planes[1].answers_for_all = true;
  CHECK(checked.fault().verdict == Verdict::warning);
  CHECK(says(checked.fault(),
             "node2: another plane is in the subnet of plane 1, and eth1 answers "
             "ARP for both"));
  CHECK(says(checked.fault(), "`sysctl -w net.ipv4.conf.eth1.arp_ignore=1`"));
  checked = {};
  checked.here.planes[2].strict_source = true;
  CHECK(checked.fault().verdict == Verdict::warning);
  CHECK(says(checked.fault(), "`sysctl -w net.ipv4.conf.eth2.rp_filter=2`"));
}

TEST_CASE("check: a plane whose address is on the loopback interface leaves by any link") {
  Checked checked;
  PlaneFacts& plane = checked.here.planes[0];
  plane.interface = "lo";
  plane.on_link = false;
  CHECK(checked.rows()[5].verdict == Verdict::ok);
  plane.leaves[0] = "";
  CHECK(checked.fault().verdict == Verdict::failed);
}

TEST_CASE("check: number, state and routes of planes") {
  Checked checked;
  checked.there.planes.pop_back();
  checked.results.planes.pop_back();
  CHECK(checked.fault().what == "planes");
  checked = {};
  checked.there.planes[2].running = false;
  CHECK(says(checked.fault(), "node2: interface eth2 of plane 2 is down"));
  checked = {};
  for (PlaneFacts& plane : checked.here.planes) plane.leaves[1] = "";
  CHECK(says(checked.fault(), "there is no route from 10.0.1.1 to 10.0.1.2"));
  checked = {};
  checked.here.planes[1].leaves[1] = "wlan0";
  for (const std::size_t i : {0, 2}) checked.here.planes[i].leaves[1] = "wlan0";
  CHECK(checked.fault().verdict == Verdict::warning);
  CHECK(says(checked.fault(), "leave by wlan0, not by eth1"));
  checked = {};
  checked.there.planes[0].address = port::parse_ip("fd00::2");
  CHECK(checked.rows()[5].verdict == Verdict::failed);
  CHECK(says(checked.rows()[5], "another IP version"));
}

TEST_CASE("check: UDP ports, MTU and paths that differ") {
  Checked checked;
  checked.there.planes[0].in_use = "pid 7 (other)";
  checked.there.planes[0].probe_port = 40'000;
  CHECK(says(checked.fault(), "UDP port 4791 of 10.0.0.2 is in use by pid 7 (other)"));
  checked = {};
  checked.there.planes[0].udp_port = 5000;
  CHECK(says(checked.fault(), "MRC_UDP_PORT"));
  checked = {};
  checked.there.mtu = 1408;
  checked.there.planes[1].interface_mtu = 1500;
  CHECK(says(checked.fault(), "plane 1 there is eth1 with an MTU of 1500"));
  checked.there.mtu = 0;
  CHECK(checked.fault().verdict == Verdict::failed);
  checked = {};
  checked.there.paths = 8;
  CHECK(checked.fault().verdict == Verdict::warning);
}

TEST_CASE("check: packets that do not pass, by size and direction") {
  Checked checked;
  PlaneResult& plane = checked.results.planes[1];
  plane.full_there = way(0, 4168);
  plane.full_there.fits = 1500;
  Row fault = checked.fault();
  CHECK(fault.what == "plane 1: 4,168 B packets");
  CHECK(fault.verdict == Verdict::failed);
  CHECK(fault.there == "0 of 4 arrive");
  CHECK(fault.here == "4 of 4 arrive");
  CHECK(says(fault,
             "packets of 4,168 bytes do not pass from 10.0.1.1 of node1 to 10.0.1.2 of node2; of "
             "1,500 do"));
  CHECK(says(fault, "MRC_MTU=1408"));
  plane.full_there = way(kPaths, 4168);
  plane.full_here = way(0, 4168);
  CHECK(says(checked.fault(), "do not pass from 10.0.1.2 of node2 to 10.0.1.1 of node1"));
  plane.full_here.error = EMSGSIZE;
  CHECK(says(checked.fault(), "MTU is too small"));
  plane.full_here = way(3, 4168);
  CHECK(says(checked.fault(),
             "packets of 4,168 bytes do not pass 1 of 4 paths from 10.0.1.2 of node2 to 10.0.1.1 "
             "of node1, small ones do"));
  plane.full_here = way(kPaths, 4168);
  plane.small_here = way(3, 284);
  CHECK(says(checked.fault(), "1 of 4 paths lose packets of 284 bytes"));

  checked = {};
  PlaneResult& silent = checked.results.planes[2];
  silent = {way(0, 284), {}, {}, {}};
  CHECK(says(checked.fault(), "nothing arrives from 10.0.2.1 of node1 to 10.0.2.2 of node2"));
  CHECK(checked.fault().here == "not tried");
  silent.small_there.error = ENETUNREACH;
  CHECK(says(checked.fault(), "there is no route"));
  silent = {way(kPaths, 284), way(0, 284), way(kPaths, 4168), {}};
  std::vector<Row> bad = checked.rows();
  std::erase_if(bad, [](const Row& row) { return row.verdict == Verdict::ok; });
  REQUIRE(bad.size() == 2);
  CHECK(says(bad[0], "nothing arrives from 10.0.2.2 of node2 to 10.0.2.1 of node1"));
  CHECK(says(bad[1], "were not tried from 10.0.2.2"));
}

TEST_CASE("check: TCP passes and UDP does not") {
  const auto first = [](const PlaneResult& every) {
    Checked checked;
    for (PlaneResult& plane : checked.results.planes) plane = every;
    std::vector<Row> bad = checked.rows();
    std::erase_if(bad, [](const Row& row) { return row.verdict != Verdict::failed; });
    REQUIRE_FALSE(bad.empty());
    return bad.front();
  };
  const Way none = way(0, 284), all = way(kPaths, 284);
  CHECK(says(first({none, none, {}, {}}),
             "TCP reaches node2, no UDP packet arrives in either direction: are UDP ports 4791"));
  CHECK(says(first({none, all, {}, {}}), "no UDP packet arrives from node1 to node2"));
  CHECK(says(first({all, none, {}, {}}), "no UDP packet arrives from node2 to node1"));
}

TEST_CASE("check: buffers and offloads") {
  Checked checked;
  checked.there.receive_got = 212'992;
  CHECK(says(checked.fault(), "node2: a socket gets 212992 bytes"));
  CHECK(says(checked.fault(), "sysctl -w net.core.rmem_max=8388608"));
  checked = {};
  checked.here.gso = false;
  CHECK(checked.fault().what == "GSO");
  checked.here.gso_wanted = checked.there.gso_wanted = false;
  CHECK(checked.rows().back().verdict == Verdict::ok);
}

TEST_CASE("check: planes of a fabric: what probes of its paths have shown") {
  Checked checked;
  checked.results.planes.clear();
  for (HostFacts* host : {&checked.here, &checked.there}) {
    host->planes.clear();
    host->kind = "fabric";
    host->fabric = "0123";
    host->fabric_host = "h1";
  }
  FabricResult& fabric = checked.results.fabric;
  fabric.problem = "no rights";
  CHECK(says(checked.fault(), "not probed: no rights; `mrc_probe`"));
  checked.there.fabric_host.clear();
  CHECK(says(checked.fault(), "no host with the addresses of node2"));
  fabric = {true, {}, {28, 28}, {28, 28}, 4231, {}};
  CHECK(Report{"", "", "", "", checked.rows()}.fits());
  fabric.full.answered = 26;
  fabric.faults = {{"link p1t0-0 - p1t1-1: small ones do", true, true}};
  CHECK(checked.fault().what == "4,231 B packets");
  CHECK(checked.fault().here == "26 of 28 paths");
  CHECK(says(checked.fault(), "link p1t0-0 - p1t1-1: small ones do: set the MTU of all ports"));
  CHECK(!Report{"", "", "", "", checked.rows()}.fits());
  fabric.full.answered = 28;
  fabric.faults = {{"link p1t0-0 - p1t1-1: 10 % of 240 probes over it lost", false, false}};
  CHECK(checked.fault().what == "small packets");
  CHECK(Report{"", "", "", "", checked.rows()}.fits());  // a warning
  fabric.faults.clear();
  fabric.small.answered = 27;  // no part explains it
  CHECK(says(checked.fault(), "the others gave no answer"));
  CHECK(Report{"", "", "", "", checked.rows()}.fits());
  fabric.small = {};
  CHECK(says(checked.fault(), "no path leads to it"));
  CHECK(!Report{"", "", "", "", checked.rows()}.fits());
  fabric.small = {28, 28};
  checked.there.fabric = "4567";
  CHECK(!Report{"", "", "", "", checked.rows()}.fits());
  checked.here.kind = checked.there.kind = "rdma";
  CHECK(says(checked.fault(), "RDMA planes"));
  checked.there.kind = "udp";
  CHECK(says(checked.fault(), "MRC_VERBS"));
}

TEST_CASE("check: facts of another host are read back, and anything else is refused") {
  const Json good = to_json(good_host(1));
  CHECK(to_json(facts_from(good)) == good);
  const auto refused = [](const Json& json) {
    INFO(json.dump());
    CHECK_THROWS_AS((void)facts_from(json), std::runtime_error);
  };
  for (const char* text : {"null", "7", "[]", "{}", "\"x\""}) refused(Json::parse(text));
  for (const auto& field : good.items()) {
    Json bad = good;
    bad.erase(field.key());
    refused(bad);
    for (const char* value : {"null", "-1", "1e300", "[[[]]]", "{\"a\":{}}"}) {
      bad[field.key()] = Json::parse(value);
      refused(bad);
    }
  }
  for (const auto& field : good["planes"][0].items()) {
    Json bad = good;
    bad["planes"][0].erase(field.key());
    refused(bad);
    bad["planes"][0][field.key()] = Json::object();
    refused(bad);
  }
  Json bad = good;
  bad["host"] = std::string(300, 'x');
  refused(bad);
  bad = good;
  bad["planes"] = Json::array();
  for (int i = 0; i < 33; ++i) bad["planes"].push_back(good["planes"][0]);
  refused(bad);
  bad = good;
  bad["planes"][0]["address"] = "0.0.0.0";
  refused(bad);
  bad = good;
  bad["planes"][0]["udp_port"] = 65'536;
  refused(bad);
  Json odd = good;
  odd["host"] = "a\x1b[31mb";
  CHECK(facts_from(odd).host == "a?[31mb");  // no terminal is to obey it
}

TEST_CASE("check: packets and tokens") {
  ProbeHead head;
  for (std::size_t i = 0; i < head.token.size(); ++i)
    head.token[i] = static_cast<std::uint8_t>(17 * i);
  head.kind = ProbeHead::Kind::answer;
  head.asking = 3;
  head.answering = 4;
  head.path = 63;
  head.round = 0x1234;
  head.wanted = 0xABCD;
  std::vector<std::uint8_t> packet(100);
  put_head(head, packet);
  CHECK(read_head(packet) == head);
  for (std::size_t size = 0; size < ProbeHead::kSize; ++size)
    CHECK(!read_head(std::span(packet).first(size)));
  packet[24] = 5;  // of no kind
  CHECK(!read_head(packet));
  packet[24] = 1;
  packet[0] ^= 1;
  CHECK(!read_head(packet));
  CHECK(token_from(token_text(head.token)) == head.token);
  for (const char* text : {"", "00", "zz112233445566778899aabbccddeeff"}) CHECK(!token_from(text));
}

TEST_CASE("check: answers go to nobody else, and are never more than what has come") {
  Token token;
  token.fill(7);
  Session session(token, good_host(1));
  const port::IpAddress asks = good_host(1).planes[1].address;
  ProbeHead head;
  head.token = token;
  head.asking = head.answering = 1;
  head.path = 2;
  head.round = 9;
  head.wanted = 1000;
  const auto request = [&](std::size_t size) { return session.on_request(head, size, 1, asks); };
  CHECK(!request(999));
  const auto answer = request(999);  // 1,998 bytes have come
  REQUIRE(answer.has_value());
  CHECK(answer->size == 1000);
  CHECK(answer->to == port::PeerAddress{asks, 4791});
  CHECK(answer->head.kind == ProbeHead::Kind::answer);
  CHECK(!request(1));
  CHECK(request(1).has_value());
  head.wanted = 1;  // not smaller than its head
  CHECK(!request(31));
  CHECK(session.report(9)["arrived"] == Json::parse("[[1,1,4]]"));
  CHECK(session.report(9)["arrived"].empty());

  const auto ignored = [&](ProbeHead other, unsigned plane, const port::IpAddress& from) {
    CHECK(!session.on_request(other, 60'000, plane, from));
    CHECK(session.report(9)["arrived"].empty());
  };
  ignored(head, 0, asks);                            // another plane than it says
  ignored(head, 1, good_host(1).planes[0].address);  // another sender
  ignored(head, 1, port::parse_ip("192.0.2.1"));     // a stranger
  ProbeHead bad = head;
  bad.token[0] ^= 1;
  ignored(bad, 1, asks);
  bad = head;
  bad.kind = ProbeHead::Kind::answer;  // or two hosts would answer each other for ever
  ignored(bad, 1, asks);
  bad = head;
  bad.asking = 200;
  ignored(bad, 1, asks);
  bad = head;
  bad.path = 64;
  ignored(bad, 1, asks);
  head.wanted = 0;
  for (unsigned round = 0; round < 65'536; ++round) {  // memory stays bounded
    head.round = static_cast<std::uint16_t>(round);
    CHECK(!session.on_request(head, 100, 1, asks));
  }
  CHECK(!session.report(0)["arrived"].empty());
  CHECK(session.report(65'535)["arrived"].empty());

  const auto asked = session.on_asked(9, 1, 3);  // by TCP
  REQUIRE(asked.has_value());
  CHECK(asked->size == ProbeHead::kSize);
  CHECK(asked->to == port::PeerAddress{asks, 4791});
  CHECK((asked->head.kind == ProbeHead::Kind::answer && asked->head.token == token &&
         asked->head.round == 9 && asked->head.asking == 1 && asked->head.path == 3));
  CHECK(!session.on_asked(9, good_host(1).planes.size(), 3));
  CHECK(!session.on_asked(9, 1, kMostPaths));
  unsigned more = 0;
  for (int i = 0; i < 5000; ++i) more += session.on_asked(9, 1, 3).has_value();
  CHECK(more == 4095);  // nobody has shown that it receives there

  session.on_failure(1, 1, ENETUNREACH);
  CHECK(session.report(1)["failed"] == Json::array({Json::array({1, 1, ENETUNREACH})}));
}

TEST_CASE("check: who has a UDP port") {
  const std::string table =
      "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode ref pointer drops\n"
      " 1000: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
      "4711 2 0000000000000000 0\n"
      " 1001: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
      "4712 2 0000000000000000 0\n";
  const auto local = port::parse_ip("127.0.0.1");
  CHECK(udp_inode(table, local, 4791) == 4711);
  CHECK(udp_inode(table, port::parse_ip("127.0.0.2"), 4791) == std::nullopt);
  CHECK(udp_inode(table, local, 53) == 4712);
  CHECK(udp_inode(table, local, 54) == std::nullopt);
  CHECK(udp_inode("", local, 53) == std::nullopt);
  CHECK(udp_inode("no : such table\n:\n\n", local, 53) == std::nullopt);
}

}  // namespace check_test
