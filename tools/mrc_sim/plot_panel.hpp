// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc_sim/plot_series.hpp"
#include "mrc_sim/plot_svg.hpp"
#include "mrc_sim/plot_ticks.hpp"

/// Layout and drawing of one plot.
namespace mrc::bench::detail {

/// Contents of a plot.
struct PlotData {
  struct Series {
    std::string name;
    std::vector<Point> points;
    SeriesKind kind = SeriesKind::line;
  };
  struct Mark {
    double from = 0;
    double to = 0;  ///< for an event equal to the start
    std::string label;
  };
  struct Reference {
    double y = 0;
    std::string label;
  };

  std::string title;
  std::string subtitle;
  Axis x;
  Axis y;
  double height = 260;  ///< of the area with data
  std::vector<Series> series;
  std::vector<Mark> marks;
  std::vector<Reference> references;
};

/// Ends of an axis.
struct Range {
  double lo = 0;
  double hi = 1;
};

inline constexpr double kFigureWidth = 1000;

/// Whether the point can be drawn.
[[nodiscard]] inline bool drawable(const PlotData& plot, const Point& p) {
  return drawable(p.x) && drawable(p.y) && (!plot.x.log || p.x >= 1e-30);
}

/// Extends a range to ticks that are close, such as 3.98 ms to 4 ms.
inline void widen_to_ticks(double& lo, double& hi) {
  constexpr double kClose = 0.03;
  const double room = kClose * (hi - lo);
  for (const double tick : linear_ticks(lo - room, hi + room, 10, "", false).at) {
    if (tick < lo) lo = tick;
    if (tick > hi) hi = tick;
  }
}

/// The range of the x axis: that of the data, unless set by the axis.
[[nodiscard]] inline Range x_range(const PlotData& plot) {
  double lo = std::numeric_limits<double>::infinity();
  double hi = -lo;
  for (const PlotData::Series& series : plot.series) {
    for (const Point& p : series.points) {
      if (!drawable(plot, p)) continue;
      lo = std::min(lo, p.x);
      hi = std::max(hi, p.x);
    }
  }
  if (!(lo <= hi)) lo = plot.x.log ? 1 : 0, hi = plot.x.log ? 10 : 1;
  if (!plot.x.log) widen_to_ticks(lo, hi);
  const auto usable = [&](double x) { return drawable(x) && (!plot.x.log || x >= 1e-30); };
  if (plot.x.min && usable(*plot.x.min)) lo = *plot.x.min;
  if (plot.x.max && usable(*plot.x.max)) hi = *plot.x.max;
  // A single position (or ends in the wrong order): some room around it.
  const double size = std::max(std::abs(lo), std::abs(hi));
  if (!(hi - lo > size * 1e-9)) {
    if (plot.x.log) return {lo / 2, lo * 2};
    const double room = size > 0 ? size / 2 : 0.5;
    return {lo - room, lo + room};
  }
  return {lo, hi};
}

/// The range of the y axis: from 0, with a little room above the data and the references.
[[nodiscard]] inline Range y_range(const PlotData& plot) {
  double lo = 0;
  double hi = 0;
  for (const PlotData::Series& series : plot.series) {
    for (const Point& p : series.points) {
      if (!drawable(plot, p)) continue;
      lo = std::min(lo, p.y);
      hi = std::max(hi, p.y);
    }
  }
  for (const PlotData::Reference& reference : plot.references)
    if (drawable(reference.y)) hi = std::max(hi, reference.y);
  hi = std::max(hi + 0.06 * (hi - lo), 0.0);
  if (lo < 0) lo -= 0.06 * (hi - lo);
  if (plot.y.min && drawable(*plot.y.min)) lo = *plot.y.min;
  if (plot.y.max && drawable(*plot.y.max)) hi = *plot.y.max;
  const double size = std::max(std::abs(lo), std::abs(hi));
  if (size < 1e-30 || !(hi - lo > size * 1e-9)) hi = lo + std::max(size, 1.0);
  return {lo, hi};
}

/// One plot of a figure. The figure aligns its plots by giving all the same margins.
class Panel {
 public:
  explicit Panel(const PlotData& plot) : plot_(plot), x_(x_range(plot)), y_(y_range(plot)) {
    y_ticks_ = linear_ticks(y_.lo, y_.hi, std::clamp(static_cast<int>(plot.height / 40), 2, 8),
                            plot.y.unit, plot.y.si);
    lo_ = plot.x.log ? log10_of(x_.lo) : x_.lo;
    hi_ = plot.x.log ? log10_of(x_.hi) : x_.hi;
  }

  /// Width of the y axis labels.
  [[nodiscard]] double wanted_left() const {
    double widest = 0;
    for (const std::string& label : y_ticks_.labels)
      widest = std::max(widest, text_width(label, kTextSize));
    return std::max(56.0, widest + 46);
  }
  /// Width of what is beside the data: labels of references, and of events close to the end.
  [[nodiscard]] double wanted_right(double left) const {
    constexpr double kMost = 220;
    double right = kEdge;
    for (const PlotData::Reference& reference : plot_.references)
      right = std::max(right, text_width(reference.label, kTextSize) + 8 + kPad);
    for (const PlotData::Mark& mark : plot_.marks) {
      const double share = fraction(mark.from);
      if (!(share > 0 && share <= 1)) continue;
      // From left + share * (width - left - right) + label <= width.
      const double label = text_width(mark.label, kTextSize) + kFlagGap + kPad;
      right = std::max(right, kFigureWidth - left - (kFigureWidth - label - left) / share);
    }
    return std::min(right, kMost);
  }

  /// Draws the plot from `top` down and returns its height.
  double draw(SvgWriter& svg, double top, double left, double right, std::size_t number) {
    left_ = left;
    right_ = kFigureWidth - right;
    double y = top + 10;
    for (const std::string& line : wrap(plot_.title, kFigureWidth - left - kEdge, 1.1 * kTitleSize))
      svg.text(left, y += 22, line, "title");
    for (const std::string& line : wrap(plot_.subtitle, kFigureWidth - left - kEdge, kTextSize))
      svg.text(left, y += 19, line, "quiet");
    y = draw_legend(svg, y + 6);
    place_flags();
    top_ = y + 14 + kFlagRow * static_cast<double>(flag_rows_);
    bottom_ = top_ + plot_.height;
    draw_windows(svg);
    draw_axes(svg);
    draw_references(svg);
    draw_series(svg, number);
    draw_flags(svg);
    return bottom_ + (plot_.x.label.empty() && x_unit_.empty() ? 34 : 54) - top;
  }

 private:
  static constexpr double kEdge = 28;     ///< least margin at the right
  static constexpr double kPad = 10;      ///< between text and the picture's edge
  static constexpr double kFlagGap = 5;   ///< between an event's line and its label
  static constexpr double kFlagRow = 18;  ///< height of a row of labels
  static constexpr std::size_t kMostFlagRows = 6;

  struct Flag {
    double x = 0;
    std::size_t row = 0;
    std::string label;
    bool labelled = true;
  };

  /// Position on the axis: 0 at its start, 1 at its end.
  [[nodiscard]] double fraction(double x) const {
    if (plot_.x.log && x < 1e-30) return -1;
    return ((plot_.x.log ? log10_of(x) : x) - lo_) / (hi_ - lo_);
  }
  [[nodiscard]] double px_x(double x) const { return left_ + fraction(x) * (right_ - left_); }
  [[nodiscard]] double px_y(double y) const {
    return bottom_ - (y - y_.lo) / (y_.hi - y_.lo) * (bottom_ - top_);
  }
  [[nodiscard]] bool in_range(double x) const {
    return drawable(x) && fraction(x) >= -1e-9 && fraction(x) <= 1 + 1e-9;
  }
  [[nodiscard]] bool mark_in_view(const PlotData::Mark& mark) const {
    return drawable(mark.from) && drawable(mark.to) && fraction(mark.from) <= 1 + 1e-9 &&
           fraction(mark.to) >= -1e-9;
  }

  [[nodiscard]] static std::string stroke(std::size_t i) {
    const std::string dashes = kDashes[i / kColors.size() % kDashes.size()];
    return SvgWriter::attribute("stroke", kColors[i % kColors.size()]) +
           SvgWriter::attribute("stroke-dasharray", dashes);
  }

  /// Rows of swatch and name between the head and the data. Returns their lower end.
  double draw_legend(SvgWriter& svg, double y) const {
    constexpr double kSwatch = 20;
    double x = left_;
    bool any = false;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const PlotData::Series& series = plot_.series[i];
      if (series.name.empty()) continue;
      const std::string name = shorten(series.name, right_ - left_ - kSwatch, kTextSize);
      const double width = kSwatch + 7 + text_width(name, kTextSize);
      if (any && x + width > right_) x = left_, y += 19;
      if (!any) y += 13;
      any = true;
      if (series.kind == SeriesKind::points)
        svg.path(fmt::format("M{} {}h0", px(x + kSwatch / 2), px(y - 4)), "dots",
                 SvgWriter::attribute("stroke", kColors[i % kColors.size()]));
      else
        svg.line(x, y - 4, x + kSwatch, y - 4, "series", stroke(i));
      svg.text(x + kSwatch + 7, y, name);
      x += width + 20;
    }
    return any ? y + 2 : y - 6;
  }

  /// Assigns each event a row above the data such that no label overlaps another or another's line.
  void place_flags() {
    for (const PlotData::Mark& mark : plot_.marks) {
      if (!mark_in_view(mark)) continue;
      const double x = std::max(px_x(mark.from), left_);
      flags_.push_back({x, 0, shorten(mark.label, kFigureWidth - kPad - kFlagGap - x, kTextSize)});
    }
    std::stable_sort(flags_.begin(), flags_.end(),
                     [](const Flag& a, const Flag& b) { return a.x < b.x; });
    // Labels lie to the right of their lines, so a label has to be above the lines it crosses.
    for (std::size_t i = flags_.size(); i-- > 0;) {
      Flag& flag = flags_[i];
      flag.labelled = !flag.label.empty();
      const double end = flag.x + kFlagGap + text_width(flag.label, kTextSize) + 6;
      for (std::size_t k = i + 1; k < flags_.size() && flags_[k].x < end; ++k)
        if (flags_[k].labelled) flag.row = std::max(flag.row, flags_[k].row + 1);
      if (flag.row >= kMostFlagRows) flag.labelled = false;
      if (flag.labelled) flag_rows_ = std::max(flag_rows_, flag.row + 1);
    }
  }

  void draw_windows(SvgWriter& svg) const {
    for (const PlotData::Mark& mark : plot_.marks) {
      if (!mark_in_view(mark) || !(mark.to > mark.from)) continue;
      const double from = std::max(px_x(mark.from), left_);
      const double to = std::min(px_x(mark.to), right_);
      svg.rect(from, top_, to - from, bottom_ - top_, "window");
      if (in_range(mark.to)) svg.line(to, top_, to, bottom_, "mark");
    }
  }

  void draw_flags(SvgWriter& svg) const {
    for (const Flag& flag : flags_) {
      const double y = top_ - 7 - kFlagRow * static_cast<double>(flag.row);
      svg.line(flag.x, flag.labelled ? y - 10 : top_, flag.x, bottom_, "mark");
      if (flag.labelled) svg.text(flag.x + kFlagGap, y, flag.label, "mark-text");
    }
  }

  /// As many ticks as there is room for labels.
  [[nodiscard]] Ticks x_ticks() const {
    for (int count = 10;; --count) {
      Ticks ticks = plot_.x.log ? log_ticks(x_.lo, x_.hi, count, plot_.x.unit, plot_.x.si)
                                : linear_ticks(x_.lo, x_.hi, count, plot_.x.unit, plot_.x.si);
      bool fits = true;
      for (std::size_t i = 0; i + 1 < ticks.at.size(); ++i) {
        const double width =
            (text_width(ticks.labels[i], kTextSize) + text_width(ticks.labels[i + 1], kTextSize)) /
            2;
        fits &= px_x(ticks.at[i + 1]) - px_x(ticks.at[i]) > width + 12;
      }
      if (fits || count == 1) return ticks;
    }
  }

  void draw_axes(SvgWriter& svg) {
    for (std::size_t i = 0; i < y_ticks_.at.size(); ++i) {
      const double y = px_y(y_ticks_.at[i]);
      svg.line(left_, y, right_, y, "grid");
      svg.text(left_ - 9, y + 4.5, y_ticks_.labels[i], "", "end");
    }
    const Ticks ticks = x_ticks();
    x_unit_ = plot_.x.log ? "" : ticks.unit;
    for (std::size_t i = 0; i < ticks.at.size(); ++i) {
      const double x = px_x(ticks.at[i]);
      svg.line(x, top_, x, bottom_, "grid");
      svg.line(x, bottom_, x, bottom_ + 5, "axis");
      svg.text(x, bottom_ + 20, ticks.labels[i], "", "middle");
    }
    svg.line(left_, px_y(std::max(y_.lo, std::min(0.0, y_.hi))), right_,
             px_y(std::max(y_.lo, std::min(0.0, y_.hi))), "axis");
    if (y_.lo < 0) svg.line(left_, bottom_, right_, bottom_, "axis");
    svg.text((left_ + right_) / 2, bottom_ + 42, axis_name(plot_.x, x_unit_), "", "middle");
    const std::string name = axis_name(plot_.y, y_ticks_.unit);
    svg.text_up(20, (top_ + bottom_) / 2, shorten(name, bottom_ - top_ + 40, kTextSize));
  }
  [[nodiscard]] static std::string axis_name(const Axis& axis, std::string_view unit) {
    if (unit.empty() || axis.label.empty()) return axis.label + std::string(unit);
    return fmt::format("{} ({})", axis.label, unit);
  }

  /// Horizontal lines, with names in the margin, outside the data.
  void draw_references(SvgWriter& svg) const {
    std::vector<std::pair<double, std::string>> labels;
    for (const PlotData::Reference& reference : plot_.references) {
      if (!drawable(reference.y) || reference.y < y_.lo || reference.y > y_.hi) continue;
      const double y = px_y(reference.y);
      svg.line(left_, y, right_, y, "limit");
      labels.emplace_back(y, shorten(reference.label, kFigureWidth - right_ - 8 - 4, kTextSize));
    }
    std::stable_sort(labels.begin(), labels.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    double free = 0;
    for (const auto& [y, label] : labels) {
      const double place = std::max(y, free);
      svg.text(right_ + 8, place + 4.5, label, "quiet");
      free = place + 16;
    }
  }

  /// The visible points of the series in pixels, ordered by x if they are joined.
  [[nodiscard]] std::vector<Point> pixels(const PlotData::Series& series) const {
    std::vector<Point> points;
    for (const Point& p : series.points)
      if (drawable(plot_, p)) points.push_back(p);
    const auto by_x = [](const Point& a, const Point& b) { return a.x < b.x; };
    if (series.kind != SeriesKind::points && !std::is_sorted(points.begin(), points.end(), by_x))
      std::stable_sort(points.begin(), points.end(), by_x);
    if (series.kind != SeriesKind::points) {
      // Keep the nearest points outside the view, for the lines that lead to them.
      auto first = std::lower_bound(points.begin(), points.end(), Point{x_.lo, 0}, by_x);
      auto last = std::upper_bound(points.begin(), points.end(), Point{x_.hi, 0}, by_x);
      if (first != points.begin()) --first;
      if (last != points.end()) ++last;
      points = std::vector<Point>(first, last);
    }
    for (Point& p : points) p = {px_x(p.x), px_y(p.y)};
    return points;
  }

  void draw_series(SvgWriter& svg, std::size_t number) const {
    const std::string clip = fmt::format("clip{}", number);
    svg.raw(fmt::format(
        "<clipPath id=\"{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" "
        "height=\"{}\"/></clipPath>\n<g clip-path=\"url(#{})\">\n",
        clip, px(left_ - 3), px(top_ - 3), px(right_ - left_ + 6), px(bottom_ - top_ + 6), clip));
    bool any = false;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const std::vector<Point> points = pixels(plot_.series[i]);
      if (points.empty()) continue;
      any = true;
      const bool dots = plot_.series[i].kind == SeriesKind::points || points.size() == 1;
      if (dots)
        svg.path(dots_path(points), "dots",
                 SvgWriter::attribute("stroke", kColors[i % kColors.size()]));
      else
        svg.path(line_path(thin_line(points), plot_.series[i].kind == SeriesKind::step), "series",
                 stroke(i));
    }
    svg.raw("</g>\n");
    if (!any)
      svg.text((left_ + right_) / 2, (top_ + bottom_) / 2 + 4.5, "no data", "quiet", "middle");
  }

  [[nodiscard]] std::string dots_path(std::vector<Point> points) const {
    for (Point& p : points) p = {p.x - left_, p.y - top_};
    std::string path;
    for (const Point& p : thin_dots(points, right_ - left_ + 1, bottom_ - top_ + 1))
      path += fmt::format("M{} {}h0", px(p.x + left_), px(p.y + top_));
    return path;
  }
  [[nodiscard]] static std::string line_path(const std::vector<Point>& points, bool step) {
    std::string path = fmt::format("M{} {}", px(points[0].x), px(points[0].y));
    std::string y_before = px(points[0].y);
    for (std::size_t i = 1; i < points.size(); ++i) {
      const std::string x = px(points[i].x);
      const std::string y = px(points[i].y);
      const bool flat = y == y_before;
      // On a level stretch only the ends are needed.
      if (flat && i + 1 < points.size() && px(points[i + 1].y) == y) continue;
      if (step || flat)
        path += 'H' + x + (flat ? "" : 'V' + y);
      else
        path += fmt::format("L{} {}", x, y);
      y_before = y;
    }
    return path;
  }

  const PlotData& plot_;
  Range x_;
  Range y_;
  double lo_ = 0;  ///< ends of the x axis, as logarithms if it is logarithmic
  double hi_ = 1;
  Ticks y_ticks_;
  std::string x_unit_;
  std::vector<Flag> flags_;
  std::size_t flag_rows_ = 0;
  double left_ = 0;
  double right_ = 0;
  double top_ = 0;
  double bottom_ = 0;
};

}  // namespace mrc::bench::detail
