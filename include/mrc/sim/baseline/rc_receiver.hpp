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
  Psn first_psn{};
  /// Packets in order that are answered with one ACK when no packet asks for one before; from 1.
  /// NICs choose freely; 16 (64 KiB) costs the way back 0.1 % and keeps a window of 1 MiB moving.
  std::uint32_t ack_every = 16;
  Duration cnp_interval = DcqcnNotificationPoint::kDefaultInterval;
};

/// Counters of an RcReceiver.
struct RcReceiverStats {
  std::uint64_t packets = 0;       ///< all that arrived
  std::uint64_t out_of_order = 0;  ///< dropped: an earlier one is missing
  std::uint64_t duplicates = 0;    ///< dropped: had arrived before
  std::uint64_t acks = 0, naks = 0, cnps = 0;
  std::uint64_t messages = 0, bytes = 0;  ///< delivered; payload taken
};

/// Responder of one RC queue pair (go_back_n.hpp). It takes packets in PSN order only. A packet
/// ahead of its turn is dropped and answered with a NAK, but with one per gap: until the expected
/// PSN arrives, further packets are dropped silently, so that one loss makes the requester go back
/// once. A duplicate is answered with an ACK of all that has arrived, since it may mean that an ACK
/// was lost. Of a duplicate's payload nothing is taken.
///
/// Sans-IO. Packets that failed their iCRC are not handed in. A plain value; one thread at a time.
class RcReceiver {
 public:
  explicit RcReceiver(const RcReceiverOptions& options = {}) noexcept
      : ack_every_(std::max(options.ack_every, 1u)),
        expected_(options.first_psn),
        notification_(options.cnp_interval) {}

  /// A packet has arrived; `marked`: with ECN "congestion experienced". The reply is to be sent at
  /// once. A mark counts whether or not the packet is taken.
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

  /// The next PSN that will be taken.
  [[nodiscard]] Psn expected() const noexcept { return expected_; }
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
    unanswered_ = 0;  // a NAK acknowledges what is before it
  }

  std::uint32_t ack_every_;
  Psn expected_;
  std::uint32_t unanswered_ = 0;  // packets taken since the last answer
  bool gap_reported_ = false;
  RcDelivery current_;  // the message being received
  DcqcnNotificationPoint notification_;
  RcReceiverStats stats_;
};

}  // namespace mrc::inline v0_1::sim::baseline
