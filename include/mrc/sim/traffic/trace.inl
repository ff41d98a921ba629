// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cerrno>
#include <fstream>

#include "mrc/sim/traffic/trace.hpp"

namespace mrc::inline v0_1::sim {

TraceEntry TraceFile::entry(unsigned line, const Fields& fields,
                            const std::vector<std::uint32_t>& entry_of_line) const {
  if (fields.size() < 4 || fields.size() > 5)
    fail(line, "has " + std::to_string(fields.size()) +
                   " fields, must have time_us,from,to,bytes and may have depends_on");
  TraceEntry e;
  e.line = line;
  const double us =
      number(line, "time_us", fields[0], 0.0, kLargestTime, "a time in microseconds, 0 or more");
  e.delay = Duration{static_cast<Duration::rep>(us * 1000.0 + 0.5)};
  e.from = host(line, "from", fields[1]);
  e.to = host(line, "to", fields[2]);
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

TraceFile TraceFile::parse(std::string name, std::string_view text) {
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

TraceFile TraceFile::read(const std::string& path) {
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
