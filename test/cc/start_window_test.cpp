// SPDX-License-Identifier: Apache-2.0
// Where NSCC's window starts when the application has said how many start together.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "mrc/cc/nscc.hpp"

using namespace mrc::cc;
using namespace std::chrono_literals;

namespace start_window_test {

constexpr std::uint32_t kPacketSize = 4096;
constexpr mrc::Time kBegin{1h};

// 100 Gb/s, 12 us.
NsccOptions network() {
  NsccOptions o;
  o.mtu = kPacketSize;
  return o;
}

TEST_CASE("nscc: a hint divides the start window, down to four packets and the SACK threshold") {
  NsccOptions o = network();
  Nscc cc(o);
  const auto hinted = [&](std::uint64_t sharers) {
    cc.on_hint(sharers);
    return cc.window();
  };
  CHECK(hinted(2) == 112'500);
  CHECK(hinted(10) == 22'500);
  CHECK(hinted(16) == 4 * kPacketSize);  // 14,062 would be less
  CHECK(hinted(std::numeric_limits<std::uint64_t>::max()) == 4 * kPacketSize);
  CHECK_FALSE(cc.wants_ack());  // a SACK per 16 KiB will do
  CHECK(hinted(0) == 225'000);  // not known
  CHECK(hinted(1) == 225'000);
  o.ack_gen_trigger = 32 * 1024;
  CHECK((cc = Nscc(o), hinted(100)) == 32 * 1024);
  o.max_cwnd = 10'000;  // less than both
  CHECK((cc = Nscc(o), hinted(100)) == 10'000);
}

TEST_CASE("nscc: a hint follows what is measured before the first packet, and ends with it") {
  Nscc cc(network());
  cc.on_hint(4);
  CHECK(cc.window() == 56'250);
  cc.on_rtt(6us);  // a probe's
  CHECK(cc.max_window() == 112'500);
  CHECK(cc.window() == 28'125);
  cc.on_send(4096, kBegin);
  cc.on_hint(1);
  CHECK(cc.window() == 28'125);
  cc.on_rtt(3us);
  CHECK(cc.window() == 28'125);
  cc.on_forget(4096);  // a queue pair was closed; the network has not answered yet
  cc.on_hint(2);
  CHECK(cc.window() == 28'125);
  cc.on_hint(1);
  CHECK(cc.window() == 56'250);
  cc.on_send(4096, kBegin);
  cc.on_sack({.now = kBegin, .newly = 4096});
  cc.on_hint(4);
  CHECK(cc.window() == 56'250);

  for (const bool loss : {false, true}) {
    Nscc other(network());
    other.on_send(4096, kBegin);
    loss ? other.on_loss(4096, kBegin) : other.on_timeout(4096, 1, kBegin);
    const std::uint64_t window = other.window();
    other.on_hint(16);
    CHECK(other.window() == window);
  }
}

}  // namespace start_window_test
