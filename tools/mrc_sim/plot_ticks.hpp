// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

/// Round numbers along an axis.
namespace mrc::bench::detail {

/// Ticks of an axis: their values, their labels, and the unit of the numbers (empty if the labels
/// include it).
struct Ticks {
  std::vector<double> at;
  std::vector<std::string> labels;
  std::string unit;
};

/// 10^n, correctly rounded for |n| <= 22.
[[nodiscard]] inline double power10(int n) {
  double power = 1;
  for (int i = n < 0 ? -n : n; i > 0; --i) power *= 10;
  return n < 0 ? 1 / power : power;
}

/// The n with 10^n <= x < 10^(n+1), for x > 0.
[[nodiscard]] inline int decade(double x) {
  int n = 0;
  while (x >= 10) x /= 10, ++n;
  while (x < 1 - 1e-12) x *= 10, --n;
  return n;
}

/// log10 by + - * / only: mathematics libraries differ in the last digit between machines.
[[nodiscard]] inline double log10_of(double x) {
  const int n = decade(x);
  // ln(m) = 2 artanh((m-1)/(m+1)), with m in [1, 10) brought near 1 by two square roots.
  const double m = std::sqrt(std::sqrt(n < 0 ? x * power10(-n) : x / power10(n)));
  const double z = (m - 1) / (m + 1);
  double sum = 0;
  double term = z;
  for (int k = 1; k < 40; k += 2, term *= z * z) sum += term / k;
  constexpr double kLn10 = 2.302585092994045684;
  return n + 8 * sum / kLn10;
}

/// An SI prefix and its factor.
struct SiPrefix {
  const char* name;
  double factor;
};

/// The largest prefix with which `value` is at least 1. No kiloseconds.
[[nodiscard]] inline SiPrefix si_prefix(double value, std::string_view unit, bool si) {
  static constexpr std::array<SiPrefix, 9> kPrefixes = {{{"T", 1e12},
                                                         {"G", 1e9},
                                                         {"M", 1e6},
                                                         {"k", 1e3},
                                                         {"", 1},
                                                         {"m", 1e-3},
                                                         {"µ", 1e-6},
                                                         {"n", 1e-9},
                                                         {"p", 1e-12}}};
  const double size = std::abs(value) * (1 + 1e-9);
  // Counts have no prefixes below 1.
  if (!si || size == 0 || (unit.empty() && size < 1)) return kPrefixes[4];
  for (const SiPrefix& prefix : kPrefixes)
    if (size >= prefix.factor && !(unit == "s" && prefix.factor > 1)) return prefix;
  return kPrefixes.back();
}

/// Decimal places that `step` needs.
[[nodiscard]] inline int decimals_of(double step) {
  int decimals = 0;
  for (double x = step; decimals < 12 && std::abs(x - std::round(x)) > 1e-6 * std::abs(x); x *= 10)
    ++decimals;
  return decimals;
}

/// "20", "0.05", "1e+07": up to four digits, without zeros at the end.
[[nodiscard]] inline std::string number_text(double x) {
  if (x == 0) return "0";
  if (std::abs(x) >= 1e6 || std::abs(x) < 1e-4) return fmt::format("{:.4g}", x);
  std::string text = fmt::format("{:.{}f}", x, std::max(0, 3 - decade(std::abs(x))));
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// "1.5 ms", "200k", "40 %".
[[nodiscard]] inline std::string value_text(double x, std::string_view unit, bool si) {
  const SiPrefix prefix = si_prefix(x, unit, si);
  const std::string number = number_text(x / prefix.factor);
  if (unit.empty()) return number + prefix.name;
  return fmt::format("{} {}{}", number, prefix.name, unit);
}

/// Steps of 1, 2, 2.5 or 5 times a power of ten from lo to hi, about `count` of them. All labels
/// have one prefix and the same number of decimals.
[[nodiscard]] inline Ticks linear_ticks(double lo, double hi, int count, std::string_view unit,
                                        bool si) {
  Ticks ticks;
  const SiPrefix prefix = si_prefix(std::max(std::abs(lo), std::abs(hi)), unit, si);
  ticks.unit = prefix.name + std::string(unit);
  if (unit.empty()) ticks.unit.clear();
  const double raw = (hi - lo) / prefix.factor / count;
  if (!(raw > 0)) return ticks;
  const int power = decade(raw);
  double factor = 10;
  for (const double candidate : {5.0, 2.5, 2.0, 1.0})
    if (candidate >= raw / power10(power) * 0.999) factor = candidate;
  // Multiplied before it is divided, so that 3 steps of 0.1 are 0.3.
  const auto value = [&](double i) {
    return power < 0 ? i * factor / power10(-power) : i * factor * power10(power);
  };
  const int decimals = decimals_of(value(1));
  const double first = std::ceil(lo / prefix.factor / value(1) - 1e-9);
  const double last = hi / prefix.factor * (1 + 1e-9);
  for (int i = 0; i < 4 * count && value(first + i) <= last; ++i) {
    const double at = value(first + i);
    ticks.at.push_back(at * prefix.factor);
    ticks.labels.push_back(
        at == 0 ? "0" : fmt::format("{:.{}f}{}", at, decimals, unit.empty() ? prefix.name : ""));
  }
  return ticks;
}

/// Powers of ten from lo > 0 to hi, with 2 and 5 times those if the range is short. Each label has
/// its own unit.
[[nodiscard]] inline Ticks log_ticks(double lo, double hi, int count, std::string_view unit,
                                     bool si) {
  Ticks ticks;
  const double span = log10_of(hi) - log10_of(lo);
  if (span < 0.8) {
    // Less than a decade: use even steps.
    ticks.at = linear_ticks(lo, hi, std::min(count, 5), unit, si).at;
  } else {
    const int every = 1 + static_cast<int>(span) / std::max(count, 1);
    for (int n = decade(lo); n <= decade(hi); n += every) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double at = n < 0 ? factor / power10(-n) : factor * power10(n);
        if ((factor == 1 || 3 * span < count) && at >= lo * (1 - 1e-9) && at <= hi * (1 + 1e-9))
          ticks.at.push_back(at);
      }
    }
  }
  for (const double at : ticks.at) ticks.labels.push_back(value_text(at, unit, si));
  return ticks;
}

}  // namespace mrc::bench::detail
