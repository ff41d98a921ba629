// SPDX-License-Identifier: Apache-2.0
// Human-readable results: tables on standard output.
#include "mrc_sim/report.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "common/table.hpp"
#include "common/terminal.hpp"
#include "mrc_sim/metrics.hpp"

namespace mrc::tools {
namespace {

using sim::Summary;

/// "12.3 us", with a suitable unit.
std::string time_text(Duration d) {
  const auto ns = static_cast<double>(d.count());
  if (ns >= 1e9) return fmt::format("{:.3f} s", ns / 1e9);
  if (ns >= 1e6) return fmt::format("{:.3f} ms", ns / 1e6);
  return fmt::format("{:.3f} us", ns / 1e3);
}

/// Totals of large fabrics are shown in Tb/s.
constexpr double kTerabit = 10'000;  // Gb/s

/// "764.32 Gb/s", "381.02 Tb/s".
std::string rate_text(double gbps) {
  return gbps >= kTerabit ? fmt::format("{:.2f} Tb/s", gbps / 1000)
                          : fmt::format("{:.2f} Gb/s", gbps);
}

void row(const char* name, const std::string& value) {
  fmt::print("  {:<18} {}\n", name, value);
}

void print_traffic(const Summary& s) {
  for (const auto& t : s.traffic) {
    std::string text = t.done ? fmt::format("done at {}", time_text(t.finished.time_since_epoch()))
                              : std::string("not done");
    if (t.collective && t.iterations > 0)
      text += fmt::format("; {} iterations of {}; algbw {:.2f}, busbw {:.2f} GB/s", t.iterations,
                          time_text(t.iteration_time), t.algorithm_bandwidth, t.bus_bandwidth);
    row("traffic", fmt::format("{}: {}", t.name, text));
    for (std::size_t i = 0; i < std::min<std::size_t>(3, t.failures.size()); ++i)
      row("  failed",
          fmt::format("h{} to h{} at {}: {}", t.failures[i].hosts.from, t.failures[i].hosts.to,
                      time_text(t.failures[i].when.time_since_epoch()), t.failures[i].reason));
  }
}

void print_flows(const Summary& s) {
  constexpr std::size_t kFew = 16;
  if (s.flows.size() > kFew || s.flows.size() < 2) return;
  for (const auto& f : s.flows)
    row(fmt::format("flow {}", value(f.flow)).c_str(),
        fmt::format("h{} to h{}: {:.2f} Gb/s, {} messages", f.from, f.to, f.goodput, f.messages));
}

/// "600 lost (570 trimmed, 30 link down)".
std::string lost_text(const sim::Ledger& ledger) {
  std::string causes;
  for (std::size_t i = 0; i < sim::kFates; ++i) {
    const auto fate = static_cast<sim::PacketFate>(i);
    if (fate == sim::PacketFate::arrived || ledger[fate] == 0) continue;
    causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", ledger[fate], to_string(fate));
  }
  return fmt::format("{} lost{}", ledger.lost(), causes.empty() ? "" : " (" + causes + ")");
}

/// Why data packets were sent again. Terms that are 0 at the end of most runs are left out then.
std::string account_text(const Summary& s) {
  if (!s.accounted())
    return fmt::format(
        "DOES NOT ADD UP, please report: hosts sent {} data packets, the network carried {}; of "
        "these {} arrived, hosts accepted {} and had {} before",
        s.hosts.data_packets + s.hosts.retransmitted, s.ledger.sent(),
        s.ledger[sim::PacketFate::arrived], s.hosts.accepted, s.hosts.duplicates);
  std::string text = fmt::format("{} sent again = {} + {} received twice", s.hosts.retransmitted,
                                 lost_text(s.ledger), s.hosts.duplicates);
  if (s.refused() > 0) text += fmt::format(" + {} refused", s.refused());
  if (s.ledger.under_way() > 0) text += fmt::format(" + {} under way", s.ledger.under_way());
  if (s.missing() > 0) text += fmt::format(" - {} still missing", s.missing());
  return text;
}

/// Control packets by kind; those that there were none of are left out.
std::string control_text(const Summary& s) {
  std::string text;
  for (const auto& [name, count] : control_kinds(s.hosts.control))
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text;
}

void print_losses(const Summary& s) {
  row("packets",
      fmt::format("{} data, {} retransmitted, {} duplicates, {} control", s.hosts.data_packets,
                  s.hosts.retransmitted, s.hosts.duplicates, s.hosts.control_packets));
  if (const std::string control = control_text(s); !control.empty()) row("control", control);
  row("account", account_text(s));
  row("switches",
      fmt::format("{} trimmed, {} marked, {} dropped, deepest queue {:.1f} KiB", s.links.trimmed,
                  s.links.marked, s.links.dropped, static_cast<double>(s.links.max_queue) / 1024));
  row("faults",
      fmt::format("{} lost, {} onto dead links ({} of them data), {} corrupted", s.links.lost,
                  s.links.refused, s.links.refused_data, s.links.corrupted));
  if (s.links.refused_data > 0)
    row("last on dead link", "data at " + time_text(s.links.last_refused.time_since_epoch()));
  if (s.links.pauses > 0)
    row("pauses", fmt::format("{}, {} in all", s.links.pauses, time_text(s.links.paused)));
  row("timeouts", fmt::format("{}; {} failed flows", s.hosts.timeouts, s.hosts.failed_flows));
}

void print_one(const Outcome& o) {
  const Summary& s = o.summary;
  row("virtual time", time_text(s.end.time_since_epoch()) + (o.complete ? "" : ", not finished"));
  row("goodput", fmt::format("{}; per host min {:.2f}, median {:.2f}, max {:.2f} Gb/s",
                             rate_text(s.goodput), s.host_min, s.host_median, s.host_max));
  row("messages", fmt::format("{} of {} delivered", s.delivered, s.messages));
  row("completion", fmt::format("p50 {}, p99 {}, max {}", time_text(s.times.p50),
                                time_text(s.times.p99), time_text(s.times.max)));
  print_traffic(s);
  print_flows(s);
  print_losses(s);
  const double events = static_cast<double>(std::max<std::uint64_t>(1, s.events));
  row("events", fmt::format("{}, {:.2f} per packet, {:.1f} ns each, {:.2f} M/s", s.events,
                            s.events_per_packet(), o.run_seconds * 1e9 / events,
                            events / std::max(o.run_seconds, 1e-9) / 1e6));
  row("real time", fmt::format("{:.2f} s, and {:.2f} s to set up", o.run_seconds, o.build_seconds));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  row("memory", fmt::format("{:.1f} MiB at most", static_cast<double>(used.ru_maxrss) / 1024));
  row("digest", fmt::format("{:016x}", s.digest));
}

/// A column of the table of a sweep.
struct Column {
  const char* head;
  std::function<std::string(const Outcome&)> cell;
};

std::vector<Column> columns(const std::vector<Outcome>& outcomes) {
  const auto number = [](const char* name, int digits) {
    return [name, digits](const Outcome& o) {
      const double v = metric(o.summary, name);
      return std::isfinite(v) ? fmt::format("{:.{}f}", v, digits) : std::string("-");
    };
  };
  const bool large = std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) {
    return o.started && o.summary.goodput >= kTerabit;
  });
  const auto terabits = [](const Outcome& o) {
    return fmt::format("{:.2f}", o.summary.goodput / 1000);
  };
  std::vector<Column> c{large ? Column{"Tb/s", terabits} : Column{"Gb/s", number("goodput", 1)},
                        {"host min", number("host_min", 1)},
                        {"median", number("host_median", 1)},
                        {"max", number("host_max", 1)}};
  bool collective = false;
  for (const Outcome& o : outcomes)
    for (const auto& t : o.summary.traffic) collective = collective || t.collective;
  if (collective) c.push_back({"busbw GB/s", number("bus_bandwidth", 2)});
  for (const char* name : {"p50", "p99", "max"})
    c.push_back({name[0] == 'm'   ? "max us"
                 : name[1] == '5' ? "p50 us"
                                  : "p99 us",
                 number(name, 2)});
  c.push_back({"retx", number("retransmitted", 0)});
  c.push_back({"dup", number("duplicates", 0)});
  c.push_back({"trim", number("trimmed", 0)});
  c.push_back({"mark", number("marked", 0)});
  c.push_back({"drop", number("dropped", 0)});
  c.push_back({"lost", number("lost", 0)});
  c.push_back({"t/o", number("timeouts", 0)});
  c.push_back({"failed", number("failed_flows", 0)});
  c.push_back({"M ev/s", [](const Outcome& o) {
                 return fmt::format("{:.2f}", static_cast<double>(o.summary.events) /
                                                  std::max(o.run_seconds, 1e-9) / 1e6);
               }});
  c.push_back(
      {"digest", [](const Outcome& o) { return fmt::format("{:016x}", o.summary.digest); }});
  return c;
}

void print_sweep(const Job& job, const std::vector<Outcome>& outcomes) {
  TableColumn names{"variant", true, {}}, ends{"", true, {}};
  for (std::size_t v = 0; v < outcomes.size(); ++v) {
    names.cells.push_back(job.variants[v].name);
    ends.cells.emplace_back(outcomes[v].complete  ? ""
                            : outcomes[v].started ? "cut short"
                                                  : "not run");
  }
  std::vector<TableColumn> table{std::move(names)};
  for (const Column& column : columns(outcomes)) {
    table.push_back({column.head, false, {}});
    for (const Outcome& o : outcomes)
      table.back().cells.push_back(o.started ? column.cell(o) : "-");
  }
  table.push_back(std::move(ends));
  fmt::print("{}", table_text(std::move(table), output_width(kUnlimitedWidth)));
}

}  // namespace

void print_report(const Job& job, const std::vector<Outcome>& outcomes, bool interrupted) {
  fmt::print("{}\n", job.title);
  fmt::print("  {}, seed {}{}\n", job.file, job.seed, interrupted ? ", interrupted" : "");
  if (outcomes.size() == 1 && outcomes[0].started)
    print_one(outcomes[0]);
  else if (outcomes.size() > 1)
    print_sweep(job, outcomes);
  std::fflush(stdout);
}

}  // namespace mrc::tools
