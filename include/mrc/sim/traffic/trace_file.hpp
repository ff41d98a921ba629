// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/time.hpp"

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
/// line's message, and time_us counts from then. `from` and `to` are hosts. Blank lines, lines that
/// begin with '#' and a heading in the first non-empty line are ignored. Lines need not be ordered
/// by time.
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
  [[nodiscard]] TraceEntry entry(unsigned line, const Fields& fields,
                                 const std::vector<std::uint32_t>& entry_of_line) const;
};

inline TraceEntry TraceFile::entry(unsigned line, const Fields& fields,
                                   const std::vector<std::uint32_t>& entry_of_line) const {
  if (fields.size() < 4 || fields.size() > 5)
    fail(line, "has " + std::to_string(fields.size()) +
                   " fields, must have time_us,from,to,bytes and may have depends_on");
  TraceEntry e;
  e.line = line;
  const double us =
      number(line, "time_us", fields[0], 0.0, kLargestTime, "a time in microseconds, 0 or more");
  e.delay = Duration{static_cast<Duration::rep>(us * 1000.0 + 0.5)};
  e.from = number(line, "from", fields[1], 0u, ~0u, "a host's number");
  e.to = number(line, "to", fields[2], 0u, ~0u, "a host's number");
  if (e.from == e.to) fail(line, "to: is \"" + std::string(fields[2]) + "\", the sender itself");
  e.bytes = number<std::uint64_t>(line, "bytes", fields[3], 1, std::uint64_t{1} << 50,
                                  "a number of bytes, at least 1");
  if (fields.size() == 4 || fields[4].empty()) return e;
  const auto before = number(line, "depends_on", fields[4], 1u, ~0u, "the number of a line");
  if (before >= line || entry_of_line[before] == TraceEntry::kNone)
    fail(line,
         "depends_on: is \"" + std::string(fields[4]) + "\", not an earlier line with a message");
  e.depends_on = entry_of_line[before];
  return e;
}

inline TraceFile TraceFile::parse(std::string name, std::string_view text) {
  TraceFile file;
  file.name = std::move(name);
  std::vector<std::uint32_t> entry_of_line{TraceEntry::kNone};  // lines count from 1
  bool first = true;
  for (unsigned line = 1; !text.empty(); ++line) {
    const auto end = text.find('\n');
    const std::string_view row = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    entry_of_line.push_back(TraceEntry::kNone);
    if (row.empty() || row.front() == '#') continue;
    const Fields fields = split(row);
    const bool heading = first && fields[0] == "time_us";
    first = false;
    if (heading) continue;
    entry_of_line.back() = static_cast<std::uint32_t>(file.entries.size());
    file.entries.push_back(file.entry(line, fields, entry_of_line));
  }
  return file;
}

inline TraceFile TraceFile::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::array<char, 65536> part;
  while (in.read(part.data(), part.size()) || in.gcount() > 0)
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  if (!in.is_open() || in.bad())
    throw Error(std::error_code(errno != 0 ? errno : EIO, std::generic_category()),
                "trace file " + path);
  return parse(path, text);
}

}  // namespace mrc::inline v0_1::sim
