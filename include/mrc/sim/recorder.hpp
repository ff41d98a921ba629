// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/sim/cluster.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/network.hpp"

namespace mrc::inline v0_1::sim {

/// Parameters of a Recorder.
struct RecorderSettings {
  Duration interval{10'000};  ///< of virtual time, between samples
  bool per_host = false;      ///< record goodput per host, besides the total
  /// Queues to record, each as a series: a name accepted by Fabric::find() (the deepest queue of
  /// several links) or "deepest": the deepest queue of all switches.
  std::vector<std::string> queues{"deepest"};
  std::size_t max_samples = 4096;  ///< kept; a multiple of 2
};

/// A quantity over time.
struct Series {
  /// How adjacent values are combined.
  enum class Merge : std::uint8_t { mean, sum, maximum };

  std::string name;            ///< as in the list at Recorder
  std::string unit;            ///< of the values
  Merge merge{};               ///< how adjacent values are combined
  std::vector<double> values;  ///< value i covers the i-th Recorder::width()
};

/// Samples a run at regular intervals of virtual time: goodput, queues, losses. Memory is bounded:
/// when there are too many values, adjacent ones are merged, and each later value covers twice as
/// many samples; width() is the time that a value covers. Sampling uses events of the network,
/// which change its digest but nothing else. The recorder must outlive the network's runs, unless
/// stop() was called before. One thread at a time, that of its network.
///
/// Series, in this order:
///     goodput         Gb/s     payload that hosts received, in all; then "goodput h0", ...
///     queue NAME      bytes    waiting at the sample, both classes; one series per name
///     dropped         packets  queue full
///     lost            packets  taken by faults: lossy or broken links, bit errors
///     trimmed, marked packets  by switches
///     retransmitted   packets  by hosts
///     timeouts        events
class Recorder {
 public:
  /// Throws mrc::Error for a name unknown to the fabric or an interval of zero.
  Recorder(Network& network, const Fabric& fabric, const Cluster& cluster,
           const RecorderSettings& settings = {});
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Starts the first interval now. Call once.
  void start() {
    if (running_ || samples_ != 0) throw Error(Errc::invalid_state, "recorder: start() comes once");
    running_ = true;
    started_ = network_.now();
    received_.resize(cluster_.hosts());
    (void)received_bytes();
    (void)counts();
    schedule();
  }
  /// Stops sampling; the current interval is dropped, and so is a merged value that is incomplete.
  void stop() noexcept { running_ = false; }

  /// All series, in the order above.
  [[nodiscard]] const std::vector<Series>& series() const noexcept { return series_; }
  /// The series with this name. Throws mrc::Error if there is none.
  [[nodiscard]] const Series& operator[](std::string_view name) const {
    for (const Series& s : series_)
      if (s.name == name) return s;
    throw Error(Errc::not_found, "recorder: series " + std::string(name));
  }
  /// Time of start().
  [[nodiscard]] Time started() const noexcept { return started_; }
  /// Virtual time covered by one value: the interval times a power of 2. Value i covers (started +
  /// i * width, started + (i + 1) * width].
  [[nodiscard]] Duration width() const noexcept {
    return settings_.interval * static_cast<Duration::rep>(merged_);
  }
  /// Number of values in each series.
  [[nodiscard]] std::size_t size() const noexcept { return series_.front().values.size(); }

  /// Writes a heading and one line per value: its end in microseconds, then the series.
  void write_csv(std::ostream& out) const;

 private:
  static constexpr std::size_t kCounters = 6;
  using Counters = std::array<std::uint64_t, kCounters>;

  void schedule() {
    network_.call_at(network_.now() + settings_.interval, [this] {
      if (!running_) return;
      sample();
      schedule();
    });
  }
  void sample();
  void add(std::size_t series, double value);
  void halve();
  [[nodiscard]] double deepest(const std::vector<LinkId>& links) const noexcept;
  [[nodiscard]] std::uint64_t received_bytes();
  [[nodiscard]] Counters counts();

  Network& network_;
  const Cluster& cluster_;
  RecorderSettings settings_;
  std::vector<std::vector<LinkId>> queues_;  // by name
  std::vector<Series> series_;
  std::vector<double> partial_;           // by series: the incomplete value
  std::vector<std::uint64_t> received_;   // by host, at the last sample
  std::vector<std::uint64_t> new_bytes_;  // by host, since the sample before
  Counters last_{};
  Time started_{};
  std::uint64_t samples_ = 0;
  std::uint64_t merged_ = 1;  // samples per value
  bool running_ = false;
};

}  // namespace mrc::inline v0_1::sim
