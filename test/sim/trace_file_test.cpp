// SPDX-License-Identifier: Apache-2.0
#include "mrc/sim/traffic/trace.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "support/errors.hpp"

using namespace mrc;
using namespace mrc::sim;
using test::error_of;
using namespace std::chrono_literals;

namespace trace_file_test {

std::string trace_error(const std::string& text) {
  return error_of([&] { (void)TraceFile::parse("t.csv", text); });
}

TEST_CASE("trace file: read from a file, large enough for several reads") {
  const std::string path = "/tmp/mrc_trace_test." + std::to_string(::getpid()) + ".csv";
  {
    std::ofstream out(path);
    out << "time_us,from,to,bytes,depends_on\n";
    for (unsigned i = 0; i < 10'000; ++i)
      out << i << ".125,1,2," << i + 1 << (i == 0 ? "" : ",2") << '\n';
  }
  const TraceFile file = TraceFile::read(path);
  std::remove(path.c_str());
  REQUIRE(file.entries.size() == 10'000);
  const TraceEntry& last = file.entries.back();
  CHECK(last.delay == 9'999'125ns);
  CHECK(last.from == 1);
  CHECK(last.to == 2);
  CHECK(last.bytes == 10'000);
  CHECK(last.depends_on == 0);
  CHECK(last.line == 10'001);
  CHECK(file.entries[0].depends_on == TraceEntry::kNone);
}

TEST_CASE("trace: hosts have the names that faults use, or numbers as in older files") {
  const TraceFile file = TraceFile::parse("t.csv", "0,h1,h20,3\n0,h1,20,3\n0,1,20,3\n");
  REQUIRE(file.entries.size() == 3);
  for (const TraceEntry& entry : file.entries) CHECK((entry.from == 1 && entry.to == 20));
}

TEST_CASE("trace: errors name file, line and field") {
  CHECK(trace_error("0,1,2,3\n\n0,1,2\n").starts_with("t.csv:3: has 3 fields"));
  CHECK(trace_error("0,1,2,3,,\n").starts_with("t.csv:1: has 6 fields"));
  CHECK(trace_error("-1,1,2,3").starts_with("t.csv:1: time_us: is \"-1\", must be a time"));
  CHECK(trace_error("nan,1,2,3").starts_with("t.csv:1: time_us: is \"nan\""));
  for (const std::string wrong : {"p1", "hh1", "h", "-1", "h-1", "h1.p0", "h99999999999"}) {
    CAPTURE(wrong);
    CHECK(trace_error("0," + wrong + ",2,3").starts_with("t.csv:1: from: is \""));
    CHECK(test::contains(trace_error("0," + wrong + ",2,3"), "\", must be a host: h0, h1 .."));
  }
  CHECK(trace_error("0,1,2x,3").starts_with("t.csv:1: to: is \"2x\""));
  CHECK(trace_error("0,1,1,3").starts_with("t.csv:1: to: is \"1\", the sender itself"));
  CHECK(trace_error("0,1,2,0").starts_with("t.csv:1: bytes: is \"0\""));
  CHECK(trace_error("0,1,2,3,1").starts_with("t.csv:1: depends_on: is \"1\", not an earlier"));
  CHECK(trace_error("#\n0,1,2,3,1").starts_with("t.csv:2: depends_on: is \"1\", not an earlier"));
  CHECK(trace_error("0,1,2,3\ntime_us,from,to,bytes\n").starts_with("t.csv:2: time_us:"));
  CHECK(trace_error("") == "no error");
  CHECK(error_of([] { (void)TraceFile::read("/nonexistent/t.csv"); }) ==
        "trace file /nonexistent/t.csv: No such file or directory");
  CHECK(error_of([] { (void)TraceFile::read("/"); }).starts_with("trace file /: "));
}

}  // namespace trace_file_test
