// SPDX-License-Identifier: Apache-2.0
// The plots of a scenario.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mrc_sim/metrics.hpp"
#include "mrc_sim/plot.hpp"
#include "mrc_sim/report.hpp"

namespace mrc::bench {
namespace {

/// Series have their own units, to which the axis adds no SI prefix, except bytes.
Axis y_axis(const std::string& label, const std::string& unit) {
  Axis axis{.label = label, .unit = unit, .si = false};
  if (unit == "bytes") {
    axis.unit = "B";
    axis.si = true;
  }
  return axis;
}

/// Marks the starts of faults, and their ends if the same target recovers. Omitted if there are so
/// many that they would hide the data.
void add_faults(Plot& plot, const sim::Simulation& simulation) {
  constexpr std::size_t kMost = 24;
  const auto& faults = simulation.faults().faults();
  if (faults.size() > kMost) return;
  const Time stop = simulation.network().now();
  const auto seconds = [](Time t) {
    return static_cast<double>(t.time_since_epoch().count()) / 1e9;
  };
  for (const sim::Fault& f : faults)
    if (f.at <= stop && f.at > Time{})
      plot.event(seconds(f.at), fmt::format("{} {}", to_string(f.kind), f.target));
}

Plot over_time(const Job& job, const std::vector<Outcome>& outcomes, const PlotRequest& r) {
  std::string unit;
  std::vector<std::pair<std::string, std::vector<Point>>> series;
  const sim::Simulation* first = nullptr;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].started) continue;
    const sim::Recorder* recorder = outcomes[i].simulation->recorder();
    if (recorder == nullptr) continue;
    if (first == nullptr) first = outcomes[i].simulation.get();
    const sim::Series& s = (*recorder)[r.show];
    unit = s.unit;
    std::vector<Point> points;
    const double width = static_cast<double>(recorder->width().count()) / 1e9;
    const double start = static_cast<double>(recorder->started().time_since_epoch().count()) / 1e9;
    for (std::size_t n = 0; n < s.values.size(); ++n)
      points.push_back({start + width * (static_cast<double>(n) + 0.5), s.values[n]});
    series.emplace_back(job.variants[i].name, std::move(points));
  }
  Plot plot(r.title.empty() ? r.show : r.title, {.label = "time", .unit = "s"},
            y_axis(r.show, unit));
  for (auto& [name, points] : series) plot.line(name, std::move(points));
  if (first != nullptr) add_faults(plot, *first);
  return plot;
}

Plot completion_times(const Job& job, const std::vector<Outcome>& outcomes, const PlotRequest& r) {
  Plot plot(r.title.empty() ? "Message completion times" : r.title,
            {.label = "completion time", .unit = "s", .log = r.log_x},
            {.label = "messages", .unit = "%", .si = false, .max = 100});
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].started) continue;
    const auto& s = *outcomes[i].simulation;
    std::vector<double> seconds;
    for (const Duration d : s.messages().completion_times(s.measured_from()))
      seconds.push_back(static_cast<double>(d.count()) / 1e9);
    plot.step(job.variants[i].name, cdf(std::move(seconds)));
  }
  return plot;
}

/// A metric of each variant over its x, with one line for each line name.
Plot summary(const Job& job, const std::vector<Outcome>& outcomes, const PlotRequest& r) {
  Plot plot(r.title.empty() ? r.metric : r.title,
            {.label = r.x_label.empty() ? "variant" : r.x_label, .si = false, .log = r.log_x},
            y_axis(r.metric, metric_unit(r.metric)));
  std::vector<std::string> names;
  for (const Variant& v : job.variants)
    if (std::find(names.begin(), names.end(), v.line) == names.end()) names.push_back(v.line);
  for (const std::string& name : names) {
    std::vector<Point> points;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (!outcomes[i].started || job.variants[i].line != name) continue;
      const double value = metric(outcomes[i].summary, r.metric);
      points.push_back({job.variants[i].x.value_or(static_cast<double>(i)), value});
    }
    plot.line(name, points);
    plot.points("", points);
  }
  return plot;
}

}  // namespace

void write_plots(const Job& job, const std::vector<Outcome>& outcomes, const std::string& file) {
  Figure figure;
  bool first = true;
  for (const PlotRequest& r : job.plots) {
    Plot plot = r.show == "summary"            ? summary(job, outcomes, r)
                : r.show == "completion_times" ? completion_times(job, outcomes, r)
                                               : over_time(job, outcomes, r);
    plot.height(r.height);
    if (r.reference) plot.reference(*r.reference, r.reference_label);
    if (first) plot.subtitle(fmt::format("{}; seed {}", job.title, job.seed));
    first = false;
    figure.add(std::move(plot));
  }
  figure.write(file);
}

}  // namespace mrc::bench
