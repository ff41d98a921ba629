// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

#include "mrc/core/types.hpp"
#include "nccl_perf/bootstrap.hpp"
#include "nccl_perf/collective.hpp"
#include "nccl_perf/connection.hpp"

namespace mrc::nccl_perf {

/// The network of a rank.
struct Network {
  Net* net = nullptr;
  void* context = nullptr;
  int devices = 0;
};

/// All connections of a rank for one operation, in the order of Peers.
struct Connections {
  std::deque<SendConnection> sends;
  std::deque<ReceiveConnection> receives;
};

/// What set-up needs to know.
struct SetUp {
  const Network& network;
  Bootstrap& bootstrap;
  int rank;
  Duration patience;  ///< a connection that takes longer is an error
};

/// Connects this rank with its peers, as NCCL's service thread does: listens once per receiving
/// connection, exchanges handles, then polls connect and accept of all until they are there. All
/// ranks have to call it. Channels take turns over the devices. Throws Failure and Interrupted.
void connect_all(const SetUp& set_up, const Peers& peers, std::size_t slot, Connections& out);

}  // namespace mrc::nccl_perf
