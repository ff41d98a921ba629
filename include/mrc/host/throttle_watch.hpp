// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::detail {

/// Notices that the kernel stops this process because its control group, or one above it, has used
/// up its processor time (cgroup, `cpu.max` or `cpu.cfs_quota_us`).
///
/// Thread contract: one thread at a time.
class ThrottleWatch {
 public:
  /// What has happened since the object was made.
  struct Throttled {
    std::filesystem::path group;  ///< folder of the group
    std::uint64_t times = 0;
    Duration time{};  ///< all together
  };

  /// `groups`: where control groups are mounted; `own`: the file that names this process's.
  explicit ThrottleWatch(const std::filesystem::path& groups = "/sys/fs/cgroup",
                         const std::filesystem::path& own = "/proc/self/cgroup");
  /// The innermost group that was stopped; nothing if none was, or if nobody can know. Reads a file
  /// for each group.
  [[nodiscard]] std::optional<Throttled> look() const;
  /// True for the first who asks: devices of a process are stopped together, and one says so.
  [[nodiscard]] static bool first_to_tell() noexcept;

 private:
  std::vector<Throttled> before_;  ///< groups with a quota file, from the innermost one on
};

}  // namespace mrc::inline v0_1::detail
