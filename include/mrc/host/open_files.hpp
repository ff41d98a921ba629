// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>

/// How many files this process has open, and may open.
namespace mrc::inline v0_1::detail {

/// Descriptors that this process has open; 0 where that can't be found out.
[[nodiscard]] inline std::size_t open_files() noexcept {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  std::size_t n = 0;
  while (::readdir(directory) != nullptr) ++n;
  ::closedir(directory);
  return n - std::min<std::size_t>(n, 3);  // ".", "..", and the one that reads
}

/// How many it may open (`ulimit -n`).
[[nodiscard]] inline std::size_t allowed_files() noexcept {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? limit.rlim_cur : static_cast<std::size_t>(-1);
}

/// Whether a device may open so many more, if `open` are: an eighth of those that the process may
/// open are left to the application.
[[nodiscard]] inline bool may_open(std::size_t open, std::size_t more) noexcept {
  const std::size_t allowed = allowed_files();
  return open + more <= allowed - allowed / 8;
}

}  // namespace mrc::inline v0_1::detail
