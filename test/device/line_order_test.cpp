// SPDX-License-Identifier: Apache-2.0
// Memory with line_ordering under a thread that polls it, as a program does that finds data by
// flags between them: lines of 15 words and a flag, on a network that reorders, duplicates and
// loses.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace line_order_test {

constexpr std::size_t kWords = 16, kLines = 512;
constexpr std::uint64_t kRounds = 24;

struct alignas(128) FlaggedLine {
  std::uint64_t words[kWords] = {};  ///< the last one is the flag, the number of the round
};

[[nodiscard]] std::uint64_t word_of(std::uint64_t round, std::size_t line, std::size_t word) {
  return word + 1 == kWords ? round : round << 40 | line << 8 | word;
}

[[nodiscard]] std::uint64_t load(std::uint64_t& word, std::memory_order order) {
  return std::atomic_ref(word).load(order);
}

/// Polls each line's flag and then looks at its words, round by round.
class LinePoller {
 public:
  explicit LinePoller(std::vector<FlaggedLine>& lines)
      : lines_(lines), thread_([this] { run(); }) {}
  ~LinePoller() {
    stop_ = true;
    thread_.join();
  }
  LinePoller(const LinePoller&) = delete;
  LinePoller& operator=(const LinePoller&) = delete;

  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

 private:
  void run() {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      for (std::size_t i = 0; i < kLines; ++i) {
        std::uint64_t* words = lines_[i].words;
        while (load(words[kWords - 1], std::memory_order_acquire) != round) {
          if (stop_) return;
          std::this_thread::yield();
        }
        for (std::size_t w = 0; w < kWords; ++w)
          wrong_ += load(words[w], std::memory_order_relaxed) != word_of(round, i, w);
      }
      rounds_ = round;
    }
  }

  std::vector<FlaggedLine>& lines_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> rounds_ = 0, wrong_ = 0;
  std::thread thread_;  // last: it uses the others
};

void write_flagged_lines(const char* faults, std::uint32_t mtu) {
  CAPTURE(faults);
  CAPTURE(mtu);
  Config config = test_config();
  config.mtu = mtu;
  Side a(config), b(Pair::other(config));
  b.device.set_faults(faults);
  connect(a.add_qp(), b.add_qp());
  std::vector<FlaggedLine> source(kLines), target(kLines);
  const MemoryRegion from = a.device.register_memory(source, Access::none);
  const MemoryRegion to =
      b.device.register_memory(target, Access::remote_write | Access::line_ordering);
  LinePoller poller(target);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    for (std::size_t i = 0; i < kLines; ++i)
      for (std::size_t w = 0; w < kWords; ++w) source[i].words[w] = word_of(round, i, w);
    const Sge sge{source.data(), sizeof(FlaggedLine) * kLines, from.lkey()};
    SendRequest request;
    request.sges = {&sge, 1};
    request.remote = to.remote(0);
    REQUIRE(a.qps[0].post_send(request) == Errc::ok);
    REQUIRE(a.await_one().status == WcStatus::success);
    REQUIRE(eventually([&] { return poller.rounds() >= round; }, std::this_thread::yield));
  }
  CHECK(poller.wrong() == 0);
}

TEST_CASE("line ordering: who sees a line's flag sees the line, whatever the network does") {
  write_flagged_lines("", 4096);
  write_flagged_lines("reorder=0.3,duplicate=0.2,loss=0.02", 4096);
  write_flagged_lines("reorder=0.3,duplicate=0.2,loss=0.02", 1408);
}

}  // namespace line_order_test
