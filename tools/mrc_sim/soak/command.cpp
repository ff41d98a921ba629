// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/soak/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/interrupt.hpp"
#include "mrc_sim/soak/run.hpp"

namespace mrc::tools {

using namespace soak;

namespace {

/// One in this many seeds is run twice.
constexpr std::uint64_t kReplayEvery = 32;
/// Marks a slot of a thread without a running seed.
constexpr std::uint64_t kNoSeed = ~std::uint64_t{0};

std::array<std::atomic<std::uint64_t>, kMostSoakThreads> g_under_way;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// On a crash, prints the running seeds, using async-signal-safe calls only.
extern "C" void on_soak_crash(int signal) {
  const auto say = [](const char* text, std::size_t n) { (void)!::write(2, text, n); };
  for (const auto& slot : g_under_way) {
    std::uint64_t seed = slot.load();
    if (seed == kNoSeed) continue;
    char digits[24];
    char* p = digits + sizeof digits;
    do *--p = static_cast<char>('0' + seed % 10);
    while ((seed /= 10) != 0);
    constexpr char kWords[] = "\ncrashed; under way: scripts/soak --seed ";
    say(kWords, sizeof kWords - 1);
    say(p, static_cast<std::size_t>(digits + sizeof digits - p));
  }
  say("\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void catch_crashes() {
  for (auto& slot : g_under_way) slot = kNoSeed;
  struct sigaction action {};
  for (const int crash : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) {
    action.sa_handler = on_soak_crash;
    sigaction(crash, &action, nullptr);
  }
}

std::string replay(std::uint64_t seed) {
  return fmt::format("scripts/soak --seed {}", seed);
}

/// Runs one seed, twice if requested: both results must be equal.
SoakResult run(std::uint64_t seed, bool twice) {
  SoakResult first = run_soak_seed(seed);
  if (!twice || !first.passed()) return first;
  const SoakResult second = run_soak_seed(seed);
  if (first.digest != second.digest || first.events != second.events)
    first.failure = fmt::format(
        "two runs differ: digest {:016x} after {} events, then {:016x} "
        "after {}",
        first.digest, first.events, second.digest, second.events);
  return first;
}

/// Runs a range of seeds on several threads.
class Runner {
 public:
  explicit Runner(const SoakCommand& command) : command_(command), next_(command.from) {}

  void work(unsigned thread) {
    for (;;) {
      const std::uint64_t seed = next_.fetch_add(1);
      if (g_interrupted || seed >= command_.from + command_.count) return;
      g_under_way[thread] = seed;
      const SoakResult result = run(seed, seed % kReplayEvery == 0);
      g_under_way[thread] = kNoSeed;
      const std::lock_guard lock(mutex_);
      ++(result.passed() ? passed_ : failed_);
      events_ += result.events;
      messages_ += result.messages;
      if (result.passed()) continue;
      failures_.emplace(seed, result.failure);
      clear_line();
      fmt::print("seed {}: {}\n  replay: {}\n", seed, result.failure, replay(seed));
      std::fflush(stdout);
    }
  }

  void progress() {
    const std::lock_guard lock(mutex_);
    const double seconds = elapsed();
    fmt::print(stderr, "{}soak: {} of {} seeds, {} failed, {:.0f} seeds/s{}", isatty(2) ? "\r" : "",
               passed_ + failed_, command_.count, failed_,
               static_cast<double>(passed_ + failed_) / seconds, isatty(2) ? "\033[K" : "\n");
  }

  int report() {
    clear_line();
    for (const auto& [seed, failure] : failures_)
      fmt::print("FAILED seed {}: {}\n", seed, replay(seed));
    fmt::print("{} messages, {} million events in {:.1f} s\n", messages_, events_ / 1'000'000,
               elapsed());
    if (g_interrupted)
      fmt::print("interrupted after {} of {} seeds\n", passed_ + failed_, command_.count);
    fmt::print("{} passed, {} failed\n", passed_, failed_);
    return failed_ > 0 ? 1 : g_interrupted ? kInterruptedStatus : 0;
  }
  [[nodiscard]] bool done() {
    const std::lock_guard lock(mutex_);
    return g_interrupted || passed_ + failed_ == command_.count;
  }

 private:
  static void clear_line() {
    if (isatty(2)) fmt::print(stderr, "\r\033[K");
  }
  [[nodiscard]] double elapsed() const {
    const auto spent = std::chrono::steady_clock::now() - begin_;
    return std::max(1e-3, std::chrono::duration<double>(spent).count());
  }

  SoakCommand command_;
  std::atomic<std::uint64_t> next_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::string> failures_;
  std::uint64_t passed_ = 0, failed_ = 0, events_ = 0, messages_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

int replay_one(std::uint64_t seed) {
  g_under_way[0] = seed;
  const SoakResult r = run(seed, true);
  fmt::print("seed {}: {}\n", seed, r.scenario);
  fmt::print(
      "  {} messages, {} bytes, {} packets, {} retransmitted, {} trimmed, {} dropped by "
      "queues, {} lost by faults, {} timeouts\n",
      r.messages, r.bytes, r.packets, r.retransmits, r.trimmed, r.dropped, r.lost, r.timeouts);
  fmt::print("  {} hosts killed, {} queue pairs broken; {}\n", r.killed, r.failed_qps,
             r.after_faults ? fmt::format("all done {} after faults and posting ended (bound {})",
                                          sim::time_text(*r.after_faults), sim::time_text(r.bound))
                            : "not all done");
  fmt::print("  {} events, digest {:016x}\n", r.events, r.digest);
  fmt::print("{}\n", r.passed() ? "passed" : "FAILED: " + r.failure);
  return r.passed() ? 0 : 1;
}

}  // namespace

int run_soak(const SoakCommand& command) {
  catch_signals();
  catch_crashes();
  if (command.seed) return replay_one(*command.seed);
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const auto wanted =
      std::min<std::uint64_t>(command.threads != 0 ? command.threads : cores, command.count);
  const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(wanted, kMostSoakThreads));
  Runner runner(command);
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) workers.emplace_back([&runner, t] { runner.work(t); });
  const unsigned rounds = isatty(2) ? 5 : 150;  // half a second, or 15 s in a log
  for (unsigned i = 1; !runner.done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (i % rounds == 0) runner.progress();
  }
  for (std::thread& worker : workers) worker.join();
  return runner.report();
}

}  // namespace mrc::tools
