// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nccl_plugin/log.hpp"

namespace mrc_nccl {

class Connection;
class Nic;

/// Counters of devices, connections and paths, written as JSON when the plugin is finalised
/// (NCCL_MRC_STATS). Any thread.
class Report {
 public:
  /// `file`: see stats_file_name(); empty for none.
  explicit Report(std::string file) : file_(std::move(file)) {}

  void add(std::shared_ptr<Nic> nic);
  /// Remembers the counters of a connection that is about to be closed.
  void add(Connection& connection);
  /// Writes the file; a line in the log says where, or why not.
  void write(const Log& log) noexcept;

 private:
  [[nodiscard]] std::string text();

  const std::string file_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Nic>> nics_;
  std::vector<std::string> connections_;  // JSON
  std::size_t left_out_ = 0;              // connections
};

}  // namespace mrc_nccl
