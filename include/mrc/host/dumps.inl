// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/host/dumps.hpp"

namespace mrc::inline v0_1::detail {

/// The signals of which dumps are left.
inline constexpr std::array kDumpSignals{
    std::pair(SIGUSR2, "SIGUSR2"), std::pair(SIGSEGV, "SIGSEGV"), std::pair(SIGBUS, "SIGBUS"),
    std::pair(SIGFPE, "SIGFPE"),   std::pair(SIGILL, "SIGILL"),   std::pair(SIGABRT, "SIGABRT"),
    std::pair(SIGTERM, "SIGTERM")};
/// Dumps of one signal that should end the process: a handler may survive it, again and again.
inline constexpr std::uint32_t kMostFatal = 3;

/// Of a process. It lives as long: a handler may be running in any thread.
struct DumpState {
  const ForkMark fork;
  const ::pid_t pid = ::getpid();
  std::mutex mutex;  ///< of sources and exited; held while dumps are made
  std::vector<DumpSource*> sources;
  bool exited = false;
  UniqueFd asked, ask;  ///< a pipe: numbers of signals
  std::atomic<::pid_t> thread{0};
  std::atomic<std::uint32_t> wanted{0}, made{0};  ///< signals that were noted, and served
  // By signal:
  std::array<struct sigaction, NSIG> earlier{};
  std::array<std::atomic<std::uint32_t>, NSIG> seen{};
  /// Ours is installed, or is called by one that was installed later: it must not be its own
  /// earlier one.
  std::array<bool, NSIG> installed{};
};
inline constinit std::atomic<DumpState*> dump_state{nullptr};

/// Wakes the thread; and waits for it, if the process is to end. Async-signal-safe.
inline void ask_for_dump(DumpState& state, int signal) noexcept {
  const auto number = static_cast<unsigned char>(signal);
  const bool fatal = signal != SIGUSR2;
  if (fatal && state.seen[number].fetch_add(1) >= kMostFatal) return;
  const std::uint32_t mine = state.wanted.fetch_add(1) + 1;
  if (::write(state.ask.fd(), &number, 1) != 1 || !fatal) return;
  const Time end = monotonic_now() + std::chrono::milliseconds(dump_patience.load());
  while (static_cast<std::int32_t>(state.made.load() - mine) < 0 && monotonic_now() < end)
    (void)::poll(nullptr, 0, 5);
}

/// Only what is async-signal-safe: a dump, and what would have been done without it.
extern "C" inline void openmrc_on_dump_signal(int signal, ::siginfo_t* info, void* context) {
  const int error = errno;
  DumpState& state = *dump_state.load(std::memory_order_acquire);
  const auto thread = static_cast<::pid_t>(::syscall(SYS_gettid));
  if (state.pid == ::getpid() && state.thread.load() != thread) ask_for_dump(state, signal);
  struct sigaction& kept = state.earlier[static_cast<std::size_t>(signal)];
  const struct sigaction earlier = kept;
  const auto flags = static_cast<unsigned>(earlier.sa_flags);
  if ((flags & SA_RESETHAND) != 0) {
    kept = {};
    kept.sa_handler = SIG_DFL;
  }
  if ((flags & SA_SIGINFO) != 0 && earlier.sa_sigaction != nullptr) {
    earlier.sa_sigaction(signal, info, context);
  } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    earlier.sa_handler(signal);
  } else if (earlier.sa_handler == SIG_DFL && signal != SIGUSR2) {
    (void)::sigaction(signal, &earlier, nullptr);
    (void)::syscall(SYS_tgkill, ::getpid(), thread, signal);  // once this handler returns
  }
  errno = error;
}

/// This process's; a forked child has one of its own, since locks may be held in its parent's.
[[nodiscard]] DumpState& state_of_dumps() {
  DumpState* state = dump_state.load(std::memory_order_acquire);
  if (state != nullptr && !state->fork.forked()) return *state;
  auto* fresh = new DumpState;
  if (state != nullptr) {
    fresh->earlier = state->earlier;
    fresh->installed = state->installed;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw_errno("option dump: can't make a pipe");
  fresh->asked = UniqueFd(ends[0]);
  fresh->ask = UniqueFd(ends[1]);
  dump_state.store(fresh, std::memory_order_release);
  return *fresh;
}

void leave_dump(DumpSource& source, std::string_view why) noexcept try {
  const std::string text = source.dump(why) + "\n";
  const UniqueFd file =
      open_own_file(source.dump_file().c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
  std::size_t written = 0;
  while (file.open() && written < text.size()) {
    const ::ssize_t n = ::write(file.fd(), text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    written += static_cast<std::size_t>(n);
  }
} catch (const std::exception&) {  // out of memory: there is nothing to be done about it
}

void serve_dumps(DumpState& state) noexcept {
  state.thread = static_cast<::pid_t>(::syscall(SYS_gettid));
  while (true) {
    ::pollfd asked{state.asked.fd(), POLLIN, 0};
    (void)::poll(&asked, 1, 2000);
    unsigned char number = 0;
    const bool told = ::read(state.asked.fd(), &number, 1) == 1;
    const auto signal = std::find_if(kDumpSignals.begin(), kDumpSignals.end(),
                                     [&](const auto& entry) { return entry.first == number; });
    const std::lock_guard lock(state.mutex);
    if (signal != kDumpSignals.end())
      for (DumpSource* source : state.sources) leave_dump(*source, signal->second);
    if (told) ++state.made;  // before locks are waited for that a thread may have died with
    for (DumpSource* source : state.sources) source->look();
  }
}

/// Not std::timed_mutex, whose calls thread sanitizers do not know.
[[nodiscard]] std::unique_lock<std::mutex> lock_within(std::mutex& mutex, Duration patience) {
  std::unique_lock lock(mutex, std::try_to_lock);
  for (const Time end = monotonic_now() + patience; !lock.owns_lock() && monotonic_now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)lock.try_lock();
  }
  return lock;
}

void leave_dumps_at_exit() {
  DumpState* state = dump_state.load(std::memory_order_acquire);
  if (state == nullptr || state->fork.forked()) return;
  // The thread may be held up by one that has died.
  const std::unique_lock lock =
      lock_within(state->mutex, std::chrono::milliseconds(dump_patience.load()));
  if (!lock.owns_lock()) return;
  for (DumpSource* source : state->sources) leave_dump(*source, "exit");
  state->exited = true;
}

void install_dump_handlers(DumpState& state) {
  for (const auto& [signal, name] : kDumpSignals) {
    bool& installed = state.installed[static_cast<std::size_t>(signal)];
    struct sigaction earlier {};
    (void)::sigaction(signal, nullptr, &earlier);
    if (installed || (earlier.sa_handler == SIG_IGN && signal != SIGUSR2)) continue;
    state.earlier[static_cast<std::size_t>(signal)] = earlier;
    struct sigaction own {};
    own.sa_sigaction = &openmrc_on_dump_signal;
    own.sa_mask = earlier.sa_mask;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK | (earlier.sa_flags & SA_NODEFER);
    if (earlier.sa_handler == SIG_DFL || (earlier.sa_flags & SA_RESTART) != 0)
      own.sa_flags |= SA_RESTART;
    installed = ::sigaction(signal, &own, nullptr) == 0;
  }
}

/// Those that the program has replaced stay: they may be called by what has replaced them.
void remove_dump_handlers(DumpState& state) noexcept {
  for (const auto& [signal, name] : kDumpSignals) {
    bool& installed = state.installed[static_cast<std::size_t>(signal)];
    struct sigaction now {};
    (void)::sigaction(signal, nullptr, &now);
    if (installed && now.sa_sigaction == &openmrc_on_dump_signal)
      installed =
          ::sigaction(signal, &state.earlier[static_cast<std::size_t>(signal)], nullptr) != 0;
  }
}

void add_dump_source(DumpSource& source) {
  static std::mutex adding;  // of threads that open the first device at the same time
  const std::unique_lock one = lock_within(adding, std::chrono::seconds(1));  // or of a parent
  DumpState& state = state_of_dumps();
  if (state.thread == 0) {
    const BlockedSignals inherited;  // the program's handlers run in threads of the program
    std::thread([&state] { serve_dumps(state); }).detach();
    while (state.thread == 0) std::this_thread::yield();
  }
  static const int at_exit = std::atexit(&leave_dumps_at_exit);
  (void)at_exit;
  const std::lock_guard lock(state.mutex);
  state.sources.push_back(&source);
  if (state.sources.size() == 1) install_dump_handlers(state);
}

bool remove_dump_source(DumpSource& source) noexcept {
  DumpState& state = *dump_state.load(std::memory_order_acquire);
  const std::lock_guard lock(state.mutex);
  std::erase(state.sources, &source);
  if (state.sources.empty()) remove_dump_handlers(state);
  return !state.exited;
}

void check_dump_file(const std::string& file) {
  constexpr int kHow = O_WRONLY | O_APPEND;
  UniqueFd there = open_own_file(file.c_str(), kHow, 0);
  if (there.open() || errno == ENXIO) return;  // a pipe may have no reader
  const bool missing = errno == ENOENT;
  if (missing) there = open_own_file(file.c_str(), kHow | O_CREAT | O_EXCL, 0600);
  if (!there.open()) throw_errno("option dump: cannot append to " + file + kOwnFileRemedy);
  (void)::unlink(file.c_str());
}

}  // namespace mrc::inline v0_1::detail
