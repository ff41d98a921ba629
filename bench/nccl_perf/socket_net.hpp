// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "nccl_plugin/host/net.hpp"

namespace mrc::nccl_perf {

/// NCCL's settings of its socket transport. On machines of clouds that it does not know, both are 0
/// by default: one connection, which test() drives.
struct SocketSettings {
  int sockets_per_thread = 0;
  int threads = 0;
  std::string congestion;  ///< TCP's congestion control; empty: the machine's default
  [[nodiscard]] int sockets() const noexcept { return sockets_per_thread * threads; }
};

/// TCP as NCCL's socket transport uses it, as far as that matters for speed: a device per
/// interface; per message 4 bytes that tell its size, with the first 128 bytes of data; then the
/// data, read and written by test() without blocking. With helper threads messages are cut into
/// pieces of at least 64 KiB, which go over several connections.
[[nodiscard]] std::unique_ptr<nccl_host::Net> make_socket_net(SocketSettings settings);

}  // namespace mrc::nccl_perf
