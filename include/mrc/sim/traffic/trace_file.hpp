// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::sim {

/// A message of a trace.
struct TraceEntry {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};  ///< no dependency

  Duration delay{};         ///< after the start, or after the delivery of the message it depends on
  unsigned from = 0;        ///< host
  unsigned to = 0;          ///< host
  std::uint64_t bytes = 0;  ///< size of the message
  std::uint32_t depends_on = kNone;  ///< index of an earlier entry
  unsigned line = 0;                 ///< line in the file, from 1
};

/// The messages of a trace file. One line per message:
///
///     time_us,from,to,bytes[,depends_on]
///
/// `time_us` counts from the start of the run, in microseconds, fractions allowed. `depends_on` is
/// the number of an earlier line of the file (from 1): the message waits for the delivery of that
/// line's message, and time_us counts from then. `from` and `to` are hosts, such as h3; their
/// numbers alone are accepted, too. Blank lines, lines that begin with '#' and a heading in the
/// first non-empty line are ignored. Lines need not be ordered by time.
struct TraceFile {
  std::string name;                 ///< for error messages
  std::vector<TraceEntry> entries;  ///< in file order

  /// Parses text. Throws mrc::Error that names file, line, field and value.
  [[nodiscard]] static TraceFile parse(std::string name, std::string_view text);
  /// Reads and parses a file. Also throws when the file can't be read.
  [[nodiscard]] static TraceFile read(const std::string& path);

  /// Throws an mrc::Error that names file and line.
  [[noreturn]] void fail(unsigned line, const std::string& what) const {
    throw Error(Errc::invalid_argument, name + ":" + std::to_string(line) + ": " + what);
  }

 private:
  using Fields = std::vector<std::string_view>;
  /// Longest time: about 11 days; sums of a few million such times don't overflow.
  static constexpr double kLargestTime = 1e12;

  [[nodiscard]] static std::string_view trim(std::string_view text) noexcept {
    const auto begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
  }
  [[nodiscard]] static Fields split(std::string_view line) {
    Fields fields;
    for (;;) {
      const auto comma = line.find(',');
      fields.push_back(trim(line.substr(0, comma)));
      if (comma == std::string_view::npos) return fields;
      line.remove_prefix(comma + 1);
    }
  }
  template <class T>
  [[nodiscard]] T number(unsigned line, const char* field, std::string_view text, T least, T most,
                         const char* wanted) const {
    T v{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc{} || end != text.data() + text.size() || !(v >= least && v <= most))
      fail(line, std::string(field) + ": is \"" + std::string(text) + "\", must be " + wanted);
    return v;
  }
  [[nodiscard]] unsigned host(unsigned line, const char* field, std::string_view text) const {
    const std::string_view digits = text.substr(text.starts_with('h') ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
      fail(line,
           std::string(field) + ": is \"" + std::string(text) + "\", must be a host: h0, h1 ..");
    return number(line, field, digits, 0u, ~0u, "a host: h0, h1 ..");
  }
  [[nodiscard]] TraceEntry entry(unsigned line, const Fields& fields,
                                 const std::vector<std::uint32_t>& entry_of_line) const;
};

}  // namespace mrc::inline v0_1::sim
