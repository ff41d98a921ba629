// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/views.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <span>

#include "common/table.hpp"
#include "common/terminal.hpp"
#include "mrc_ctl/probe.hpp"

namespace mrc::ctl_tool {
namespace {

using tools::TableColumn;

double number(const Json& object, const char* name) {
  return control::has_field(object, name, &Json::is_number) ? object[name].get<double>() : 0;
}

void add_row(std::vector<TableColumn>& columns, std::span<const std::string> cells) {
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells[i]);
}

std::string table(const std::vector<TableColumn>& columns) {
  if (columns[0].cells.empty()) return "  none\n";
  return tools::table_text(columns, tools::output_width(tools::kUnlimitedWidth));
}

std::string age(double seconds) {
  if (!(seconds >= 0 && seconds < 1e11)) return "?";
  const auto passed = static_cast<long>(static_cast<double>(std::time(nullptr)) - seconds);
  const long s = std::max(0L, passed);
  if (s < 120) return fmt::format("{} s", s);
  if (s < 7200) return fmt::format("{} min", s / 60);
  return s < 172'800 ? fmt::format("{} h", s / 3600) : fmt::format("{} d", s / 86'400);
}

std::string hex(const Json& object, const char* name) {
  return fmt::format("0x{:x}", count_in(object, name));
}

}  // namespace

std::string cell(const Json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || field->is_null()) return "-";
  if (field->is_boolean()) return field->get<bool>() ? "yes" : "no";
  return value_text(*field);
}

std::string value_text(const Json& value) {
  return printable(value.is_string() ? value.get<std::string>() : json_text(value, -1));
}

std::string printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const unsigned next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (c < 0x20 || c == 0x7F) text[i] = '?';
    if (c == 0xC2 && next >= 0x80 && next < 0xA0) text[i] = text[i + 1] = '?';  // U+0080 to U+009F
  }
  return text;
}

std::string clock_text(double seconds) {
  if (!(seconds >= 0 && seconds < 1e11)) return "?";
  const auto when = static_cast<std::time_t>(seconds);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(when));
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', true, Json::error_handler_t::replace);
}

std::string amount(double number, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t i = 0;
  for (; number >= 1000 && i + 1 < std::size(kPrefixes); ++i) number /= 1000;
  return i == 0 ? fmt::format("{:.0f} {}", number, unit)
                : fmt::format("{:.1f} {}{}", number, kPrefixes[i], unit);
}

std::string list_text(const Found& found) {
  std::vector<TableColumn> c{{"program", true, {}}, {"pid", false, {}},      {"uid", false, {}},
                             {"host", true, {}},    {"open for", false, {}}, {"planes", false, {}},
                             {"lanes", false, {}},  {"version", true, {}},   {"id", true, {}}};
  for (const auto& device : found.devices) {
    const Json& hello = device->hello();
    const std::string cells[] = {
        cell(hello, "program"), cell(hello, "pid"),           cell(hello, "uid"),
        cell(hello, "host"),    age(number(hello, "opened")), cell(hello, "planes"),
        cell(hello, "lanes"),   cell(hello, "version"),       device->id()};
    add_row(c, cells);
  }
  std::string text = c[0].cells.empty() ? "No device is open.\n" : table(c);
  if (found.others > 0) text += fmt::format("{} more of other users.\n", found.others);
  return text;
}

std::string planes_text(RemoteDevice& device) {
  std::vector<TableColumn> c{
      {"plane", false, {}},      {"address", true, {}},   {"state", true, {}},
      {"times down", false, {}}, {"sent", false, {}},     {"packets", false, {}},
      {"received", false, {}},   {"packets", false, {}},  {"busy", false, {}},
      {"errors", false, {}},     {"bad iCRC", false, {}}, {"overrun", false, {}}};
  std::size_t n = 0;
  for (const Json& plane : device.list({{"request", "planes"}}, "planes")) {
    const Json& port = object_in(plane, "port");
    const std::string cells[] = {std::to_string(n++),
                                 cell(plane, "address"),
                                 plane_state(plane),
                                 cell(plane, "times_down"),
                                 amount(number(port, "tx_bytes"), "B"),
                                 cell(port, "tx_packets"),
                                 amount(number(port, "rx_bytes"), "B"),
                                 cell(port, "rx_packets"),
                                 cell(port, "tx_busy"),
                                 cell(port, "tx_errors"),
                                 cell(plane, "rx_bad_icrc"),
                                 cell(port, "rx_overrun")};
    add_row(c, cells);
  }
  return table(c);
}

std::string queue_pairs_text(RemoteDevice& device) {
  std::vector<TableColumn> c{
      {"qpn", false, {}},      {"lane", false, {}},     {"state", true, {}},
      {"type", true, {}},      {"peer", false, {}},     {"remote", false, {}},
      {"waits for", true, {}}, {"silent", false, {}},   {"sent", false, {}},
      {"again", false, {}},    {"received", false, {}}, {"in flight", false, {}},
      {"RTT us", false, {}}};
  std::string errors;
  for (const Json& qp : device.list({{"request", "queue_pairs"}}, "queue_pairs")) {
    const Json& stats = object_in(qp, "stats");
    const double silent = number(qp, "silent_ns");
    const std::string cells[] = {cell(qp, "qpn"),
                                 cell(qp, "lane"),
                                 cell(qp, "state"),
                                 flag_in(qp, "rc", false) ? "rc" : "mrc",
                                 cell(qp, "peer"),
                                 cell(qp, "remote_qpn"),
                                 cell(qp, "waits_for"),
                                 silent == 0 ? "-" : fmt::format("{:.1f} ms", silent / 1e6),
                                 amount(number(stats, "tx_bytes"), "B"),
                                 cell(stats, "retransmits"),
                                 amount(number(stats, "rx_bytes"), "B"),
                                 cell(stats, "outstanding"),
                                 fmt::format("{:.0f}", number(stats, "smoothed_rtt_ns") / 1000)};
    add_row(c, cells);
    if (const std::string error = cell(qp, "error"); !error.empty() && error != "-")
      errors += fmt::format("{}: {}\n", cell(qp, "qpn"), error);
  }
  return table(c) + errors;
}

std::string peers_text(RemoteDevice& device) {
  std::vector<TableColumn> c{
      {"peer", false, {}}, {"lane", false, {}},    {"qps", false, {}},    {"paths up", false, {}},
      {"of", false, {}},   {"backups", false, {}}, {"OpenMRC", true, {}}, {"addresses", true, {}}};
  for (const Json& peer : device.list({{"request", "peers"}}, "peers")) {
    const std::string cells[] = {cell(peer, "number"),
                                 cell(peer, "lane"),
                                 cell(peer, "queue_pairs"),
                                 cell(peer, "paths_up"),
                                 std::to_string(paths_in_turn(peer)),
                                 cell(peer, "backups"),
                                 flag_in(peer, "foreign", false) ? "no" : "yes",
                                 cell(peer, "addresses")};
    add_row(c, cells);
  }
  return table(c);
}

std::uint64_t paths_in_turn(const Json& peer) {
  const std::uint64_t paths = count_in(peer, "paths");
  return paths - std::min(paths, count_in(peer, "backups"));
}

std::string plane_state(const Json& plane) {
  if (!flag_in(plane, "enabled", true)) return "disabled";
  return flag_in(plane, "up", false) ? "up" : "down";
}

std::string enabled_text(const Json& planes, unsigned plane) {
  if (!planes.is_array() || plane >= planes.size()) return "?";
  return flag_in(planes[plane], "enabled", false) ? "enabled" : "disabled";
}

bool wants_path(const Options& o, std::uint64_t plane, const std::string& state) {
  return (!o.in_plane || plane == *o.in_plane) &&
         (!o.bad || state == "assumed_bad" || state == "denied");
}

std::string no_peers_text(const Options& o) {
  return o.peer.empty() ? "  no peers\n" : fmt::format("  no peer {}\n", o.peer);
}

Json all_paths(RemoteDevice& device, const Options& o) {
  Json all = Json::array();
  for (const Json& peer : device.list({{"request", "peers"}}, "peers")) {
    if (!names_peer(o.peer, peer)) continue;
    all.push_back({{"lane", peer.at("lane")},
                   {"peer", peer.at("number")},
                   {"addresses", peer.at("addresses")},
                   {"paths", device.list({{"request", "paths"},
                                          {"lane", peer.at("lane")},
                                          {"peer", peer.at("number")}},
                                         "paths")}});
    Json& paths = all.back()["paths"];
    paths.erase(std::remove_if(paths.begin(), paths.end(),
                               [&o](const Json& path) {
                                 return !wants_path(o, count_in(path, "plane"),
                                                    text_in(path, "state"));
                               }),
                paths.end());
  }
  return all;
}

std::string paths_text(RemoteDevice& device, const Options& o) {
  std::string text;
  for (const Json& peer : all_paths(device, o)) {
    std::vector<TableColumn> c{
        {"EV", false, {}},      {"plane", false, {}},    {"state", true, {}},
        {"packets", false, {}}, {"bytes", false, {}},    {"lost", false, {}},
        {"marks", false, {}},   {"trims", false, {}},    {"timeouts", false, {}},
        {"probes", false, {}},  {"answered", false, {}}, {"times bad", false, {}},
        {"RTT us", false, {}}};
    std::size_t hidden = 0;
    for (const Json& path : peer.at("paths")) {
      const bool good = cell(path, "state") == "good" && number(path, "times_bad") == 0;
      if (!o.idle && good && number(path, "packets") == 0) {
        ++hidden;
        continue;
      }
      const std::string cells[] = {hex(path, "ev"),
                                   cell(path, "plane"),
                                   flag_in(path, "active", true) ? cell(path, "state") : "backup",
                                   cell(path, "packets"),
                                   amount(number(path, "bytes"), "B"),
                                   cell(path, "losses"),
                                   cell(path, "marks"),
                                   cell(path, "trims"),
                                   cell(path, "timeouts"),
                                   cell(path, "probes_sent"),
                                   cell(path, "probes_answered"),
                                   cell(path, "times_bad"),
                                   fmt::format("{:.0f}", number(path, "rtt_ns") / 1000)};
      add_row(c, cells);
    }
    text += fmt::format("peer {} of lane {}, {}:\n", cell(peer, "peer"), cell(peer, "lane"),
                        cell(peer, "addresses")) +
            table(c);
    if (hidden > 0) text += fmt::format("({} good paths have carried nothing: --idle)\n", hidden);
  }
  return text.empty() ? no_peers_text(o) : text;
}

std::string config_text(RemoteDevice& device) {
  const Json answer = device.request({{"request", "config"}});
  std::vector<TableColumn> c{{"option", true, {}}, {"value", true, {}}};
  for (const auto& [name, value] : object_in(answer, "options").items()) {
    c[0].cells.push_back(printable(name));
    c[1].cells.push_back(value_text(value));
  }
  return table(c);
}

std::string show_text(RemoteDevice& device) {
  const Json& hello = device.hello();
  const Json answer = device.request({{"request", "counters"}});
  const Json& counters = object_in(answer, "counters");
  const Json& engine = object_in(counters, "engine");
  std::string text =
      fmt::format("{} on {}, user {}, OpenMRC {}, open since {}, id {}\n",
                  printable(device.title()), cell(hello, "host"), cell(hello, "uid"),
                  cell(hello, "version"), clock_text(number(hello, "opened")), device.id());
  text += fmt::format("queue pairs {}, peers {}, memory regions {}, completion queues {}\n",
                      cell(counters, "qps"), cell(counters, "peers"), cell(counters, "mrs"),
                      cell(counters, "cqs"));
  text += fmt::format(
      "{} data packets sent, {} of them again; {} received, {} of them twice; {} timeouts\n",
      cell(engine, "tx_data"), cell(engine, "tx_retransmits"), cell(engine, "rx_data"),
      cell(engine, "rx_duplicates"), cell(engine, "timeouts"));
  return text + planes_text(device) + peers_text(device);
}

std::string profiles_text(RemoteDevice& device) {
  std::string text;
  for (const Json& profile : device.list({{"request", "profiles"}}, "profiles")) {
    const bool ev = cell(profile, "kind") == "ev";
    text += fmt::format("  {} profile {} of the {}: {}", ev ? "EV" : cell(profile, "kind"),
                        cell(profile, "id"), cell(profile, "of"), cell(profile, "state"));
    if (profile.contains("mode")) text += ", " + cell(profile, "mode");
    if (profile.contains("algorithm")) text += ", " + cell(profile, "algorithm");
    if (ev)
      text += fmt::format(", {} EVs, {} of them denied", cell(profile, "ev_count"),
                          cell(profile, "denied"));
    if (profile.contains("queue_pairs"))
      text += fmt::format(", {} queue pairs", cell(profile, "queue_pairs"));
    text += '\n';
  }
  return text.empty() ? "  no profiles\n" : text;
}

Json dump_of(RemoteDevice& device) {
  Json dump = device.label();
  for (const char* name : {"config", "counters"}) {
    const Json answer = device.request({{"request", name}});
    dump[name] = object_in(answer, std::string_view(name) == "config" ? "options" : name);
  }
  for (const char* name : {"queue_pairs", "peers", "profiles"})
    dump[name] = device.list({{"request", name}}, name);
  dump["events"] = device.list({{"request", "events"}}, "events");
  dump["paths"] = all_paths(device);
  return dump;
}

}  // namespace mrc::ctl_tool
