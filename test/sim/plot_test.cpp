// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/plot.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <locale>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/random.hpp"

using mrc::bench::cdf;
using mrc::bench::Figure;
using mrc::bench::Plot;
using mrc::bench::Point;
using mrc::bench::SeriesKind;
using Texts = std::vector<std::string>;
namespace detail = mrc::bench::detail;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Why the text is not well-formed XML; empty if it is. Knows what the pictures use: elements with
/// quoted attributes, text, entities.
std::string xml_error(std::string_view xml) {
  std::vector<std::string> open;
  const auto entities_good = [](std::string_view text) {
    for (std::size_t i = text.find('&'); i != std::string_view::npos; i = text.find('&', i + 1)) {
      const std::string_view name = text.substr(i, text.find(';', i) - i);
      if (name != "&amp" && name != "&lt" && name != "&gt" && name != "&quot") return false;
    }
    return true;
  };
  for (std::size_t at = 0; at < xml.size();) {
    const std::size_t tag = std::min(xml.find('<', at), xml.size());
    const std::string_view text = xml.substr(at, tag - at);
    if (!entities_good(text)) return "bad entity in: " + std::string(text);
    if (open.empty() && text.find_first_not_of(" \n") != std::string_view::npos)
      return "text outside";
    if (tag == xml.size()) break;
    const std::size_t end = xml.find('>', tag);
    if (end == std::string_view::npos) return "tag without end";
    std::string_view inside = xml.substr(tag + 1, end - tag - 1);
    if (inside.find('<') != std::string_view::npos) return "'<' in a tag";
    at = end + 1;
    if (inside.starts_with('/')) {
      if (open.empty() || open.back() != inside.substr(1)) return "closes another tag";
      open.pop_back();
      continue;
    }
    const bool closed = inside.ends_with('/');
    if (closed) inside.remove_suffix(1);
    const std::string name(inside.substr(0, inside.find_first_of(" \n")));
    if (name.empty()) return "no name";
    if (!closed) open.push_back(name);
    for (inside.remove_prefix(name.size()); !inside.empty();) {
      const std::size_t value = inside.find("=\"");
      if (inside[0] != ' ' || value == std::string_view::npos) return "bad attribute";
      const std::size_t quote = inside.find('"', value + 2);
      if (quote == std::string_view::npos) return "attribute without end";
      if (!entities_good(inside.substr(value, quote - value))) return "bad entity";
      inside.remove_prefix(quote + 1);
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

std::string svg_of(const Plot& plot) {
  std::string svg = Figure().add(plot).svg();
  CHECK(xml_error(svg) == "");
  return svg;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// A plot in seconds and bytes.
Plot plot_of(std::vector<Point> points, SeriesKind kind = SeriesKind::line) {
  Plot plot("title", {.label = "time", .unit = "s"}, {.label = "queue", .unit = "B"});
  plot.series("queue", std::move(points), kind);
  return plot;
}

/// A text of the picture.
struct Label {
  double x = 0;
  double y = 0;
  std::string kind;
  std::string text;

  double right() const { return x + detail::text_width(text, detail::kTextSize); }
};

/// All texts that are not turned.
std::vector<Label> labels_of(std::string_view svg) {
  std::vector<Label> labels;
  const auto attribute = [](std::string_view tag, std::string_view name) {
    const std::size_t at = tag.find(" " + std::string(name) + "=\"");
    if (at == std::string_view::npos) return std::string();
    const std::size_t begin = at + name.size() + 3;
    return std::string(tag.substr(begin, tag.find('"', begin) - begin));
  };
  for (std::size_t at = svg.find("<text x="); at != std::string_view::npos;
       at = svg.find("<text x=", at + 1)) {
    const std::size_t end = svg.find('>', at);
    const std::string_view tag = svg.substr(at, end - at);
    const std::string_view text = svg.substr(end + 1, svg.find('<', end) - end - 1);
    Label label{std::atof(attribute(tag, "x").c_str()), std::atof(attribute(tag, "y").c_str()),
                attribute(tag, "class"), std::string(text)};
    const double width = detail::text_width(label.text, detail::kTextSize);
    if (has(tag, "\"middle\"")) label.x -= width / 2;
    if (has(tag, "\"end\"")) label.x -= width;
    labels.push_back(label);
  }
  return labels;
}

/// The commands of the first path of this class, legends left aside.
std::string path_of(std::string_view svg, std::string_view kind) {
  svg = svg.substr(std::min(svg.find("<g clip"), svg.size()));
  const std::size_t at = svg.find("<path class=\"" + std::string(kind) + "\"");
  if (at == std::string_view::npos) return "no path";
  const std::size_t begin = svg.find(" d=\"", at) + 4;
  return std::string(svg.substr(begin, svg.find('"', begin) - begin));
}

}  // namespace

TEST_CASE("plot: the checker of XML finds faults") {
  CHECK(xml_error("<a b=\"c\"><d/>x &amp; y</a>\n") == "");
  for (const char* bad : {"<a>", "<a></b>", "<a b=c/>", "<a>&</a>", "<a>&nbsp;</a>", "x<a/>", "<a",
                          "<a b=\"c/>", "</a>", "<a <b/>/>"})
    CHECK(xml_error(bad) != "");
}

TEST_CASE("plot: text of any kind is escaped") {
  CHECK(detail::xml_text("a<b>&\"c\"") == "a&lt;b&gt;&amp;&quot;c&quot;");
  CHECK(detail::xml_text("µs — ≥ 🙂") == "µs — ≥ 🙂");
  CHECK(detail::xml_text("a\tb\nc") == "a b c");
  const std::string mark = "\xef\xbf\xbd";
  CHECK(detail::xml_text(std::string_view("a\0\x01z", 4)) == "a" + mark + mark + "z");
  CHECK(detail::xml_text("\xff") == mark);
  CHECK(detail::xml_text("\xc3") == mark);                                   // cut short
  CHECK(detail::xml_text("\xc0\xaf") == mark + mark);                        // overlong
  CHECK(detail::xml_text("\xed\xa0\x80") == mark + mark + mark);             // surrogate
  CHECK(detail::xml_text("\xf4\x90\x80\x80") == mark + mark + mark + mark);  // above the last
  CHECK(detail::xml_text("\xef\xbf\xbf") == mark);

  const std::string nasty = "</text><a & \"b\" \x02\xff";
  Plot plot(nasty, {.label = nasty, .unit = nasty}, {.label = nasty, .unit = nasty});
  plot.subtitle(nasty).line(nasty, {{0, 1}, {1, 2}}).event(0.5, nasty).reference(1, nasty);
  const std::string svg = svg_of(plot);
  CHECK(has(svg, "&lt;/text&gt;&lt;a &amp; &quot;b&quot;"));
  CHECK_FALSE(has(svg, "<a"));
}

TEST_CASE("plot: round ticks with SI prefixes") {
  const auto labels = [](double lo, double hi, int count, const char* unit, bool si = true) {
    return detail::linear_ticks(lo, hi, count, unit, si).labels;
  };
  CHECK(labels(0, 848, 5, "Gb/s", false) == Texts{"0", "200", "400", "600", "800"});
  CHECK(labels(0, 1, 5, "") == Texts{"0", "0.2", "0.4", "0.6", "0.8", "1.0"});
  CHECK(labels(0, 1, 4, "") == Texts{"0", "0.25", "0.50", "0.75", "1.00"});
  CHECK(labels(0, 4e-3, 4, "s") == Texts{"0", "1", "2", "3", "4"});
  CHECK(detail::linear_ticks(0, 4e-3, 4, "s", true).unit == "ms");
  CHECK(detail::linear_ticks(0, 9e-7, 4, "s", true).unit == "ns");
  CHECK(detail::linear_ticks(0, 5000, 4, "s", true).unit == "s");
  CHECK(detail::linear_ticks(0, 65536, 4, "B", true).unit == "kB");
  CHECK(detail::linear_ticks(0, 8e11, 4, "b/s", true).unit == "Gb/s");
  CHECK(detail::linear_ticks(0, 8e11, 4, "b/s", false).unit == "b/s");
  CHECK(labels(0, 2e5, 4, "") == Texts{"0", "50k", "100k", "150k", "200k"});
  CHECK(labels(-10, 10, 4, "") == Texts{"-10", "-5", "0", "5", "10"});
  CHECK(labels(101, 107, 3, "") == Texts{"102", "104", "106"});
  CHECK(detail::linear_ticks(0, 0.35, 6, "", false).at[3] == 0.3);
  CHECK(labels(1, 1, 4, "").empty());
  CHECK(labels(0, kNan, 4, "").empty());

  CHECK(detail::log_ticks(1e-6, 1e-2, 10, "s", true).labels ==
        Texts{"1 µs", "10 µs", "100 µs", "1 ms", "10 ms"});
  CHECK(detail::log_ticks(1e-6, 3e-5, 10, "s", true).labels ==
        Texts{"1 µs", "2 µs", "5 µs", "10 µs", "20 µs"});
  CHECK(detail::log_ticks(11e-6, 14e-6, 10, "s", true).labels ==
        Texts{"11 µs", "12 µs", "13 µs", "14 µs"});
  CHECK(detail::log_ticks(1, 1e12, 5, "", false).at.size() <= 5);
}

TEST_CASE("plot: numbers as text") {
  CHECK(detail::value_text(1.5e-3, "s", true) == "1.5 ms");
  CHECK(detail::value_text(0, "s", true) == "0 s");
  CHECK(detail::value_text(200'000, "", true) == "200k");
  CHECK(detail::value_text(0.5, "", true) == "0.5");
  CHECK(detail::value_text(40, "%", false) == "40 %");
  CHECK(detail::value_text(999.96, "B", true) == "1000 B");
  CHECK(detail::px(72) == "72");
  CHECK(detail::px(72.46) == "72.5");
  CHECK(detail::px(-0.26) == "-0.3");
  CHECK(detail::px(-0.01) == "0");
  CHECK(detail::px(1e300) == "1000000");
}

TEST_CASE("plot: log10 without the library's") {
  for (double x = 1e-29; x < 1e29; x *= 1.37)
    CHECK(std::abs(detail::log10_of(x) - std::log10(x)) < 1e-10);
  CHECK(detail::log10_of(1) == 0);
}

TEST_CASE("plot: thinning keeps first, last and extremes of each column") {
  std::vector<Point> pixels;
  for (int i = 0; i < 100'000; ++i) pixels.push_back({i / 1000.0, 50.0 + i % 7});
  pixels[31'500].y = -400;
  pixels[31'600].y = 900;
  pixels[77'777].y = 901;
  const std::vector<Point> kept = detail::thin_line(pixels);
  CHECK(kept.size() <= 400);
  CHECK(kept.front() == pixels.front());
  CHECK(kept.back() == pixels.back());
  for (const int i : {31'500, 31'600, 77'777, 31'000, 31'999})
    CHECK(std::find(kept.begin(), kept.end(), pixels[i]) != kept.end());
  CHECK(std::is_sorted(kept.begin(), kept.end(),
                       [](const Point& a, const Point& b) { return a.x < b.x; }));
  const std::vector<Point> few = {{0, 1}, {0.5, 2}, {0.7, 3}, {5, 2}};
  CHECK(detail::thin_line(few) == std::vector<Point>{{0, 1}, {0.7, 3}, {5, 2}});
  CHECK(detail::thin_line({}).empty());

  const std::vector<Point> dots = detail::thin_dots(pixels, 100, 1000);
  CHECK(dots.size() < 1000);
  for (const int i : {31'600, 77'777})
    CHECK(std::find(dots.begin(), dots.end(), pixels[i]) != dots.end());
  CHECK(detail::thin_dots({{-1, 0}, {0, -1}, {101, 0}, {0, 1001}, {kNan, 0}}, 100, 1000).empty());
}

TEST_CASE("plot: a million points make a small picture that has the extremes") {
  mrc::Random random(1);
  std::vector<Point> points;
  for (int i = 0; i < 1'000'000; ++i)
    points.push_back({i * 1e-9, static_cast<double>(random.below(1000))});
  points[700'000].y = 50'000;
  for (const SeriesKind kind : {SeriesKind::line, SeriesKind::step, SeriesKind::points}) {
    const std::string svg = svg_of(plot_of(points, kind));
    CHECK(svg.size() < 100'000);
    // The peak is the only point that high.
    const std::string path = path_of(svg, kind == SeriesKind::points ? "dots" : "series");
    const std::string low = svg_of(plot_of({{0, 0}, {1e-3, 50'000}}, SeriesKind::line));
    const std::string top = path_of(low, "series");
    const std::string y = top.substr(top.rfind(' ') + 1);
    CHECK_MESSAGE((has(path, " " + y) || has(path, "V" + y)), y);
  }
}

TEST_CASE("plot: nothing to show, and a single point") {
  CHECK(has(svg_of(plot_of({})), "no data"));
  CHECK(has(svg_of(plot_of({{kNan, 1}, {1, kInf}})), "no data"));
  Plot without("title", {.label = "x"}, {.label = "y"});
  CHECK(has(svg_of(without), "no data"));
  CHECK(xml_error(Figure().svg()) == "");
  for (const SeriesKind kind : {SeriesKind::line, SeriesKind::step, SeriesKind::points}) {
    const std::string svg = svg_of(plot_of({{2e-3, 5}}, kind));
    CHECK_FALSE(has(svg, "no data"));
    CHECK(has(path_of(svg, "dots"), "h0"));
  }
}

TEST_CASE("plot: what is not finite is left out") {
  const std::vector<Point> good = {{0, 1}, {1, 3}, {2, 2}};
  const std::vector<Point> mixed = {{0, 1},      {0.5, kNan}, {1, 3},     {kInf, 7},
                                    {1.5, kInf}, {2, 2},      {-kInf, 1}, {3, -1e300}};
  CHECK(svg_of(plot_of(good)) == svg_of(plot_of(mixed)));
  Plot marked = plot_of(good);
  marked.event(kNan, "a").event(7, "b").window(kInf, kInf, "c").reference(kNan, "d");
  CHECK_FALSE(has(svg_of(marked), ">c<"));
  CHECK_FALSE(has(svg_of(marked), ">b<"));
}

TEST_CASE("plot: the same data gives the same bytes") {
  std::vector<Point> points;
  mrc::Random random(5);
  for (int i = 0; i < 5000; ++i) points.push_back({i * 1e-6, random.below(1000000) * 1e-6 * 1e5});
  Plot plot = plot_of(points);
  plot.event(1e-3, "down").reference(1234.5, "limit");
  const std::string svg = svg_of(plot);
  CHECK(svg == svg_of(plot));
  CHECK(svg == svg_of(Plot(plot)));

  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Comma));
  const std::string elsewhere = svg_of(plot);
  std::locale::global(before);
  CHECK(svg == elsewhere);

  std::vector<Point> mixed = points;
  std::reverse(mixed.begin(), mixed.end());
  CHECK(svg_of(plot_of(points)) == svg_of(plot_of(mixed)));
}

TEST_CASE("plot: the y axis begins at 0 unless data or axis say otherwise") {
  const auto shows = [](const std::string& svg, const char* label) {
    const std::vector<Label> labels = labels_of(svg);
    return std::any_of(labels.begin(), labels.end(),
                       [&](const Label& l) { return l.text == label; });
  };
  const std::string svg = svg_of(plot_of({{5, 1000}, {6, 1001}}));
  CHECK(shows(svg, "0"));
  CHECK(shows(svg, "1.0"));
  CHECK(has(svg, "queue (kB)"));
  CHECK(shows(svg_of(plot_of({{5, -400}, {6, 1000}})), "0"));
  CHECK(shows(svg_of(plot_of({{5, -400}, {6, 600}})), "-400"));
  Plot limited("t", {.label = "x"}, {.label = "y", .min = 90, .max = 100});
  limited.line("a", {{0, 95}, {1, 300}, {2, 95}});
  CHECK(shows(svg_of(limited), "90"));
  CHECK(shows(svg_of(limited), "100"));
  CHECK_FALSE(shows(svg_of(limited), "0.3k"));
  Plot reference = plot_of({{0, 1}, {1, 2}});
  reference.reference(800, "line rate");
  CHECK(shows(svg_of(reference), "800"));
}

TEST_CASE("plot: lines, steps and dots") {
  const std::vector<Point> points = {{0, 0}, {1, 1}, {2, 1}, {3, 1}, {4, 0}};
  const std::string line = path_of(svg_of(plot_of(points)), "series");
  CHECK(std::count(line.begin(), line.end(), 'L') == 2);
  CHECK(std::count(line.begin(), line.end(), 'H') == 1);  // the level stretch is one command
  const std::string step = path_of(svg_of(plot_of(points, SeriesKind::step)), "series");
  CHECK(std::count(step.begin(), step.end(), 'L') == 0);
  CHECK(std::count(step.begin(), step.end(), 'V') == 2);
}

TEST_CASE("plot: a logarithmic x axis") {
  const auto plot = [](std::vector<Point> points) {
    Plot p("t", {.label = "time", .unit = "s", .log = true}, {.label = "y"});
    p.line("a", std::move(points));
    return svg_of(p);
  };
  const std::string svg = plot({{1e-6, 1}, {1e-4, 2}, {1e-2, 3}});
  CHECK(svg == plot({{0, 9}, {-5, 9}, {1e-6, 1}, {1e-4, 2}, {1e-2, 3}}));
  CHECK(has(svg, ">100 µs<"));
  // Equal factors are equally far.
  double first = 0;
  double second = 0;
  double third = 0;
  REQUIRE(std::sscanf(path_of(svg, "series").c_str(), "M%lf %*fL%lf %*fL%lf", &first, &second,
                      &third) == 3);
  CHECK(std::abs((second - first) - (third - second)) < 0.2);
}

TEST_CASE("plot: labels do not overlap") {
  mrc::Random random(3);
  for (int round = 0; round < 20; ++round) {
    Plot plot = plot_of({{0, 100}, {1, 200}});
    const unsigned count = 1 + random.below(14);
    for (unsigned i = 0; i < count; ++i) {
      const double from = random.below(1000000) * 1e-6;
      plot.event(from, "event number " + std::to_string(i));
    }
    plot.reference(150, "one").reference(151, "another").reference(149, "third");
    for (int i = 0; i < 12; ++i)
      plot.line("a series with a name " + std::to_string(i), {{0, i + 1.0}, {1, i + 2.0}});
    const std::vector<Label> labels = labels_of(svg_of(plot));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      CHECK(labels[i].right() <= detail::kFigureWidth);
      CHECK(labels[i].x >= 0);
      for (std::size_t k = 0; k < i; ++k) {
        const bool apart = std::abs(labels[i].y - labels[k].y) > 12 ||
                           labels[i].x > labels[k].right() || labels[k].x > labels[i].right();
        CHECK_MESSAGE(apart, labels[i].text << " and " << labels[k].text);
      }
    }
  }
}

TEST_CASE("plot: events that fit are all labelled") {
  Plot plot = plot_of({{0, 1}, {1, 2}});
  plot.event(0.5, "T0 down").event(0.5, "T1 down").window(0.51, 0.9, "slow").event(1, "the end");
  const std::string svg = svg_of(plot);
  for (const char* label : {">T0 down<", ">T1 down<", ">slow<", ">the end<"})
    CHECK(has(svg, label));
  CHECK(has(svg, "class=\"window\""));
}

TEST_CASE("plot: cumulative distribution") {
  CHECK(cdf({}).empty());
  CHECK(cdf({kNan, kInf}).empty());
  CHECK(cdf({7}) == std::vector<Point>{{7, 0}, {7, 100}});
  CHECK(cdf({3, 1, kNan, 2, 2}) == std::vector<Point>{{1, 0}, {1, 25}, {2, 75}, {3, 100}});
}

TEST_CASE("plot: plots of a figure are aligned, and their clips are their own") {
  Plot wide("t", {.label = "x"}, {.label = "y", .unit = "a/s", .si = false});
  wide.line("a", {{0, 1e5}, {1, 2.5e5}});
  Plot narrow = plot_of({{0, 1}, {1, 2}});
  narrow.reference(2, "a label that needs room");
  const std::string svg = Figure().add(wide).add(narrow).svg();
  CHECK(xml_error(svg) == "");
  CHECK(has(svg, "id=\"clip0\""));
  CHECK(has(svg, "id=\"clip1\""));
  const std::string a = path_of(svg, "series");
  const std::string b = path_of(svg.substr(svg.find("id=\"clip1\"")), "series");
  CHECK(a.substr(0, a.find(' ')) == b.substr(0, b.find(' ')));
}

TEST_CASE("plot: any range gives a picture") {
  const double values[] = {0,         -0.0, 1e-320, 1e-31, 1e-9,  1,
                           1 + 1e-15, 1e9,  1e30,   1e31,  -1e30, kNan};
  for (const double a : values) {
    for (const double b : values) {
      for (const bool log : {false, true}) {
        Plot plot("t", {.label = "x", .unit = "s", .log = log, .min = b},
                  {.label = "y", .unit = "B", .max = a});
        plot.line("l", {{a, b}, {b, a}}).points("p", {{a, a}, {b, b}}).event(b, "e");
        plot.reference(a, "r");
        const std::string svg = svg_of(plot);
        CHECK(svg.size() < 30'000);
        CHECK_FALSE(has(svg, "nan"));
        CHECK_FALSE(has(svg, "inf"));
      }
    }
  }
}

TEST_CASE("plot: a file that can't be written") {
  try {
    Figure().add(plot_of({})).write("/nonexistent/plot.svg");
    FAIL("no error");
  } catch (const mrc::Error& error) {
    CHECK(has(error.what(), "/nonexistent/plot.svg"));
    CHECK(has(error.what(), "No such file"));
  }
}
