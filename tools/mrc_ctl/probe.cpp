// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "common/interrupt.hpp"
#include "common/table.hpp"
#include "common/terminal.hpp"
#include "mrc/core/error.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

/// What became of the paths to one peer.
struct Answers {
  std::size_t answered = 0, lost = 0, left_out = 0;
};

Answers count(const Json& probes) {
  Answers answers;
  for (const Json& path : probes) {
    if (count_in(path, "sent") == 0)
      ++answers.left_out;
    else if (count_in(path, "rtt_ns") > 0)
      ++answers.answered;
    else
      ++answers.lost;
  }
  return answers;
}

/// The peers that the options select, each with its probes.
Json probe_peers(const Options& o, RemoteDevice& device) {
  Json all = Json::array();
  for (const Json& peer : device.list({{"request", "peers"}}, "peers")) {
    if (tools::g_interrupted) break;
    if (!names_peer(o.peer, peer)) continue;
    Json request{{"request", "probe"},
                 {"lane", peer.at("lane")},
                 {"peer", peer.at("number")},
                 {"timeout_ms", o.probe_time.count() / 1'000'000}};
    if (o.in_plane) request["plane"] = *o.in_plane;
    all.push_back({{"lane", peer.at("lane")},
                   {"peer", peer.at("number")},
                   {"addresses", peer.at("addresses")},
                   {"probes", device.list(request, "probes")}});
  }
  return all;
}

std::string text_of_peer(const Json& peer) {
  std::vector<tools::TableColumn> c{{"plane", false, {}},
                                    {"EV", false, {}},
                                    {"state", true, {}},
                                    {"sent", false, {}},
                                    {"RTT us", false, {}}};
  for (const Json& path : peer.at("probes")) {
    const std::uint64_t rtt = count_in(path, "rtt_ns"), sent = count_in(path, "sent");
    c[0].cells.push_back(cell(path, "plane"));
    c[1].cells.push_back(fmt::format("0x{:x}", count_in(path, "ev")));
    c[2].cells.push_back(flag_in(path, "active", true) ? cell(path, "state") : "backup");
    c[3].cells.push_back(std::to_string(sent));
    c[4].cells.push_back(rtt > 0    ? fmt::format("{:.1f}", static_cast<double>(rtt) / 1000)
                         : sent > 0 ? "lost"
                                    : "not sent");
  }
  const Answers n = count(peer.at("probes"));
  std::string text = fmt::format("peer {} of lane {}, {}:\n", cell(peer, "peer"),
                                 cell(peer, "lane"), cell(peer, "addresses"));
  text += c[0].cells.empty() ? "  no paths\n"
                             : tools::table_text(c, tools::output_width(tools::kUnlimitedWidth));
  text += fmt::format("{} of {} paths answered", n.answered, n.answered + n.lost);
  if (n.left_out > 0)
    text += fmt::format("; {} were left out: denied, or in a plane that is down", n.left_out);
  return text + "\n";
}

}  // namespace

bool names_peer(const std::string& wanted, const Json& peer) {
  if (wanted.empty()) return true;
  if (wanted == cell(peer, "number")) return true;
  const std::string addresses = cell(peer, "addresses");
  for (std::string_view rest = addresses; !rest.empty();) {
    const std::size_t end = std::min(rest.find(", "), rest.size());
    std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    if (one == wanted) return true;
    one = one.substr(0, one.rfind(':'));  // without its UDP port
    if (one.starts_with('[') && one.ends_with(']')) one = one.substr(1, one.size() - 2);
    if (one == wanted) return true;
  }
  return false;
}

int run_probe(const Options& o, const Found& found) {
  std::vector<Json> peers(found.devices.size(), Json::array());
  const auto problems = ask_all(
      o, found, [&](RemoteDevice& device, std::size_t i) { peers[i] = probe_peers(o, device); },
      o.probe_time);
  if (tools::g_interrupted) return tools::kInterruptedStatus;
  int status = std::max(status_of(o, found), print_problems(o, found, problems));
  Json all = Json::array();
  bool any = false;
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    if (!problems[i].empty()) continue;
    const RemoteDevice& device = *found.devices[i];
    any = any || !peers[i].empty();
    for (const Json& peer : peers[i])
      if (count(peer.at("probes")).lost > 0) status = 1;
    if (o.json) {
      Json entry = device.label();
      entry["answer"] = peers[i];
      all.push_back(std::move(entry));
      continue;
    }
    if (found.devices.size() > 1 && !peers[i].empty())
      fmt::print("{}, id {}:\n", printable(device.title()), device.id());
    for (const Json& peer : peers[i]) fmt::print("{}\n", text_of_peer(peer));
    if (peers[i].empty() && found.devices.size() == 1 && o.peer.empty()) fmt::print("  no peers\n");
  }
  if (o.json) fmt::print("{}\n", json_text(all, 2));
  if (any || o.peer.empty()) return status;
  throw Error(Errc::not_found,
              fmt::format("no device has a peer {}; `mrc_ctl peers` lists their numbers and "
                          "addresses",
                          o.peer));
}

}  // namespace mrc::ctl_tool
