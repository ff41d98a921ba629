// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/wire/wire.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "mrc/core/value_text.hpp"
#include "mrc_fabric/wire/wire_frames.hpp"
#include "mrc_fabric/wire/wire_report.hpp"
#include "mrc_fabric/wire/wire_socket.hpp"
#include "mrc_fabric/wire/wire_watch.hpp"

namespace mrc::tools {
namespace {

volatile sig_atomic_t g_ended = 0;

/// Signals that end the wire are unblocked only while it waits, so that none is lost.
void catch_end() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_ended = 1; };
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : {SIGTERM, SIGINT}) {
    sigaction(signal, &action, nullptr);
    sigaddset(&blocked, signal);
  }
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
}

/// A late wake-up adds to the delay: use real-time priority and exact timers. It sleeps whenever no
/// frame is due, so it does not starve others.
void become_punctual() {
  (void)prctl(PR_SET_TIMERSLACK, 1);
  sched_param first{};
  first.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) (void)setpriority(PRIO_PROCESS, 0, -20);
}

class Wire {
 public:
  explicit Wire(const UniqueFd& listener) : listener_(listener) { hear_news(); }

  void run() {
    while (!queues_.empty() && g_ended == 0) {
      wait();
      if (polled_[kNews].revents != 0) hear_news();
      receive();
      send_due();
      if (polled_[kAsked].revents != 0) tell_report(listener_, report());
    }
  }

 private:
  enum Source { kFrames, kNews, kAsked };

  void wait() {
    const Time now = monotonic_now(), rested = now + rest();
    Time end = next_due();
    // No wake-up per frame in a burst: the kernel has stamped their arrival.
    polled_[kFrames].fd = may_rest_ && rested > now ? -1 : socket_.fd();
    if (polled_[kFrames].fd < 0) end = std::min(end, rested);
    timespec left{};
    const Duration time = std::max(end - now, Duration{0});
    if (end != kNever) {
      left.tv_sec = time / std::chrono::seconds(1);
      left.tv_nsec = (time % std::chrono::seconds(1)).count();
    }
    sigset_t none;
    sigemptyset(&none);
    if (ppoll(polled_, std::size(polled_), end != kNever ? &left : nullptr, &none) < 0)
      for (pollfd& p : polled_) p.revents = 0;
  }

  /// How long frames may stay unread without being read after they are due. 0 for a delay so short
  /// that sleeping would lengthen it.
  [[nodiscard]] Duration rest() const {
    constexpr Duration kLeast = std::chrono::microseconds(20);
    constexpr Duration kMost = std::chrono::microseconds(100);
    Duration shortest = Duration::max();
    for (const auto& [index, queue] : queues_) shortest = std::min(shortest, queue.delay);
    const Duration part = std::min(shortest / 4, kMost);
    return part < kLeast ? Duration{0} : part;
  }

  [[nodiscard]] Time next_due() const {
    Time next = kNever;
    for (const auto& [index, queue] : queues_)
      if (!queue.frames.empty()) next = std::min(next, queue.next());
    return next;
  }

  void hear_news() {
    for (const LinkNews& news : watch_.read()) {
      const auto port = wire_port(news.name);
      if (news.is_gone) {
        forget(news.index);
      } else if (port) {
        WireQueue& queue = queues_[news.index];
        queue.port = *port;
        queue.delay = parse_duration(news.alias).value_or(Duration{0});
      }
    }
  }

  void forget(int index) {
    const auto found = queues_.find(index);
    if (found == queues_.end()) return;
    for (const WireFrame& frame : found->second.frames) memory_.give_back(frame.size);
    queues_.erase(found);
  }

  /// Reads a few batches, so that due frames are not delayed.
  void receive() {
    constexpr unsigned kBatches = 4;
    may_rest_ = false;
    for (unsigned i = 0; i < kBatches; ++i) {
      const auto arrivals = socket_.receive();
      for (const WireSocket::Arrival& a : arrivals) {
        const auto queue = queues_.find(a.interface_index);
        if (queue == queues_.end()) continue;
        if (memory_.take(a.bytes.size()))
          queue->second.frames.emplace_back(a.time, a.bytes);
        else
          ++queue->second.dropped;
      }
      if (arrivals.size() < WireSocket::kBatch) {
        may_rest_ = i > 0 || !arrivals.empty();
        return;
      }
    }
  }

  void send_due() {
    const Time now = monotonic_now();
    for (auto& [index, queue] : queues_)
      while (!queue.frames.empty() && queue.next() <= now) send_batch(index, queue, now);
  }

  void send_batch(int index, WireQueue& queue, Time now) {
    WireSocket::Departure batch[WireSocket::kBatch];
    std::size_t size = 0;
    for (const WireFrame& frame : queue.frames) {
      if (size == std::size(batch) || frame.arrival + queue.delay > now) break;
      batch[size++] = {index, {frame.bytes.get(), frame.size}};
    }
    const std::size_t sent = socket_.send({batch, size});
    queue.passed += sent;
    drop_front(queue, sent);
    if (sent == size) return;
    ++queue.dropped;
    drop_front(queue, 1);
  }

  void drop_front(WireQueue& queue, std::size_t count) {
    for (; count > 0; --count) {
      memory_.give_back(queue.frames.front().size);
      queue.frames.pop_front();
    }
  }

  [[nodiscard]] WireReport report() {
    missed_ += socket_.take_missed();
    WireReport out;
    out.missed = missed_;
    for (const auto& [index, q] : queues_)
      out.directions.push_back({q.port, q.delay, q.frames.size(), q.passed, q.dropped});
    return out;
  }

  const UniqueFd& listener_;
  WireSocket socket_;
  WireWatch watch_;
  WireMemory memory_;
  std::map<int, WireQueue> queues_;  // by interface
  std::uint64_t missed_ = 0;
  bool may_rest_ = false;  // frames were read last time, and none is left
  pollfd polled_[3] = {
      {socket_.fd(), POLLIN, 0}, {watch_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
};

}  // namespace

int run_wire(const Options&) {
  if (chdir("/") != 0) throw_errno("can't leave the working directory");
  (void)prctl(PR_SET_NAME, "mrc_wire");
  const UniqueFd listener = listen_as_wire();
  if (!listener.open()) return 0;
  catch_end();
  Wire wire(listener);
  become_punctual();
  wire.run();
  return 0;
}

void start_wire(const std::string& fabric, const std::string& log_file) {
  constexpr int kFirstOther = 3;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log_file.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  // Closes the lock on fabrics too, unlike for other child processes.
  posix_spawn_file_actions_addclosefrom_np(&files, kFirstOther);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::string words[] = {"mrc_fabric", "wire", fabric};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &files, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    throw Error(std::error_code(error, std::generic_category()), "can't start the wire");
}

}  // namespace mrc::tools
