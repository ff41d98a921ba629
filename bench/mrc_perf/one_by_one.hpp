// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>

#include "tests.hpp"

/// Common parts of the client for tests that send one message at a time.
namespace mrc::perf {

/// Polls completions without waiting; returns their number. Throws Failure with the cause on an
/// error completion.
inline std::size_t take_completions(Session& session) {
  std::array<Completion, 16> completions;
  const std::size_t n = session.cq().poll(completions);
  for (std::size_t i = 0; i < n; ++i)
    if (completions[i].status != WcStatus::success) throw Failure(session.cause(completions[i]));
  return n;
}

/// Runs one message size and appends its result to the report, even if it throws Failure. A Client
/// is constructed from session, options and size. It has `once()`, which sends a message and
/// returns the time to record, or empty when interrupted, and `finish(result)`.
template <class Client>
void run_one_by_one(Session& session, Monitor& monitor, const Options& options, std::uint64_t size,
                    Report& report) {
  Result& result = report.results.emplace_back();
  result.size = size;
  Client client(session, options, size);
  Control& control = session.control();
  const auto step = [&session] { (void)take_completions(session); };
  const auto measure = [&](Time start, Histogram& histogram) {
    const Time end = options.iterations > 0 ? kNever : start + options.duration;
    const std::uint64_t most = options.iterations > 0 ? options.iterations : UINT64_MAX;
    for (Time now = start; now < end && histogram.count() < most && !g_interrupted;) {
      const std::optional<Duration> time = client.once();
      if (!time) break;
      histogram.record(*time);
      now = monotonic_now();
      if (monitor.due(now)) monitor.tick(now, histogram.count() * size);
    }
  };
  const auto record = [&] {
    result.iterations = result.latency->count();
    monitor.finish(monotonic_now(), result.iterations * size, result);
  };
  try {
    control.send({{"op", "run"}, {"size", size}});
    control.wait("ready", kGrace, step);
    const Time warm = monotonic_now() + options.warmup;
    while (monotonic_now() < warm && !g_interrupted) (void)client.once();

    control.send({{"op", "go"}});
    session.start_faults();
    const Time start = monotonic_now();
    monitor.start(start, size, 0);
    try {
      measure(start, result.latency.emplace());
    } catch (const Failure&) {
      record();
      throw;
    }
    record();
    control.send({{"op", "end"}, {"sent", result.iterations}});
    control.wait("totals", kGrace, step);
    session.stop_faults();
    client.finish(result);
  } catch (const PeerGone& gone) {
    fail_without_peer(session, gone);
  }
}

}  // namespace mrc::perf
