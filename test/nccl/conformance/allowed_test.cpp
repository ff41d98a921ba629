// SPDX-License-Identifier: Apache-2.0
// MRC_PEERS_ALLOWED: who may connect to a listener.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace allowed_test {

/// The TCP port in a handle of this plugin; 0 in one of another plugin.
std::uint16_t tcp_port_of(const char* handle) {
  std::uint16_t port = 0;
  if (std::memcmp(handle, "MRCN", 4) == 0 || std::memcmp(handle, "NRCM", 4) == 0)
    std::memcpy(&port, handle + 4, sizeof port);
  return port;
}

sockaddr_in loopback_address(std::uint16_t port, unsigned last_byte) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(0x7F000000 + last_byte);
  return address;
}

/// Connects to that port from 127.0.0.`last_byte`, and says nothing. Returns the socket.
int connect_from(unsigned last_byte, std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in from = loopback_address(0, last_byte), to = loopback_address(port, 1);
  expect(::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0, "bind");
  expect(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
  return fd;
}

/// Has the other side closed the connection?
bool closed(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

TEST_CASE(
    "MRC_PEERS_ALLOWED: a host that is not on the list is sent away at once, others are not") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, {"MRC_PEERS_ALLOWED", "127.0.0.0/30"}};
  Job job(12);
  Setup setup{.job = &job};
  setup.listen();
  const std::uint16_t port = tcp_port_of(setup.handle);
  if (port == 0) return (void)std::puts("[test skipped] not this plugin");
  const int stranger = connect_from(9, port), guest = connect_from(3, port);
  until("the stranger is sent away", [&] {
    (void)setup.accept();
    return closed(stranger);
  });
  CHECK_FALSE(closed(guest));
  ::close(stranger);
  ::close(guest);
  until("set-up", [&] {
    const bool connected = setup.connect();
    return setup.accept() && connected;
  });
  setup.close_send();
  setup.close_receive();
}

TEST_CASE("MRC_PEERS_ALLOWED: connecting to a host that is not on the list fails") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, {"MRC_PEERS_ALLOWED", "10.0.0.0/8"}};
  Job job(12);
  Setup setup{.job = &job};
  setup.listen();
  if (tcp_port_of(setup.handle) == 0) return (void)std::puts("[test skipped] not this plugin");
  until("an error", [&] {
    const Result result = job.net().connect(job.context(0), 0, setup.handle, &setup.send);
    CHECK(setup.send == nullptr);
    return result != Result::success;
  });
  setup.close_listener();
}

}  // namespace allowed_test
