// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/peer_watch.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "mrc_ctl/devices.hpp"
#include "mrc_ctl/serve/http.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

constexpr std::size_t kMostOfAll = 4 << 20;
constexpr int kDeepest = 12;
constexpr const char* kSpace = " \t\r\n";

}  // namespace

bool is_snapshot(std::string_view body) {
  // The parser takes a NUL for the end, and skips a mark of byte order.
  if (body.substr(std::min(body.find_first_not_of(kSpace), body.size())).substr(0, 1) != "{" ||
      body.find('\0') != std::string_view::npos)
    return false;
  bool too_deep = false;
  // Only these two fields are kept, without what is in them.
  const auto keep = [&too_deep](int depth, Json::parse_event_t event, const Json& parsed) {
    too_deep = too_deep || depth > kDeepest;
    if (event == Json::parse_event_t::key)
      return depth == 1 && (parsed == "host" || parsed == "devices");
    return depth <= 1;
  };
  const Json json = Json::parse(body, keep, false);
  return !too_deep && control::has_field(json, "host", &Json::is_string) &&
         control::has_field(json, "devices", &Json::is_array);
}

PeerWatch::Peer::Peer(HostPort where, Duration most, std::size_t bytes)
    : at(std::move(where)), patience(most), share(bytes), errand([this] { fetch(); }) {}

/// The errand: must not throw.
void PeerWatch::Peer::fetch() try {
  Fetched answer = http_get(at, "/api/snapshot", patience, share);
  if (answer.problem.empty() && !is_snapshot(answer.body)) answer = {{}, kNoServe};
  answer.body.erase(answer.body.find_last_not_of(kSpace) + 1);
  const std::lock_guard lock(mutex);
  problem = std::move(answer.problem);
  newest = std::move(answer.body);
} catch (const std::exception& error) {
  const std::lock_guard lock(mutex);
  problem = error.what();
  newest.clear();
}

PeerWatch::PeerWatch(std::vector<HostPort> peers, Duration patience) : patience_(patience) {
  for (HostPort& at : peers)
    peers_.push_back(std::make_unique<Peer>(std::move(at), patience, kMostOfAll / peers.size()));
}

std::vector<std::string> PeerWatch::snapshots() {
  const std::lock_guard asking(asking_);
  for (auto& peer : peers_) try {
      (void)peer->errand.ask();
    } catch (const std::system_error&) {
      const std::lock_guard lock(peer->mutex);
      peer->problem = kNoThread;
      peer->newest.clear();
    }
  const Time deadline = monotonic_now() + patience_;
  std::vector<std::string> all;
  for (auto& peer : peers_) {
    const bool done = peer->errand.done_by(peer->answers ? deadline : monotonic_now());
    const std::lock_guard lock(peer->mutex);
    if (!done && peer->answers) {
      peer->newest.clear();
      peer->problem = "it does not answer in time";
    }
    peer->answers = !peer->newest.empty();
    Json ours = {{"at", to_string(peer->at)}};
    if (!peer->problem.empty()) ours["problem"] = peer->problem;
    // Behind its own fields, whatever they are: of two with one name the later one counts.
    std::string& entry = all.emplace_back(peer->newest);
    if (!entry.empty()) entry.back() = ',';
    entry += json_text(ours, -1).substr(entry.empty() ? 0 : 1);
  }
  return all;
}

}  // namespace mrc::ctl_tool
