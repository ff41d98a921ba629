// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "mrc/core/unique_fd.hpp"

/// Stream sockets with a name in the file system.
namespace mrc::inline v0_1::control {

/// Listens at `path`, which the caller's user and root alone may connect to. It appears there only
/// once connecting to it succeeds. Non-blocking. Throws mrc::Error.
[[nodiscard]] UniqueFd listen_unix(const std::string& path);
/// Connects to a socket that listens there. Non-blocking. Throws mrc::Error, at once:
/// std::errc::connection_refused: nobody listens any more;
/// std::errc::resource_unavailable_try_again: as many as are possible wait there already.
[[nodiscard]] UniqueFd connect_unix(const std::string& path);

/// Who is at the other end of a connection: the connecting process, or the one that listens.
struct PeerCredentials {
  ::pid_t pid = 0;  ///< 0: it is in another PID namespace
  ::uid_t uid = 0;  ///< as this user namespace sees it
};
/// Throws mrc::Error.
[[nodiscard]] PeerCredentials credentials_of(const UniqueFd& socket);

}  // namespace mrc::inline v0_1::control
