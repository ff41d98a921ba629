// SPDX-License-Identifier: Apache-2.0
// Destinations that share a host's link share what fills it.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "mrc/cc/controller.hpp"

using namespace mrc::cc;
using namespace std::chrono_literals;

namespace host_link_test {

constexpr std::uint32_t kPacket = 4096;
constexpr std::uint64_t kWindow = 225'000;  // 1.5 times 100 Gb/s, 12 us
constexpr mrc::Time kNow{1h};

// Contexts of one host, one for each destination.
struct Host {
  explicit Host(unsigned destinations, Options options = {})
      : contexts(destinations, Controller(options)) {
    for (Controller& c : contexts) c.share(link);
  }
  // Sends to a destination as much as it may.
  std::int64_t fill(unsigned destination) {
    Controller& c = contexts[destination];
    while (c.can_send(kPacket)) c.on_send(kPacket, kNow);
    return c.inflight();
  }

  HostLink link;
  std::vector<Controller> contexts;
};

TEST_CASE("host link: counts the destinations to which packets are in flight") {
  for (const Algorithm algorithm : {Algorithm::nscc, Algorithm::fixed, Algorithm::none}) {
    Host host(5, {.algorithm = algorithm, .nscc = {}, .fixed_window = 0});
    CHECK(host.link.destinations == 0);
    for (Controller& c : host.contexts) {
      c.on_send(kPacket, kNow);
      c.on_send(kPacket, kNow);
    }
    CHECK(host.link.destinations == 5);
    // Whatever takes the last packet out of flight.
    for (Controller& c : host.contexts) c.on_sack({.now = kNow, .newly = kPacket});
    CHECK(host.link.destinations == 5);
    host.contexts[0].on_sack({.now = kNow, .newly = kPacket});
    host.contexts[1].on_nack(kPacket, true, kNow);
    host.contexts[2].on_loss(kPacket, kNow);
    host.contexts[3].on_timeout(kPacket, 1, kNow);
    host.contexts[4].on_forget(kPacket);
    CHECK(host.link.destinations == 0);
    for (Controller& c : host.contexts) c.on_forget(kPacket);  // of nothing
    CHECK(host.link.destinations == 0);
    host.contexts[3].on_send(kPacket, kNow);
    CHECK(host.link.destinations == 1);
  }
}

TEST_CASE("host link: one or two destinations have the whole window each") {
  Host host(2);
  CHECK(host.fill(0) == kWindow / kPacket * kPacket);
  CHECK(host.fill(1) == kWindow / kPacket * kPacket);
}

TEST_CASE("host link: more destinations share two windows, which NSCC still has") {
  Host host(8);
  for (Controller& c : host.contexts) c.on_send(kPacket, kNow);
  const std::uint64_t part = 2 * kWindow / 8;
  for (unsigned i = 0; i < 8; ++i) {
    CHECK(host.fill(i) == part / kPacket * kPacket);
    CHECK(host.contexts[i].window() == kWindow);
    CHECK(host.contexts[i].wants_ack());  // or nothing might open what is full
  }
  // As soon as others have nothing in flight their parts are free.
  for (unsigned i = 4; i < 8; ++i)
    host.contexts[i].on_sack({.now = kNow, .newly = part / kPacket * kPacket});
  CHECK(host.fill(0) == 2 * kWindow / 4 / kPacket * kPacket);
  // Who has more than a part when others begin is not cut off: it goes on when it has less.
  for (unsigned i = 4; i < 8; ++i) host.contexts[i].on_send(kPacket, kNow);
  CHECK_FALSE(host.contexts[0].can_send(kPacket));
  while (host.contexts[0].inflight() + kPacket > static_cast<std::int64_t>(part))
    host.contexts[0].on_sack({.now = kNow, .newly = kPacket});
  CHECK(host.contexts[0].can_send(kPacket));
}

TEST_CASE("host link: a share is four packets and the SACK threshold at least") {
  Host host(1000);
  for (Controller& c : host.contexts) c.on_send(kPacket, kNow);
  CHECK(host.fill(0) == 4 * kPacket);
  Options options;
  options.nscc.ack_gen_trigger = 32 * 1024;
  Host other(1000, options);
  for (Controller& c : other.contexts) c.on_send(kPacket, kNow);
  CHECK(other.fill(0) == 32 * 1024);
}

TEST_CASE("host link: a fixed window and none are what they say") {
  Host fixed(8, {.algorithm = Algorithm::fixed, .nscc = {}, .fixed_window = 100 * kPacket});
  Host none(8, {.algorithm = Algorithm::none, .nscc = {}, .fixed_window = 0});
  for (Host* host : {&fixed, &none})
    for (Controller& c : host->contexts) c.on_send(kPacket, kNow);
  CHECK(fixed.fill(0) == 100 * kPacket);
  none.contexts[0].on_send(100'000'000, kNow);
  CHECK(none.contexts[0].can_send(kPacket));
}

}  // namespace host_link_test
