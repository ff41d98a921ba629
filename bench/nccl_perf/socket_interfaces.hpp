// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

namespace mrc::nccl_perf {

/// An address of either family.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};
[[nodiscard]] inline socklen_t size_of(const SocketAddress& a) noexcept {
  return a.any.sa_family == AF_INET6 ? sizeof a.v6 : sizeof a.v4;
}

/// An interface that the transport may use.
struct SocketInterface {
  std::string name;
  SocketAddress address{};
};

/// Interfaces that are up, each with its first address that is not link-local. `allowed` is
/// NCCL_SOCKET_IFNAME: prefixes of names, `=`: whole names, `^` in front: all but these. If it is
/// empty: all but loopback and docker's, or if there are no others, loopback.
[[nodiscard]] std::vector<SocketInterface> socket_interfaces(const std::string& allowed);

}  // namespace mrc::nccl_perf
