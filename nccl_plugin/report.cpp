// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/report.hpp"

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "mrc/stats_json.hpp"
#include "nccl_plugin/connection.hpp"
#include "nccl_plugin/stats_file.hpp"

namespace mrc_nccl {

namespace {
constexpr std::size_t kMostConnections = 10'000;
}

void Report::add(std::shared_ptr<Nic> nic) {
  if (file_.empty()) return;
  const std::lock_guard lock(mutex_);
  nics_.push_back(std::move(nic));
}

void Report::add(Connection& connection) {
  if (file_.empty()) return;
  Endpoint& endpoint = connection.endpoint();
  nlohmann::json entry{
      {"device", endpoint.nic->facts().name},
      {"role", connection.role() == Role::sender ? "sender" : "receiver"},
      {"peer", endpoint.peer_text()},
      {"qpn", mrc::value(endpoint.qp.qpn())},
      {"lane", endpoint.qp.lane()},
      {"messages", connection.traffic().messages},
      {"bytes", connection.traffic().bytes},
      {"error", endpoint.qp.error_text()},
      {"queue_pair", mrc::to_json(endpoint.qp.stats())},
      {"paths",
       mrc::to_json(std::span<const mrc::PathReport>(endpoint.nic->device().paths(endpoint.qp)))}};
  const std::lock_guard lock(mutex_);
  if (connections_.size() < kMostConnections)
    connections_.push_back(entry.dump());
  else
    ++left_out_;
}

std::string Report::text() {
  const std::lock_guard lock(mutex_);
  nlohmann::json all{{"version", OPENMRC_VERSION}, {"process", process_name()}};
  all["devices"] = nlohmann::json::array();
  for (const auto& nic : nics_) {
    nlohmann::json device = mrc::to_json(nic->device().stats());
    device["name"] = nic->facts().name;
    device["registered_ranges"] = nic->memory().size();
    const Nic::Refused refused = nic->refused();
    device["tcp_refused"] = refused.count;
    device["tcp_refused_last"] = refused.last;
    all["devices"].push_back(std::move(device));
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
    std::FILE* file = std::fopen(name.c_str(), "w");
    const bool written =
        file != nullptr && std::fwrite(content.data(), 1, content.size(), file) == content.size();
    const int error = errno;
    const bool closed = file != nullptr && std::fclose(file) == 0;
    if (written && closed)
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
