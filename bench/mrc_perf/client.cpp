// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "live_line.hpp"
#include "programs.hpp"
#include "results.hpp"
#include "tests.hpp"
#include "traffic.hpp"
#include "units.hpp"

namespace mrc::perf {
namespace {

constexpr Duration kConnectTime = std::chrono::seconds(10);
constexpr Duration kSetUpTime = std::chrono::seconds(20);

/// What the packets of this connection are checked by.
const char* check_of(const Config& config, Session& session) {
  if (config.icrc == mrc::port::Offload::off) return "no iCRC";
  const auto peers = session.device().stats().connected;
  const auto of_head = [](const mrc::PeerReport& peer) { return peer.head_check; };
  return std::any_of(peers.begin(), peers.end(), of_head) ? "iCRC without payload" : "iCRC";
}

void print_head(const Options& o, const Config& config, Session& session) {
  if (o.quiet) return;
  const Parameters& p = o.parameters;
  const auto planes = session.device().plane_names();
  fmt::print(
      "{}{} to {}, {} queue pair{}, depth {}, {} plane{} x {} paths, {} B packets, {}{}\n",
      to_string(p.test), p.bidirectional ? " in both directions" : "", session.control().peer(),
      p.qps, p.qps == 1 ? "" : "s", p.depth, planes.size(), planes.size() == 1 ? "" : "s",
      session.device().paths(session.qp(0)).size() / planes.size(), session.qp(0).query().mtu,
      check_of(config, session), p.check ? ", every byte checked" : "");
  if (!p.faults.empty()) fmt::print("faults: {}\n", p.faults);
  if (!o.marks.empty()) fmt::print("marks: {}\n", o.marks);
  if (!o.live)
    print_table_head(p);
  else if (planes.size() > 1)
    fmt::print("each plane's share of the bandwidth in %; a bar is full at {:.3g} %\n",
               full_share(planes.size()) * 100);
  std::fflush(stdout);
}

void print_last(const Options& o, const Report& report) {
  // Live lines come first: the table follows them.
  if (o.live) print_table_head(o.parameters);
  print_table_row(o.parameters, report.results.back());
}

void run_sizes(Session& session, Monitor& monitor, const Options& o, Report& report) {
  const Test test = o.parameters.test;
  Traffic traffic(session);
  for (const std::uint64_t size : o.sizes) {
    try {
      if (test == Test::latency)
        run_latency(session, monitor, o, size, report);
      else if (test == Test::completion)
        run_completion(session, monitor, o, size, report);
      else
        run_bandwidth(session, traffic, monitor, o, size, report);
    } catch (const Failure& failure) {
      report.error = failure.what();
    }
    if (report.error.empty() || report.results.back().iterations > 0) print_last(o, report);
    if (g_interrupted || !report.error.empty()) return;
  }
}

void measure(const Options& o, const Config& wanted, Report& report, std::string& timeline) {
  Config config = wanted;
  config.max_qps = std::max(config.max_qps, o.parameters.qps + 1);
  Device device(config);  // first: a plane that does not exist needs no server to be found
  Control control(TcpChannel::connect(o.host, o.port, kConnectTime, &g_interrupted),
                  fmt::format("{} port {}", o.host, o.port));
  try {
    control.send({{"op", "hello"},
                  {"mrc_perf", kProtocolVersion},
                  {"parameters", to_json(o.parameters)},
                  {"settings", settings_for_server(o, wanted)}});
    control.wait("welcome", kSetUpTime);
    Session session(std::move(device), o.parameters, control, false);
    print_head(o, config, session);
    Monitor monitor(session, o);
    run_sizes(session, monitor, o, report);
    report.paths = session.device().paths(session.qp(0));
    report.device = session.device().stats();
    timeline = monitor.timeline();
  } catch (const PeerGone&) {
    throw;
  } catch (const std::exception& error) {
    control.abort(error.what());
    throw;
  }
  if (!report.error.empty()) {
    control.abort(report.error);
    return;
  }
  control.send({{"op", "bye"}, {"report", to_json(report, o, wanted).dump(2)}});
}

int exit_code(const Report& report) {
  if (report.interrupted) return 130;
  if (!report.error.empty()) return 1;
  for (const Result& r : report.results) {
    if (r.check_errors > 0) return 1;
  }
  return 0;
}

}  // namespace

int run_client(const Options& o) {
  const Config config = client_config(o);
  // A run of hours must not end with results that can't be written.
  check_writable(o.json_file);
  check_writable(o.timeline_file);
  Report report;
  std::string timeline;
  try {
    measure(o, config, report, timeline);
  } catch (const std::exception& error) {
    if (report.error.empty()) report.error = error.what();
  }
  report.interrupted = g_interrupted;
  if (report.interrupted) {
    fmt::print(stderr, "mrc_perf: interrupted\n");
    if (report.results.empty()) report.error.clear();
  }
  if (!report.error.empty()) fmt::print(stderr, "mrc_perf: {}\n", report.error);
  if (!o.json_file.empty()) write_file(o.json_file, to_json(report, o, config).dump(2) + "\n");
  if (!o.timeline_file.empty() && !timeline.empty()) write_file(o.timeline_file, timeline);
  return exit_code(report);
}

}  // namespace mrc::perf
