// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "nccl_plugin/log.hpp"
#include "nccl_plugin/nic.hpp"

namespace mrc_nccl {

/// Tells NCCL's log once when a plane goes or comes back, and when many paths of a plane do. One
/// thread at a time.
class NicWatch {
 public:
  /// Throws mrc::Error.
  explicit NicWatch(std::shared_ptr<Nic> nic);

  /// Writes what has happened since the last call.
  void report(const Log& log) noexcept;

 private:
  struct PlanePaths {
    std::set<std::pair<mrc::port::IpAddress, mrc::Ev>> bad;  // ASSUMED_BAD now
    int told = 0;         // of these, how many the log was told of
    mrc::Time changed{};  // last
  };

  void report_planes(const Log& log);
  void report_paths(const Log& log);
  void note(const mrc::EvEvent& event, mrc::Time now);

  std::shared_ptr<Nic> nic_;
  mrc::EvEventStream paths_;
  std::vector<PlanePaths> planes_;
};

}  // namespace mrc_nccl
