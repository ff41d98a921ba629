// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "monitor.hpp"
#include "results.hpp"
#include "session.hpp"

/// The tests, one message size at a time. The client leads over the control connection:
///
///     client                      server
///     run {size}         ->       prepares
///                        <-       ready
///     go                 ->       the measured phase begins, faults too
///     end {sent}         ->       finishes what is under way, verifies the rest
///                        <-       totals {...}
namespace mrc::perf {

/// The server's report at the end of a message size.
struct ServerTotals {
  std::uint64_t size = 0;
  std::uint64_t sent = 0;      ///< messages
  std::uint64_t received = 0;  ///< messages; 0 where the receiver can't count them
  std::uint64_t checked_bytes = 0;
  std::uint64_t check_errors = 0;
  std::string first_error;
  std::uint64_t retransmits = 0;
};

/// Time for the last messages and control messages, besides that which a queue pair may need to
/// give up.
inline constexpr Duration kGrace = std::chrono::seconds(10);

class Traffic;

/// The client's part. Appends a result to the report, also when it throws Failure in the middle.
/// `traffic` is that of all sizes: the last note or credit of a size may come when the next one has
/// begun, and must not be taken for one of its own.
void run_bandwidth(Session& session, Traffic& traffic, Monitor& monitor, const Options& options,
                   std::uint64_t size, Report& report);
void run_latency(Session& session, Monitor& monitor, const Options& options, std::uint64_t size,
                 Report& report);
void run_completion(Session& session, Monitor& monitor, const Options& options, std::uint64_t size,
                    Report& report);

/// The server's part, from "run" on. Throws Failure.
ServerTotals serve_bandwidth(Session& session, Traffic& traffic, std::uint64_t size);
ServerTotals serve_latency(Session& session, std::uint64_t size);
ServerTotals serve_completion(Session& session, std::uint64_t size);

/// Polls the control connection about once per millisecond.
class Lookout {
 public:
  explicit Lookout(Control& control) : control_(control) {}
  /// A message, if a poll is due and there is one.
  std::optional<nlohmann::json> look(Time now) {
    if (now < next_) return std::nullopt;
    next_ = now + std::chrono::milliseconds(1);
    return control_.poll();
  }

 private:
  Control& control_;
  Time next_{};
};

/// Client: adds the totals to the result. Throws Failure if not every byte sent was checked.
void add_totals(const nlohmann::json& totals, std::uint64_t sent, const Parameters& p,
                Result& result);
/// Client: the control connection has ended, and the run with it, whatever the queue pairs may
/// still hope for. Throws Failure at once; with their error, too, if one of them has noticed by
/// now.
[[noreturn]] void fail_without_peer(Session& session, const PeerGone& gone);

}  // namespace mrc::perf
