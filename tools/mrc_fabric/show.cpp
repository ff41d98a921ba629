// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/interrupt.hpp"
#include "common/table.hpp"
#include "common/terminal.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc_fabric/commands.hpp"
#include "mrc_fabric/conditions.hpp"
#include "mrc_fabric/counters.hpp"
#include "mrc_fabric/netns.hpp"
#include "mrc_fabric/wire/wire_links.hpp"

namespace mrc::tools {
namespace {

using Views = std::vector<PortView>;
using Json = nlohmann::ordered_json;

const char* kind_text(NodeKind kind) {
  constexpr const char* kNames[] = {"host", "t0", "t1"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Increase of a counter per second; 0 if it was reset.
double rate(std::uint64_t now, std::uint64_t before, double seconds) {
  return now < before ? 0 : static_cast<double>(now - before) / seconds;
}

std::string count_text(std::uint64_t n) {
  const auto real = static_cast<double>(n);
  if (n < 1'000'000) return fmt::format("{}", n);
  if (n < 1'000'000'000) return fmt::format("{:.2f}M", real / 1e6);
  return fmt::format("{:.2f}G", real / 1e9);
}

/// A row per direction; with rates instead of totals if there are earlier views.
std::vector<TableColumn> table(const Plan& plan, const Views& views, const Views* before,
                               double seconds) {
  std::vector<TableColumn> t{{"direction", true, {}},
                             {"state", true, {}},
                             {before != nullptr ? "packets/s" : "packets", false, {}},
                             {before != nullptr ? "rate" : "bytes", false, {}},
                             {"refused", false, {}},
                             {"marked", false, {}},
                             {"trimmed", false, {}},
                             {"dropped", false, {}},
                             {"lost", false, {}},
                             {"max queue", false, {}},
                             {"conditions", true, {}}};
  for (std::size_t port = 0; port < views.size(); ++port) {
    const InterfaceCounters& c = views[port].interface;
    std::string packets = count_text(c.sent_packets), bytes = count_text(c.sent_bytes);
    if (before != nullptr) {
      const InterfaceCounters& b = (*before)[port].interface;
      packets = fmt::format("{:.0f}", rate(c.sent_packets, b.sent_packets, seconds));
      bytes = rate_text(8 * rate(c.sent_bytes, b.sent_bytes, seconds));
    }
    std::vector<std::string> row{plan.direction(port), views[port].state, std::move(packets),
                                 std::move(bytes), count_text(c.sent_drops)};
    if (views[port].has_conditions) {
      const port_state& s = views[port].counters;
      for (const std::uint64_t n : std::initializer_list<std::uint64_t>{
               s.marked, s.trimmed, s.dropped, s.lost, s.queue_max})
        row.push_back(count_text(n));
      row.push_back(views[port].conditions);
    }
    row.resize(t.size());
    for (std::size_t i = 0; i < t.size(); ++i) t[i].cells.push_back(std::move(row[i]));
  }
  return t;
}

/// Whether some direction is delayed but no wire runs: its packets are lost.
bool wire_is_missing(const Views& views) {
  return std::any_of(views.begin(), views.end(),
                     [](const PortView& view) { return view.delay != Duration{0} && !view.wire; });
}

/// "mrc-demo: 2 hosts and 16 switches", and which of them are missing; also whether the wire is.
std::string nodes_text(const Plan& plan, const Views& views) {
  const std::size_t hosts = plan.description->hosts.size();
  std::string missing;
  for (const FabricNode& node : plan.nodes)
    if (!is_netns(node.netns)) missing += " " + node.name;
  return fmt::format("{}: {} hosts and {} switches{}{}{}", plan.name, hosts,
                     plan.nodes.size() - hosts, missing.empty() ? "" : "; missing:", missing,
                     wire_is_missing(views) ? "; the wire does not run, and delayed packets are "
                                              "lost: `mrc_fabric up` repairs that"
                                            : "");
}

void print_table(const Plan& plan, const Views& views) {
  fmt::print("{}\n{}", nodes_text(plan, views),
             table_text(table(plan, views, nullptr, 0), output_width(kUnlimitedWidth)));
}

Json counters_json(const port_state& s) {
  return {{"packets", s.packets}, {"bytes", s.bytes},        {"control", s.control},
          {"marked", s.marked},   {"trimmed", s.trimmed},    {"dropped", s.dropped},
          {"lost", s.lost},       {"queue_max", s.queue_max}};
}

Json port_json(const Plan& plan, std::size_t port, const PortView& view) {
  const InterfaceCounters& c = view.interface;
  Json out{{"direction", plan.direction(port)},  {"plane", plan.plane_of(port)},
           {"node", plan.node_of(port).name},    {"interface", plan.ports[port].interface},
           {"mac", plan.ports[port].mac},        {"state", view.state},
           {"sent_packets", c.sent_packets},     {"sent_bytes", c.sent_bytes},
           {"sent_drops", c.sent_drops},         {"received_packets", c.received_packets},
           {"received_bytes", c.received_bytes}, {"received_drops", c.received_drops}};
  if (view.has_conditions) {
    out["conditions"] = view.conditions;
    out["switch_port"] = counters_json(view.counters);
  }
  if (view.delay != Duration{0}) out["delay"] = format_duration(view.delay);
  if (view.wire)
    out["wire"] = {
        {"held", view.wire->held}, {"passed", view.wire->passed}, {"dropped", view.wire->dropped}};
  return out;
}

void print_json(const Fabric& f, const Views& views) {
  Json out{{"fabric", f.description.name}, {"nodes", Json::array()}, {"ports", Json::array()}};
  if (const auto wire = ask_wire_of(f.plan.name)) out["wire_missed"] = wire->missed;
  for (const FabricNode& node : f.plan.nodes) {
    Json entry{{"name", node.name},
               {"kind", kind_text(node.kind)},
               {"namespace", node.netns},
               {"state", is_netns(node.netns) ? "up" : "missing"}};
    if (node.kind != NodeKind::host) entry["plane"] = node.plane;
    out["nodes"].push_back(std::move(entry));
  }
  for (std::size_t port = 0; port < views.size(); ++port)
    out["ports"].push_back(port_json(f.plan, port, views[port]));
  fmt::print("{}\n", out.dump(2));
}

/// Lines of the terminal; unlimited without one.
std::size_t screen_lines() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
    return kUnlimitedWidth;
  return std::max<std::size_t>(size.ws_row, 4);
}

/// Overwrites the previous frame on a terminal, where what has no room is cut off.
void print_frame(const Fabric& f, const Views& views, const Views& before, double seconds) {
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  const std::size_t width = output_width(kUnlimitedWidth);
  std::vector<TableColumn> rates = table(f.plan, views, &before, seconds);
  (void)drop_empty(rates, width);
  std::istringstream text(fmt::format("{} (Ctrl-C ends this)\n{}", nodes_text(f.plan, views),
                                      table_text(std::move(rates), kUnlimitedWidth)));
  std::string frame = is_terminal ? "\x1b[H" : "";
  const std::size_t room = screen_lines() - 2, needed = views.size() + 2;
  std::size_t shown = 0;
  for (std::string line; std::getline(text, line) && (needed <= room || shown < room); ++shown)
    frame += line.substr(0, width) + (is_terminal ? "\x1b[K\n" : "\n");
  if (shown < needed) frame += fmt::format("... {} more\n", needed - shown);
  if (is_terminal) frame += "\x1b[J";
  fmt::print("{}", frame);
  std::fflush(stdout);
}

void watch(const Fabric& f) {
  using Clock = std::chrono::steady_clock;
  catch_signals();
  if (isatty(STDOUT_FILENO) != 0) fmt::print("\x1b[2J");
  Views before = view_ports(f.plan, f.state);
  auto then = Clock::now();
  while (true) {
    poll(nullptr, 0, 1000);  // returns on a signal, unlike the standard library's sleep
    if (g_interrupted) return;
    Views views = view_ports(f.plan, f.state);
    const auto now = Clock::now();
    print_frame(f, views, before, std::chrono::duration<double>(now - then).count());
    before = std::move(views);
    then = now;
  }
}

}  // namespace

int run_show(const Options& o) {
  need_root("show");
  const Fabric f(o);
  f.state.need(f.plan);
  if (o.watch)
    watch(f);
  else if (o.json)
    print_json(f, view_ports(f.plan, f.state));
  else
    print_table(f.plan, view_ports(f.plan, f.state));
  return 0;
}

}  // namespace mrc::tools
