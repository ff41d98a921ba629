// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "mrc/api/device_config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/exchange/connection_info.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1::detail {

/// Option peers_allowed in a lane: which hosts may connect, and how often others tried.
///
/// Thread contract: refuses() and refused() under the lane's lock; the others any thread. What the
/// constructor takes must outlive it.
class PeerFilter {
 public:
  PeerFilter(const Config& config, const Log& log) : allowed_(config.peers_allowed), log_(log) {}

  /// Nobody is refused: nothing has to be asked.
  [[nodiscard]] bool everybody() const noexcept { return allowed_.everybody(); }

  /// Something came from that host, which is not allowed: counted. A line in the log for the first,
  /// and whenever the count has doubled: floods do not fill the log.
  [[nodiscard]] bool refuses(const port::IpAddress& from) {
    if (allowed_.contains(from)) return false;
    if (std::has_single_bit(++refused_))
      log_.warn("what comes from " + port::format_ip(from) +
                " is dropped: option peers_allowed leaves it out; " + std::to_string(refused_) +
                " such packets until now");
    return true;
  }
  /// How often refuses() was true.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

  /// Throws mrc::Error if a host with that address may not be connected to.
  void check(const port::IpAddress& ip) const {
    if (!allowed_.contains(ip))
      throw Error(Errc::unreachable,
                  "peer " + port::format_ip(ip) + ": option peers_allowed leaves it out");
  }
  /// The same for all planes of a peer that are known.
  void check(const ConnectionInfo& info) const {
    for (const port::PeerAddress& plane : info.planes)
      if (plane.udp_port != 0) check(plane.ip);
  }

 private:
  const AllowedPeers allowed_;
  const Log& log_;
  std::uint64_t refused_ = 0;
};

}  // namespace mrc::inline v0_1::detail
