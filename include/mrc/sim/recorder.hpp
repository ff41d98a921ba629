// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/sim/cluster.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/network.hpp"
#include "mrc/sim/traffic/measures.hpp"

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
///     lost            packets  taken by faults: lossy or broken links, turned bits
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

inline Recorder::Recorder(Network& network, const Fabric& fabric, const Cluster& cluster,
                          const RecorderSettings& settings)
    : network_(network), cluster_(cluster), settings_(settings) {
  if (settings_.interval <= Duration{})
    throw Error(Errc::invalid_argument, "recorder: interval must be above 0");
  settings_.max_samples = std::max<std::size_t>(settings_.max_samples & ~std::size_t{1}, 2);
  series_.push_back({"goodput", "Gb/s", Series::Merge::mean, {}});
  for (unsigned h = 0; settings_.per_host && h < cluster.hosts(); ++h)
    series_.push_back({"goodput h" + std::to_string(h), "Gb/s", Series::Merge::mean, {}});
  for (const std::string& name : settings_.queues) {
    std::vector<LinkId> links;
    if (name != "deepest")
      links = fabric.find(name);
    else
      for (const auto& s : fabric.switches())
        links.insert(links.end(), s->ports().begin(), s->ports().end());
    queues_.push_back(std::move(links));
    series_.push_back({"queue " + name, "bytes", Series::Merge::maximum, {}});
  }
  for (const char* name : {"dropped", "lost", "trimmed", "marked", "retransmitted"})
    series_.push_back({name, "packets", Series::Merge::sum, {}});
  series_.push_back({"timeouts", "events", Series::Merge::sum, {}});
  partial_.resize(series_.size());
}

inline void Recorder::sample() {
  ++samples_;
  std::size_t s = 0;
  add(s++, gbps(static_cast<double>(received_bytes()), settings_.interval));
  for (std::size_t h = 0; settings_.per_host && h < new_bytes_.size(); ++h)
    add(s++, gbps(static_cast<double>(new_bytes_[h]), settings_.interval));
  for (const auto& links : queues_) add(s++, deepest(links));
  for (const std::uint64_t n : counts()) add(s++, static_cast<double>(n));
  if (size() == settings_.max_samples) halve();
}

/// Merges a sample into the incomplete value, and appends that when it is complete.
inline void Recorder::add(std::size_t series, double value) {
  Series& s = series_[series];
  double& partial = partial_[series];
  partial = s.merge == Series::Merge::maximum ? std::max(partial, value) : partial + value;
  if (samples_ % merged_ != 0) return;
  const bool mean = s.merge == Series::Merge::mean;
  s.values.push_back(mean ? partial / static_cast<double>(merged_) : partial);
  partial = 0;
}

inline void Recorder::halve() {
  for (Series& s : series_) {
    const std::size_t half = s.values.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double a = s.values[2 * i], b = s.values[2 * i + 1];
      s.values[i] = s.merge == Series::Merge::maximum ? std::max(a, b)
                    : s.merge == Series::Merge::sum   ? a + b
                                                      : (a + b) / 2;
    }
    s.values.resize(half);
  }
  merged_ *= 2;
}

inline double Recorder::deepest(const std::vector<LinkId>& links) const noexcept {
  std::uint64_t most = 0;
  for (const LinkId link : links) most = std::max(most, network_[link].queued());
  return static_cast<double>(most);
}

/// Bytes since the last call; by host in new_bytes_.
inline std::uint64_t Recorder::received_bytes() {
  std::uint64_t total = 0;
  new_bytes_.resize(received_.size());
  for (unsigned h = 0; h < received_.size(); ++h) {
    const std::uint64_t now = cluster_.received_bytes(h);
    new_bytes_[h] = now - std::exchange(received_[h], now);
    total += new_bytes_[h];
  }
  return total;
}

/// Changes since the last call.
inline Recorder::Counters Recorder::counts() {
  Counters now{};
  for (const Link& link : network_.links()) {
    now[0] += link.stats.dropped;
    now[1] += link.stats.lost + link.stats.refused + link.stats.corrupted;
    now[2] += link.stats.trimmed;
    now[3] += link.stats.marked;
  }
  const ClusterStats stats = cluster_.stats();
  now[4] = stats.retransmitted;
  now[5] = stats.timeouts;
  Counters grown;
  for (std::size_t i = 0; i < kCounters; ++i) grown[i] = now[i] - last_[i];
  last_ = now;
  return grown;
}

inline void Recorder::write_csv(std::ostream& out) const {
  // The shortest text that parses to the same number, independent of the locale.
  const auto put = [&out](double v) {
    char text[32];
    out << std::string_view(
        text, static_cast<std::size_t>(std::to_chars(text, text + sizeof text, v).ptr - text));
  };
  out << "time_us";
  for (const Series& s : series_) out << ',' << s.name << " (" << s.unit << ')';
  out << '\n';
  for (std::size_t i = 0; i < size(); ++i) {
    const Time end = started_ + width() * static_cast<Duration::rep>(i + 1);
    put(static_cast<double>(end.time_since_epoch().count()) / 1000.0);
    for (const Series& s : series_) {
      out << ',';
      put(s.values[i]);
    }
    out << '\n';
  }
}

}  // namespace mrc::inline v0_1::sim
