// SPDX-License-Identifier: Apache-2.0
// Connections to a listener from those who do not have its handle, or whom MRC_PEERS_ALLOWED leaves
// out.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace strangers_test {

/// The TCP port in a handle of this plugin; 0 in one of another plugin.
std::uint16_t port_of(const char* handle) {
  std::uint16_t port = 0;
  if (std::memcmp(handle, "MRCN", 4) == 0) std::memcpy(&port, handle + 4, sizeof port);
  return port;
}

sockaddr_in loopback(std::uint16_t port, unsigned last_byte) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(0x7F000000 + last_byte);
  return address;
}

/// Connects to that port from 127.0.0.`last_byte`, and says nothing. Returns the socket.
int connect_from(unsigned last_byte, std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in from = loopback(0, last_byte), to = loopback(port, 1);
  expect(::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0, "bind");
  expect(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
  return fd;
}

/// Has the other side closed the connection?
bool closed(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/// TCP connections that say nothing. The oldest are reset when there are too many.
class Crowd {
 public:
  explicit Crowd(std::size_t most) : most_(most) {}
  ~Crowd() {
    while (!sockets_.empty()) drop();
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  /// One more, from 127.0.0.`last_byte`. False if the port refuses, or no descriptor is left.
  bool come(std::uint16_t port, unsigned last_byte = 1) {
    if (sockets_.size() >= most_) drop();
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    sockets_.push_back(fd);
    const sockaddr_in from = loopback(0, last_byte), to = loopback(port, 1);
    const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0;
    return bound && (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ||
                     errno == EINPROGRESS);
  }

 private:
  void drop() {
    const linger reset{1, 0};
    ::setsockopt(sockets_.front(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    ::close(sockets_.front());
    sockets_.pop_front();
  }

  const std::size_t most_;
  std::deque<int> sockets_;
};

/// The next descriptor that this process would get.
rlim_t next_descriptor() {
  const int fd = ::dup(STDERR_FILENO);
  REQUIRE(fd >= 0);
  ::close(fd);
  return static_cast<rlim_t>(fd);
}

/// RLIMIT_NOFILE for the time of a test.
class FileLimit {
 public:
  FileLimit() { ::getrlimit(RLIMIT_NOFILE, &old_); }
  ~FileLimit() { ::setrlimit(RLIMIT_NOFILE, &old_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  void set(rlim_t limit) const {
    const rlimit wanted{limit, old_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &wanted) == 0);
  }

 private:
  rlimit old_{};
};

TEST_CASE("Strangers that say nothing keep nobody out of a listener") {
  const Environment environment{kTwoPlanes};
  Job job(few_versions().front());
  for (const unsigned addresses : {1u, 50u}) {
    CAPTURE(addresses);
    Setup setup{.job = &job};
    setup.listen();
    const std::uint16_t port = port_of(setup.handle);
    if (port == 0) return;
    Crowd crowd(600);
    for (unsigned i = 0; i < 600; ++i) {
      REQUIRE(crowd.come(port, 1 + i % addresses));
      CHECK_FALSE(setup.accept());
    }
    setup.complete();
    setup.close();
  }
}

TEST_CASE("Peers get in beside a flood of strangers") {
  const Environment environment{kTwoPlanes};
  Job job(few_versions().front());
  std::atomic<std::uint16_t> port = 0;
  std::atomic<bool> stop = false;
  std::atomic<unsigned> strangers = 0;
  // 5,000 per second, as far as this machine makes it, from addresses of the peers, too.
  auto flood = std::async(std::launch::async, [&] {
    Crowd crowd(400);
    auto next = std::chrono::steady_clock::now();
    while (!stop) {
      if (port != 0 && crowd.come(port, 1 + strangers % 20)) ++strangers;
      std::this_thread::sleep_until(next += std::chrono::microseconds(200));
    }
  });
  unsigned made = 0;
  try {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (made < 3 || std::chrono::steady_clock::now() < end) {
      Setup setup{.job = &job};
      setup.listen();
      port = port_of(setup.handle);
      // The flood is there first.
      for_a_while(std::chrono::milliseconds(50), [&] { return setup.accept(); });
      setup.complete();
      setup.close();
      ++made;
    }
  } catch (...) {
    stop = true;
    throw;
  }
  stop = true;
  flood.get();
  MESSAGE(made, " connections beside ", strangers.load(), " strangers");
}

TEST_CASE("A process without free descriptors keeps its listeners") {
  const Environment environment{kTwoPlanes};
  {  // the undefined behaviour sanitizer needs descriptors where a thread of a new kind starts
    Job earlier(few_versions().front());
    const Connection connection(earlier);
  }
  Job job(few_versions().front());
  std::vector<Setup> setups(2);
  for (Setup& setup : setups) {
    setup.job = &job;
    setup.listen();
  }
  const FileLimit limit;
  Crowd crowd(100);
  for (unsigned i = 0; i < 100; ++i) crowd.come(port_of(setups[i % 2].handle));
  limit.set(next_descriptor() + 20);
  // More come than there are descriptors: neither an error, nor the end of those who are there.
  for (int round = 0; round < 100; ++round)
    for (Setup& setup : setups) CHECK_FALSE(setup.accept());
  limit.set(4096);
  for (Setup& setup : setups) setup.complete();
  for (Setup& setup : setups) setup.close();
}

TEST_CASE("Listeners have the address and the ports that were asked for") {
  if (keeps_old_environment()) return;
  const Environment environment{
      kTwoPlanes, {"MRC_NCCL_LISTEN", "127.0.0.2"}, {"MRC_NCCL_PORTS", "47100-47103"}};
  Job job(few_versions().front());
  for (int round = 0; round < 3; ++round) {  // ports can be used again at once
    std::vector<Setup> setups(4);
    for (Setup& setup : setups) {
      setup.job = &job;
      setup.listen();
      const std::uint16_t port = port_of(setup.handle);
      if (port == 0) return;
      CHECK(port >= 47100);
      CHECK(port <= 47103);
    }
    Setup fifth{.job = &job};
    CHECK_THROWS_AS(fifth.listen(), Failure);  // all are taken
    for (Setup& setup : setups) setup.complete();
    for (Setup& setup : setups) setup.close();
  }
}

TEST_CASE("Connecting to a listener at which nobody accepts ends after 20 s") {
  const Environment environment{kTwoPlanes};
  Job job(few_versions().front());
  Setup setup{.job = &job};
  setup.listen();
  if (port_of(setup.handle) == 0) return;
  const auto start = std::chrono::steady_clock::now();
  Result result = Result::success;
  until("connecting in vain", [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    result = job.net().connect(job.context(0), 0, setup.handle, &setup.send);
    return result != Result::success || setup.send;
  });
  CHECK(result == Result::remote_error);
  CHECK(setup.send == nullptr);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::seconds(20));
  setup.close_listener();
}

TEST_CASE(
    "MRC_PEERS_ALLOWED: a host that is not on the list is sent away at once, others are not") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, {"MRC_PEERS_ALLOWED", "127.0.0.0/30"}};
  Job job(12);
  Setup setup{.job = &job};
  setup.listen();
  const std::uint16_t port = port_of(setup.handle);
  if (port == 0) return (void)std::puts("[test skipped] not this plugin");
  const int stranger = connect_from(9, port), guest = connect_from(3, port);
  until("the stranger is sent away", [&] {
    (void)setup.accept();
    return closed(stranger);
  });
  CHECK_FALSE(closed(guest));
  ::close(stranger);
  ::close(guest);
  setup.complete();
  setup.close();
}

TEST_CASE("MRC_PEERS_ALLOWED: connecting to a host that is not on the list fails") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, {"MRC_PEERS_ALLOWED", "10.0.0.0/8"}};
  Job job(12);
  Setup setup{.job = &job};
  setup.listen();
  if (port_of(setup.handle) == 0) return (void)std::puts("[test skipped] not this plugin");
  until("an error", [&] {
    const Result result = job.net().connect(job.context(0), 0, setup.handle, &setup.send);
    CHECK(setup.send == nullptr);
    return result != Result::success;
  });
  setup.close_listener();
}

}  // namespace strangers_test
