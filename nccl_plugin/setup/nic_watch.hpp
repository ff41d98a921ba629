// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nccl_plugin/log.hpp"
#include "nccl_plugin/rules/path_watch.hpp"
#include "nccl_plugin/setup/nic.hpp"

namespace mrc_nccl {

/// Tells NCCL's log when planes and paths of a device fail and return. Paths are looked at only
/// while something is wrong with them. One thread at a time.
class NicWatch {
 public:
  /// Throws mrc::Error.
  explicit NicWatch(std::shared_ptr<Nic> nic);

  /// Writes what has happened since the last call.
  void report(const Log& log) noexcept;

 private:
  // The link of a plane.
  struct Link {
    bool up = true;
    bool told_up = true;
    mrc::TokenBucket budget = kLineBudget;
  };

  void report_planes(const Log& log);
  void tell_link(const Log& log, std::size_t plane);
  [[nodiscard]] std::string down_text() const;
  void report_paths(const Log& log);

  std::shared_ptr<Nic> nic_;
  mrc::EvEventStream events_;
  std::vector<Link> links_;
  PathWatch paths_;
  bool changed_ = false;   // paths, since they were looked at
  mrc::Time next_look_{};  // at the paths, at the earliest
};

}  // namespace mrc_nccl
