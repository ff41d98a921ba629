// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "mrc/core/types.hpp"

/// When each probe is sent, and its result. Without packets and without a clock.
namespace mrc::probe {

/// Results of the probes of one path.
struct PathResult {
  unsigned tries = 0;            ///< probes answered, or lost after the timeout
  unsigned answered = 0;         ///< including late answers
  std::vector<Duration> rtts{};  ///< of the answers

  /// Probes without an answer; late answers count as answers.
  [[nodiscard]] unsigned lost() const noexcept { return tries - std::min(tries, answered); }
};

/// Pacing of a sweep.
struct SweepOptions {
  Duration timeout = std::chrono::milliseconds(10);  ///< until a try counts as lost
  double rate = 10'000;                              ///< probes per second, over all paths; above 0
};

/// A number of probes on each of many paths. All paths are probed at once, each with one probe
/// under way, and all together within a rate.
///
/// Inputs: ask(), on_answer(), on_time(). Outputs: poll() until it returns nothing, then
/// next_event(). Pass received answers to on_answer() before on_time() is called: it declares
/// probes lost. Throws nothing but std::bad_alloc. One thread at a time.
class Sweep {
 public:
  /// A probe to be sent now.
  struct Probe {
    std::uint16_t id = 0;  ///< number of the probe, for on_answer()
    std::size_t path = 0;  ///< as numbered in ask()
    Time sent{};           ///< `now` of the poll() that returned it
  };

  /// Probes are numbered from `first_id`, modulo 2^16.
  explicit Sweep(const SweepOptions& options, std::uint16_t first_id = 0);

  /// Adds `tries` probes to send on a path. Paths are numbered by the caller, from 0.
  void ask(std::size_t path, unsigned tries);

  /// The next probe to send at time `now`, if any.
  [[nodiscard]] std::optional<Probe> poll(Time now);

  /// The probe of that number while it can still be answered, else nullptr.
  [[nodiscard]] const Probe* find(std::uint16_t id) const noexcept;

  /// The answer to a probe. find(id) must not be nullptr.
  void on_answer(Time now, std::uint16_t id);

  /// Counts probes without an answer within the timeout as lost. A later answer still counts.
  void on_time(Time now);

  /// When poll() or on_time() is to be called next; kNever when all is done.
  [[nodiscard]] Time next_event() const noexcept;

  /// True when every probe asked for was answered or is lost.
  [[nodiscard]] bool done() const noexcept { return ready_.empty() && open_ == 0; }
  /// [path]; one for each path up to the highest asked for.
  [[nodiscard]] const std::vector<PathResult>& results() const noexcept { return results_; }
  /// The number of the next probe, for a sweep that follows.
  [[nodiscard]] std::uint16_t next_id() const noexcept { return next_id_; }
  /// Probes sent so far.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }

 private:
  static constexpr std::size_t kIds = 65'536;  ///< EV probes have 16-bit numbers (mrc-1.0 §5)
  /// Burst allowance: after a delay, at most the probes of this much time leave at once.
  static constexpr Duration kCatchUp = std::chrono::milliseconds(2);

  enum class State : std::uint8_t { none, open, late };
  struct Flight {
    Probe probe{};
    State state = State::none;
  };

  void end_try(const Flight& flight);

  Duration timeout_, gap_;
  std::uint16_t next_id_;
  Time next_send_ = Time::min();
  std::vector<Flight> flights_;  ///< [id]
  std::deque<Probe> under_way_;  ///< in the order of sending, including answered ones
  std::size_t open_ = 0;
  std::uint64_t sent_ = 0;
  std::deque<std::size_t> ready_;  ///< paths whose next probe may leave
  std::vector<unsigned> left_;     ///< [path]: probes that have not ended
  std::vector<PathResult> results_;
};

}  // namespace mrc::probe
