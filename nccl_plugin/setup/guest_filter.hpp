// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "mrc/config.hpp"
#include "nccl_plugin/log.hpp"
#include "nccl_plugin/setup/nic.hpp"

namespace mrc_nccl {

/// Option peers_allowed for TCP connections to a listener. One thread at a time.
class GuestFilter {
 public:
  explicit GuestFilter(Nic& nic) : nic_(nic), allowed_(nic.device().config().peers_allowed) {}

  /// May who connects from `peer` stay? Else it is counted, with a line in the
  /// log whenever the count has doubled.
  [[nodiscard]] bool admits(const mrc::port::PeerAddress& peer, const Log& log) {
    if (allowed_.contains(peer.ip)) return true;
    const std::string from = mrc::port::format_address(peer);
    const std::uint64_t count = nic_.count_refused(from);
    if (std::has_single_bit(count))
      log.warn("a connection from " + from + " is refused: MRC_PEERS_ALLOWED leaves it out; " +
               std::to_string(count) + " such connections until now");
    return false;
  }

 private:
  Nic& nic_;
  const mrc::AllowedPeers allowed_;
};

}  // namespace mrc_nccl
