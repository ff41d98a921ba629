// SPDX-License-Identifier: Apache-2.0
#include "mrc_probe/watch.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "common/files.hpp"
#include "common/interrupt.hpp"
#include "mrc_probe/output.hpp"

namespace mrc::probe_tool {
namespace {

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

bool has_losses(const Report& r) {
  return !r.verdict.lossy.empty() || !r.verdict.lossy_paths.empty();
}

/// For a file that others may read at any time: they find the old one or the new one.
void replace_file(const std::string& name, const std::string& text) {
  if (name.empty()) return;
  if (name == "-") {
    fmt::print("{}", text);
    return;
  }
  if (!std::filesystem::is_regular_file(name)) {  // a pipe, say, or not there
    tools::write_file(name, text);
    return;
  }
  const std::string fresh = name + ".new";
  tools::write_file(fresh, text);
  std::filesystem::rename(fresh, name);
}

void write_deny(const Options& o, const Description& d, const Verdict& verdict) {
  if (o.deny_file.empty()) return;
  replace_file(o.deny_file,
               o.deny_file == "-" ? deny_list(d, verdict) : denying_description(d, verdict));
}

void print_change(const Change& c) {
  if (c.is_back)
    fmt::print("{} back   {} (was {}, after {:.1f} s)\n", clock_text(c.when), c.trouble.what,
               to_string(c.trouble.kind), seconds(c.lasted));
  else
    fmt::print("{} {:<6} {} ({})\n", clock_text(c.when), to_string(c.trouble.kind), c.trouble.what,
               c.trouble.detail);
}

void print_summary(const Description& d, const Report& last, unsigned sweeps, std::size_t changes,
                   Duration time) {
  fmt::print("\n{} sweeps in {:.1f} s, {} changes; at the end:\n", sweeps, seconds(time), changes);
  const auto all = troubles(d, last);
  for (const Trouble& t : all) fmt::print("{}: {} ({})\n", to_string(t.kind), t.what, t.detail);
  if (all.empty()) fmt::print("all alive\n");
}

}  // namespace

void write_files(const Options& o, const Description& d, const Report& report,
                 const std::vector<Change>& changes) {
  write_deny(o, d, report.verdict);
  if (!o.json_file.empty()) replace_file(o.json_file, json_report(d, report, changes));
}

int watch(const Options& o, const Description& d, Network& network, Prober& prober) {
  const Time start = monotonic_now();
  Changes present;
  std::vector<Change> changes;
  Report last;
  unsigned sweeps = 0;
  for (Time next = start; !tools::g_interrupted;) {
    Report report = prober.sweep();
    // What seems lossy may just have died, or come back, in the middle of the sweep.
    if (has_losses(report) && !has_losses(last)) report = prober.sweep();
    if (tools::g_interrupted) break;
    last = std::move(report);
    const auto fresh = present.update(std::chrono::system_clock::now(), troubles(d, last));
    if (sweeps++ == 0) {
      print_report(d, last, o.verbose);
      fmt::print("\n");
      write_deny(o, d, last.verdict);
    } else if (!fresh.empty()) {
      for (const Change& change : fresh) print_change(change);
      write_deny(o, d, last.verdict);
      changes.insert(changes.end(), fresh.begin(), fresh.end());
    }
    std::fflush(stdout);
    next = std::max(next + o.interval, monotonic_now());
    while (monotonic_now() < next && !tools::g_interrupted) {
      network.wait(next);
      network.receive([](const wire::RxPacket&) {});  // late, or for others
    }
  }
  if (sweeps == 0) return tools::kInterruptedStatus;
  print_summary(d, last, sweeps, changes.size(), monotonic_now() - start);
  write_files(o, d, last, changes);
  return last.all_alive() ? 0 : 1;
}

}  // namespace mrc::probe_tool
