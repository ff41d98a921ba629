// SPDX-License-Identifier: Apache-2.0
// Memory with line_ordering: the bytes of a line of 128 become visible in ascending order, whole
// words at a time, in whatever order packets come.
#include <doctest/doctest.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <vector>

#include "mrc/engine/memory.hpp"
#include "support/engine_pair.hpp"
#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using wire::Opcode;

namespace line_order_test {

constexpr std::size_t kLine = 128;

/// Room for copies, aligned to a line.
struct alignas(kLine) Lines {
  std::uint8_t bytes[8 * kLine] = {};
};

/// What is wrong with the order in which [begin, begin + n) of `seen` became 0x11 so far: within
/// each line a prefix has, of which only the first and the last word may be there in parts. Those
/// parts have 4, 2 or 1 bytes, since the range begins or ends within the word.
bool is_in_order(const Lines& seen, std::size_t begin, std::size_t n) {
  bool missing = false;
  for (std::size_t i = begin; i < begin + n; ++i) {
    if (i % kLine == 0) missing = false;
    const bool visible = seen.bytes[i] == 0x11;
    if (visible && missing) return false;
    const bool whole_word = i / 8 * 8 >= begin && i / 8 * 8 + 8 <= begin + n;
    if (!visible && !missing && whole_word && i % 8 != 0) return false;  // torn
    missing = missing || !visible;
  }
  return true;
}

using Copy = void (*)(std::uint8_t*, const std::uint8_t*, std::size_t) noexcept;

/// A child process that copies once, which its parent lets take one instruction after the other.
class Stepped {
 public:
  Stepped(Copy copy, Lines& to, const std::uint8_t* from, std::size_t begin, std::size_t n) {
    child_ = ::fork();
    if (child_ == 0) {
      if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
      ::raise(SIGSTOP);
      copy(to.bytes + begin, from, n);
      ::raise(SIGSTOP);
      _exit(0);
    }
    started_ = stopped_by(SIGSTOP);
  }
  ~Stepped() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) == child_) {
    }
  }
  Stepped(const Stepped&) = delete;
  Stepped& operator=(const Stepped&) = delete;

  [[nodiscard]] bool started() const { return started_; }
  /// One instruction; false at the end of the copy.
  [[nodiscard]] bool step() {
    return ::ptrace(PTRACE_SINGLESTEP, child_, nullptr, nullptr) == 0 && stopped_by(SIGTRAP);
  }
  /// The child's memory now.
  [[nodiscard]] bool look(const Lines& at, Lines& seen) const {
    const iovec here{&seen, sizeof seen}, there{const_cast<Lines*>(&at), sizeof at};
    return ::process_vm_readv(child_, &here, 1, &there, 1, 0) == sizeof seen;
  }

 private:
  [[nodiscard]] bool stopped_by(int signal) const {
    int status = 0;
    return ::waitpid(child_, &status, 0) == child_ && WIFSTOPPED(status) &&
           WSTOPSIG(status) == signal;
  }

  pid_t child_ = -1;
  bool started_ = false;
};

Single::Setup line_ordered() {
  Single::Setup setup;
  setup.access = Access::remote_write | Access::line_ordering;
  return setup;
}

TEST_CASE("ordered copies: every length and alignment, nothing else is touched") {
  std::vector<std::uint8_t> from(600);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7 + 1);
  for (const Copy ordered : {engine::copy_lines, engine::copy_ascending})
    for (std::size_t to = 16; to < 33; ++to)
      for (std::size_t n = 0; n < 330; ++n) {
        std::vector<std::uint8_t> copy(600, 0xEE), wanted = copy;
        ordered(&copy[to], &from[n % 9], n);
        std::copy_n(&from[n % 9], n, &wanted[to]);
        REQUIRE(copy == wanted);
      }
}

TEST_CASE("line ordering: after each instruction of a copy a prefix of each line is visible") {
#if defined(MRC_THREAD_SANITIZER)
  std::puts("[test skipped] single steps through the thread sanitizer take too long");
#else
  Lines to;
  const std::vector<std::uint8_t> from(sizeof to + 8, 0x11);
  const auto watch = [&](Copy copy, std::size_t begin, std::size_t n) {
    CAPTURE(begin);
    CAPTURE(n);
    Stepped child(copy, to, from.data() + n % 5, begin, n);
    if (!child.started()) return false;
    Lines seen;
    std::size_t states = 0, before = 0;
    while (child.step()) {
      REQUIRE(child.look(to, seen));
      REQUIRE(is_in_order(seen, begin, n));
      const auto visible = static_cast<std::size_t>(
          std::count(std::begin(seen.bytes), std::end(seen.bytes), std::uint8_t{0x11}));
      states += visible != before;
      before = visible;
    }
    CHECK(before == n);
    CHECK(states >= (n + 15) / 16);  // the parent has seen it grow
    return true;
  };
  for (const auto& [begin, n] : {std::pair<std::size_t, std::size_t>{0, 1024},
                                 {0, 384},
                                 {0, 31},
                                 {8, 200},
                                 {16, 120},
                                 {0, 1000},
                                 {3, 333},
                                 {12, 77}}) {
    // The second is what CPUs without stores of 16 whole bytes do.
    if (!watch(engine::copy_lines, begin, n) || !watch(engine::store_released<8>, begin, n)) {
      std::puts("[test skipped] this process may not trace a child");
      return;
    }
  }
#endif
}

TEST_CASE("line ordering: packets are visible on arrival, ends of messages too") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random r(seed);
    Single s(line_ordered());
    constexpr std::uint32_t kMessages = 8, kPackets = 4, kMtu = 1024;
    std::vector<std::uint32_t> order;
    for (std::uint32_t n = 0; n < kMessages * kPackets; ++n) order.push_back(n);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[r.below(static_cast<std::uint32_t>(i))]);
    for (const std::uint32_t n : order) {
      Single::Data d;
      d.n = n;
      const std::uint32_t k = n % kPackets;
      d.opcode = k == 0              ? Opcode::write_first
                 : k == kPackets - 1 ? Opcode::write_last
                                     : Opcode::write_middle;
      d.offset = std::size_t{n} * kMtu;
      d.length = kMtu;
      d.dma_length = kPackets * kMtu;
      d.msn = n / kPackets;
      s.data(d);
      const auto begin = s.target.begin() + static_cast<std::ptrdiff_t>(d.offset);
      REQUIRE(std::count(begin, begin + kMtu, 0x11) == kMtu);
      REQUIRE(s.qp().rx.deferred.head == engine::DeferredStores::kNone);
    }
    CHECK(s.qp().rx.messages == kMessages);
  }
}

TEST_CASE("line ordering: beside relaxed ordering it counts, for ports that place payload too") {
  constexpr Access kBoth = Access::remote_write | Access::line_ordering | Access::relaxed_ordering;
  CHECK_FALSE(has(in_force(kBoth), Access::relaxed_ordering));
  CHECK(has(in_force(kBoth), Access::line_ordering));
  CHECK(has(in_force(kBoth), Access::local_write));
  for (const Access access : {kBoth, Access::remote_write | Access::relaxed_ordering}) {
    EnginePair::Setup setup;
    setup.habits.places = true;
    EnginePair pair(setup, 3);
    std::vector<std::uint8_t> source(20'000, 0x22), target(source.size());
    const std::uint32_t lkey = pair.register_memory(0, source.data(), source.size(), Access::none);
    const std::uint32_t rkey = pair.register_memory(1, target.data(), target.size(), access);
    Qpn qpn[2];
    CqId cq[2];
    for (unsigned side = 0; side < 2; ++side) {
      cq[side] = *pair[side].create_cq(8);
      engine::QpInit init;
      init.pd = pair.pd(side);
      init.send_cq = init.receive_cq = cq[side];
      qpn[side] = *pair[side].create_qp(init);
    }
    pair.connect(qpn[0], qpn[1]);
    const Sge sge{source.data(), static_cast<std::uint32_t>(source.size()), lkey};
    SendRequest r;
    r.sges = {&sge, 1};
    r.remote = {reinterpret_cast<std::uint64_t>(target.data()), rkey};
    REQUIRE(pair[0].post_send(qpn[0], r, pair.now()) == Errc::ok);
    Completion done;
    REQUIRE(pair.run_for(std::chrono::seconds(1), [&] {
      return pair[0].poll_cq(cq[0], {&done, 1}) == 1;
    }));
    CHECK(target == source);
    CHECK((pair.placed(1) == 0) == has(access, Access::line_ordering));
  }
}

}  // namespace line_order_test
