// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "common/interrupt.hpp"
#include "mrc/device.hpp"
#include "mrc_ctl/check/fabric_paths.hpp"
#include "mrc_ctl/check/gather.hpp"
#include "mrc_ctl/check/line_socket.hpp"
#include "mrc_ctl/check/listener.hpp"
#include "mrc_ctl/check/prober.hpp"
#include "mrc_ctl/check/report.hpp"
#include "mrc_ctl/check/token_text.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::check_tool {
namespace {

constexpr int kDoesNotFit = 1, kNoAnswer = 3;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// The best of some questions, since the clock there is known to half of the round trip.
void compare_clocks(CheckClient& client, Results& results) {
  results.round_trip = 1e9;
  for (int i = 0; i < 5; ++i) {
    const Time begin = monotonic_now();
    const Json answer = client.ask({{"check", kCheckProtocol}, {"request", "clock"}});
    const double now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const double round_trip = seconds(monotonic_now() - begin);
    const auto time = answer.find("time");
    if (time == answer.end() || !time->is_number())
      throw NoAnswer("what listens there does not tell its time");
    if (round_trip >= results.round_trip) continue;
    results.round_trip = round_trip;
    results.clock_ahead = std::clamp(time->get<double>() - (now - round_trip / 2), -1e9, 1e9);
  }
}

Report check_host(OwnHost& own, const std::string& at, Duration patience) {
  Report report;
  report.at = at;
  report.here = own.facts.host;
  const ctl_tool::HostPort place = *ctl_tool::parse_host_port(at, ctl_tool::kCheckPort);
  CheckClient client(place, patience);
  const Json answer =
      client.ask({{"check", kCheckProtocol}, {"request", "facts"}, {"facts", to_json(own.facts)}});
  HostFacts there = facts_from(answer.value("facts", Json()));
  const auto token = token_from(ctl_tool::text_in(answer, "token"));
  if (!token)
    throw NoAnswer(at +
                   ": field token is missing; what listens there is no `mrc_ctl check --listen`");
  report.there = there.host;
  refresh(own);
  find_routes(own.facts, there);
  Results results;
  results.tcp_port = place.port;
  compare_clocks(client, results);
  if (own.facts.kind == "udp" && there.kind == "udp" && own.facts.mtu != 0 && there.mtu != 0)
    results.planes = Prober(own, there, *token, client, patience).run();
  if (own.facts.fabric == there.fabric && !own.facts.fabric_host.empty() &&
      !there.fabric_host.empty())
    results.fabric = probe_fabric(own.config, there.fabric_host, patience);
  HostFacts here = own.facts;
  if (here.host == there.host) {  // containers, copies of a machine
    here.host += " (here)";
    there.host += " (there)";
  }
  report.rows = judge(here, there, results);
  return report;
}

int check_all(const ctl_tool::Options& o) {
  OwnHost own = open_host(job_config(o.check), o.check);
  int status = 0;
  Json all = Json::array();
  for (const std::string& at : o.check.hosts) {
    Report report;
    report.at = at;
    try {
      report = check_host(own, at, o.check.patience);
      if (!report.fits() && status == 0) status = kDoesNotFit;
    } catch (const NoAnswer& error) {
      report.problem = error.what();
      status = kNoAnswer;
    } catch (const std::exception& error) {
      report.problem = fmt::format("{}: {}", at, error.what());
      status = kNoAnswer;
    }
    if (tools::g_interrupted) return tools::kInterruptedStatus;
    if (o.json) {
      all.push_back(report_json(report));
    } else if (!report.problem.empty()) {
      fmt::print(stderr, "mrc_ctl: {}\n", ctl_tool::printable(report.problem));
    } else {
      fmt::print("{}{}", &at == o.check.hosts.data() ? "" : "\n", report_text(report));
    }
    std::fflush(stdout);
  }
  if (o.json) fmt::print("{}\n", ctl_tool::json_text(all, 2));
  return status;
}

/// Every device answers probes of a fabric's paths. Without the right to open one, only the rest is
/// checked.
void open_answering(Config config, std::optional<Device>& device) {
  const tools::HeldSignals signals;  // they are this thread's, not the device's
  config.helper = true;
  try {
    device.emplace(config);
  } catch (const Error& error) {
    fmt::print(stderr, "mrc_ctl: nothing answers probes of paths here: {}\n",
               ctl_tool::printable(error.what()));
  }
}

int listen_for_checks(const ctl_tool::Options& o) {
  CheckListener listener(open_host(job_config(o.check), o.check), o.check.at);
  std::optional<Device> device;
  if (listener.facts().kind == "fabric") open_answering(job_config(o.check), device);
  std::string planes;
  for (const PlaneFacts& plane : listener.facts().planes) {
    planes += fmt::format("{}{} UDP {}", planes.empty() ? "" : ", ", address_text(plane),
                          plane.probe_port);
    if (!plane.in_use.empty())
      fmt::print("UDP port {} of {} is in use by {}: probes take port {}\n", plane.udp_port,
                 address_text(plane), plane.in_use, plane.probe_port);
  }
  fmt::print("mrc_ctl: answers checks at TCP {}, planes {}, until Ctrl-C\n", listener.address(),
             planes.empty() ? "(" + listener.facts().kind + ")" : planes);
  std::fflush(stdout);
  listener.run();
  return tools::kInterruptedStatus;
}

}  // namespace
}  // namespace mrc::check_tool

namespace mrc::ctl_tool {

int run_check(const Options& o) {
  return o.check.listen ? check_tool::listen_for_checks(o) : check_tool::check_all(o);
}

}  // namespace mrc::ctl_tool
