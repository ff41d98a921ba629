// SPDX-License-Identifier: Apache-2.0
// Memory without relaxed ordering that responses and SENDs are placed in: who sees the last byte of
// a message sees all of it, and all messages before it.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/rc_rig.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;

namespace rc_order_test {

constexpr std::uint8_t kNew = 0x55;

/// Messages that lie in this order in the memory of side `side`, where every byte was 0.
struct Watch {
  const std::vector<std::uint8_t>& memory;
  struct Message {
    std::size_t at, length;
  };
  std::vector<Message> messages;
  std::size_t held = 0;  ///< how often a message was seen that only lacked its end

  /// To be called whenever memory may have changed. False if an end is visible too early.
  [[nodiscard]] bool in_order() {
    bool all = true;  // of the messages so far is visible
    for (const Message& m : messages) {
      const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(m.at);
      const auto end = begin + static_cast<std::ptrdiff_t>(m.length);
      const auto missing = std::find(begin, end, 0);
      held += missing != end && end - missing <= 8 && end - begin > 8;
      all = all && missing == end;
      if (m.length > 0 && *(end - 1) != 0 && !all) return false;
    }
    return true;
  }
};

/// A scatter list for `length` bytes at `at` whose last two parts share the end of the message.
std::vector<Sge> in_parts(const RcRig& rig, unsigned side, std::size_t at, std::size_t length) {
  const std::size_t last = std::min<std::size_t>(length, 3), first = length / 3;
  const std::size_t middle = length - std::min(length, first + last);
  std::vector<Sge> sges;
  std::size_t offset = at;
  for (const std::size_t n : {first, middle, length - first - middle}) {
    if (n > 0) sges.push_back(rig.sge(side, offset, n));
    offset += n;
  }
  return sges;
}

std::uint32_t any_length(Random& r) {
  return 1 + r.below(r.chance(0.5) ? 40 : 15'000);
}

/// Swallows, while `on`, the packet that begins a message of the operation `opcode` of side 1.
void lose_first(RcRig& rig, wire::Opcode opcode, const bool& on) {
  rig.pair.filter = [opcode, &on](unsigned side, const wire::TxPacket&,
                                  const std::vector<std::uint8_t>& bytes) {
    return !on || side != 1 || wire::view_as<wire::Bth>(bytes).opcode() != opcode;
  };
}

/// 40 messages of random lengths over a rough network, into the memory of side `to`. `post` posts
/// one, and gives its length.
template <class Post>
void check_order(unsigned to, bool sometimes_shared, Post&& post) {
  std::size_t held = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    RcRig rig({.shared = sometimes_shared && seed % 2 == 0, .seed = seed});
    Random r(seed);
    rig.pair.faults = rough();
    std::fill(rig.memory[1 - to].begin(), rig.memory[1 - to].end(), kNew);
    rig.add();
    Watch watch{rig.memory[to], {}};
    constexpr std::size_t kMessages = 40;
    std::size_t at = 0;
    for (std::size_t i = 0; i < kMessages; ++i) {
      const std::uint32_t length = post(rig, r, i, at);
      watch.messages.push_back({at, length});
      at += length + 7;
    }
    REQUIRE(rig.pair.run_for(2s, [&] {
      REQUIRE(watch.in_order());
      return rig.done(to).size() == kMessages;
    }));
    for (const Completion& c : rig.done(to)) CHECK(c.status == WcStatus::success);
    for (const auto& m : watch.messages)
      CHECK(std::count(&rig.memory[to][m.at], &rig.memory[to][m.at + m.length], kNew) ==
            static_cast<std::ptrdiff_t>(m.length));
    held += watch.held;
  }
  CHECK(held > 20);
}

TEST_CASE("responses: the end of one is visible after all of it and of those before it") {
  check_order(0, false, [](RcRig& rig, Random& r, std::size_t i, std::size_t at) {
    const bool atomic = r.chance(0.3);
    const std::uint32_t length = atomic ? 8 : any_length(r);
    const std::vector<Sge> sges =
        atomic ? std::vector{rig.sge(0, at, 8)} : in_parts(rig, 0, at, length);
    REQUIRE(rig.post(0, {.opcode = atomic ? SendOpcode::fetch_add : SendOpcode::read,
                         .sges = sges,
                         .remote = rig.at(1, 8 * i)}) == Errc::ok);
    return length;
  });
}

TEST_CASE("SEND: the end of one is visible after all of it and of those before it") {
  check_order(1, true, [](RcRig& rig, Random& r, std::size_t i, std::size_t at) {
    const std::uint32_t length = any_length(r);
    REQUIRE(rig.receive(1, i, in_parts(rig, 1, at, length)) == Errc::ok);
    const Sge sge = rig.sge(0, 0, length);
    REQUIRE(rig.post(0, {.opcode = SendOpcode::send, .sges = {&sge, 1}}) == Errc::ok);
    return length;
  });
}

TEST_CASE("responses: held back where memory is polled, and only there") {
  struct Case {
    Access access;
    bool at_once;
  };
  for (const auto& [access, at_once] : {Case{Access::local_write, false},
                                        Case{Access::local_write | Access::relaxed_ordering, true},
                                        Case{Access::local_write | Access::line_ordering, true}}) {
    RcRig rig;
    rig.add();
    std::fill(rig.memory[1].begin(), rig.memory[1].end(), kNew);
    std::vector<std::uint8_t> to(16'384);
    const Sge sge{to.data(), 16'384, rig.pair.register_memory(0, to.data(), to.size(), access)};
    bool losing = true;
    lose_first(rig, wire::Opcode::read_response_first, losing);
    REQUIRE(rig.post(0, {.opcode = SendOpcode::read, .sges = {&sge, 1}, .remote = rig.at(1, 0)}) ==
            Errc::ok);
    rig.pair.run_for(1ms);
    CHECK(to[0] == 0);
    CHECK(to[to.size() - 9] == kNew);
    CHECK((to[to.size() - 8] == kNew) == at_once);
    CHECK((to.back() == kNew) == at_once);
    losing = false;
    REQUIRE(rig.run(1, 0));
    CHECK(std::count(to.begin(), to.end(), kNew) == 16'384);
  }
}

TEST_CASE("responses: what is held back is forgotten with the connection") {
  RcRig rig;
  rig.add();
  std::fill(rig.memory[1].begin(), rig.memory[1].end(), kNew);
  bool losing = true;
  lose_first(rig, wire::Opcode::read_response_first, losing);
  const Sge sge = rig.sge(0, 0, 16'384);
  REQUIRE(rig.post(0, {.opcode = SendOpcode::read, .sges = {&sge, 1}, .remote = rig.at(1, 0)}) ==
          Errc::ok);
  rig.pair.run_for(1ms);
  REQUIRE(rig.memory[0][16'000] == kNew);
  losing = false;
  for (unsigned side = 0; side < 2; ++side)
    REQUIRE(rig.pair[side].to_reset(rig.qps[0][side]) == Errc::ok);
  rig.pair.drop_in_flight();
  rig.pair.connect(rig.qps[0][0], rig.qps[0][1]);
  const Sge small = rig.sge(0, 100'000, 8);
  REQUIRE(rig.post(0, {.opcode = SendOpcode::read, .sges = {&small, 1}, .remote = rig.at(1, 0)}) ==
          Errc::ok);
  REQUIRE(rig.run(1, 0));
  CHECK(rig.memory[0][16'383] == 0);
  CHECK(rig.memory[0][100'007] == kNew);
}

}  // namespace rc_order_test
