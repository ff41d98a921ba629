// SPDX-License-Identifier: Apache-2.0
// Datagrams that no peer has sent: counted, dropped, and nothing else.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <vector>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace garbage_test {

/// A plain socket that sends to a UDP port of 127.0.0.1, from the address 127.0.0.`host`.
class Sender {
 public:
  Sender(std::uint8_t host, std::uint16_t port)
      : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    to_.sin_family = AF_INET;
    to_.sin_addr.s_addr = htonl(0x7F000000u + host);
    (void)::bind(fd_, reinterpret_cast<const sockaddr*>(&to_), sizeof to_);
    to_.sin_port = htons(port);
    to_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() { ::close(fd_); }
  void send(const std::vector<std::uint8_t>& bytes) {
    (void)::sendto(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT,
                   reinterpret_cast<const sockaddr*>(&to_), sizeof to_);
  }

 private:
  int fd_;
  sockaddr_in to_{};
};

/// All that a device has dropped, by whatever name.
std::uint64_t dropped(const Device& device) {
  const DeviceStats stats = device.stats();
  const DropStats& d = stats.engine.drops;
  std::uint64_t sum =
      d.malformed + d.unknown_qp + d.foreign + d.wrong_state + d.stale + d.implausible;
  for (const PlaneStats& plane : stats.planes) sum += plane.rx_bad_icrc + plane.port.rx_malformed;
  return sum;
}

/// Random bytes, most of them with a head that gets further: an opcode of MRC, the queue pair's
/// number, a length that fits.
std::vector<std::uint8_t> garbage(Random& random, Qpn qpn) {
  static constexpr std::uint8_t kOpcodes[] = {0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB,
                                              0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE};
  static constexpr std::size_t kLengths[] = {0, 1, 12, 16, 28, 32, 36, 40, 48, 52, 300, 4144};
  std::vector<std::uint8_t> bytes(random.chance(0.3) ? random.below(2000)
                                                     : kLengths[random.below(12)]);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next() >> 24);
  if (bytes.size() < 12 || random.chance(0.1)) return bytes;
  bytes[0] = kOpcodes[random.below(12)];
  bytes[1] = 0;
  const std::uint32_t to = random.chance(0.2) ? 2 : value(qpn);
  for (unsigned i = 0; i < 3; ++i) bytes[5 + i] = static_cast<std::uint8_t>(to >> (16 - 8 * i));
  return bytes;
}

TEST_CASE("garbage beside a transfer harms nothing and is counted") {
  // Where the iCRC does not catch it, it gets as far as the engine, which knows its peers by their
  // addresses. (Without the iCRC who sends from the peer's own address can do what the peer can.)
  for (const bool icrc : {true, false}) {
    CAPTURE(icrc);
    Config config = test_config("loopback:2");
    config.icrc = icrc ? port::Offload::on : port::Offload::off;
    Pair pair(config);
    std::atomic<std::uint64_t> sent{0};
    const std::uint8_t host = icrc ? 1 : 99;
    std::jthread noise(
        [&, qpn_a = pair.a.qps[0].qpn(), qpn_b = pair.b.qps[0].qpn()](const std::stop_token& stop) {
          Random random(99);
          Sender to_a(host, 21000), to_b(host, 21001);
          while (!stop.stop_requested()) {
            to_a.send(garbage(random, qpn_a));
            to_b.send(garbage(random, qpn_b));
            sent += 2;
          }
        });
    pair.copy_all();
    CHECK(eventually([&] { return sent >= 4000; }, [&] { pair.copy_all(); }));
    noise.request_stop();
    noise.join();
    CHECK(dropped(pair.a.device) > 100);
    CHECK(dropped(pair.b.device) > 100);
    CHECK(pair.a.qps[0].state() == QpState::rts);
    CHECK(pair.b.qps[0].state() == QpState::rts);
    pair.copy_all();
  }
}

}  // namespace garbage_test
