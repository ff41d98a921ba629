// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sched.h>

#include <atomic>
#include <cstring>

#include "one_by_one.hpp"
#include "pattern.hpp"
#include "stall.hpp"

/// Ping-pong: the client writes a message whose last byte is a counter; the server polls that byte
/// and writes the message back from where it arrived; the client polls its own. With --check the
/// rest is a pattern, new each time, and the client compares the returned message with the clock
/// stopped: this checks both directions at no cost to the server.
namespace mrc::perf {
namespace {

/// One side of the ping-pong. One thread.
class Player {
 public:
  Player(Session& session, std::uint64_t size)
      : session_(session), size_(size), lookout_(session.control()), guard_(session) {
    // A byte of an earlier size must not be taken for the first message.
    std::memset(session.receive_area(0), 0, size);
  }

  /// Writes a message from `area`, whose last byte becomes the next counter if `stamp`.
  void write(std::uint8_t* area, std::uint32_t lkey, bool stamp) {
    counter_ = static_cast<std::uint8_t>(counter_ % 255 + 1);
    if (stamp) area[size_ - 1] = counter_;
    const Sge sge{area, static_cast<std::uint32_t>(size_), lkey};
    const Parameters& p = session_.parameters();
    const std::uint32_t every =
        p.signal_every != 0 ? std::min(p.signal_every, p.depth) : std::min(16u, p.depth);
    SendRequest request;
    request.wr_id = RequestId{Purpose::data, 0, 0}.pack();
    request.sges = {&sge, 1};
    request.remote = session_.peer_area(0, 0);
    request.flags.signaled = ++unsignaled_ >= every;
    request.flags.inline_data = size_ <= p.inline_bytes;
    if (request.flags.signaled) unsignaled_ = 0;
    Errc error;
    while ((error = session_.qp(0).post_send(request)) == Errc::queue_full) progress();
    if (error != Errc::ok) {
      const std::string why = session_.first_error();
      throw Failure(why.empty() ? mrc::to_string(error) : why);
    }
  }

  /// Whether the message with this counter has arrived.
  [[nodiscard]] bool arrived(std::uint8_t counter) const noexcept {
    std::uint8_t& last = session_.receive_area(0)[size_ - 1];
    return std::atomic_ref<std::uint8_t>(last).load(std::memory_order_acquire) == counter;
  }
  [[nodiscard]] std::uint8_t counter() const noexcept { return counter_; }
  [[nodiscard]] std::uint8_t next_counter() const noexcept {
    return static_cast<std::uint8_t>(counter_ % 255 + 1);
  }

  void progress() { (void)take_completions(session_); }

  /// Polls the control connection occasionally.
  std::optional<nlohmann::json> look() {
    constexpr unsigned kRarely = 64;
    if (++looks_ % kRarely != 0) return std::nullopt;
    // With more processes than cores, the other side may need this processor.
    sched_yield();
    const Time now = monotonic_now();
    auto message = lookout_.look(now);
    guard_.look(now, 0, [] { return "the other side's next message of the ping-pong"; });
    return message;
  }
  void moved() noexcept { looks_ = 0; }

 private:
  Session& session_;
  std::uint64_t size_;
  Lookout lookout_;
  StallGuard guard_;
  std::uint8_t counter_ = 0;
  std::uint32_t unsignaled_ = 0;
  unsigned looks_ = 0;
};

/// The client's part for one message size.
class LatencyClient {
 public:
  LatencyClient(Session& session, const Options& options, std::uint64_t size)
      : session_(session), options_(options), size_(size), player_(session, size) {}

  /// Half of the round-trip time.
  std::optional<Duration> once() {
    const Duration trip = round_trip();
    if (trip.count() == 0) return std::nullopt;
    return trip / 2;
  }
  void finish(Result& result) const {
    result.checked_bytes = options_.parameters.check ? 2 * size_ * trips_ : 0;
    result.check_errors = errors_;
  }

 private:
  /// Round-trip time; 0 when interrupted.
  Duration round_trip() {
    std::uint8_t* const message = session_.send_area(0);
    const bool check = options_.parameters.check;
    if (check) Pattern(options_.parameters.seed, 0, trips_).fill(message, 0, size_);
    const Time start = monotonic_now();
    player_.write(message, session_.send_lkey(), true);
    player_.moved();
    while (!player_.arrived(player_.counter())) {
      player_.progress();
      if (g_interrupted) return Duration{0};
      if (const auto said = player_.look())
        throw Failure(fmt::format("{} said '{}' in the middle of a run", session_.control().peer(),
                                  (*said)["op"].get<std::string>()));
    }
    const Duration time = monotonic_now() - start;
    ++trips_;
    if (check) compare(message);
    return time;
  }

  void compare(const std::uint8_t* sent) {
    const std::uint8_t* const got = session_.receive_area(0);
    if (std::memcmp(sent, got, size_) == 0) return;
    for (std::uint64_t i = 0; i < size_; ++i) {
      if (sent[i] == got[i]) continue;
      if (errors_++ == 0)
        fmt::print(stderr, "mrc_perf: check: round trip {} of {} bytes differs at byte {}\n",
                   trips_, size_, i);
    }
  }

  Session& session_;
  const Options& options_;
  std::uint64_t size_;
  Player player_;
  std::uint64_t trips_ = 0, errors_ = 0;
};

}  // namespace

void run_latency(Session& session, Monitor& monitor, const Options& options, std::uint64_t size,
                 Report& report) {
  run_one_by_one<LatencyClient>(session, monitor, options, size, report);
}

ServerTotals serve_latency(Session& session, std::uint64_t size) {
  Control& control = session.control();
  Player player(session, size);
  control.send({{"op", "ready"}});
  ServerTotals totals;
  totals.size = size;
  for (bool over = false; !over;) {
    if (player.arrived(player.next_counter())) {
      player.write(session.receive_area(0), session.receive_lkey(), false);
      player.moved();
      ++totals.received;
    }
    player.progress();
    if (g_interrupted) throw Interrupted();
    const auto message = player.look();
    if (!message) continue;
    if ((*message)["op"] == "go") session.start_faults();
    over = (*message)["op"] == "end";
  }
  session.stop_faults();
  totals.sent = totals.received;
  control.send({{"op", "totals"}, {"sent", totals.sent}, {"received", totals.received}});
  return totals;
}

}  // namespace mrc::perf
