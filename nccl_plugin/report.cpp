// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/report.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "mrc/stats_json.hpp"
#include "nccl_plugin/data/connection.hpp"
#include "nccl_plugin/stats_file.hpp"

namespace mrc_nccl {

namespace {

constexpr std::size_t kMostConnections = 10'000, kMostPeers = 10'000;

/// "2026-11-24T15:04:05.678Z".
std::string utc(std::chrono::system_clock::time_point time) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%FT%T", &parts);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03dZ", static_cast<int>(ms % 1000));
  return std::string(text.data(), length) + fraction.data();
}

}  // namespace

void Report::add(std::shared_ptr<Nic> nic) {
  if (file_.empty()) return;
  const std::lock_guard lock(mutex_);
  nics_.push_back(std::move(nic));
}

void Report::add(Connection& connection) {
  if (file_.empty()) return;
  Endpoint& endpoint = connection.endpoint();
  const std::string device = endpoint.nic->facts().name;
  const bool sends = connection.role() == Role::sender;
  const Connection::Traffic traffic = connection.traffic();
  const mrc::QpStats stats = endpoint.qp.stats();
  const std::string error = endpoint.qp.error_text();
  const nlohmann::json entry{{"device", device},
                             {"role", sends ? "sender" : "receiver"},
                             {"peer", endpoint.peer_text()},
                             {"peer_number", endpoint.peer_number},
                             {"qpn", mrc::value(endpoint.qp.qpn())},
                             {"lane", endpoint.qp.lane()},
                             {"messages", traffic.messages},
                             {"bytes", traffic.bytes},
                             {"error", error},
                             {"queue_pair", mrc::to_json(stats)}};
  const std::lock_guard lock(mutex_);
  Sums& sums = sums_[device];
  ++sums["connections"];
  sums["connections_failed"] += connection.failed();
  sums[sends ? "messages_sent" : "messages_received"] += traffic.messages;
  sums[sends ? "bytes_sent" : "bytes_received"] += traffic.bytes;
  for (const auto& [name, value] : {std::pair{"tx_packets", stats.tx_packets},
                                    {"tx_bytes", stats.tx_bytes},
                                    {"rx_packets", stats.rx_packets},
                                    {"rx_bytes", stats.rx_bytes},
                                    {"retransmits", stats.retransmits},
                                    {"timeouts", stats.timeouts}})
    sums[name] += value;
  add_peer(connection, device);
  if (connections_.size() < kMostConnections)
    connections_.push_back(entry.dump());
  else
    ++left_out_;
}

/// Under the lock. Counters of paths only grow, so those of the newest connection stand for all.
void Report::add_peer(Connection& connection, const std::string& device) {
  Endpoint& endpoint = connection.endpoint();
  const PeerId id{device, endpoint.peer_number};
  if (!peers_.contains(id) && peers_.size() >= kMostPeers) return;
  Peer& peer = peers_[id];
  ++peer.connections;
  const auto paths = endpoint.nic->device().paths(endpoint.qp);
  if (paths.empty() && !peer.text.empty()) return;
  peer.text = nlohmann::json{{"device", device},
                             {"number", endpoint.peer_number},
                             {"process", endpoint.peer_name},
                             {"lane", endpoint.qp.lane()},
                             {"paths", mrc::to_json(std::span<const mrc::PathReport>(paths))}}
                  .dump();
}

std::string Report::text() {
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - started_steady_;
  nlohmann::json all{
      {"version", OPENMRC_VERSION}, {"process", process_name()}, {"rank", nullptr},
      {"rank_variable", nullptr},   {"started", utc(started_)},  {"duration_s", duration.count()}};
  if (rank_) {
    all["rank"] = rank_->number;
    all["rank_variable"] = rank_->variable;
  }
  all["devices"] = nlohmann::json::array();
  for (const auto& nic : nics_) {
    nlohmann::json device = mrc::to_json(nic->device().stats());
    device["name"] = nic->facts().name;
    device["registered_ranges"] = nic->memory().size();
    const Nic::Refused refused = nic->refused();
    device["tcp_refused"] = refused.count;
    device["tcp_refused_last"] = refused.last;
    device["sums"] = sums_[nic->facts().name];
    all["devices"].push_back(std::move(device));
  }
  all["peers"] = nlohmann::json::array();
  for (const auto& [id, peer] : peers_) {
    all["peers"].push_back(nlohmann::json::parse(peer.text));
    all["peers"].back()["connections"] = peer.connections;
  }
  all["connections"] = nlohmann::json::array();
  for (const std::string& entry : connections_)
    all["connections"].push_back(nlohmann::json::parse(entry));
  if (left_out_ > 0) all["connections_left_out"] = left_out_;
  return all.dump(1) + "\n";
}

void Report::write(const Log& log) noexcept {
  if (file_.empty()) return;
  try {
    const std::string name = stats_file_name(file_), content = text();
    const int error = write_stats(name, content);
    if (error == 0)
      log.info("statistics are in " + name);
    else
      log.warn("cannot write statistics to " + name +
               " (NCCL_MRC_STATS): " + std::system_category().message(error));
  } catch (const std::exception& error) {
    log.warn(std::string("no statistics: ") + error.what());
  }
  const std::lock_guard lock(mutex_);
  nics_.clear();
}

}  // namespace mrc_nccl
