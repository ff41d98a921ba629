// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>

/// Names of this machine and of files for its processes.
namespace mrc::inline v0_1 {

/// As the kernel calls this host; "?" if it does not say. Any thread.
[[nodiscard]] inline std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

/// A file's name from a pattern of the user's, in which %h and %p stand for host name and process
/// id. Any thread.
[[nodiscard]] inline std::string file_name_of(std::string_view pattern) {
  std::string name;
  while (!pattern.empty()) {
    const bool is_host = pattern.starts_with("%h"), is_pid = pattern.starts_with("%p");
    if (is_host) name += host_name();
    if (is_pid) name += std::to_string(::getpid());
    if (!is_host && !is_pid) name += pattern.front();
    pattern.remove_prefix(is_host || is_pid ? 2 : 1);
  }
  return name;
}

}  // namespace mrc::inline v0_1
