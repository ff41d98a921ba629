// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/mrc.hpp"
#include "mrc/plane/plane.hpp"
#include "support/errors.hpp"
#include "support/wait.hpp"

/// Whole devices for tests: two of them in one process, over real sockets of the loopback.
namespace mrc::test {

using namespace std::chrono_literals;

/// Settings for tests: seeded, silent, unseen, and on UDP ports where nothing else is.
inline Config test_config(const std::string& planes = "loopback:2", std::uint64_t seed = 1) {
  Config config;
  config.planes = {planes};
  config.paths = 4;
  config.udp_port = 21000;
  config.seed = seed;
  config.log = LogLevel::off;
  config.control = "off";
  return config;
}

/// A test config in which a dead peer is given up after half a second: soon enough for a test, and
/// longer than a busy machine keeps a live one from answering.
inline Config impatient_config(const std::string& planes = "loopback:2", std::uint64_t seed = 1) {
  Config config = test_config(planes, seed);
  config.timeout = 10;  // 1 ms
  config.retry_linear = 3;
  config.retry_exponential = 8;
  return config;
}

/// Whether this machine has an IPv6 loopback.
inline bool has_ipv6() {
  const int fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return bound;
}

inline std::vector<std::uint8_t> random_bytes(std::size_t size, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(size);
  Random random(seed);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next() >> 24);
  return bytes;
}

/// What devices log, from any of their threads.
class LogLines {
 public:
  /// That config's devices log to here.
  void capture(Config& config, LogLevel level = LogLevel::info) {
    config.log = level;
    config.log_sink = [this](LogLevel of_line, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(of_line, line);
    };
  }
  /// How many lines have that in them.
  [[nodiscard]] std::size_t count(std::string_view part) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(lines_.begin(), lines_.end(),
                      [&](const auto& line) { return contains(line.second, part); }));
  }
  [[nodiscard]] std::vector<std::pair<LogLevel, std::string>> all() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

/// Descriptors that this process has open.
inline std::ptrdiff_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

/// A device with what a program has: memory to send from and to be written to, one completion queue
/// and queue pairs.
struct Side {
  /// `kind`: planes of the test's own.
  explicit Side(const Config& config, std::size_t bytes = 1 << 20,
                std::unique_ptr<detail::PlaneKind> kind = nullptr)
      : source(random_bytes(bytes, config.seed)),
        target(bytes),
        device(kind ? Device(config, std::move(kind)) : Device(config)),
        source_region(device.register_memory(std::span(source), Access::none)),
        target_region(
            device.register_memory(std::span(target), Access::local_write | Access::remote_write)),
        cq(device.create_cq(8192)) {}

  QueuePair& add_qp(const QpCapacity& capacity = {}) {
    QpOptions options;
    options.send_cq = &cq;
    options.capacity = capacity;
    qps.push_back(device.create_qp(options));
    return qps.back();
  }

  [[nodiscard]] Sge sge(std::size_t offset, std::size_t length) const {
    return {source.data() + offset, static_cast<std::uint32_t>(length), source_region.lkey()};
  }

  /// Takes `count` completions, which must come within the patience of tests.
  std::vector<Completion> await(std::size_t count) {
    std::vector<Completion> all;
    std::array<Completion, 64> some;
    const Time end = monotonic_now() + kPatience;
    while (all.size() < count) {
      const std::size_t n = cq.wait(
          std::span(some).first(std::min(some.size(), count - all.size())), end - monotonic_now());
      all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
      if (n == 0) break;
    }
    REQUIRE(all.size() == count);
    return all;
  }
  Completion await_one() { return await(1).front(); }

  std::vector<std::uint8_t> source, target;
  Device device;
  MemoryRegion source_region, target_region;
  CompletionQueue cq;
  std::vector<QueuePair> qps;
};

inline void connect(QueuePair& a, QueuePair& b) {
  const ConnectionInfo info_a = a.local_info(), info_b = b.local_info();
  a.connect(info_b);
  b.connect(info_a);
}

/// A write from `from`'s source to the same place of `to`'s target.
inline Errc post_copy(Side& from, QueuePair& qp, const Side& to, std::size_t offset,
                      std::size_t length, std::uint64_t wr_id = 0) {
  const Sge sge = from.sge(offset, length);
  SendRequest request;
  request.wr_id = wr_id;
  request.sges = {&sge, 1};
  request.remote = to.target_region.remote(offset);
  return qp.post_send(request);
}

/// Two devices and a connected queue pair on each.
struct Pair {
  explicit Pair(const Config& config_a, const Config& config_b, std::size_t bytes = 1 << 20,
                const QpCapacity& capacity = {})
      : a(config_a, bytes), b(config_b, bytes) {
    add_qps(capacity);
  }
  explicit Pair(const Config& config = test_config(), std::size_t bytes = 1 << 20)
      : Pair(config, other(config), bytes) {}

  void add_qps(const QpCapacity& capacity = {}) {
    a.qps.reserve(64);
    b.qps.reserve(64);
    connect(a.add_qp(capacity), b.add_qp(capacity));
  }

  /// The peer's settings: the same with another seed.
  [[nodiscard]] static Config other(Config config) {
    config.seed += 1000;
    return config;
  }

  /// Copies all of a's source to b's target in writes of `size` bytes, and checks every byte.
  void copy_all(std::size_t size = 64 << 10) {
    std::fill(b.target.begin(), b.target.end(), std::uint8_t{0});
    std::size_t posted = 0, waiting = 0;
    while (posted < a.source.size() || waiting > 0) {
      const std::size_t n = std::min(size, a.source.size() - posted);
      const Errc e = n == 0 ? Errc::queue_full : post_copy(a, a.qps[0], b, posted, n);
      if (e == Errc::ok) {
        posted += n;
        ++waiting;
        continue;
      }
      REQUIRE(e == Errc::queue_full);
      const Completion done = a.await_one();
      INFO(a.qps[0].error_text());
      REQUIRE(done.status == WcStatus::success);
      --waiting;
    }
    CHECK(a.source == b.target);
  }

  Side a, b;
};

}  // namespace mrc::test

/// Ends the test case as skipped where there is no IPv6.
#define MRC_NEED_IPV6()                                            \
  if (!mrc::test::has_ipv6()) {                                    \
    std::puts("[test skipped] this machine has no IPv6 loopback"); \
    return;                                                        \
  }                                                                \
  static_assert(true)
