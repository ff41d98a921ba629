// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/interrupt.hpp"
#include "common/table.hpp"
#include "common/terminal.hpp"
#include "mrc/core/error.hpp"
#include "mrc_ctl/probe.hpp"
#include "mrc_ctl/serve/device_watch.hpp"
#include "mrc_ctl/serve/fabric_map.hpp"
#include "mrc_ctl/serve/slow_paths.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

using tools::TableColumn;

/// A verdict takes so many rounds, and some more to be sure of.
constexpr double kRounds = 8, kShortestRound = 0.25, kLongestRound = 1;

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

/// --fabric, MRC_FABRIC, or the description that a device itself has read; empty: there is none.
/// Devices of other users could name any file.
std::string description_of(const Options& o, const Found& found) {
  if (!o.fabric.empty()) return o.fabric;
  if (const char* file = std::getenv("MRC_FABRIC"); file != nullptr && *file != '\0') return file;
  std::vector<std::string> files(found.devices.size());
  (void)ask_all(o, found, [&](RemoteDevice& device, std::size_t i) {
    if (!control::is_trusted_user(device.user())) return;
    const Json answer = device.request({{"request", "config"}});
    files[i] = text_in(object_in(answer, "options"), "fabric");
  });
  const auto file = std::find_if(files.begin(), files.end(), [](const std::string& name) {
    std::error_code error;
    return std::filesystem::is_regular_file(name, error);
  });
  return file == files.end() ? std::string() : *file;
}

/// What a path did in the time, from its counters before and after.
struct PathRates {
  const PathSnapshot* path = nullptr;
  Values<std::size(kPathFields)> counts{};

  [[nodiscard]] double operator[](std::string_view field) const {
    for (std::size_t i = 0; i < std::size(kPathFields); ++i)
      if (field == kPathFields[i].field) return static_cast<double>(counts[i]);
    return 0;
  }
  [[nodiscard]] double marked_percent() const {
    return (*this)["delivered"] > 0 ? std::min(100.0, 100 * (*this)["marks"] / (*this)["delivered"])
                                    : 0;
  }
};

/// Those of a peer that the options ask for. An EV that has taken the place of another one began
/// anew.
std::vector<PathRates> rates_of(const Options& o, const PeerSnapshot& after,
                                const PeerSnapshot* before) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, const PathSnapshot*> known;
  if (before != nullptr)
    for (const PathSnapshot& path : before->paths) known[{path.plane, path.ev}] = &path;
  std::vector<PathRates> all;
  for (const PathSnapshot& path : after.paths) {
    if (!wants_path(o, path.plane, path.state)) continue;
    PathRates& rates = all.emplace_back(PathRates{&path, path.counters});
    const auto old = known.find({path.plane, path.ev});
    for (std::size_t i = 0; i < rates.counts.size() && old != known.end(); ++i)
      if (old->second->counters[i] <= rates.counts[i]) rates.counts[i] -= old->second->counters[i];
  }
  return all;
}

const PeerSnapshot* find_peer(const DeviceSnapshot& device, const PeerSnapshot& peer) {
  const auto found = std::find_if(device.peers.begin(), device.peers.end(), [&](const auto& p) {
    return p.lane == peer.lane && p.number == peer.number && p.addresses == peer.addresses;
  });
  return found == device.peers.end() ? nullptr : &*found;
}

std::string table_of(const std::vector<PathRates>& rates, double took, bool idle) {
  std::vector<TableColumn> c{{"EV", false, {}},   {"plane", false, {}},    {"state", true, {}},
                             {"Gb/s", false, {}}, {"packets", false, {}},  {"delivered", false, {}},
                             {"lost", false, {}}, {"marked %", false, {}}, {"RTT us", false, {}}};
  std::size_t hidden = 0;
  for (const PathRates& r : rates) {
    if (!idle && r["packets"] == 0) {
      ++hidden;
      continue;
    }
    const std::string cells[] = {fmt::format("0x{:x}", r.path->ev),
                                 std::to_string(r.path->plane),
                                 printable(r.path->active ? r.path->state : "backup"),
                                 fmt::format("{:.3f}", r["bytes"] * 8 / 1e9 / took),
                                 fmt::format("{:.0f}", r["packets"]),
                                 fmt::format("{:.0f}", r["delivered"]),
                                 fmt::format("{:.0f}", r["losses"]),
                                 fmt::format("{:.1f}", r.marked_percent()),
                                 fmt::format("{:.0f}", static_cast<double>(r.path->rtt_ns) / 1000)};
    for (std::size_t i = 0; i < c.size(); ++i) c[i].cells.push_back(cells[i]);
  }
  std::string text = rates.empty() ? "  none\n"
                     : c[0].cells.empty()
                         ? "  none has carried anything\n"
                         : tools::table_text(c, tools::output_width(tools::kUnlimitedWidth));
  if (hidden > 0 && !c[0].cells.empty())
    text += fmt::format("({} paths have carried nothing: --idle)\n", hidden);
  return text;
}

Json json_of(const std::vector<PathRates>& rates, double took) {
  Json paths = Json::array();
  for (const PathRates& r : rates)
    paths.push_back({{"ev", r.path->ev},
                     {"plane", r.path->plane},
                     {"state", r.path->state},
                     {"active", r.path->active},
                     {"gbit_per_s", r["bytes"] * 8 / 1e9 / took},
                     {"packets", r["packets"]},
                     {"delivered", r["delivered"]},
                     {"losses", r["losses"]},
                     {"marks", r["marks"]},
                     {"marked_percent", r.marked_percent()},
                     {"rtt_ns", r.path->rtt_ns}});
  return paths;
}

std::string slow_text(const SlowPart& part) {
  std::string text = fmt::format("slow: {} ({}", part.what, part.detail);
  for (std::size_t i = 0; i < part.alike.size(); ++i)
    text += (i == 0 ? "; it may be " : " or ") + part.alike[i];
  return printable(text + (part.alike.empty() ? ")" : " as well)")) + "\n";
}

/// The devices that answer, round by round.
class Rounds {
 public:
  Rounds(const Options& o, Found& found)
      : options_(o),
        found_(found),
        length_(std::clamp(seconds(o.watch_for) / kRounds, kShortestRound, kLongestRound)) {
    if (const std::string file = description_of(o, found); !file.empty()) map_.emplace(file);
    slow_.emplace(map_ ? &*map_ : nullptr, length_);
  }

  /// Asks all devices. Those that do not answer are named, and left out from then on; and those of
  /// other users that take longer than a round, which a verdict would lack. Returns the exit
  /// status, as far as they decide it.
  int look() {
    std::vector<DeviceSnapshot> states(found_.devices.size());
    const Time limit = monotonic_now() + length();
    const auto problems = ask_all(options_, found_, [&](RemoteDevice& device, std::size_t i) {
      DeviceSnapshot state;
      state.id = device.id();
      take_hello(state, device.hello());
      states[i] = read_device(device, std::move(state));
      if (monotonic_now() > limit && !counts(options_, device.user()))
        throw Error(Errc::timed_out, device.title() + ": it answers too slowly, and is left out");
    });
    if (tools::g_interrupted) return tools::kInterruptedStatus;
    const int status = print_problems(options_, found_, problems);
    now_.clear();
    std::size_t i = 0;
    std::erase_if(found_.devices, [&](const auto&) {
      const std::size_t place = i++;
      if (!problems[place].empty()) return true;
      if (map_) map_->add_routes(states[place]);
      now_.push_back(std::move(states[place]));
      return false;
    });
    time_ = seconds(monotonic_now().time_since_epoch());
    if (first_.empty()) {
      first_ = now_;
      begin_ = time_;
    }
    std::vector<DeviceSnapshot> all = now_;  // in the order of the devices
    slow_->take(time_, counting(options_, all));
    return status;
  }

  [[nodiscard]] Duration length() const {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(length_));
  }
  [[nodiscard]] const std::vector<SlowPart>& slow() const { return slow_->found(); }

  void print() const {
    const Options& o = options_;
    const double took = std::max(time_ - begin_, 1e-3);
    Json all = Json::array();
    for (std::size_t i = 0; i < now_.size(); ++i) {
      const auto before = std::find_if(first_.begin(), first_.end(),
                                       [&](const auto& d) { return d.id == now_[i].id; });
      Json entry = found_.devices[i]->label();
      entry["answer"] = Json::array();
      if (!o.json && now_.size() > 1)
        fmt::print("{}, id {}:\n", printable(found_.devices[i]->title()), now_[i].id);
      bool any = false;
      for (const PeerSnapshot& peer : now_[i].peers) {
        if (!names_peer(o.peer, {{"number", peer.number}, {"addresses", peer.addresses}})) continue;
        any = true;
        const auto rates =
            rates_of(o, peer, before == first_.end() ? nullptr : find_peer(*before, peer));
        if (o.json)
          entry["answer"].push_back({{"lane", peer.lane},
                                     {"peer", peer.number},
                                     {"addresses", peer.addresses},
                                     {"seconds", took},
                                     {"paths", json_of(rates, took)}});
        else
          fmt::print("peer {} of lane {}, {}, in {:.1f} s:\n{}", peer.number, peer.lane,
                     printable(peer.addresses), took, table_of(rates, took, o.idle));
      }
      if (!o.json && !any) fmt::print("{}", no_peers_text(o));
      if (i == 0) {  // of all devices together
        entry["slow"] = Json::array();
        for (const SlowPart& part : slow()) entry["slow"].push_back(to_json(part));
      }
      all.push_back(std::move(entry));
    }
    if (o.json) fmt::print("{}\n", json_text(all, 2));
    if (!o.json)
      for (const SlowPart& part : slow()) fmt::print("{}", slow_text(part));
  }

 private:
  const Options& options_;
  Found& found_;
  double length_;  ///< of a round, in seconds
  std::optional<FabricMap> map_;
  std::optional<SlowPaths> slow_;
  std::vector<DeviceSnapshot> first_, now_;
  double begin_ = 0, time_ = 0;  ///< of first_ and now_, in seconds
};

}  // namespace

int run_rates(const Options& o, Found& found) {
  int status = status_of(o, found);
  Rounds rounds(o, found);
  status = std::max(status, rounds.look());
  const Time end = monotonic_now() + o.watch_for;
  for (Time next = monotonic_now(); next < end && !tools::g_interrupted;) {
    next = std::min(next + rounds.length(), end);
    const Duration left = std::max<Duration>(next - monotonic_now(), Duration(0));
    const timespec limit{static_cast<time_t>(left.count() / 1'000'000'000),
                         static_cast<long>(left.count() % 1'000'000'000)};
    tools::HeldSignals().sleep({}, &limit);
    if (!tools::g_interrupted) status = std::max(status, rounds.look());
  }
  rounds.print();
  if (tools::g_interrupted) return tools::kInterruptedStatus;
  return rounds.slow().empty() ? status : std::max(status, 1);
}

}  // namespace mrc::ctl_tool
