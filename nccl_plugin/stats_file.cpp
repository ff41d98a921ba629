// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/stats_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "mrc/core/host_name.hpp"
#include "nccl_plugin/settings/environment.hpp"

namespace mrc_nccl {

namespace {

// 0, or an errno value.
int try_to_open(const std::string& name) noexcept {
  constexpr int kHow = O_WRONLY | O_CLOEXEC | O_NONBLOCK;
  int fd = ::open(name.c_str(), kHow | O_CREAT | O_EXCL, 0666);
  const bool made = fd >= 0;
  if (!made && errno == EEXIST) fd = ::open(name.c_str(), kHow);
  // ENXIO: a pipe without a reader, which may come before the end.
  if (fd < 0) return errno == ENXIO ? 0 : errno;
  ::close(fd);
  if (made) ::unlink(name.c_str());
  return 0;
}

}  // namespace

std::string stats_file_name(const std::string& pattern) {
  return mrc::file_name_of(pattern);
}

void require_writable_stats(const std::string& pattern) {
  if (pattern.empty()) return;
  const std::string name = stats_file_name(pattern);
  const int error = try_to_open(name);
  if (error == 0) return;
  throw SettingsError("environment variable NCCL_MRC_STATS: value '" + pattern +
                      "': cannot write statistics to " + name + ": " +
                      std::system_category().message(error) +
                      "; name a file in a folder that exists and that this process may write to");
}

}  // namespace mrc_nccl
