// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <ostream>
#include <utility>

#include "mrc/sim/recorder.hpp"
#include "mrc/sim/traffic/workload.hpp"

namespace mrc::inline v0_1::sim {

Recorder::Recorder(Network& network, const Fabric& fabric, const Cluster& cluster,
                   const RecorderSettings& settings)
    : network_(network), cluster_(cluster), settings_(settings) {
  if (settings_.interval <= Duration{})
    throw Error(Errc::invalid_argument, "recorder: interval must be above 0");
  settings_.max_samples = std::max<std::size_t>(settings_.max_samples & ~std::size_t{1}, 2);
  series_.push_back({"goodput", "Gb/s", Series::Merge::mean, {}});
  for (unsigned h = 0; settings_.per_host && h < cluster.hosts(); ++h)
    series_.push_back({"goodput h" + std::to_string(h), "Gb/s", Series::Merge::mean, {}});
  for (const std::string& queue : settings_.queues) {
    const std::string name = canonical_name(queue);
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

void Recorder::sample() {
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
void Recorder::add(std::size_t series, double value) {
  Series& s = series_[series];
  double& partial = partial_[series];
  partial = s.merge == Series::Merge::maximum ? std::max(partial, value) : partial + value;
  if (samples_ % merged_ != 0) return;
  const bool mean = s.merge == Series::Merge::mean;
  s.values.push_back(mean ? partial / static_cast<double>(merged_) : partial);
  partial = 0;
}

void Recorder::halve() {
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

double Recorder::deepest(const std::vector<LinkId>& links) const noexcept {
  std::uint64_t most = 0;
  for (const LinkId link : links) most = std::max(most, network_[link].queued());
  return static_cast<double>(most);
}

/// Bytes since the last call; by host in new_bytes_.
std::uint64_t Recorder::received_bytes() {
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
Recorder::Counters Recorder::counts() {
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

void Recorder::write_csv(std::ostream& out) const {
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
