// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/stats_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "mrc/core/system.hpp"
#include "nccl_plugin/settings/environment.hpp"

namespace mrc_nccl {

namespace {

// 0, or an errno value.
int try_to_open(const std::string& name) noexcept {
  using mrc::detail::open_own_file;
  mrc::UniqueFd file = open_own_file(name.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
  const bool made = file.open();
  if (!made && errno == EEXIST) file = open_own_file(name.c_str(), O_WRONLY, 0);
  // ENXIO: a pipe without a reader, which may come before the end.
  if (!file.open()) return errno == ENXIO ? 0 : errno;
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
                      std::system_category().message(error) + mrc::detail::kOwnFileRemedy);
}

int write_stats(const std::string& name, const std::string& text) noexcept {
  const mrc::UniqueFd file = mrc::detail::open_own_file(name.c_str(), O_WRONLY | O_CREAT, 0666);
  if (!file.open()) return errno;
  if (::ftruncate(file.fd(), 0) != 0 && errno != EINVAL) return errno;  // EINVAL: a pipe
  // A pipe's reader may be slow.
  if (::fcntl(file.fd(), F_SETFL, O_WRONLY) != 0) return errno;
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = ::write(file.fd(), text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    written += static_cast<std::size_t>(n);
  }
  return 0;
}

}  // namespace mrc_nccl
