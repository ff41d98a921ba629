// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "nccl_plugin/abi/types.hpp"
#include "nccl_plugin/data/clear_to_send.hpp"

namespace mrc_nccl {

class Connection;

/// A send, or a grouped receive, from isend() or irecv() until test() has said that it is done.
/// Belongs to its connection; NCCL knows it as an opaque pointer. One thread at a time.
struct Request {
  Connection* connection = nullptr;
  bool used = false;
  bool done = false;
  bool copied = false;                           ///< done before its data has arrived
  unsigned count = 0;                            ///< buffers
  std::array<std::uint32_t, kMaxGroup> sizes{};  ///< bytes sent or received
  std::array<void*, kMaxGroup> events{};         ///< handles of the profiler's events
};

}  // namespace mrc_nccl
