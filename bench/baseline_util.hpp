// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

/// Shared by the baseline programs: two processes with shared memory, sockets on the loopback, and
/// a clock. Does not use the library. Errors end the program with a message.
namespace baseline {

using SteadyClock = std::chrono::steady_clock;

[[noreturn]] inline void fail(const std::string& what) {
  fmt::print(stderr, "baseline: {}\n", what);
  std::exit(1);
}
[[noreturn]] inline void fail_errno(const char* call) {
  fail(fmt::format("{}: {}", call, std::strerror(errno)));
}

/// A socket bound to 127.0.0.`host` and a port chosen by the kernel.
class UdpSocket {
 public:
  explicit UdpSocket(unsigned host) : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    if (fd_ < 0) fail_errno("socket");
    sockaddr_in address = at(host, 0);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail_errno("bind");
    socklen_t length = sizeof address_;
    if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &length) != 0)
      fail_errno("getsockname");
  }
  UdpSocket(UdpSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), address_(other.address_) {}
  UdpSocket& operator=(UdpSocket&&) = delete;
  ~UdpSocket() {
    if (fd_ >= 0) close(fd_);
  }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const sockaddr_in& address() const noexcept { return address_; }
  void connect_to(const sockaddr_in& peer) const {
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) != 0)
      fail_errno("connect");
  }
  /// Asks for a buffer of `bytes` and returns what the kernel accounts for.
  [[nodiscard]] std::uint64_t set_buffer(int option, int force, int bytes) const {
    if (setsockopt(fd_, SOL_SOCKET, force, &bytes, sizeof bytes) != 0)
      (void)setsockopt(fd_, SOL_SOCKET, option, &bytes, sizeof bytes);
    int granted = 0;
    socklen_t length = sizeof granted;
    if (getsockopt(fd_, SOL_SOCKET, option, &granted, &length) != 0) fail_errno("getsockopt");
    return static_cast<std::uint64_t>(granted);
  }

 private:
  static sockaddr_in at(unsigned host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x7F00'0000u | host);
    address.sin_port = htons(port);
    return address;
  }
  int fd_;
  sockaddr_in address_{};
};

/// Memory shared by both processes, holding a T. T's members are atomics.
template <class T>
T& shared() {
  void* p = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) fail_errno("mmap");
  return *new (p) T;
}

/// Keeps this process on the `n`th of the processors that it may use, if there is more than one.
inline void pin(unsigned n) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int count = CPU_COUNT(&allowed);
  if (count < 2) return;
  int skip = static_cast<int>(n) % count;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

/// Runs `other` in a child process and `self` in this one, each on its own processor, and ends both
/// after at most `limit_s` seconds.
inline void run_two(const std::function<void()>& other, const std::function<void()>& self,
                    unsigned limit_s) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) fail_errno("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) std::_Exit(1);
    alarm(limit_s);
    pin(0);
    other();
    std::_Exit(0);
  }
  alarm(limit_s);
  pin(1);
  self();
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail("the other process failed");
}

/// "--name value" pairs with the given names; anything else is an error.
class Arguments {
 public:
  Arguments(int argc, char** argv, std::vector<std::pair<std::string, long>> defaults)
      : values_(std::move(defaults)) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      long* to = nullptr;
      for (auto& [known, value] : values_)
        if (name == "--" + known) to = &value;
      char* end = nullptr;
      if (to != nullptr && i + 1 < argc) *to = std::strtol(argv[i + 1], &end, 10);
      if (end == nullptr || end == argv[i + 1] || *end != '\0' || *to < 0) usage(argv[0], name);
    }
  }
  [[nodiscard]] unsigned operator[](const std::string& name) const {
    for (const auto& [known, value] : values_)
      if (known == name) return static_cast<unsigned>(value);
    fail("no option " + name);
  }

 private:
  [[noreturn]] void usage(const char* program, const std::string& bad) const {
    fmt::print(stderr, "{}: option '{}' is unknown or has no number; the options are\n", program,
               bad);
    for (const auto& [name, value] : values_)
      fmt::print(stderr, "  --{} N   (default {})\n", name, value);
    std::exit(2);
  }
  std::vector<std::pair<std::string, long>> values_;
};

}  // namespace baseline
