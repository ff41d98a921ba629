// SPDX-License-Identifier: Apache-2.0
#include "live_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace mrc::perf {
namespace {

constexpr std::size_t kWide = 100;      // from here on there is room for packets per second
constexpr std::size_t kPercent = 3;     // columns of a plane's percentage, "100" at most
constexpr std::size_t kMostCells = 12;  // of a bar
constexpr std::size_t kLeastCells = 2;

std::string bar(double share, double full, std::size_t cells, bool unicode) {
  static constexpr std::array<const char*, 9> kUnicode{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  const double filled = share / full * static_cast<double>(cells);
  std::string text;
  for (std::size_t i = 0; i < cells; ++i) {
    const double part = std::clamp(filled - static_cast<double>(i), 0.0, 1.0);
    const auto eighths = static_cast<std::size_t>(std::lround(part * 8));
    if (i + 1 == cells && share > full * 1.001)
      text += unicode ? "▶" : ">";
    else
      text += unicode ? kUnicode[eighths] : eighths >= 4 ? "#" : eighths > 0 ? "-" : ".";
  }
  return text;
}

std::string planes_text(const std::vector<double>& shares, std::size_t room, bool unicode) {
  const std::size_t planes = shares.size();
  const std::size_t each = room / planes;
  if (each < kPercent) {
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    return fmt::format("  {} planes, {:.1f} to {:.1f}", planes, *least * 100, *most * 100);
  }
  std::string text;
  const std::size_t cells = std::min(each - kPercent, kMostCells + 1);
  for (const double share : shares) {
    if (cells > kLeastCells)  // one of them is the line in front of the bar
      text += (unicode ? "▕" : "|") + bar(share, full_share(planes), cells - 1, unicode);
    text += fmt::format("{:{}.0f}", share * 100, kPercent);
  }
  return text;
}

}  // namespace

double full_share(std::size_t planes) noexcept {
  return std::min(1.0, 2.0 / static_cast<double>(std::max<std::size_t>(planes, 1)));
}

std::string live_line(const LiveLine& line, std::size_t width, bool unicode) {
  std::string text = fmt::format("{:5.1f} s {:7.2f} Gb/s ", line.seconds, line.gbps);
  if (width >= kWide) text += fmt::format("{:7.4f} Mpps ", line.mpps);
  text += fmt::format("{:5} retx", line.retransmits);
  const std::size_t planes = line.plane_gbps.size();
  if (planes < 2) return text;
  std::vector<double> shares;
  const double total = std::max(line.gbps, 1e-12);
  for (const double plane : line.plane_gbps) shares.push_back(plane / total);
  return text + planes_text(shares, width > text.size() ? width - text.size() : 0, unicode);
}

}  // namespace mrc::perf
