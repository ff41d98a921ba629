// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/top_pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "common/table.hpp"
#include "common/terminal.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

using tools::TableColumn;

/// Bits per second, in a column whose head has the unit: "12.3 G", "1.0 M".
std::string rate(double bits) {
  const std::string text = amount(bits, "");
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

double field(const Json& object, const char* name) {
  return static_cast<double>(count_in(object, name));
}

void add(std::vector<TableColumn>& table, std::span<const std::string> cells) {
  for (std::size_t i = 0; i < table.size(); ++i) table[i].cells.push_back(cells[i]);
}

std::string text_of(std::vector<TableColumn> table, std::size_t width) {
  return tools::table_text(std::move(table), width);
}

/// Of "a_program_of_long_name (pid 4711)" what fits: "a_program_of~ 4711".
std::string short_title(const std::string& title, std::size_t width) {
  const std::size_t at = std::min(title.rfind(" (pid "), title.size());
  std::string name = title.substr(0, at), pid;
  if (at < title.size()) pid = " " + title.substr(at + 6, title.size() - at - 7);
  const std::size_t room = std::max(width, pid.size() + 2) - pid.size();
  if (name.size() > room) name = name.substr(0, room - 1) + "~";
  return name + pid;
}

/// The first lines of a text, and how many more there are.
std::string first_lines(const std::string& text, std::size_t most) {
  std::size_t at = 0, n = 0;
  for (; at < text.size() && n < most; ++n) at = std::min(text.find('\n', at), text.size() - 1) + 1;
  const auto more = std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '\n');
  return text.substr(0, at) + (more > 0 ? fmt::format("  and {} more\n", more) : std::string());
}

std::string planes_of(const Row& row, std::size_t width) {
  std::vector<TableColumn> table{{"plane", false, {}},
                                 {"state", true, {}},
                                 {"send b/s", false, {}},
                                 {"recv b/s", false, {}},
                                 {"share", true, {}}};
  for (std::size_t i = 0; i < row.planes.size(); ++i) {
    const double share = row.tx > 0 ? std::clamp(row.planes[i][0] / row.tx, 0.0, 1.0) : 0;
    const std::string cells[] = {std::to_string(i), row.states[i], rate(row.planes[i][0]),
                                 rate(row.planes[i][1]),
                                 std::string(static_cast<std::size_t>(share * 20 + 0.5), '#')};
    add(table, cells);
  }
  return text_of(std::move(table), width);
}

/// How a path is shown: the worst state counts, if several peers have one with that EV and plane.
constexpr std::string_view kMarks = ".#~-x";
std::size_t mark_of(const Json& path) {
  const std::string state = text_in(path, "state");
  if (state == "assumed_bad") return 4;
  if (state == "denied") return 3;
  if (state == "skip") return 2;
  return flag_in(path, "active", true) && field(path, "packets") > 0 ? 1 : 0;
}

std::string map_of(RemoteDevice& device) {
  std::map<std::uint64_t, std::map<std::uint64_t, std::size_t>> planes;  // by EV
  for (const Json& peer : all_paths(device))
    for (const Json& path : peer.at("paths")) {
      std::size_t& mark = planes[count_in(path, "plane")][count_in(path, "ev")];
      mark = std::max(mark, mark_of(path));
    }
  std::string text = "paths: # in use  . idle  ~ marked  - denied  x bad\n";
  for (const auto& [plane, paths] : planes) {
    std::string row;
    for (const auto& [ev, mark] : paths) row += kMarks[mark];
    constexpr std::size_t kMost = 68;
    if (row.size() > kMost)  // as much as fits, and what is bad in the rest
      row = row.substr(0, kMost - 12) +
            fmt::format(" +{}, {} x", row.size() - (kMost - 12),
                        std::count(row.begin() + (kMost - 12), row.end(), 'x'));
    text += fmt::format("plane {:2} {}\n", plane, row);
  }
  return text;
}

std::string queue_pairs_of(RemoteDevice& device, std::size_t most, std::size_t width) {
  std::vector<TableColumn> table{{"queue pair", false, {}}, {"state", true, {}},
                                 {"waits for", true, {}},   {"RTT us", false, {}},
                                 {"window", false, {}},     {"in flight", false, {}},
                                 {"sent again", false, {}}};
  constexpr unsigned kLooked = 1000;
  const Json all = device.request({{"request", "queue_pairs"}, {"count", kLooked}});
  std::vector<Json> qps = list_in(all, "queue_pairs").get<std::vector<Json>>();
  const auto busy = [](const Json& qp) {  // those that wait for something are of interest
    const std::string waits_for = text_in(qp, "waits_for");
    return !waits_for.empty() && waits_for != "nothing";
  };
  std::stable_partition(qps.begin(), qps.end(), busy);
  for (const Json& qp : qps) {
    const Json& stats = object_in(qp, "stats");
    const std::string cells[] = {cell(qp, "qpn"),
                                 cell(qp, "state"),
                                 cell(qp, "waits_for"),
                                 fmt::format("{:.0f}", field(stats, "smoothed_rtt_ns") / 1000),
                                 amount(field(stats, "cwnd"), "B"),
                                 fmt::format("{:.0f}", field(stats, "outstanding")),
                                 fmt::format("{:.0f}", field(stats, "retransmits"))};
    add(table, cells);
  }
  if (qps.empty()) return "no queue pairs\n";
  return first_lines(text_of(std::move(table), width), most);
}

}  // namespace

Row row_of(RemoteDevice& device, const Counters* before, Counters& c) {
  Row row;
  row.id = device.id();
  row.title = printable(device.title());
  const Json answer = device.request({{"request", "counters"}});
  c.at = monotonic_now();
  const Json& all = object_in(answer, "counters");
  const Json& engine = object_in(all, "engine");
  row.queue_pairs = count_in(all, "qps");
  row.peers = count_in(all, "peers");
  c.packets = field(engine, "tx_data");
  c.again = field(engine, "tx_retransmits");
  for (const Json& plane : list_in(all, "planes")) {
    const Json& port = object_in(plane, "port");
    c.planes.push_back({field(port, "tx_bytes"), field(port, "rx_bytes")});
    c.sent += c.planes.back()[0];
    c.received += c.planes.back()[1];
    row.states.push_back(plane_state(plane));
  }
  for (const Json& peer : device.list({{"request", "peers"}}, "peers")) {
    row.paths += paths_in_turn(peer);
    row.paths_up += count_in(peer, "paths_up");
  }
  const Json newest = device.request({{"request", "queue_pairs"}, {"count", 16}});
  const Json& qps = list_in(newest, "queue_pairs");
  for (const Json& qp : qps) {
    const Json& stats = object_in(qp, "stats");
    row.rtt_us += field(stats, "smoothed_rtt_ns") / 1000 / static_cast<double>(qps.size());
    row.window_k += field(stats, "cwnd") / 1000 / static_cast<double>(qps.size());
  }
  row.planes.resize(c.planes.size());
  if (before == nullptr) return row;
  const double seconds = std::chrono::duration<double>(c.at - before->at).count();
  row.tx = (c.sent - before->sent) * 8 / seconds;
  row.rx = (c.received - before->received) * 8 / seconds;
  row.packets = (c.packets - before->packets) / seconds;
  row.again = (c.again - before->again) / seconds;
  for (std::size_t i = 0; i < std::min(row.planes.size(), before->planes.size()); ++i)
    for (const std::size_t way : {0, 1})
      row.planes[i][way] = (c.planes[i][way] - before->planes[i][way]) * 8 / seconds;
  return row;
}

void sort(std::vector<Row>& rows, SortBy by) {
  std::sort(rows.begin(), rows.end(), [by](const Row& a, const Row& b) {
    const auto key = [by](const Row& row) {
      const double rate = row.tx + row.rx;
      return by == SortBy::name    ? 0
             : by == SortBy::again ? row.again
             : by == SortBy::rtt   ? row.rtt_us
                                   : rate;
    };
    return std::tuple(-key(a), a.title, a.id) < std::tuple(-key(b), b.title, b.id);
  });
}

std::string overview_text(const std::vector<Row>& rows, std::size_t selected, std::size_t silent,
                          std::size_t lines, std::size_t width) {
  double tx = 0, rx = 0;
  for (const Row& row : rows) tx += row.tx, rx += row.rx;
  const std::string head = fmt::format(
      "mrc_ctl top: {} devices, sending {}, receiving {}{}\n\n", rows.size(), amount(tx, "b/s"),
      amount(rx, "b/s"), silent > 0 ? fmt::format(", {} silent or slow", silent) : std::string());
  if (rows.empty()) return head;
  std::vector<TableColumn> table{{"  process", true, {}}, {"send b/s", false, {}},
                                 {"recv b/s", false, {}}, {"again/s", false, {}},
                                 {"RTT us", false, {}},   {"win kB", false, {}},
                                 {"qps", false, {}},      {"paths up", false, {}}};
  // Planes of the selected device have their place below; of many devices those around it are seen.
  const std::size_t below = rows[selected].planes.size() + 6;
  std::size_t room = std::max<std::size_t>(lines > below ? lines - below : 0, 3);
  if (rows.size() > room) --room;  // for a line that says so
  const std::size_t first = selected < room ? 0 : selected - room + 1;
  const std::size_t end = std::min(rows.size(), first + room);
  for (std::size_t i = first; i < end; ++i) {
    const Row& row = rows[i];
    const std::string cells[] = {"",
                                 rate(row.tx),
                                 rate(row.rx),
                                 fmt::format("{:.0f}", row.again),
                                 fmt::format("{:.0f}", row.rtt_us),
                                 fmt::format("{:.0f}", row.window_k),
                                 std::to_string(row.queue_pairs),
                                 fmt::format("{}/{}", row.paths_up, row.paths)};
    add(table, cells);
  }
  // Names get what the other columns leave.
  const std::size_t others = tools::table_width(table) - table[0].head.size();
  const std::size_t names = width > others + 12 ? width - others - 2 : 10;
  for (std::size_t i = first; i < end; ++i)
    table[0].cells[i - first] = (i == selected ? "> " : "  ") + short_title(rows[i].title, names);
  std::string text = head + text_of(std::move(table), width);
  if (end - first < rows.size())
    text += fmt::format("  {} to {} of {}: arrows show the others\n", first + 1, end, rows.size());
  return text + fmt::format("\nplanes of {}\n", rows[selected].title) +
         planes_of(rows[selected], width);
}

std::string detail_text(const Row& row, RemoteDevice& device, std::size_t lines,
                        std::size_t width) {
  std::string text =
      fmt::format(
          "{}: sending {}, receiving {}, {:.0f} packets/s, {:.0f} of them again, {} peers\n\n",
          row.title, amount(row.tx, "b/s"), amount(row.rx, "b/s"), row.packets, row.again,
          row.peers) +
      planes_of(row, width) + "\n" + map_of(device) + "\n";
  const auto used = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  return text + queue_pairs_of(device,
                               std::max<std::size_t>(lines > used + 2 ? lines - used - 2 : 0, 4),
                               width);
}

}  // namespace mrc::ctl_tool
