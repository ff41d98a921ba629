// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/peer_watch.hpp"

#include <utility>

#include "mrc_ctl/devices.hpp"
#include "mrc_ctl/serve/http.hpp"

namespace mrc::ctl_tool {

Json checked_snapshot(const std::string& body) {
  Json json = object_of(body, 12);
  const auto host = json.find("host"), devices = json.find("devices");
  if (host == json.end() || !host->is_string()) return nullptr;
  if (devices == json.end() || !devices->is_array()) return nullptr;
  return json;
}

PeerWatch::Peer::Peer(HostPort where, Duration most)
    : at(std::move(where)), patience(most), errand([this] { fetch(); }) {}

/// The errand: must not throw.
void PeerWatch::Peer::fetch() try {
  const Fetched answer = http_get(at, "/api/snapshot", patience);
  Json snapshot = answer.problem.empty() ? checked_snapshot(answer.body) : Json();
  const std::lock_guard lock(mutex);
  problem = answer.problem;
  if (problem.empty() && snapshot.is_null()) problem = "what answers is no `mrc_ctl serve`";
  newest = std::move(snapshot);
} catch (const std::exception& error) {
  const std::lock_guard lock(mutex);
  problem = error.what();
  newest = nullptr;
}

PeerWatch::PeerWatch(std::vector<HostPort> peers, Duration patience) : patience_(patience) {
  for (HostPort& at : peers) peers_.push_back(std::make_unique<Peer>(std::move(at), patience));
}

std::vector<Json> PeerWatch::snapshots() {
  const std::lock_guard asking(asking_);
  for (auto& peer : peers_) (void)peer->errand.ask();
  const Time deadline = monotonic_now() + patience_;
  std::vector<Json> all;
  for (auto& peer : peers_) {
    const bool done = peer->errand.done_by(peer->answers ? deadline : monotonic_now());
    const std::lock_guard lock(peer->mutex);
    if (!done && peer->answers) {
      peer->newest = nullptr;
      peer->problem = "it does not answer in time";
    }
    peer->answers = peer->newest.is_object();
    Json entry = peer->answers ? peer->newest : Json::object();
    if (!peer->problem.empty()) entry["problem"] = peer->problem;
    entry["at"] = to_string(peer->at);
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace mrc::ctl_tool
