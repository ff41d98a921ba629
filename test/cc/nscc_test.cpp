// SPDX-License-Identifier: Apache-2.0
#include "mrc/cc/nscc.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "mrc/core/random.hpp"

using namespace mrc::cc;
using namespace std::chrono_literals;
using mrc::Duration;
using mrc::Time;

namespace nscc_test {

constexpr std::uint32_t kMtu = 4096;
constexpr Duration kBase = 12us;
constexpr Time kStart{1h};

// 100 Gb/s, 12 us, target 9 us; every delay sample is the average; no quick adapt.
NsccOptions plain() {
  NsccOptions o;
  o.mtu = kMtu;
  o.target_delay = 9us;
  o.delay_weight_min = o.delay_weight_max = 1;
  o.disable_qa = true;
  return o;
}

SackSample sack(Time now, std::uint32_t newly, Duration delay, bool ecn = false) {
  SackSample s;
  s.now = now;
  s.newly = newly;
  s.rtt = kBase + delay;
  s.has_rtt = true;
  s.ecn = ecn;
  return s;
}

// Brings the window down to `bytes`, which losses do directly.
void set_window(Nscc& cc, std::uint64_t bytes) {
  REQUIRE(cc.window() >= bytes);
  cc.on_send(static_cast<std::uint32_t>(cc.window() - bytes), kStart);
  cc.on_loss(static_cast<std::uint32_t>(cc.window() - bytes), kStart);
  REQUIRE(cc.window() == bytes);
  REQUIRE(cc.inflight() == 0);
}

// The window after the first SACK, of `newly` bytes and `delay`, when it is applied at once.
double growth(NsccOptions o, std::uint32_t newly, Duration delay, bool ecn = false,
              std::uint8_t penalty = 0) {
  o.adjust_bytes = 0;
  Nscc cc(o);
  set_window(cc, 100'000);
  cc.on_send(100'000, kStart);
  SackSample s = sack(kStart, newly, delay, ecn);
  s.rcv_cwnd_pen = penalty;
  cc.on_sack(s);
  return static_cast<double>(cc.window()) - 100'000;
}

TEST_CASE("nscc: starts with 1.5 bandwidth-delay products and nothing in flight") {
  const Nscc cc(plain());
  CHECK(cc.window() == 225'000);
  CHECK(cc.inflight() == 0);
  CHECK(cc.base_rtt() == 12us);
  CHECK(cc.target_qdelay() == 9us);
}

TEST_CASE("nscc: the account of bytes in flight") {
  Nscc cc(plain());
  for (int i = 0; i < 10; ++i) cc.on_send(4180, kStart);
  CHECK(cc.inflight() == 41'800);
  cc.on_sack(sack(kStart, 8448, 0us));
  CHECK(cc.inflight() == 41'800 - 8448);
  cc.on_nack(4180, false, kStart);
  cc.on_loss(4180, kStart);
  cc.on_timeout(4180, 1, kStart);
  CHECK(cc.inflight() == 41'800 - 8448 - 3 * 4180);
  const std::uint64_t window = cc.window();
  cc.on_forget(4180);
  CHECK(cc.inflight() == 41'800 - 8448 - 4 * 4180);
  CHECK(cc.window() == window);
}

TEST_CASE("nscc: the worked decreases") {
  const struct {
    Duration delay;
    double factor;
  } cases[] = {{18us, 0.6}, {27us, 0.5}, {10us, 0.92}};
  for (const auto& c : cases) {
    Nscc cc(plain());
    cc.on_sack(sack(kStart, 4096, c.delay, true));
    CHECK(static_cast<double>(cc.window()) == doctest::Approx(225'000 * c.factor).epsilon(1e-4));
  }
  // 27 us would be 0.467 without the limit of one jump.
  NsccOptions unlimited = plain();
  unlimited.max_md_jump = 0;
  Nscc cc(unlimited);
  cc.on_sack(sack(kStart, 4096, 27us, true));
  CHECK(static_cast<double>(cc.window()) == doctest::Approx(225'000 * (1 - 0.8 * 18 / 27)));
}

TEST_CASE("nscc: one decrease per round trip, and only if the average agrees") {
  NsccOptions o = plain();
  o.eta = 0;  // so that nothing but decreases shows
  Nscc cc(o);
  cc.on_sack(sack(kStart, 4096, 18us, true));
  const std::uint64_t once = cc.window();
  cc.on_sack(sack(kStart + 12us, 4096, 18us, true));
  CHECK(cc.window() == once);
  cc.on_sack(sack(kStart + 12us + 1ns, 4096, 18us, true));
  CHECK(cc.window() < once);

  o.delay_weight_min = o.delay_weight_max = 0.0125;
  Nscc slow(o);
  slow.on_sack(sack(kStart, 4096, 18us, true));
  CHECK(slow.window() == 225'000);  // one sample moved the average to 0.2 us
  int samples = 1;
  while (slow.window() == 225'000 && samples < 1000) {
    slow.on_sack(sack(kStart, 4096, 18us, true));
    ++samples;
  }
  // 18 (1 - 0.9875^n) > 9 from n = 56 on.
  CHECK(samples == 56);
}

TEST_CASE("nscc: the average is weighted by time") {
  NsccOptions o = plain();
  o.delay_weight_min = 0.01;
  o.delay_weight_max = 0.5;
  Nscc cc(o);
  cc.on_sack(sack(kStart, 1, 8us));  // long after anything: the greatest weight
  CHECK(cc.average_delay() == 4us);
  cc.on_sack(sack(kStart + 3us, 1, 8us));  // a quarter of a round trip later
  CHECK(cc.average_delay() == 5us);
  cc.on_sack(sack(kStart + 3us, 1, 105us));  // at the same time: the least weight
  CHECK(cc.average_delay() == 6us);
}

TEST_CASE("nscc: the worked increase at 400 Gb/s") {
  NsccOptions o = plain();
  o.link_speed = 400'000'000'000;
  Nscc cc(o);
  set_window(cc, 600'000);
  cc.on_send(40'000, kStart);
  for (int i = 0; i < 8; ++i) cc.on_sack(sack(kStart, 4096, 0us));
  CHECK(cc.window() == 600'000);  // 32,768 bytes are not more than adjust_bytes
  cc.on_sack(sack(kStart, 0, 0us));
  CHECK(cc.window() == 600'000);
  cc.on_sack(sack(kStart, 1, 0us));
  CHECK(static_cast<double>(cc.window() - 600'000) == doctest::Approx(2684).epsilon(0.001));
}

TEST_CASE("nscc: increases are applied after adjust_period too, and eta with them") {
  Nscc cc(plain());
  set_window(cc, 100'000);
  cc.on_send(40'000, kStart);
  cc.on_sack(sack(kStart, 4096, 0us));
  CHECK(cc.window() == 100'000);
  cc.on_sack(sack(kStart + 12us - 1ns, 4096, 0us));
  CHECK(cc.window() == 100'000);
  cc.on_sack(sack(kStart + 12us, 4096, 0us));
  // 3 x 4,096 B x 12,288 B / 100,000 B + eta
  CHECK(cc.window() == 100'000 + 1509 + 615);
}

TEST_CASE("nscc: the four quadrants") {
  const NsccOptions o = plain();
  // No mark, no delay: in proportion to the distance from the target, 12,288 per window.
  CHECK(growth(o, 10'000, 0us) == doctest::Approx(1228.8).epsilon(0.001));
  CHECK(growth(o, 10'000, 6us) == doctest::Approx(1228.8 / 3).epsilon(0.005));
  // No mark, delay: fi = 20,480 per window whatever the delay.
  CHECK(growth(o, 10'000, 9us) == doctest::Approx(2048).epsilon(0.001));
  CHECK(growth(o, 10'000, 90us) == doctest::Approx(2048).epsilon(0.001));
  // Mark, no delay: one bad path.
  CHECK(growth(o, 10'000, 0us, true) == 0);
  CHECK(growth(o, 10'000, 8'999ns, true) == 0);
  // Mark and delay.
  CHECK(growth(o, 10'000, 18us, true) == doctest::Approx(-40'000));
}

TEST_CASE("nscc: fast increase after a window without delay") {
  NsccOptions o = plain();
  o.adjust_bytes = 1u << 30;  // so that nothing but fast increase shows
  o.adjust_period = 1s;
  Nscc cc(o);
  set_window(cc, 50'000);
  cc.on_send(200'000, kStart);
  cc.on_sack(sack(kStart, 50'000, 1us));
  CHECK(cc.window() == 50'000);
  cc.on_sack(sack(kStart, 1000, 1us));  // more than a window: a quarter of what arrives
  CHECK(cc.window() == 50'250);
  cc.on_sack(sack(kStart, 1000, 0us));
  CHECK(cc.window() == 50'500);
  cc.on_sack(sack(kStart, 1000, 1001ns));  // a delay ends it, and the count starts over
  cc.on_sack(sack(kStart, 1000, 0us));
  CHECK(cc.window() == 50'500);
  cc.on_sack(sack(kStart, 49'000, 0us));
  CHECK(cc.window() == 50'500);
  cc.on_sack(sack(kStart, 1000, 0us));
  CHECK(cc.window() == 50'750);
  cc.on_sack(sack(kStart, 0, 9us, true));  // so does congestion
  cc.on_sack(sack(kStart, 1000, 0us));
  CHECK(cc.window() == 50'750);
}

TEST_CASE("nscc: a sample without round-trip time counts bytes only") {
  Nscc cc(plain());
  set_window(cc, 100'000);
  cc.on_send(100'000, kStart);
  for (const Duration rtt :
       {Duration{0}, Duration{-5}, Duration::min(), Duration::max(), Duration{1s + 1ns}}) {
    SackSample s = sack(kStart, 10'000, 0us, true);
    s.rtt = rtt;
    cc.on_sack(s);
  }
  SackSample s = sack(kStart, 10'000, 90us, true);
  s.has_rtt = false;
  cc.on_sack(s);
  CHECK(cc.inflight() == 40'000);
  CHECK(cc.window() == 100'000);
  CHECK(cc.base_rtt() == 12us);
  CHECK(cc.average_delay() == 0ns);
}

TEST_CASE("nscc: a shorter round trip lowers base_rtt and the greatest window") {
  NsccOptions o = plain();
  Nscc cc(o);
  cc.on_sack(sack(kStart, 0, -4us));
  CHECK(cc.base_rtt() == 8us);
  CHECK(cc.window() == 150'000);
  CHECK(cc.max_window() == 150'000);
  cc.on_sack(sack(kStart, 0, 4us));
  CHECK(cc.base_rtt() == 8us);

  SUBCASE("not below the floor") {
    o.base_rtt_floor = 10us;
    Nscc floored(o);
    floored.on_sack(sack(kStart, 0, -11us));
    CHECK(floored.base_rtt() == 10us);
    CHECK(floored.max_window() == 187'500);
    o.base_rtt_floor = 50us;  // above the configured value: nothing to lower
    Nscc fixed(o);
    fixed.on_sack(sack(kStart, 0, -11us));
    CHECK(fixed.base_rtt() == 12us);
  }
  SUBCASE("a window given by the user stays") {
    o.max_cwnd = 200'000;
    Nscc given(o);
    given.on_sack(sack(kStart, 0, -11us));
    CHECK(given.base_rtt() == 1us);
    CHECK(given.window() == 200'000);
  }
}

TEST_CASE("nscc: quick adapt takes what arrived in a round") {
  NsccOptions o = plain();
  o.disable_qa = false;
  o.eta = 0;
  Nscc cc(o);
  for (int i = 0; i < 50; ++i) cc.on_send(kMtu, kStart);
  cc.on_sack(sack(kStart, kMtu, 100us, true));  // starts the first round of 12 + 9 us
  const std::uint64_t before = cc.window();
  CHECK(before == 112'500);  // an ordinary decrease
  cc.on_sack(sack(kStart + 5us, 2 * kMtu, 100us));
  CHECK(cc.window() == before);
  // The round ends: 3 packets arrived, fewer than an eighth of the greatest window.
  cc.on_sack(sack(kStart + 21us, kMtu, 100us));
  CHECK(cc.window() == 3 * kMtu);

  // 46 packets of before are in flight: their marks tell nothing new, unmarked ones do.
  cc.on_sack(sack(kStart + 40us, 45 * kMtu, 18us, true));
  CHECK(cc.window() == 3 * kMtu);
  cc.on_sack(sack(kStart + 41us, kMtu, 18us, true));
  CHECK(cc.window() < 3 * kMtu);
}

TEST_CASE("nscc: quick adapt needs a cause and a poor round, and can be off") {
  const auto after = [](Duration delay, std::uint64_t arrived, bool off) {
    NsccOptions o = plain();
    o.disable_qa = off;
    o.adjust_bytes = 1u << 30;
    o.adjust_period = 1s;
    Nscc cc(o);
    cc.on_send(200'000, kStart);
    cc.on_sack(sack(kStart, 0, delay));
    cc.on_sack(sack(kStart + 21us, arrived, delay));
    return cc.window();
  };
  CHECK(after(37us, 20'000, false) == 20'000);
  CHECK(after(37us, 100, false) == kMtu);
  CHECK(after(36us, 20'000, false) == 225'000);  // not over the threshold
  CHECK(after(37us, 28'125, false) == 225'000);  // an eighth of the greatest window arrived
  CHECK(after(37us, 20'000, true) == 225'000);
}

TEST_CASE("nscc: trims") {
  NsccOptions o = plain();
  o.disable_qa = false;
  o.trimming = true;
  Nscc cc(o);
  for (int i = 0; i < 50; ++i) cc.on_send(kMtu, kStart);
  cc.on_nack(kMtu, true, kStart);
  CHECK(cc.inflight() == 49 * kMtu);
  CHECK(cc.window() == 225'000 - kMtu);  // starts a round, so an ordinary step
  CHECK(cc.average_delay() == 12us);     // stands for a full queue
  cc.on_sack(sack(kStart + 1us, 2 * kMtu, 5us));
  cc.on_nack(kMtu, true, kStart + 21us);  // end of the round: little arrived, and a trim
  CHECK(cc.window() == 2 * kMtu);
  cc.on_nack(kMtu, true, kStart + 22us);  // still of the old window
  CHECK(cc.window() == 2 * kMtu);
  // A NACK for another reason gives back the bytes, and that is all.
  cc.on_nack(kMtu, false, kStart + 60us);
  CHECK(cc.window() == 2 * kMtu);
  CHECK(cc.inflight() == 44 * kMtu);
}

TEST_CASE("nscc: a trim makes the next SACK adapt even without much delay") {
  NsccOptions o = plain();
  o.disable_qa = false;
  o.trimming = true;
  Nscc cc(o);
  cc.on_send(200'000, kStart);
  cc.on_sack(sack(kStart, 0, 5us));
  cc.on_nack(kMtu, true, kStart + 1us);
  cc.on_sack(sack(kStart + 21us, 12'000, 5us));
  CHECK(cc.window() == doctest::Approx(12'000).epsilon(0.06));  // and eta
  // Once: the next poor round needs a cause of its own.
  cc.on_sack(sack(kStart + 42us, 5000, 5us));
  CHECK(cc.window() > 12'000);
}

TEST_CASE("nscc: losses and timeouts") {
  Nscc cc(plain());
  cc.on_send(50'000, kStart);
  cc.on_loss(kMtu, kStart);
  CHECK(cc.window() == 225'000 - kMtu);
  cc.on_timeout(kMtu, 1, kStart);
  CHECK(cc.window() == 225'000 - 2 * kMtu);
  cc.on_timeout(kMtu, 2, kStart);
  CHECK(cc.window() == kMtu);
  CHECK(cc.inflight() == 50'000 - 3 * kMtu);
}

TEST_CASE("nscc: a second timeout in a row clears pending increases") {
  for (const unsigned consecutive : {1u, 2u}) {
    Nscc cc(plain());
    set_window(cc, 100'000);
    cc.on_send(40'000, kStart);
    cc.on_sack(sack(kStart, 4096, 0us));
    cc.on_timeout(kMtu, consecutive, kStart);
    const std::uint64_t before = cc.window();
    cc.on_sack(sack(kStart + 12us, 0, 0us));
    const std::uint64_t eta = 614;
    CHECK((cc.window() - before == eta) == (consecutive == 2));  // else what was pending, too
  }
}

TEST_CASE("nscc: a receiver's penalty of 64 halves the window in a round trip") {
  for (const unsigned per_sack : {1u, 4u}) {
    CAPTURE(per_sack);
    Nscc cc(plain());
    set_window(cc, 200'000);
    const auto fill = [&] {
      while (cc.can_send(kMtu)) cc.on_send(kMtu, kStart);
    };
    fill();
    // One round trip: everything that was in flight at its start is acknowledged.
    std::int64_t left = cc.inflight();
    while (left > 0) {
      SackSample s = sack(kStart, per_sack * kMtu, 0us);
      s.rcv_cwnd_pen = 64;
      cc.on_sack(s);
      left -= per_sack * kMtu;
      fill();
    }
    CHECK(static_cast<double>(cc.window()) == doctest::Approx(100'000).epsilon(0.1));
  }
}

TEST_CASE("nscc: penalty cuts to what is in use, stops growth, and is undone by restore") {
  Nscc cc(plain());
  cc.on_send(50'000, kStart);
  SackSample s = sack(kStart, 10'000, 0us);
  s.rcv_cwnd_pen = 64;
  s.restore_cwnd = true;
  cc.on_sack(s);
  CHECK(cc.window() == 50'000 + kMtu - 5000);
  const std::uint64_t cut = cc.window();
  s.now += 1ms;
  s.newly = 0;
  cc.on_sack(s);
  CHECK(cc.window() == 40'000 + kMtu);
  CHECK(cc.window() < cut);
  SackSample free = sack(kStart + 1ms, 0, 9us, true);
  cc.on_sack(free);
  CHECK(cc.window() < 50'000);
  free.restore_cwnd = true;
  cc.on_sack(free);
  CHECK(cc.window() >= 225'000 - 1000);
  // Nothing kept any more: a second restore does nothing.
  cc.on_loss(100'000, kStart);
  cc.on_sack(free);
  CHECK(cc.window() == 125'000);
  // No increase from the SACK with a penalty itself.
  CHECK(growth(plain(), 0, 90us, false, 1) == 0);
  CHECK(growth(plain(), 12'800, 90us, false, 1) == -100);
}

TEST_CASE("nscc: sending rule") {
  NsccOptions o = plain();
  o.max_cwnd = 10'000;
  Nscc cc(o);
  CHECK(cc.can_send(1'000'000));  // one packet, always
  cc.on_send(6000, kStart);
  CHECK(cc.can_send(4000));
  CHECK_FALSE(cc.can_send(4001));
  o.send_while_below = true;
  Nscc below(o);
  below.on_send(9999, kStart);
  CHECK(below.can_send(4096));
  below.on_send(1, kStart);
  CHECK_FALSE(below.can_send(1));
}

TEST_CASE("nscc: asks for a SACK when the window is nearly used or small") {
  NsccOptions o = plain();
  o.max_cwnd = 40'000;
  Nscc cc(o);
  CHECK_FALSE(cc.wants_ack());
  cc.on_send(40'000 - kMtu, kStart);
  CHECK_FALSE(cc.wants_ack());
  cc.on_send(1, kStart);
  CHECK(cc.wants_ack());
  o.max_cwnd = 16'383;
  CHECK(Nscc(o).wants_ack());
  o.max_cwnd = 16'384;
  CHECK_FALSE(Nscc(o).wants_ack());
}

TEST_CASE("nscc: whatever a peer reports, window and account stay within their bounds") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    mrc::Random random(seed);
    NsccOptions o;
    o.trimming = seed % 2 == 0;
    o.base_rtt_floor = seed % 3 == 0 ? 5us : 0us;
    if (seed % 4 == 0) o.max_cwnd = 50'000;
    Nscc cc(o);
    const auto any64 = [&] { return random.next() >> random.below(64); };
    const auto any32 = [&] { return static_cast<std::uint32_t>(any64()); };
    Time now = kStart;
    for (int i = 0; i < 20'000; ++i) {
      now += Duration{random.below(20'000)};
      switch (random.below(7)) {
        case 0:
          cc.on_nack(any32(), random.chance(0.5), now);
          break;
        case 1:
          if (random.chance(0.1)) cc.on_loss(any32(), now);
          break;
        case 2:
          if (random.chance(0.1)) cc.on_timeout(any32(), any32(), now);
          break;
        case 3:
          cc.on_forget(any32());
          cc.on_hint(any32());
          break;
        case 4:
          cc.on_send(any32(), now);
          break;
        default: {
          SackSample s;
          s.now = random.chance(0.1) ? now - Duration{any32()} : now;
          s.newly = any32();
          s.rtt = random.chance(0.5) ? Duration{static_cast<Duration::rep>(random.next())}
                                     : Duration{random.below(200'000)};
          s.has_rtt = random.chance(0.9);
          s.ecn = random.chance(0.5);
          s.rcv_cwnd_pen = static_cast<std::uint8_t>(random.chance(0.9) ? 0 : any64());
          s.restore_cwnd = random.chance(0.5);
          cc.on_sack(s);
        }
      }
      REQUIRE(cc.window() >= 4096);
      REQUIRE(cc.window() <= cc.max_window());
      REQUIRE(cc.max_window() <= 225'000);
      REQUIRE(cc.inflight() >= Inflight::kLowest);
      REQUIRE(cc.inflight() <= Inflight::kHighest);
      REQUIRE(cc.base_rtt() > 0ns);
      REQUIRE(cc.base_rtt() <= 12us);
      REQUIRE(cc.average_delay() >= 0ns);
      REQUIRE(cc.average_delay() <= 1s);
    }
  }
}

}  // namespace nscc_test
