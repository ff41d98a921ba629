// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>

#include "mrc/config.hpp"
#include "mrc/core/histogram.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/plane/stranger_answer.hpp"
#include "mrc/plane/udp_port.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::detail {

/// Answers endpoint requests of hosts to which no queue pair is connected (mrc-1.0 §5), over UDP
/// ports: to the address that the request came from, and there to the process in the slot that it
/// names. Answers are limited (StrangerLimits). Addresses share 64 budgets of one host each, since
/// there are more of them than could be kept; nobody can choose one that shares with another.
/// Nothing is kept of who asks. One thread at a time.
class UdpResponder {
 public:
  /// `allowed`: who gets answers. `key`: random. `number`: of whom the answer goes to, in the port.
  UdpResponder(AllowedPeers allowed, const SipKey& key, PeerId number, std::uint8_t dscp) noexcept
      : allowed_(std::move(allowed)), key_(key), number_(number), dscp_(dscp) {}

  /// Answers by this port; `to_port` is the UDP port of the process that asks. False, and nothing
  /// sent, if it may not have an answer, or there were too many.
  bool answer(Time now, const wire::UnconnectedRequest& request, std::uint16_t to_port,
              port::Port& port) noexcept try {
    if (port::is_unspecified(request.from) || !allowed_.contains(request.from)) return false;
    if (!shares_[siphash(key_, request.from) % shares_.size()].take(now) || !all_.take(now))
      return false;
    const std::span<const port::PortPath> paths = port.paths();
    const port::PortPath& path = paths[value(request.entropy) % paths.size()];
    port::UdpPort::Route route(port::PeerAddress{request.from, to_port});
    route.real_header = true;  // it may be another implementation of MRC
    route.passing = true;
    (void)port.add_peer(number_, port::PeerRoute(route));
    burst_.clear();
    append_answer(burst_, request, number_, {path.ev, request.plane, path.port_path}, dscp_);
    (void)port.transmit(now, burst_, burst_.groups());
    port.remove_peer(number_);
    return true;
  } catch (const std::exception&) {  // out of memory, or no address to send to
    return false;
  }

 private:
  struct Share : TokenBucket {
    Share() noexcept
        : TokenBucket(StrangerLimits::kAnswersPerHost, StrangerLimits::kBurstPerHost) {}
  };

  const AllowedPeers allowed_;
  const SipKey key_;
  const PeerId number_;
  const std::uint8_t dscp_;
  std::array<Share, 64> shares_;
  TokenBucket all_{StrangerLimits::kAnswers, StrangerLimits::kBurst};
  wire::TxBurst burst_{1, 1};
};

}  // namespace mrc::inline v0_1::detail
