// SPDX-License-Identifier: Apache-2.0
#include "meter.hpp"

#include <algorithm>
#include <numeric>

#include "units.hpp"

namespace mrc::perf {
namespace {

std::vector<std::uint64_t> difference(const std::vector<std::uint64_t>& now,
                                      const std::vector<std::uint64_t>& before) {
  std::vector<std::uint64_t> d(now.size());
  for (std::size_t i = 0; i < now.size(); ++i) d[i] = now[i] - (i < before.size() ? before[i] : 0);
  return d;
}

}  // namespace

Meter::Reading Meter::read(Time now, std::uint64_t payload) const {
  const DeviceStats stats = session_.device().stats();
  Reading r;
  r.time = now;
  r.payload = payload;
  r.packets = stats.engine.tx_data + (both_ ? stats.engine.rx_data : 0);
  r.retransmits = stats.engine.tx_retransmits;
  for (const PlaneStats& plane : stats.planes) {
    r.plane_bytes.push_back(plane.port.tx_bytes + (both_ ? plane.port.rx_bytes : 0));
    r.plane_packets.push_back(plane.port.tx_packets + (both_ ? plane.port.rx_packets : 0));
  }
  r.plane_lost.resize(stats.planes.size());
  for (const PathReport& path : session_.device().paths(session_.qp(0))) {
    if (path.plane < r.plane_lost.size()) r.plane_lost[path.plane] += path.losses + path.trims;
  }
  return r;
}

Sample Meter::take(Time now, std::uint64_t payload) {
  Reading next = read(now, payload);
  Sample s;
  s.length = next.time - last_.time;
  s.gbps = gbps(next.payload - last_.payload, s.length);
  const double ns = static_cast<double>(s.length.count());
  s.mpps = ns <= 0 ? 0 : static_cast<double>(next.packets - last_.packets) * 1e3 / ns;
  s.retransmits = next.retransmits - last_.retransmits;
  s.plane_packets = difference(next.plane_packets, last_.plane_packets);
  s.plane_lost = difference(next.plane_lost, last_.plane_lost);
  const auto bytes = difference(next.plane_bytes, last_.plane_bytes);
  const auto all = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  for (const std::uint64_t part : bytes) {
    s.plane_gbps.push_back(
        all == 0 ? 0 : s.gbps * static_cast<double>(part) / static_cast<double>(all));
  }
  last_ = std::move(next);
  return s;
}

FaultNotes::FaultNotes(const std::string& schedule) {
  for (std::string item : split(schedule, ';')) {
    std::string window;
    if (const auto at = item.find('@'); at != std::string::npos) {
      window = item.substr(at + 1);
      item.resize(at);
    }
    item.erase(0, item.find_first_not_of(' '));
    if (item.empty()) continue;
    // Commas would need quotes in the timeline, and "plane 1 down" is easier to read.
    std::replace(item.begin(), item.end(), ',', ' ');
    if (item.rfind("plane=", 0) == 0) item[5] = ' ';
    const auto dash = window.find('-');
    notes_.push_back({parse_duration(window.substr(0, dash)).value_or(Duration{0}), "on: " + item});
    if (dash == std::string::npos) continue;
    if (const auto end = parse_duration(window.substr(dash + 1)))
      notes_.push_back({*end, "off: " + item});
  }
  std::stable_sort(notes_.begin(), notes_.end(),
                   [](const Note& a, const Note& b) { return a.at < b.at; });
}

std::vector<std::string> FaultNotes::take(Duration since_start) {
  std::vector<std::string> texts;
  while (next_ < notes_.size() && notes_[next_].at <= since_start)
    texts.push_back(notes_[next_++].text);
  return texts;
}

}  // namespace mrc::perf
