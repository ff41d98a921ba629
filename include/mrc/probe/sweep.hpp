// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "mrc/core/time.hpp"

/// Which probe leaves when, and what became of it. Neither packets nor a clock are known here.
namespace mrc::inline v0_1::probe {

/// What became of a path's probes.
struct PathResult {
  unsigned tries = 0;            ///< probes that were answered or waited for in vain
  unsigned answered = 0;         ///< also those whose answer came late
  std::vector<Duration> rtts{};  ///< of the answers

  [[nodiscard]] unsigned lost() const noexcept { return tries - std::min(tries, answered); }
};

/// How a sweep goes about it.
struct SweepOptions {
  Duration timeout = std::chrono::milliseconds(10);  ///< until a try counts as lost
  double rate = 10'000;                              ///< probes per second, over all paths
};

/// A number of probes on each of many paths: all paths at once, each with one probe under way, and
/// all together within a rate.
///
/// Inputs: ask(), on_answer(), on_time(). Outputs: poll() until it gives nothing, then
/// next_event(). Take in answers before on_time(): those that have come are not late.
class Sweep {
 public:
  /// A probe to be sent now.
  struct Probe {
    std::uint16_t id = 0;
    std::size_t path = 0;
    Time sent{};
  };

  /// Numbers of probes go up from `first_id`.
  explicit Sweep(const SweepOptions& options, std::uint16_t first_id = 0)
      : timeout_(options.timeout),
        gap_(static_cast<Duration::rep>(1e9 / options.rate)),
        next_id_(first_id),
        flights_(kIds) {}

  /// Wants so many more probes on a path.
  void ask(std::size_t path, unsigned tries) {
    if (path >= results_.size()) {
      results_.resize(path + 1);
      left_.resize(path + 1, 0);
    }
    if (tries == 0) return;
    if (left_[path] == 0) ready_.push_back(path);
    left_[path] += tries;
  }

  [[nodiscard]] std::optional<Probe> poll(Time now) {
    Flight& flight = flights_[next_id_];
    if (ready_.empty() || now < next_send_ || flight.state == State::open) return std::nullopt;
    flight = {{next_id_, ready_.front(), now}, State::open};
    ready_.pop_front();
    under_way_.push_back(flight.probe);
    ++open_;
    ++next_id_;
    ++sent_;
    // Who was kept from sending may catch up, but not with everything at once.
    next_send_ = sent_ == 1 ? now + gap_ : std::max(next_send_, now - kCatchUp) + gap_;
    return flight.probe;
  }

  /// The probe of that number, as long as it can be answered.
  [[nodiscard]] const Probe* find(std::uint16_t id) const noexcept {
    const Flight& flight = flights_[id];
    return flight.state == State::none ? nullptr : &flight.probe;
  }

  /// An answer to a probe that find() knows.
  void on_answer(Time now, std::uint16_t id) {
    Flight& flight = flights_[id];
    PathResult& result = results_[flight.probe.path];
    ++result.answered;
    result.rtts.push_back(now - flight.probe.sent);
    if (flight.state == State::open) end_try(flight);
    flight.state = State::none;
  }

  /// Counts what waited too long as lost; a late answer is still taken.
  void on_time(Time now) {
    for (; !under_way_.empty(); under_way_.pop_front()) {
      Flight& flight = flights_[under_way_.front().id];
      const bool open = flight.state == State::open && flight.probe.sent == under_way_.front().sent;
      if (open && now < flight.probe.sent + timeout_) return;
      if (!open) continue;
      end_try(flight);
      flight.state = State::late;
    }
  }

  /// When poll() or on_time() have something to do again; kNever when all is done.
  [[nodiscard]] Time next_event() const noexcept {
    Time at = under_way_.empty() ? kNever : under_way_.front().sent + timeout_;
    if (!ready_.empty() && flights_[next_id_].state != State::open) at = std::min(at, next_send_);
    return at;
  }

  [[nodiscard]] bool done() const noexcept { return ready_.empty() && open_ == 0; }
  [[nodiscard]] const std::vector<PathResult>& results() const noexcept { return results_; }
  [[nodiscard]] std::uint16_t next_id() const noexcept { return next_id_; }
  /// Probes so far.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }

 private:
  static constexpr std::size_t kIds = 65'536;
  static constexpr Duration kCatchUp = std::chrono::milliseconds(2);

  enum class State : std::uint8_t { none, open, late };
  struct Flight {
    Probe probe{};
    State state = State::none;
  };

  void end_try(const Flight& flight) {
    const std::size_t path = flight.probe.path;
    ++results_[path].tries;
    --open_;
    if (--left_[path] > 0) ready_.push_back(path);
  }

  Duration timeout_, gap_;
  std::uint16_t next_id_;
  Time next_send_ = Time::min();
  std::vector<Flight> flights_;  ///< [id]
  std::deque<Probe> under_way_;  ///< in the order of sending; answered ones too
  std::size_t open_ = 0;
  std::uint64_t sent_ = 0;
  std::deque<std::size_t> ready_;  ///< paths whose next probe may leave
  std::vector<unsigned> left_;     ///< [path]: probes that have not ended
  std::vector<PathResult> results_;
};

}  // namespace mrc::inline v0_1::probe
