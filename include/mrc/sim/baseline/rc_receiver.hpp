// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/sim/baseline/dcqcn.hpp"
#include "mrc/sim/baseline/rc_packet.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// Settings of an RcReceiver.
struct RcReceiverOptions {
  Psn first_psn{};  ///< PSN of the first packet
  /// In-order packets per ACK unless a packet requests one earlier; from 1. NICs choose freely;
  /// with 16 (64 KiB) ACKs use 0.1 % of the reverse path, and a window of 1 MiB keeps moving.
  std::uint32_t ack_every = 16;
  /// Minimum time between two CNPs.
  Duration cnp_interval = DcqcnNotificationPoint::kDefaultInterval;
};

/// Counters of an RcReceiver.
struct RcReceiverStats {
  std::uint64_t packets = 0;       ///< all that arrived
  std::uint64_t out_of_order = 0;  ///< dropped: an earlier packet is missing
  std::uint64_t duplicates = 0;    ///< dropped: received before
  std::uint64_t acks = 0;          ///< sent
  std::uint64_t naks = 0;          ///< sent
  std::uint64_t cnps = 0;          ///< requested by on_packet()
  std::uint64_t messages = 0;      ///< delivered
  std::uint64_t bytes = 0;         ///< payload accepted
};

/// Responder of one RC queue pair (go_back_n.hpp). Accepts packets in PSN order only. A packet
/// above the expected PSN is dropped and answered with one NAK per gap: until the expected PSN
/// arrives, further packets are dropped silently, so that one loss makes the requester go back
/// once. A duplicate is answered with an ACK of everything received, since an ACK may have been
/// lost; its payload is discarded.
///
/// Sans-IO. Packets with a bad iCRC must not be passed in. A plain value; one thread at a time.
class RcReceiver {
 public:
  /// A receiver that expects `first_psn`.
  explicit RcReceiver(const RcReceiverOptions& options = {}) noexcept
      : ack_every_(std::max(options.ack_every, 1u)),
        expected_(options.first_psn),
        notification_(options.cnp_interval) {}

  /// A packet has arrived; `marked`: with ECN CE. The response is to be sent at once. A mark counts
  /// whether or not the packet is accepted.
  [[nodiscard]] RcReply on_packet(Time now, const RcPacket& packet, bool marked) noexcept {
    ++stats_.packets;
    RcReply reply;
    reply.cnp = notification_.on_packet(now, marked);
    stats_.cnps += reply.cnp;
    const std::int32_t ahead = packet.psn - expected_;
    if (ahead == 0) {
      take(packet, reply);
    } else if (ahead < 0) {
      ++stats_.duplicates;
      answer(RcReply::Kind::ack, reply);
    } else {
      ++stats_.out_of_order;
      if (!gap_reported_) answer(RcReply::Kind::nak, reply);
      gap_reported_ = true;
    }
    return reply;
  }

  /// The next PSN to be accepted.
  [[nodiscard]] Psn expected() const noexcept { return expected_; }
  /// Counters.
  [[nodiscard]] const RcReceiverStats& stats() const noexcept { return stats_; }

 private:
  void take(const RcPacket& packet, RcReply& reply) noexcept {
    gap_reported_ = false;
    ++expected_;
    if (packet.first) current_ = {.message = packet.message};
    current_.bytes += packet.payload;
    stats_.bytes += packet.payload;
    if (packet.last) {
      current_.notify = packet.notify;
      reply.delivered = true;
      reply.delivery = current_;
      ++stats_.messages;
    }
    ++unanswered_;
    if (packet.ack_request || unanswered_ >= ack_every_) answer(RcReply::Kind::ack, reply);
  }

  void answer(RcReply::Kind kind, RcReply& reply) noexcept {
    const bool nak = kind == RcReply::Kind::nak;
    reply.kind = kind;
    reply.psn = nak ? expected_ : expected_ - 1;
    reply.msn = static_cast<std::uint32_t>(stats_.messages) & Psn::kMask;
    ++(nak ? stats_.naks : stats_.acks);
    unanswered_ = 0;  // a NAK acknowledges everything before it
  }

  std::uint32_t ack_every_;
  Psn expected_;
  std::uint32_t unanswered_ = 0;  // packets accepted since the last response
  bool gap_reported_ = false;
  RcDelivery current_;  // the message being received
  DcqcnNotificationPoint notification_;
  RcReceiverStats stats_;
};

}  // namespace mrc::inline v0_1::sim::baseline
