// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/files.hpp"
#include "mrc_sim/plot_panel.hpp"
#include "mrc_sim/plot_series.hpp"
#include "mrc_sim/plot_svg.hpp"

/// Plots as SVG, written without other tools. The same data gives the same bytes in any locale.
///
///     Plot plot("Goodput while T0 of plane 1 is down", {.label = "time", .unit = "s"},
///               {.label = "goodput", .unit = "Gb/s", .si = false});
///     plot.step("host 0", samples).event(2e-3, "T0 down").reference(800, "line rate");
///     Figure().add(plot).write("goodput.svg");
namespace mrc::bench {

/// One plot. Numbers that are not finite (or beyond 1e30) are left out. A plain value.
class Plot {
 public:
  Plot(std::string title, Axis x, Axis y) {
    data_.title = std::move(title);
    data_.x = std::move(x);
    data_.y = std::move(y);
  }

  /// A smaller line below the title.
  Plot& subtitle(std::string text) {
    data_.subtitle = std::move(text);
    return *this;
  }
  /// Height of the area with data in pixels, 60 to 2000; the figure is 1000 wide.
  Plot& height(double pixels) {
    data_.height = std::clamp(pixels, 60.0, 2000.0);
    return *this;
  }

  /// Adds a series. Points of line and step are joined in the order of x. A non-empty name is shown
  /// in the legend. Any number of points: the picture keeps the extremes of each column of pixels.
  Plot& series(std::string name, std::vector<Point> points, SeriesKind kind) {
    data_.series.push_back({std::move(name), std::move(points), kind});
    return *this;
  }
  Plot& line(std::string name, std::vector<Point> points) {
    return series(std::move(name), std::move(points), SeriesKind::line);
  }
  Plot& step(std::string name, std::vector<Point> points) {
    return series(std::move(name), std::move(points), SeriesKind::step);
  }
  Plot& points(std::string name, std::vector<Point> points) {
    return series(std::move(name), std::move(points), SeriesKind::points);
  }

  /// A vertical line, with its label above the data. If events are so close that six rows of labels
  /// do not suffice, some get no label.
  Plot& event(double x, std::string label) { return window(x, x, std::move(label)); }
  /// The same with the time until `to` shaded.
  Plot& window(double from, double to, std::string label) {
    data_.marks.push_back({from, std::max(from, to), std::move(label)});
    return *this;
  }
  /// A horizontal line, with its label to the right of the data. Extends the y axis if necessary.
  Plot& reference(double y, std::string label) {
    data_.references.push_back({y, std::move(label)});
    return *this;
  }

 private:
  friend class Figure;
  detail::PlotData data_;
};

/// Plots one below the other in one picture, their areas aligned. A plain value.
class Figure {
 public:
  Figure& add(Plot plot) {
    plots_.push_back(std::move(plot));
    return *this;
  }

  /// The picture as SVG, in UTF-8.
  [[nodiscard]] std::string svg() const {
    std::vector<detail::Panel> panels;
    for (const Plot& plot : plots_) panels.emplace_back(plot.data_);
    double left = 0;
    double right = 0;
    for (const detail::Panel& panel : panels) left = std::max(left, panel.wanted_left());
    for (const detail::Panel& panel : panels) right = std::max(right, panel.wanted_right(left));
    detail::SvgWriter writer;
    double y = 4;
    for (std::size_t i = 0; i < panels.size(); ++i) y += panels[i].draw(writer, y, left, right, i);
    return writer.document(detail::kFigureWidth, y + 8,
                           plots_.empty() ? "no plots" : plots_[0].data_.title);
  }

  /// Writes the picture. Throws Error that names the file and the cause.
  void write(const std::string& name) const { write_file(name, svg()); }

 private:
  std::vector<Plot> plots_;
};

}  // namespace mrc::bench
