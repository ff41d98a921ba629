// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "mrc/core/unique_fd.hpp"

namespace mrc::inline v0_1::detail {

/// What to say of a file that open_own_file() could not open.
inline constexpr const char* kOwnFileRemedy =
    "; name a file of this user's, or a new one, in a folder that exists and that this process may "
    "write to; links are not followed";

/// Opens a file to be written to whose name others may know, in a folder such as /tmp: no symbolic
/// link is followed, and what is there must be of this user, and a file without other names, or a
/// pipe. Devices, which only root makes, will do. `flags` as of open(2), to which O_NOFOLLOW,
/// O_CLOEXEC and O_NONBLOCK are added; O_TRUNC would act before anything is checked. None: errno
/// says why, EPERM that it is somebody else's.
[[nodiscard]] inline UniqueFd open_own_file(const char* path, int flags, ::mode_t mode) noexcept {
  UniqueFd file(::open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mode));
  struct stat is {};
  if (!file.open()) return file;
  if (::fstat(file.fd(), &is) != 0) return UniqueFd();
  const bool own = is.st_uid == ::geteuid();
  if (S_ISCHR(is.st_mode) || (S_ISFIFO(is.st_mode) && own) ||
      (S_ISREG(is.st_mode) && own && is.st_nlink <= 1))
    return file;
  file.close();
  errno = EPERM;
  return file;
}

}  // namespace mrc::inline v0_1::detail
