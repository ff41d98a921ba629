// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/log.hpp"
#include "nccl_plugin/settings/rank.hpp"

namespace mrc_nccl {

class Connection;
class Nic;

/// Counters of devices, peers, paths and connections, written as JSON when the plugin is finalised
/// or the process ends (NCCL_MRC_STATS). Any thread.
class Report {
 public:
  /// `file`: see stats_file_name(); empty for none.
  Report(std::string file, std::optional<ProcessRank> rank)
      : file_(std::move(file)),
        rank_(std::move(rank)),
        started_(std::chrono::system_clock::now()),
        started_steady_(std::chrono::steady_clock::now()) {}

  void add(std::shared_ptr<Nic> nic);
  /// Remembers the counters of a connection that is about to be closed, and of its peer's paths.
  void add(Connection& connection);
  /// Writes the file; a line in the log says where, or why not.
  void write(const Log& log) noexcept;

 private:
  /// A device and the number of a peer there (Peers).
  using PeerId = std::pair<std::string, std::uint64_t>;
  struct Peer {
    std::string text;  // JSON
    unsigned connections = 0;
  };
  // Over all closed connections of a device, by name.
  using Sums = std::map<std::string, std::uint64_t>;

  void add_peer(Connection& connection, const std::string& device);
  [[nodiscard]] std::string text();

  const std::string file_;
  const std::optional<ProcessRank> rank_;
  const std::chrono::system_clock::time_point started_;
  const std::chrono::steady_clock::time_point started_steady_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Nic>> nics_;
  std::map<PeerId, Peer> peers_;
  std::map<std::string, Sums> sums_;      // by device
  std::vector<std::string> connections_;  // JSON
  std::size_t left_out_ = 0;              // connections
};

}  // namespace mrc_nccl
