// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/rules/path_watch.hpp"

#include <algorithm>
#include <iterator>

namespace mrc_nccl {
namespace {

// While a peer is silent, packets to it time out at least every 1.07 s (Endpoint). After this time
// without a timeout nobody waits for it.
constexpr mrc::Duration kNobodyWaits = std::chrono::seconds(5);
// Names and path numbers in a line.
constexpr std::size_t kMostNames = 3, kMostNumbers = 4;

/// "1 of 4 paths is", "3 of 4 paths are".
std::string are(unsigned some, unsigned all) {
  return std::to_string(some) + " of " + std::to_string(all) + (all == 1 ? " path" : " paths") +
         (some == 1 ? " is" : " are");
}

std::string list(const std::set<std::string>& names) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (count++ == kMostNames) {
      const std::size_t others = names.size() - kMostNames;
      return text + " and " + std::to_string(others) + (others == 1 ? " other" : " others");
    }
    text += (count == 1 ? "" : ", ") + name;
  }
  return text;
}

/// " (path 0)", " (paths 1, 3)".
std::string list(const std::set<unsigned>& numbers) {
  if (numbers.size() > kMostNumbers) return {};
  std::string text;
  for (const unsigned number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return (numbers.size() == 1 ? " (path " : " (paths ") + text + ")";
}

}  // namespace

std::vector<std::string> PathWatch::update(mrc::Time now, std::span<const Plane> planes,
                                           std::span<const PeerPaths> peers) {
  planes_.resize(planes.size());
  std::map<std::uint64_t, PeerState> before;
  before.swap(peers_);
  std::vector<Count> counts(planes.size());
  bool hold = false;  // a peer may turn out to be silent
  for (const PeerPaths& peer : peers) {
    if (peer.paths.empty()) continue;
    PeerState& state = peers_[peer.number] = std::move(before[peer.number]);
    state.name = peer.name;
    Routes routes = routes_of(now, peer, state);
    judge(now, peer, state, routes);
    hold |= waits(state) && !state.silent;
    if (state.silent) continue;
    for (const auto& [key, route] : routes) {
      if (!route.used || key.first >= counts.size()) continue;
      Count& count = counts[key.first];
      ++count.paths;
      if (!route.failed) continue;
      ++count.failed;
      count.numbers.insert(key.second);
      count.peers.insert(peer.name);
    }
  }
  std::vector<std::string> lines;
  tell_peers(now, lines);
  for (std::size_t p = 0; p < planes.size(); ++p) {
    PlaneState& state = planes_[p];
    if (state.failed != counts[p].failed) {
      state.failed = counts[p].failed;
      state.since = now;
    }
    if (peers_.empty()) state.told = state.failures = 0;
    if (!hold && planes[p].up && counts[p].paths > 0 && now - state.since >= kLasting)
      tell_plane(now, p, planes, counts, lines);
  }
  busy_ = hold || !told_silent_.empty() || anything_bad();
  return lines;
}

PathWatch::Routes PathWatch::routes_of(mrc::Time now, const PeerPaths& peer, PeerState& state) {
  Routes routes;
  state.evs.resize(peer.paths.size());
  for (std::size_t i = 0; i < peer.paths.size(); ++i) {
    const mrc::PathReport& path = peer.paths[i];
    EvState& ev = state.evs[i];
    const bool bad = path.state == "assumed_bad";
    if (!bad)
      ev.bad_since = mrc::kNever;
    else if (ev.bad_since == mrc::kNever || ev.times_bad != path.times_bad)
      ev.bad_since = now;
    ev.times_bad = path.times_bad;
    Route& route = routes[{path.plane, path.port_path}];
    route.used |= path.state != "denied";
    route.usable |= !bad && path.state != "denied";
    route.failed |= bad && now - ev.bad_since >= kLasting;
  }
  return routes;
}

/// Whether anything arrives at the peer. The states of its paths do not tell: the last one is never
/// taken out of use, and the others need a timeout each.
void PathWatch::judge(mrc::Time now, const PeerPaths& peer, PeerState& state, Routes& routes) {
  std::uint64_t delivered = 0, timeouts = 0;
  for (const mrc::PathReport& path : peer.paths) {
    delivered += path.delivered;
    timeouts += path.timeouts;
  }
  const bool arrives = delivered != state.delivered;
  const bool times_out = timeouts != state.timeouts;
  state.delivered = delivered;
  state.timeouts = timeouts;
  if (times_out) state.timed_out = now;
  if (arrives || (!state.silent && waits(state) && now - state.timed_out > kNobodyWaits))
    state.waiting_since = mrc::kNever;
  else if (times_out && !waits(state))
    state.waiting_since = now;
  const bool was_silent = state.silent;
  state.silent = waits(state) && (was_silent || state.timed_out - state.waiting_since >= kSilent);
  if (state.silent) return;
  if (was_silent) {
    // It takes probes to bring the other paths back: time starts again for them.
    for (EvState& ev : state.evs)
      if (ev.bad_since != mrc::kNever) ev.bad_since = now;
    for (auto& [key, route] : routes) route.failed = false;
  }
  const bool any_left = std::any_of(routes.begin(), routes.end(), [](const auto& entry) {
    return entry.second.used && !entry.second.failed;
  });
  for (auto& [key, route] : routes)
    if (!any_left && route.usable) route.failed = false;
}

void PathWatch::tell_peers(mrc::Time now, std::vector<std::string>& lines) {
  std::set<std::string> all, silent;
  for (const auto& [number, state] : peers_) {
    all.insert(state.name);
    if (state.silent) silent.insert(state.name);
  }
  // Those that have gone need no line.
  std::erase_if(told_silent_, [&](const std::string& name) { return !all.contains(name); });
  std::set<std::string> fresh, back;
  std::set_difference(silent.begin(), silent.end(), told_silent_.begin(), told_silent_.end(),
                      std::inserter(fresh, fresh.end()));
  std::set_difference(told_silent_.begin(), told_silent_.end(), silent.begin(), silent.end(),
                      std::inserter(back, back.end()));
  if ((fresh.empty() && back.empty()) || !peer_budget_.take(now)) return;
  if (!fresh.empty())
    lines.push_back("nothing arrives at " + list(fresh) + " over any path: traffic there waits");
  if (!back.empty()) lines.push_back("packets arrive again at " + list(back));
  told_silent_ = std::move(silent);
}

void PathWatch::tell_plane(mrc::Time now, std::size_t plane, std::span<const Plane> planes,
                           std::span<const Count> counts, std::vector<std::string>& lines) {
  PlaneState& state = planes_[plane];
  if (state.stable == 0 && state.failed > 0) ++state.failures;
  state.stable = state.failed;
  if ((state.failed == state.told && state.failures == 0) || !state.budget.take(now)) return;
  lines.push_back(plane_line(plane, planes, counts));
  state.told = state.failed;
  state.failures = 0;
}

std::string PathWatch::plane_line(std::size_t plane, std::span<const Plane> planes,
                                  std::span<const Count> counts) const {
  const PlaneState& state = planes_[plane];
  const Count& count = counts[plane];
  std::string line = planes[plane].text + ": ";
  const unsigned more = state.failed > 0 ? 1 : 0;
  const std::string repeated = state.failures > more
                                   ? ", after " + std::to_string(state.failures - more) +
                                         " more failures since the last line"
                                   : "";
  if (count.failed == 0)
    return line +
           (count.paths == 1 ? "its path works"
                             : "all " + std::to_string(count.paths) + " paths work") +
           " again" + repeated;
  if (count.failed == count.paths)
    line += "none of " + std::to_string(count.paths) +
            (count.paths == 1 ? " path works" : " paths works");
  else
    line += std::to_string(count.failed) + " of " + std::to_string(count.paths) +
            (count.failed == 1 ? " paths does not work" : " paths do not work") +
            list(count.numbers);
  if (peers_.size() > 1 && count.peers.size() == 1) line += " to " + *count.peers.begin();
  unsigned left = 0, all = 0;
  for (std::size_t p = 0; p < planes.size(); ++p) {
    all += counts[p].paths;
    if (planes[p].up) left += counts[p].paths - counts[p].failed;
  }
  line += left == 0 ? "; no path is left: traffic waits for one" : "; " + are(left, all) + " left";
  if (left > 0 && planes.size() > 1) line += " in all planes";
  return line + repeated;
}

bool PathWatch::anything_bad() const noexcept {
  const auto unsettled = [](const PlaneState& state) {
    return state.failed > 0 || state.told > 0 || state.failures > 0;
  };
  const auto bad = [](const auto& entry) {
    const PeerState& peer = entry.second;
    return peer.silent || peer.waiting_since != mrc::kNever ||
           std::any_of(peer.evs.begin(), peer.evs.end(),
                       [](const EvState& ev) { return ev.bad_since != mrc::kNever; });
  };
  return std::any_of(planes_.begin(), planes_.end(), unsettled) ||
         std::any_of(peers_.begin(), peers_.end(), bad);
}

}  // namespace mrc_nccl
