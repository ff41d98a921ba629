// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/launcher.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "common/interrupt.hpp"
#include "mrc/core/error.hpp"
#include "nccl_perf/bootstrap.hpp"

namespace mrc::nccl_perf {
namespace {

/// A rank's process, seen from here.
struct Process {
  pid_t pid = 0;
  UniqueFd handle;  // readable when it has ended
  UniqueFd socket;
  std::optional<std::string> waiting;  // what it gave to an exchange that is not complete
  bool ended = false;
};

class Launcher {
 public:
  Launcher(const Options& options, ResultSink& sink) : o_(options), sink_(sink) {}
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() { signal_all(SIGKILL); }

  Outcome run() {
    const tools::HeldSignals held;
    outcome_.ends.resize(static_cast<std::size_t>(o_.shape.ranks));
    std::fflush(nullptr);
    for (int r = 0; r < o_.shape.ranks; ++r) start(r);
    start_ = monotonic_now();
    while (running_ != 0) {
      wait(held);
      for (std::size_t r = 0; r < processes_.size(); ++r) {
        hear(r);
        if (has_ended(processes_[r])) collect(r);
      }
      act();
    }
    return std::move(outcome_);
  }

 private:
  void start(int rank) {
    SocketPair pair = make_socket_pair();
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw_errno("can't start a process");
    if (pid == 0) {
      pair.launcher.close();
      processes_.clear();
      become_rank(parent, rank, std::move(pair.rank));
    }
    Process process;
    process.pid = pid;
    process.handle = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!process.handle.open()) throw_errno("can't watch a process");
    process.socket = std::move(pair.launcher);
    processes_.push_back(std::move(process));
    ++running_;
  }

  /// Ctrl-C reaches the whole group of processes, but only the launcher acts on it: SIGTERM is for
  /// ranks.
  [[noreturn]] void become_rank(pid_t launcher, int rank, UniqueFd socket) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(tools::kInterruptedStatus);
    signal(SIGINT, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::exit(run_rank(o_, rank, std::move(socket)));
  }

  void wait(const tools::HeldSignals& held) {
    std::vector<pollfd> events;
    for (const Process& p : processes_) {
      if (p.ended) continue;
      events.push_back({p.handle.fd(), POLLIN, 0});
      if (p.socket.open()) events.push_back({p.socket.fd(), POLLIN, 0});
    }
    const timespec tick{0, 100'000'000}, soon{0, 1'000'000};
    held.sleep(events, o_.kill && !outcome_.killed ? &soon : &tick);
  }

  [[nodiscard]] static bool has_ended(const Process& p) {
    pollfd end{p.handle.fd(), POLLIN, 0};
    return !p.ended && poll(&end, 1, 0) == 1;
  }

  void hear(std::size_t rank) {
    Process& p = processes_[rank];
    while (p.socket.open()) {
      const auto message = receive_message(p.socket.fd(), false);
      if (!message) return;
      if (message->kind == Message::result)
        keep(rank, result_of(message->text));
      else if (message->kind == Message::checked)
        outcome_.checked += std::strtoull(message->text.c_str(), nullptr, 10);
      else
        p.waiting = message->text;
      answer();
    }
  }

  /// Completes an exchange if all ranks have given something, or tells them that one can't.
  void answer() {
    if (gone_) {
      for (Process& p : processes_)
        if (p.waiting.has_value() && p.socket.open()) {
          p.waiting.reset();
          send_message(p.socket.fd(), Message::gone, std::to_string(*gone_));
        }
      return;
    }
    std::vector<std::string> texts;
    for (const Process& p : processes_) {
      if (!p.waiting) return;
      texts.push_back(*p.waiting);
    }
    const std::string all = join(texts);
    for (Process& p : processes_) {
      p.waiting.reset();
      send_message(p.socket.fd(), Message::exchange, all);
    }
  }

  void keep(std::size_t rank, RankResult result) {
    auto& results = results_[{result.collective, result.size, result.net}];
    results.resize(processes_.size());
    results[rank] = std::move(result);
    const bool all = std::all_of(results.begin(), results.end(),
                                 [](const RankResult& r) { return !r.seconds.empty(); });
    if (all) sink_.add(results);
  }

  void collect(std::size_t rank) {
    Process& p = processes_[rank];
    int status = 0;
    while (waitpid(p.pid, &status, 0) < 0 && errno == EINTR) {
    }
    hear(rank);
    p.ended = true;
    p.socket.close();
    --running_;
    RankEnd& end = outcome_.ends[rank];
    end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    end.seconds = elapsed();
    if (end.status != 0 && !first_failure_) {
      first_failure_ = monotonic_now();
      for (Process& other : processes_)
        if (!other.ended) send_message(other.socket.fd(), Message::gone, std::to_string(rank));
    }
    if (!gone_) gone_ = rank;
    answer();
  }

  /// What is due by time.
  void act() {
    if (o_.kill && !outcome_.killed && monotonic_now() - start_ >= o_.kill->after) {
      const Process& p = processes_[static_cast<std::size_t>(o_.kill->rank)];
      if (!p.ended) kill(p.pid, SIGKILL);
      outcome_.killed = elapsed();
    }
    if (tools::g_interrupted && !outcome_.interrupted) {
      outcome_.interrupted = true;
      signal_all(SIGTERM);
      if (!first_failure_) first_failure_ = monotonic_now();
    }
    if (!first_failure_ || monotonic_now() - *first_failure_ < o_.patience) return;
    for (std::size_t r = 0; r < processes_.size(); ++r)
      if (!processes_[r].ended) {
        outcome_.ends[r].was_late = true;
        kill(processes_[r].pid, SIGKILL);
      }
  }

  void signal_all(int signal) noexcept {
    for (const Process& p : processes_)
      if (!p.ended) kill(p.pid, signal);
  }

  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(monotonic_now() - start_).count();
  }

  const Options& o_;
  ResultSink& sink_;
  std::vector<Process> processes_;
  std::size_t running_ = 0;
  std::optional<std::size_t> gone_;  // the first rank that ended
  std::optional<Time> first_failure_;
  std::map<std::array<std::uint32_t, 3>, std::vector<RankResult>> results_;
  Time start_{};
  Outcome outcome_;
};

}  // namespace

Outcome launch(const Options& options, ResultSink& sink) {
  return Launcher(options, sink).run();
}

}  // namespace mrc::nccl_perf
