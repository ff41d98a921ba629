// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace mrc::bench {

/// A value at a position on the x axis.
struct Point {
  double x = 0;
  double y = 0;

  friend bool operator==(const Point&, const Point&) = default;
};

/// How the points of a series are shown.
enum class SeriesKind : std::uint8_t {
  line,    ///< joined
  step,    ///< each value holds until the next point
  points,  ///< dots
};

/// One axis. `unit` is the plain unit ("s", "B", "b/s"), to which the axis adds an SI prefix for
/// short numbers; `si` = false leaves units as they are, if they have a prefix or take none
/// ("Gb/s", "%"). Defaults of min and max follow the data; a y axis starts at 0.
struct Axis {
  std::string label;
  std::string unit = {};
  bool si = true;
  bool log = false;  ///< logarithmic; x axis only, points at x <= 0 are left out
  std::optional<double> min = {};
  std::optional<double> max = {};
};

/// The cumulative distribution of samples, in per cent: a series for SeriesKind::step, from the
/// smallest sample at 0 % to the largest at 100 %. Ignores samples that are not finite.
[[nodiscard]] inline std::vector<Point> cdf(std::vector<double> samples) {
  std::erase_if(samples, [](double x) { return !std::isfinite(x); });
  std::sort(samples.begin(), samples.end());
  std::vector<Point> points;
  if (samples.empty()) return points;
  points.push_back({samples.front(), 0});
  const auto count = static_cast<double>(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (i + 1 == samples.size() || samples[i + 1] != samples[i])
      points.push_back({samples[i], 100 * static_cast<double>(i + 1) / count});
  return points;
}

namespace detail {

/// Whether it can be drawn. Numbers beyond 1e30 count as infinite.
[[nodiscard]] inline bool drawable(double x) {
  return x >= -1e30 && x <= 1e30;
}

/// Of points in pixels, ordered by x, those needed for a joined line: of each column of pixels the
/// first, the lowest, the highest and the last one, in their order.
[[nodiscard]] inline std::vector<Point> thin_line(const std::vector<Point>& pixels) {
  std::vector<Point> kept;
  for (std::size_t begin = 0; begin < pixels.size();) {
    std::size_t end = begin;
    std::size_t low = begin;
    std::size_t high = begin;
    const double column = std::floor(pixels[begin].x);
    for (; end < pixels.size() && std::floor(pixels[end].x) == column; ++end) {
      if (pixels[end].y < pixels[low].y) low = end;
      if (pixels[end].y > pixels[high].y) high = end;
    }
    std::size_t indices[] = {begin, std::min(low, high), std::max(low, high), end - 1};
    const auto* const stop = std::unique(std::begin(indices), std::end(indices));
    for (const std::size_t* i = indices; i != stop; ++i) kept.push_back(pixels[*i]);
    begin = end;
  }
  return kept;
}

/// Of points in pixels those needed for dots: in each column of pixels the lowest and the highest,
/// and between them one in each cell of 3 by 3 pixels. `right` and `bottom` bound them.
[[nodiscard]] inline std::vector<Point> thin_dots(const std::vector<Point>& pixels, double right,
                                                  double bottom) {
  constexpr double kCell = 3;
  const auto columns = static_cast<std::size_t>(right) + 1;
  const auto cells_across = static_cast<std::size_t>(right / kCell) + 1;
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> low(columns, kNone);
  std::vector<std::size_t> high(columns, kNone);
  const auto inside = [&](const Point& p) {
    return p.x >= 0 && p.x <= right && p.y >= 0 && p.y <= bottom;
  };
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (!inside(pixels[i])) continue;
    const auto column = static_cast<std::size_t>(pixels[i].x);
    if (low[column] == kNone || pixels[i].y < pixels[low[column]].y) low[column] = i;
    if (high[column] == kNone || pixels[i].y > pixels[high[column]].y) high[column] = i;
  }
  std::vector<bool> taken(cells_across * (static_cast<std::size_t>(bottom / kCell) + 1));
  std::vector<Point> kept;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (!inside(pixels[i])) continue;
    const auto column = static_cast<std::size_t>(pixels[i].x);
    const std::size_t cell = static_cast<std::size_t>(pixels[i].y / kCell) * cells_across +
                             static_cast<std::size_t>(pixels[i].x / kCell);
    if (taken[cell] && low[column] != i && high[column] != i) continue;
    taken[cell] = true;
    kept.push_back(pixels[i]);
  }
  return kept;
}

}  // namespace detail
}  // namespace mrc::bench
