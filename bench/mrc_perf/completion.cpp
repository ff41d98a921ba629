// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sched.h>

#include <array>

#include "stall.hpp"
#include "tests.hpp"

/// What a one-sided write takes until its completion, while the peer's program is asleep: the
/// library's helper thread alone answers there, and it sleeps between messages, too.
namespace mrc::perf {
namespace {

/// The client's side of one size.
class CompletionClient {
 public:
  CompletionClient(Session& session, const Options& options, std::uint64_t size)
      : session_(session), options_(options), size_(size), guard_(session) {}

  void step() { (void)take(); }

  void run(Monitor& monitor, Result& result) {
    Control& control = session_.control();
    control.send({{"op", "run"}, {"size", size_}});
    control.wait("ready", kGrace, [this] { step(); });
    const Time warm = monotonic_now() + options_.warmup;
    while (monotonic_now() < warm && !g_interrupted) (void)write();

    control.send({{"op", "go"}});
    session_.start_faults();
    const Time start = monotonic_now();
    monitor.start(start, size_, 0);
    Histogram& histogram = result.latency.emplace();
    const auto record = [&] {
      result.iterations = histogram.count();
      monitor.finish(monotonic_now(), result.iterations * size_, result);
    };
    try {
      measure(monitor, start, histogram);
    } catch (const Failure&) {
      record();
      throw;
    }
    record();
    control.send({{"op", "end"}, {"sent", histogram.count()}});
    control.wait("totals", kGrace, [this] { step(); });
    session_.stop_faults();
  }

 private:
  void measure(Monitor& monitor, Time start, Histogram& histogram) {
    const Time end = options_.iterations > 0 ? kNever : start + options_.duration;
    const std::uint64_t most = options_.iterations > 0 ? options_.iterations : UINT64_MAX;
    for (Time now = start; now < end && histogram.count() < most; now = monotonic_now()) {
      const Duration time = write();
      if (g_interrupted) break;
      histogram.record(time);
      if (monitor.due(now)) monitor.tick(now, histogram.count() * size_);
    }
  }

  /// One write; how long until its completion.
  Duration write() {
    const Time start = monotonic_now();
    const Sge piece{session_.send_area(0), static_cast<std::uint32_t>(size_), session_.send_lkey()};
    WriteRequest request;
    request.wr_id = RequestId{Purpose::data, 0, 0}.pack();
    request.pieces = {&piece, 1};
    request.remote = session_.peer_area(0, 0);
    request.flags.inline_data = size_ <= session_.parameters().inline_bytes;
    if (const Errc error = session_.qp(0).post_write(request); error != Errc::ok) {
      const std::string why = session_.first_error();
      throw Failure(why.empty() ? mrc::to_string(error) : why);
    }
    for (unsigned looks = 1; take() == 0 && !g_interrupted; ++looks) {
      constexpr unsigned kRarely = 64;
      if (looks % kRarely != 0) continue;
      sched_yield();  // the peer's helper may have no other core
      guard_.look(monotonic_now(), 0, [] { return "the completion of a write"; });
    }
    return monotonic_now() - start;
  }

  std::size_t take() {
    const std::size_t n = session_.cq().poll(completions_);
    for (std::size_t i = 0; i < n; ++i)
      if (completions_[i].status != WcStatus::success)
        throw Failure(session_.cause(completions_[i]));
    return n;
  }

  Session& session_;
  const Options& options_;
  std::uint64_t size_;
  StallGuard guard_;
  std::array<Completion, 4> completions_;
};

}  // namespace

void run_completion(Session& session, Monitor& monitor, const Options& options, std::uint64_t size,
                    Report& report) {
  Result& result = report.results.emplace_back();
  result.size = size;
  CompletionClient client(session, options, size);
  try {
    client.run(monitor, result);
  } catch (const PeerGone& gone) {
    fail_without_peer(session, gone, [&client] { client.step(); });
  }
}

ServerTotals serve_completion(Session& session, std::uint64_t size) {
  Control& control = session.control();
  control.send({{"op", "ready"}});
  const auto sleep_until = [&](const char* op) {
    for (;;) {
      if (g_interrupted) throw Interrupted();
      if (const auto message = control.poll(); message && (*message)["op"] == op) return *message;
      control.sleep(std::chrono::milliseconds(200));
    }
  };
  sleep_until("go");
  session.start_faults();
  const nlohmann::json end = sleep_until("end");
  session.stop_faults();
  ServerTotals totals;
  totals.size = size;
  totals.received = end.value("sent", std::uint64_t{0});
  control.send({{"op", "totals"}, {"sent", 0}, {"received", totals.received}});
  return totals;
}

}  // namespace mrc::perf
