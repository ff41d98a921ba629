// SPDX-License-Identifier: Apache-2.0
// Packets whose iCRC leaves the payload out: the engine says so in data packets to peers with which
// that is agreed, and in nothing else.
#include <doctest/doctest.h>

#include <map>

#include "engine/rc_rig.hpp"
#include "mrc/wire/transport.hpp"

using namespace mrc;
using namespace mrc::test;
using wire::Opcode;

namespace head_check_test {

/// How many packets of an opcode had the bit, and how many had it not.
struct Seen {
  unsigned with = 0, without = 0;
};

class Watched {
 public:
  explicit Watched(EnginePair& pair) {
    pair.tap = [this](unsigned, const wire::TxPacket&, const std::vector<std::uint8_t>& bytes) {
      const auto& bth = wire::view_as<wire::Bth>(bytes);
      ++(bth.head_check() ? of[bth.opcode()].with : of[bth.opcode()].without);
      CHECK((bth.variant_reserved & ~unsigned{wire::Bth::kHeadCheckBit}) == 0);
    };
  }
  std::map<Opcode, Seen> of;
};

/// A write, a SEND, a READ and an atomic from side 0.
void exchange_all(RcRig& rig) {
  rig.fill(0);
  rig.add();
  REQUIRE(rig.receive(1, 9, {rig.sge(1, 0, 20'000)}) == Errc::ok);
  std::vector<Sge> sges{rig.sge(0, 0, 20'000)};
  for (const SendOpcode opcode :
       {SendOpcode::write, SendOpcode::send, SendOpcode::read, SendOpcode::fetch_add}) {
    SendRequest request;
    request.opcode = opcode;
    if (opcode == SendOpcode::fetch_add) sges = {rig.sge(0, 0, 8)};
    request.sges = sges;
    request.remote = rig.at(1, 65'536);
    request.compare_add = 1;
    REQUIRE(rig.post(0, request) == Errc::ok);
  }
  REQUIRE(rig.run(4, 1));
  for (const Completion& done : rig.done(0)) CHECK(done.status == WcStatus::success);
}

TEST_CASE("head check: data packets say so to peers that have agreed, control packets do not") {
  RcRig rig({.head_check = true});
  const Watched watched(rig.pair);
  exchange_all(rig);
  for (const auto& of : watched.of) {
    const Opcode opcode = of.first;
    CAPTURE(wire::to_string(opcode));
    CHECK((wire::is_data(opcode) ? of.second.without : of.second.with) == 0);
  }
  for (const Opcode opcode :
       {Opcode::write_first, Opcode::write_last, Opcode::send_middle, Opcode::read_request,
        Opcode::read_response_middle, Opcode::fetch_add, Opcode::atomic_response, Opcode::sack}) {
    CAPTURE(wire::to_string(opcode));
    CHECK(watched.of.count(opcode) == 1);
  }
}

TEST_CASE("head check: without an agreement nothing is reserved, which MRC wants to be 0") {
  RcRig rig;
  const Watched watched(rig.pair);
  exchange_all(rig);
  for (const auto& [opcode, seen] : watched.of) CHECK(seen.with == 0);
}

TEST_CASE("head check: packets in parts, too") {
  EnginePair::Setup setup;
  setup.parts = setup.head_check = true;
  EnginePair pair(setup, 3);
  const Watched watched(pair);
  std::vector<std::uint8_t> source(100'000, 0x5A), target(source.size());
  const std::uint32_t from = pair.register_memory(0, source.data(), source.size(), Access::none);
  const std::uint32_t to =
      pair.register_memory(1, target.data(), target.size(), Access::remote_write);
  const CqId cq = *pair[0].create_cq(64), other = *pair[1].create_cq(64);
  engine::QpInit init;
  init.capacity = {.send = 16, .receive = 16, .send_sges = 1};
  init.pd = pair.pd(0);
  init.send_cq = init.receive_cq = cq;
  const Qpn a = *pair[0].create_qp(init);
  init.pd = pair.pd(1);
  init.send_cq = init.receive_cq = other;
  pair.connect(a, *pair[1].create_qp(init));
  for (Plane plane = 0; plane < setup.planes; ++plane)
    pair[0].set_plane_narrow(pair.now(), plane, true);
  const Sge sge{source.data(), static_cast<std::uint32_t>(source.size()), from};
  SendRequest request;
  request.sges = {&sge, 1};
  request.remote = {reinterpret_cast<std::uint64_t>(target.data()), to};
  REQUIRE(pair[0].post_send(a, request, pair.now()) == Errc::ok);
  Completion done;
  REQUIRE(pair.run_for(2s, [&] { return pair[0].poll_cq(cq, {&done, 1}) == 1; }));
  CHECK(done.status == WcStatus::success);
  CHECK(source == target);
  const auto parts = watched.of.find(Opcode::packet_part);
  REQUIRE(parts != watched.of.end());
  CHECK(parts->second.with > 0);
  CHECK(parts->second.without == 0);
}

}  // namespace head_check_test
