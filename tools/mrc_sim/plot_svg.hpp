// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// SVG primitives for plots: text, coordinates, colours. The output depends on the arguments only,
/// not on locale or fonts of the machine.
namespace mrc::bench::detail {

/// Length of the UTF-8 character that `text` begins with; 0 if it is ill-formed.
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and values above U+10FFFF.
  const unsigned second = byte(1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f))
    return 0;
  return length;
}

/// Text escaped for XML; characters that XML excludes become U+FFFD.
[[nodiscard]] inline std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view c = text.substr(0, std::max<std::size_t>(length, 1));
    const bool control = c.size() == 1 && static_cast<unsigned char>(c[0]) < 0x20;
    if (c == "&")
      out += "&amp;";
    else if (c == "<")
      out += "&lt;";
    else if (c == ">")
      out += "&gt;";
    else if (c == "\"")
      out += "&quot;";
    else if (c == "\t" || c == "\n" || c == "\r")
      out += ' ';
    else if (length == 0 || control || c == "\xef\xbf\xbe" || c == "\xef\xbf\xbf")
      out += "\xef\xbf\xbd";
    else
      out += c;
    text.remove_prefix(c.size());
  }
  return out;
}

/// A coordinate in tenths of a pixel, as short as possible: "72", "72.5".
[[nodiscard]] inline std::string px(double x) {
  const long tenths = std::lround(std::clamp(x, -1e6, 1e6) * 10);
  const long size = tenths < 0 ? -tenths : tenths;
  const char* const sign = tenths < 0 ? "-" : "";
  return size % 10 == 0 ? fmt::format("{}{}", sign, size / 10)
                        : fmt::format("{}{}.{}", sign, size / 10, size % 10);
}

/// Width of text in pixels, estimated generously, as fonts differ between machines.
[[nodiscard]] inline double text_width(std::string_view text, double size) {
  double ems = 0;
  while (!text.empty()) {
    const char c = text[0];
    if (std::string_view("iljI.,:;|!'()[] ").find(c) != std::string_view::npos)
      ems += 0.37;
    else if (std::string_view("frt-/\"").find(c) != std::string_view::npos)
      ems += 0.44;
    else if (std::string_view("mwMW@%").find(c) != std::string_view::npos)
      ems += 0.98;
    else
      ems += c >= 'A' && c <= 'Z' ? 0.73 : 0.635;
    text.remove_prefix(std::max<std::size_t>(utf8_length(text), 1));
  }
  return ems * size;
}

/// The text, or as much of it as fits, followed by "…".
[[nodiscard]] inline std::string shorten(std::string_view text, double width, double size) {
  if (text_width(text, size) <= width) return std::string(text);
  std::size_t end = 0;
  for (;;) {
    const std::size_t next =
        end + std::max<std::size_t>(end < text.size() ? utf8_length(text.substr(end)) : 0, 1);
    if (next >= text.size() || text_width(text.substr(0, next), size) + 0.9 * size > width) break;
    end = next;
  }
  return std::string(text.substr(0, end)) + "…";
}

/// The text in lines that fit, broken at blanks.
[[nodiscard]] inline std::vector<std::string> wrap(std::string_view text, double width,
                                                   double size) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    const std::string longer = line.empty() ? std::string(word) : line + ' ' + std::string(word);
    if (!line.empty() && text_width(longer, size) > width) {
      lines.push_back(shorten(line, width, size));
      line = word;
    } else {
      line = longer;
    }
  }
  if (!line.empty()) lines.push_back(shorten(line, width, size));
  return lines;
}

/// Distinguishable with every common form of colour blindness (after Okabe and Ito), on light and
/// on dark ground. Series beyond them repeat the colours with dashes.
inline constexpr std::array<const char*, 8> kColors = {"#0b72b5", "#d95f02", "#0f9d76", "#c06ca5",
                                                       "#e3a008", "#4fb0e5", "#7d5a3c", "#7a828f"};
inline constexpr std::array<const char*, 4> kDashes = {"", "7 3", "2 2.5", "9 3 2 3"};

inline constexpr double kTitleSize = 17;
inline constexpr double kTextSize = 12.5;

inline constexpr const char* kStyle = R"(
  text { font-family: 'Inter', 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif;
         font-size: 12.5px; fill: #3c4350; }
  .back { fill: #ffffff; }
  .title { font-size: 17px; font-weight: 600; fill: #1d222b; }
  .quiet { fill: #6b7380; }
  .mark-text { fill: #b3303f; }
  .grid { stroke: #e9ebef; stroke-width: 1; }
  .axis { stroke: #8b93a1; stroke-width: 1; }
  .series { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
  .dots { fill: none; stroke-width: 4.4; stroke-linecap: round; stroke-opacity: 0.75; }
  .mark { stroke: #d1495b; stroke-width: 1.1; stroke-dasharray: 4 3; }
  .window { fill: #d1495b; fill-opacity: 0.09; }
  .limit { stroke: #5d6573; stroke-width: 1.2; stroke-dasharray: 6 4; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b9c0cc; }
    .back { fill: #14171c; }
    .title { fill: #eef1f5; }
    .quiet { fill: #8f98a6; }
    .mark-text { fill: #f08a96; }
    .grid { stroke: #262b33; }
    .limit { stroke: #a3abb8; }
    .window { fill-opacity: 0.2; }
  }
)";

/// Collects the elements of a picture.
class SvgWriter {
 public:
  /// `kind` is a class of kStyle; `anchor` start, middle or end.
  void text(double x, double y, std::string_view text, std::string_view kind = "",
            std::string_view anchor = "start") {
    add("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", px(x), px(y), attribute("class", kind),
        anchor == "start" ? "" : attribute("text-anchor", anchor), xml_text(text));
  }
  /// Centred on (x, y), reading upwards.
  void text_up(double x, double y, std::string_view text) {
    add("<text transform=\"translate({},{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        px(x), px(y), xml_text(text));
  }
  void line(double x1, double y1, double x2, double y2, std::string_view kind,
            std::string_view more = "") {
    add("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}{}/>\n", px(x1), px(y1), px(x2), px(y2),
        attribute("class", kind), more);
  }
  void rect(double x, double y, double width, double height, std::string_view kind,
            std::string_view more = "") {
    add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}{}/>\n", px(x), px(y), px(width),
        px(height), attribute("class", kind), more);
  }
  void path(std::string_view commands, std::string_view kind, std::string_view more) {
    add("<path{}{} d=\"{}\"/>\n", attribute("class", kind), more, commands);
  }
  void raw(std::string_view text) { out_ += text; }

  /// ` name="value"`, nothing for an empty value.
  [[nodiscard]] static std::string attribute(std::string_view name, std::string_view value) {
    return value.empty() ? std::string() : fmt::format(" {}=\"{}\"", name, xml_text(value));
  }

  /// The picture, `width` by `height` pixels.
  [[nodiscard]] std::string document(double width, double height, std::string_view title) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
        "<rect width=\"{0}\" height=\"{1}\" rx=\"8\" class=\"back\"/>\n{4}</svg>\n",
        px(width), px(height), xml_text(title), kStyle, out_);
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }

  std::string out_;
};

}  // namespace mrc::bench::detail
