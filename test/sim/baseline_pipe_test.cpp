// SPDX-License-Identifier: Apache-2.0
// Both ends of the RC baseline joined by a pipe in virtual time that loses, delays and marks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/sim/baseline/dcqcn.hpp"
#include "mrc/sim/baseline/go_back_n.hpp"

using namespace mrc;
using namespace mrc::sim::baseline;

namespace {

/// What happens to the n-th packet of a direction.
struct Fate {
  bool lost = false;
  Duration extra{0};
};

/// A port of 100 Gb/s, a bottleneck, a delay of 5 us each way.
struct Pipe {
  explicit Pipe(const RcSenderOptions& so = {}, const RcReceiverOptions& ro = {})
      : sender(so), receiver(ro), overhead(so.overhead) {}

  RcSender sender;
  RcReceiver receiver;
  std::optional<DcqcnReactionPoint> dcqcn;
  std::function<Fate(const RcPacket&, std::uint64_t n)> data = [](auto&&...) { return Fate{}; };
  std::function<Fate(const RcReply&, std::uint64_t n)> answers = [](auto&&...) { return Fate{}; };
  std::int64_t port_gbps = 100, bottleneck_gbps = 100;
  Duration mark_from = Duration::max();  ///< queueing time from which packets are marked

  Time now{};
  std::vector<RcDelivery> delivered;
  std::vector<RcCompletion> completed;
  std::vector<std::uint64_t> nak_inflight;  ///< packets sent from the missing one on, per NAK
  Duration queue_sum{0};                    ///< of what each packet had to wait at the bottleneck

  /// Until nothing happens any more, or the end.
  void run(Time end = Time{Duration{std::int64_t{100'000'000'000}}}) {
    for (;;) {
      serve();
      Time next = events_.empty() ? kNever : events_.begin()->first;
      const Time deadline = sender.next_deadline();
      // Something to send waits for the port; a timer of the sender does not.
      if (deadline != kNever) next = std::min(next, std::max(deadline, std::max(port_free_, now)));
      if (next == kNever || next > end) return;
      now = next;
      while (!events_.empty() && events_.begin()->first <= now) {
        const std::function<void()> act = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        act();
      }
    }
  }

 private:
  Duration wire_time(std::uint32_t payload, std::int64_t gbps) const {
    return Duration{(std::int64_t{payload} + overhead) * 8 / gbps};
  }

  void serve() {
    sender.on_timer(now);
    if (dcqcn) {
      dcqcn->advance(now);
      sender.set_rate(dcqcn->rate());
    }
    RcPacket p;
    if (port_free_ <= now && sender.poll(now, p)) {
      port_free_ = now + wire_time(p.payload, port_gbps);
      if (dcqcn) dcqcn->on_send(sender.wire_bytes(p), now);
      highest_ = std::max(highest_, p.psn - Psn{0});
      enter(p);
    }
    for (RcCompletion c; sender.poll_completion(c);) completed.push_back(c);
  }

  void enter(const RcPacket& p) {
    const Fate fate = data(p, packets_++);
    if (fate.lost) return;
    const Duration queue = std::max(queue_free_ - port_free_, Duration{0});
    queue_sum += queue;
    const bool marked = queue > mark_from;
    queue_free_ = std::max(queue_free_, port_free_) + wire_time(p.payload, bottleneck_gbps);
    events_.emplace(queue_free_ + kDelay + fate.extra, [this, p, marked] { arrive(p, marked); });
  }

  void arrive(const RcPacket& p, bool marked) {
    const RcReply r = receiver.on_packet(now, p, marked);
    if (r.delivered) delivered.push_back(r.delivery);
    if (r.cnp)
      events_.emplace(now + kDelay, [this] {
        if (dcqcn) dcqcn->on_cnp(now);
      });
    if (r.kind == RcReply::Kind::none) return;
    const Fate fate = answers(r, answers_++);
    if (!fate.lost) events_.emplace(now + kDelay + fate.extra, [this, r] { answer(r); });
  }

  void answer(const RcReply& r) {
    if (r.kind == RcReply::Kind::ack) return sender.on_ack(now, r.psn);
    nak_inflight.push_back(static_cast<std::uint64_t>(highest_ + 1 - (r.psn - Psn{0})));
    sender.on_nak(now, r.psn);
  }

  static constexpr Duration kDelay{5000};
  std::uint32_t overhead;
  std::multimap<Time, std::function<void()>> events_;  // equal times in order of insertion
  Time port_free_{}, queue_free_{};
  std::uint64_t packets_ = 0, answers_ = 0;
  std::int32_t highest_ = -1;
};

void post_to(RcSender& s, std::uint64_t id, std::uint32_t bytes, bool notify = false) {
  REQUIRE(s.post(id, bytes, notify) == Errc::ok);
}

/// Messages 0 .. n-1 have arrived and completed exactly once, in order.
void check_all(const Pipe& pipe, std::uint64_t n) {
  REQUIRE(pipe.delivered.size() == n);
  REQUIRE(pipe.completed.size() == n);
  for (std::uint64_t i = 0; i < n; ++i) {
    CHECK(pipe.delivered[i].message == i);
    CHECK(pipe.completed[i].message == i);
    CHECK(pipe.completed[i].ok);
    CHECK(pipe.delivered[i].bytes == pipe.completed[i].bytes);
    CHECK(pipe.delivered[i].notify == (i % 3 == 0));
  }
  CHECK(pipe.sender.idle());
}

/// Loses the n-th packets given.
auto lose(std::vector<std::uint64_t> which) {
  return [which = std::move(which)](auto&&, std::uint64_t n) {
    return Fate{std::find(which.begin(), which.end(), n) != which.end(), {}};
  };
}

}  // namespace

TEST_CASE("rc pipe: without loss every packet is sent once, at the speed of the port") {
  Pipe pipe;
  post_to(pipe.sender, 0, 100 * 4096, true);
  post_to(pipe.sender, 1, 900 * 4096);
  pipe.run();
  check_all(pipe, 2);
  CHECK(pipe.sender.stats().packets == 1000);
  CHECK(pipe.sender.stats().retransmitted == 0);
  CHECK(pipe.receiver.stats().acks == 6 + 1 + 56 + 1);  // one in 16, and the ends
  // 1000 packets of 335 ns, and a round trip.
  CHECK(pipe.now.time_since_epoch() < Duration{1000 * 336 + 11'000});
}

TEST_CASE("rc pipe: one loss costs all that is in flight, and one NAK") {
  Pipe pipe;
  post_to(pipe.sender, 0, 1000 * 4096, true);
  pipe.data = lose({300});
  pipe.run();
  check_all(pipe, 1);
  CHECK(pipe.receiver.stats().naks == 1);
  REQUIRE(pipe.nak_inflight.size() == 1);
  CHECK(pipe.sender.stats().retransmitted == pipe.nak_inflight[0]);
  CHECK(pipe.nak_inflight[0] > 25);  // 10 us of round trip at 335 ns
  CHECK(pipe.nak_inflight[0] < 40);
  CHECK(pipe.sender.stats().packets == 1000 + pipe.nak_inflight[0]);
  CHECK(pipe.receiver.stats().out_of_order == pipe.nak_inflight[0] - 1);
  CHECK(pipe.sender.stats().timeouts == 0);
}

TEST_CASE("rc pipe: losses in the window that is sent again cost it once more") {
  Pipe pipe;
  post_to(pipe.sender, 0, 1000 * 4096, true);
  pipe.data = lose({300, 345});
  pipe.run();
  check_all(pipe, 1);
  REQUIRE(pipe.nak_inflight.size() == 2);
  CHECK(pipe.sender.stats().retransmitted == pipe.nak_inflight[0] + pipe.nak_inflight[1]);
  CHECK(pipe.sender.stats().timeouts == 0);
}

TEST_CASE("rc pipe: the same packet lost twice is found by the timer, since there is one NAK") {
  Pipe pipe;
  post_to(pipe.sender, 0, 1000 * 4096, true);
  unsigned lost = 0;
  pipe.data = [&](const RcPacket& p, std::uint64_t) {
    return Fate{p.psn == Psn{300} && lost++ < 2, {}};
  };
  pipe.run();
  check_all(pipe, 1);
  CHECK(pipe.receiver.stats().naks == 1);
  CHECK(pipe.sender.stats().timeouts == 1);
  CHECK(pipe.now.time_since_epoch() > rc_ack_timeout(8));
}

TEST_CASE("rc pipe: a lost tail, a lost NAK and a lost ACK are found by the timer") {
  SUBCASE("tail") {
    Pipe pipe;
    post_to(pipe.sender, 0, 100 * 4096, true);
    pipe.data = lose({98, 99});
    pipe.run();
    check_all(pipe, 1);
    CHECK(pipe.sender.stats().timeouts == 1);
    CHECK(pipe.receiver.stats().naks == 0);
    CHECK(pipe.sender.stats().retransmitted == 4);  // since the last ACK, of PSN 95
    CHECK(pipe.now.time_since_epoch() > rc_ack_timeout(8));
    CHECK(pipe.now.time_since_epoch() < rc_ack_timeout(8) + Duration{100'000});
  }
  SUBCASE("NAK") {
    Pipe pipe;
    post_to(pipe.sender, 0, 100 * 4096, true);
    pipe.data = lose({50});
    pipe.answers = [](const RcReply& r, std::uint64_t) {
      return Fate{r.kind == RcReply::Kind::nak, {}};
    };
    pipe.run();
    check_all(pipe, 1);
    CHECK(pipe.sender.stats().timeouts == 1);
    CHECK(pipe.sender.stats().naks == 0);
  }
  SUBCASE("ACK") {
    Pipe pipe;
    post_to(pipe.sender, 0, 4096, true);
    pipe.answers = lose({0});
    pipe.run();
    check_all(pipe, 1);
    CHECK(pipe.sender.stats().timeouts == 1);
    CHECK(pipe.receiver.stats().duplicates == 1);
  }
}

TEST_CASE("rc pipe: a dead path fails the queue pair") {
  Pipe pipe({.ack_timeout = Duration{100'000}});
  for (std::uint64_t id = 0; id < 10; ++id) post_to(pipe.sender, id, 40'960);
  pipe.data = [](const RcPacket&, std::uint64_t n) { return Fate{n >= 50, {}}; };
  pipe.run();
  CHECK(pipe.sender.failed());
  REQUIRE(pipe.completed.size() == 10);
  for (std::uint64_t i = 0; i < 10; ++i) {
    CHECK(pipe.completed[i].message == i);
    CHECK(pipe.completed[i].ok == (i < 5));
  }
  CHECK(pipe.sender.stats().timeouts == 8);
  CHECK(pipe.delivered.size() == 5);
}

TEST_CASE("rc pipe: a packet that is overtaken costs as much as a lost one") {
  Pipe pipe;
  post_to(pipe.sender, 0, 1000 * 4096, true);
  pipe.data = [](const RcPacket&, std::uint64_t n) {
    return Fate{false, Duration{n == 300 ? 1000 : 0}};  // overtaken by two or three
  };
  pipe.run();
  check_all(pipe, 1);
  CHECK(pipe.sender.stats().retransmitted > 25);
  CHECK(pipe.receiver.stats().naks == 2);  // for itself, and for the first that overtook it
  CHECK(pipe.receiver.stats().duplicates > 0);
  CHECK(pipe.sender.stats().timeouts == 0);
}

TEST_CASE("rc pipe: messages arrive once and in order whatever is lost, also across the PSN wrap") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Psn start{0xFFFFFF - random.below(500)};
    Pipe pipe({.mtu = 1024,
               .window = 64 * 1024,
               .ack_timeout = Duration{50'000},
               .retry_count = 30,
               .first_psn = start},
              {.first_psn = start});
    const double loss = 0.02 * static_cast<double>(1 + seed % 4);
    pipe.data = [&](const RcPacket&, std::uint64_t) {
      const bool lost = random.chance(loss);
      const bool late = random.chance(0.01);
      return Fate{lost, Duration{late ? random.below(3000) : 0}};
    };
    pipe.answers = [&](const RcReply&, std::uint64_t) { return Fate{random.chance(loss), {}}; };
    constexpr std::uint64_t kMessages = 200;
    for (std::uint64_t id = 0; id < kMessages; ++id) {
      const std::uint32_t bytes = random.below(10) == 0 ? 0 : random.below(20'000);
      post_to(pipe.sender, id, bytes, id % 3 == 0);
    }
    pipe.run();
    CHECK_FALSE(pipe.sender.failed());
    check_all(pipe, kMessages);
    CHECK(pipe.sender.stats().retransmitted > 0);
    // Each packet was taken exactly once.
    const RcReceiverStats& r = pipe.receiver.stats();
    const RcSenderStats& s = pipe.sender.stats();
    CHECK(r.packets - r.out_of_order - r.duplicates == s.packets - s.retransmitted);
  }
}

TEST_CASE("rc pipe: with DCQCN the sender finds a bottleneck's rate and keeps its queue short") {
  const auto transfer = [](bool with) {
    Pipe pipe;
    pipe.bottleneck_gbps = 40;
    pipe.mark_from = Duration{20'000};  // 100 KB
    if (with) pipe.dcqcn.emplace(DcqcnOptions{.line_rate = 100'000'000'000});
    post_to(pipe.sender, 0, 250'000'000, true);
    pipe.run();
    check_all(pipe, 1);
    CHECK(pipe.receiver.stats().cnps > 0);
    return pipe;
  };
  const Pipe without = transfer(false), with = transfer(true);
  // 250 MB and headers at 40 Gb/s.
  const double best = 250e6 * (4096 + 102) / 4096 * 8 / 40;
  CHECK(static_cast<double>(with.now.time_since_epoch().count()) < best * 1.15);
  // All of the window waits when nothing holds the sender back: 1 MiB at 40 Gb/s take 215 us.
  const std::uint64_t packets = with.sender.stats().packets;
  CHECK(without.queue_sum / packets > Duration{180'000});
  CHECK(with.queue_sum / packets < Duration{60'000});
  CHECK(with.sender.stats().retransmitted == 0);
}
