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
#include "probe/sweep.hpp"

/// Trains of packets, which measure how much a path carries. Without packets and without a clock.
namespace mrc::probe {

/// What trains found out about one path.
struct PathLoad {
  unsigned trains = 0;          ///< that have ended
  std::vector<double> rates{};  ///< packets per second, of those of which at least half came back

  /// What the path has carried at best: other traffic delays trains, and nothing speeds them up. 0:
  /// not measured.
  [[nodiscard]] double best() const noexcept {
    return rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
  }
};

/// How trains are sent.
struct TrainOptions {
  unsigned length = 32;  ///< packets; at least 2. Answerers take bursts of 64
  Duration patience = std::chrono::milliseconds(100);  ///< without an answer, until a train ends
  double rate = 10'000;                                ///< packets per second, mean; above 0
};

/// Trains on many paths, one after the other. The packets of a train leave at once; its rate is
/// that of its answers, from the first packet's departure to the last answer, so that a receiver
/// which reads late finds too low a rate and never too high a one.
///
/// Inputs: ask(), on_answer(), on_time(). Outputs: poll() until it returns nothing, then
/// next_event(). Throws nothing but std::bad_alloc. One thread at a time.
class Trains {
 public:
  using Probe = Sweep::Probe;  ///< a packet of a train

  /// Packets are numbered from `first_id`, modulo 2^16.
  explicit Trains(const TrainOptions& options, std::uint16_t first_id = 0);

  /// Adds a train on a path. Paths are numbered by the caller, from 0.
  void ask(std::size_t path);

  /// The next packet to send at time `now`, if any.
  [[nodiscard]] std::optional<Probe> poll(Time now);
  /// The packet of that number while it can still be answered, else nullptr.
  [[nodiscard]] const Probe* find(std::uint16_t id) const noexcept;
  /// The answer to a packet. find(id) must not be nullptr.
  void on_answer(Time now, std::uint16_t id);
  /// Ends a train of which nothing more comes.
  void on_time(Time now);
  /// When poll() or on_time() is to be called next; kNever when all is done.
  [[nodiscard]] Time next_event() const noexcept;

  /// True when all trains have ended.
  [[nodiscard]] bool done() const noexcept { return waiting_.empty() && train_.empty(); }
  /// [path]; one for each path up to the highest asked for.
  [[nodiscard]] const std::vector<PathLoad>& results() const noexcept { return results_; }
  /// The number of the next packet.
  [[nodiscard]] std::uint16_t next_id() const noexcept { return next_id_; }
  /// Packets sent so far.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }

 private:
  struct Car {
    Probe probe{};
    bool answered = false;
  };

  void end_train(Time now);

  TrainOptions options_;
  Duration gap_;  ///< from the start of a train to that of the next
  std::uint16_t next_id_;
  std::uint64_t sent_ = 0;
  std::deque<std::size_t> waiting_;  ///< paths
  std::vector<Car> train_;           ///< the one under way
  unsigned answered_ = 0;            ///< packets of it
  Time last_{};                      ///< its last packet or answer
  Time next_train_ = Time::min();
  std::vector<PathLoad> results_;
};

}  // namespace mrc::probe
