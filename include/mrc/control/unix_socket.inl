// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "mrc/control/unix_socket.hpp"
#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::control {

namespace detail {

::sockaddr_un unix_address(const std::string& path) {
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error(Errc::invalid_argument, "a socket can't be named " + path + ": at most " +
                                            std::to_string(sizeof address.sun_path - 1) +
                                            " characters are possible");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd unix_socket(int flags) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!socket.open()) throw_errno("can't make a UNIX socket");
  return socket;
}

}  // namespace detail

UniqueFd listen_unix(const std::string& path) {
  constexpr int kBacklog = 64;
  const std::string early = path + "~";  // a name that tools don't try
  const ::sockaddr_un address = detail::unix_address(early);
  UniqueFd socket = detail::unix_socket(SOCK_NONBLOCK);
  const auto* name = reinterpret_cast<const ::sockaddr*>(&address);
  if (::bind(socket.fd(), name, sizeof address) != 0) throw_errno("can't make the socket " + path);
  if (::chmod(early.c_str(), 0600) != 0 || ::listen(socket.fd(), kBacklog) != 0 ||
      ::rename(early.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)::unlink(early.c_str());
    throw_errno("can't make the socket " + path, error);
  }
  return socket;
}

UniqueFd connect_unix(const std::string& path) {
  const ::sockaddr_un address = detail::unix_address(path);
  UniqueFd socket = detail::unix_socket(SOCK_NONBLOCK);
  const auto* name = reinterpret_cast<const ::sockaddr*>(&address);
  while (::connect(socket.fd(), name, sizeof address) != 0)
    if (errno != EINTR) throw_errno("can't connect to " + path);
  return socket;
}

PeerCredentials credentials_of(const UniqueFd& socket) {
  ::ucred peer{};
  ::socklen_t size = sizeof peer;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    throw_errno("can't tell who is at the other end of a UNIX socket");
  return {peer.pid, peer.uid};
}

}  // namespace mrc::inline v0_1::control
