// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/sim/baseline/dcqcn.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// The reliable connection (RC) of InfiniBand and RoCE: the baseline for comparisons with MRC.
///
/// Behaviour of RC NICs. A queue pair numbers its packets (24-bit PSN) and sends all of them on one
/// path, since ECMP hashes the same addresses and ports. The responder accepts packets in order
/// only; one that arrives early is dropped and answered with a NAK, and the requester goes back to
/// the missing PSN and resends everything from there: go-back-N. One lost packet costs a round trip
/// of sending, and reordering looks like loss. Losses that no NAK reports, such as of the last
/// packets, of the NAK, or of the same packet twice, are detected by a timer with a retry count.
/// The rate is DCQCN's (dcqcn.hpp).
///
/// Modelled (RcSender, RcReceiver): RDMA Write with and without immediate, coalesced ACKs, one NAK
/// per gap, the timer, retries, failure, pacing to a rate, and the packets' real bytes
/// (roce_host.hpp). roce_cluster.hpp runs it on hosts of a fabric.
///
/// Not modelled:
/// - Receiver-not-ready NAKs and end-to-end credits: a receiver always has buffers (favours RC).
/// - Read, Send, atomics: traffic here is Writes.
/// - Selective repeat and out-of-order placement, which the newest NICs offer for adaptively routed
///   networks. Such a NIC is no longer RC on a single path, but a step towards MRC.
/// - Vendors' adaptive retransmission timers, approximated by a fixed timeout far shorter than
///   usual (RcSenderOptions::ack_timeout).
/// - The NIC's own limits: QP context cache, PCIe, processing time (favours RC).
/// - A congestion window, which some NICs have besides the rate; approximated by the fixed window.

/// Packets and events exchanged by the two ends of a simulated RC queue pair, independent of the
/// wire format.

/// A data packet.
struct RcPacket {
  Psn psn;                      ///< packet sequence number
  std::uint32_t payload = 0;    ///< bytes
  bool first = false;           ///< starts a message
  bool last = false;            ///< ends it
  bool notify = false;          ///< carries an immediate; only on the last packet of a message
  bool ack_request = false;     ///< BTH.AckReq: requests an ACK
  bool retransmission = false;  ///< has been sent before; not on the wire
  std::uint64_t message = 0;    ///< its id; used by the receiver in a message's first packet only
  std::uint32_t message_bytes = 0;  ///< likewise
};

/// A message that has arrived complete.
struct RcDelivery {
  std::uint64_t message = 0;  ///< its id
  std::uint32_t bytes = 0;    ///< payload
  bool notify = false;        ///< carried an immediate
};

/// What a receiver sends in response to one packet, and what the packet completed.
struct RcReply {
  /// Kind of the response.
  enum class Kind : std::uint8_t {
    none,
    ack,  ///< everything up to and including psn has arrived
    nak,  ///< PSN sequence error: psn is missing, everything before it has arrived
  };
  Kind kind = Kind::none;  ///< kind of the response
  Psn psn;                 ///< see Kind
  std::uint32_t msn = 0;   ///< AETH.MSN: messages completed, 24 bit
  bool cnp = false;        ///< send a CNP as well
  bool delivered = false;  ///< `delivery` is valid
  RcDelivery delivery;     ///< the message completed by the packet
};

/// A posted message that has completed.
struct RcCompletion {
  std::uint64_t message = 0;  ///< its id
  std::uint32_t bytes = 0;    ///< payload
  bool notify = false;        ///< posted with an immediate
  bool ok = false;            ///< false: the queue pair has failed
  Time at{};                  ///< when it was acknowledged, or when the queue pair failed
};

/// A QP's local ACK timeout by its exponent in the verbs API, 0 .. 31: 4.096 us * 2^exponent. The
/// API's 0, "no timeout", is not supported here.
[[nodiscard]] constexpr Duration rc_ack_timeout(unsigned exponent) noexcept {
  return Duration{std::int64_t{4096} << (exponent & 31)};
}

/// Settings of an RcSender.
struct RcSenderOptions {
  std::uint32_t mtu = 4096;  ///< payload bytes of a full packet, 1 .. 65,000
  /// Payload bytes that may be unacknowledged; one packet is always allowed. RC itself has no
  /// window (only half the PSN space), but NICs limit the bytes in flight per QP. 256 packets of 4
  /// KiB are 8 bandwidth-delay products of a 100 Gb/s port at 10 us, and one at 800 Gb/s: no limit
  /// without congestion, and a bounded queue before the first CNP.
  std::uint64_t window = 1u << 20;
  /// Time without a response after which everything unacknowledged is resent. Exponent 8, 1.05 ms.
  /// Usual settings are 14 .. 20 (67 ms .. 4.3 s), chosen for lossless networks. This one favours
  /// RC under loss and is still well above the delay of a full switch buffer.
  Duration ack_timeout = rc_ack_timeout(8);
  /// Consecutive timeouts or NAKs without progress before the QP fails; 7 is the maximum in verbs,
  /// and the default of libraries.
  unsigned retry_count = 7;
  /// Bytes of a packet on the wire besides its payload, counted by the rate: Ethernet with preamble
  /// and gap 38, IPv6 40, UDP 8, BTH 12, iCRC 4. (RETH and ImmDt are neglected.)
  std::uint32_t overhead = wire::kEthernetLink +
                           wire::envelope_size(false, wire::Encapsulation::none) +
                           sizeof(wire::Bth) + wire::kIcrcSize;
  Psn first_psn{};  ///< PSN of the first packet
};

/// Counters of an RcSender.
struct RcSenderStats {
  std::uint64_t packets = 0;        ///< sent, retransmissions included
  std::uint64_t bytes = 0;          ///< their payload
  std::uint64_t retransmitted = 0;  ///< packets sent that were sent before
  std::uint64_t acks = 0;           ///< received
  std::uint64_t naks = 0;           ///< received
  std::uint64_t stale = 0;          ///< responses to packets already acknowledged or never sent
  std::uint64_t timeouts = 0;       ///< expiries of the retransmission timer
};

/// Requester of one RC queue pair: RDMA Writes of posted messages, in order, one
/// PSN per packet.
///
/// Sans-IO. After each input (post, on_ack, on_nak, on_timer, set_rate) and at next_deadline(),
/// call on_timer(), then poll() until it returns false or the port is full, then poll_completion()
/// until false. Time must not go back between calls. One thread at a time.
class RcSender {
 public:
  /// Largest message, bytes.
  static constexpr std::uint32_t kMaxMessage = std::uint32_t{1} << 31;

  /// Throws Error (invalid_argument) when an option is out of range.
  explicit RcSender(const RcSenderOptions& options = {}) : o_(options) {
    if (o_.mtu == 0 || o_.mtu > 65'000) throw Error(Errc::invalid_argument, "rc: mtu");
    if (o_.ack_timeout <= Duration{0}) throw Error(Errc::invalid_argument, "rc: ack_timeout");
    if (o_.overhead > 1000) throw Error(Errc::invalid_argument, "rc: overhead");
  }

  /// Queues a message of `bytes` (0: one empty packet) with an id chosen by the caller; `notify`:
  /// Write with immediate. Errors: too_long (over kMaxMessage), invalid_state (failed).
  Errc post(std::uint64_t id, std::uint32_t bytes, bool notify) {
    if (bytes > kMaxMessage) return Errc::too_long;
    if (failed_) return Errc::invalid_state;
    const Message m{id, bytes, notify, posted_packets_, posted_bytes_};
    posted_packets_ += std::max((std::uint64_t{bytes} + o_.mtu - 1) / o_.mtu, std::uint64_t{1});
    posted_bytes_ += bytes;
    messages_.push_back(m);
    return Errc::ok;
  }

  /// The next packet to send now; false when there is none: nothing posted, window used up, or
  /// limited by the rate. A packet returned counts as sent.
  [[nodiscard]] bool poll(Time now, RcPacket& out);

  /// An ACK of everything up to and including `psn`.
  void on_ack(Time now, Psn psn);
  /// A NAK (sequence error): `psn` is missing, everything before it has arrived. Goes back to it.
  void on_nak(Time now, Psn psn);
  /// Processes the retransmission timer if it has expired; may be called at any time.
  void on_timer(Time now);
  /// Rate limit in bits/s on the wire (DcqcnReactionPoint::rate()), 0: none. Applies at once.
  void set_rate(std::uint64_t bits_per_second) noexcept { pacer_.set_rate(bits_per_second); }

  /// When to call again without other input: retransmission timer or next paced packet. If not
  /// after now, there is something to send.
  [[nodiscard]] Time next_deadline() const noexcept {
    return sendable() ? std::min(timer_, pacer_.ready()) : timer_;
  }

  /// The next completed message, in order of posting; false when there is none.
  [[nodiscard]] bool poll_completion(RcCompletion& out) {
    if (completions_.empty()) return false;
    out = completions_.front();
    completions_.pop_front();
    return true;
  }

  /// Out of retries: all messages have completed with an error, and nothing is sent any more.
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// Everything posted has been acknowledged.
  [[nodiscard]] bool idle() const noexcept { return messages_.empty(); }
  /// Payload bytes sent and not acknowledged, without those that go-back-N has yet to resend.
  [[nodiscard]] std::uint64_t inflight() const noexcept { return next_bytes_ - unacked_bytes_; }
  /// Bytes of a packet as counted by the rate, for DcqcnReactionPoint::on_send().
  [[nodiscard]] std::uint32_t wire_bytes(const RcPacket& packet) const noexcept {
    return packet.payload + o_.overhead;
  }
  /// Counters.
  [[nodiscard]] const RcSenderStats& stats() const noexcept { return stats_; }

 private:
  // Packets are counted from 0 in 64 bits; the PSN is the low 24.
  struct Message {
    std::uint64_t id;
    std::uint32_t bytes;
    bool notify;
    std::uint64_t first;  // number of its first packet
    std::uint64_t start;  // bytes posted before it
  };
  // Half the PSN space distinguishes new responses from old ones.
  static constexpr std::uint64_t kMaxOutstanding = std::uint64_t{1} << 22;

  [[nodiscard]] Psn psn_of(std::uint64_t packet) const noexcept {
    return Psn{o_.first_psn.value() + static_cast<std::uint32_t>(packet)};
  }
  /// The packet after message `i`.
  [[nodiscard]] std::uint64_t end_of(std::size_t i) const noexcept {
    return i + 1 < messages_.size() ? messages_[i + 1].first : posted_packets_;
  }
  /// Bytes posted before packet number `packet`, which belongs to `m`.
  [[nodiscard]] std::uint64_t position(const Message& m, std::uint64_t packet) const noexcept {
    return m.start + std::min<std::uint64_t>((packet - m.first) * o_.mtu, m.bytes);
  }
  [[nodiscard]] std::uint64_t next_payload() const noexcept {
    const Message& m = messages_[message_];
    return std::min<std::uint64_t>(m.start + m.bytes - next_bytes_, o_.mtu);
  }
  [[nodiscard]] bool sendable() const noexcept {
    return message_ < messages_.size() && next_ - unacked_ < kMaxOutstanding &&
           (inflight() == 0 || inflight() + next_payload() <= o_.window);
  }

  void seek(std::uint64_t packet) noexcept;
  void go_back() noexcept;
  void progress(Time now, std::uint64_t packet);
  [[nodiscard]] bool spend_retry(Time now);

  RcSenderOptions o_;
  Pacer pacer_;
  std::deque<Message> messages_;  // not yet completely acknowledged
  std::deque<RcCompletion> completions_;
  std::uint64_t posted_packets_ = 0, posted_bytes_ = 0;
  std::uint64_t unacked_ = 0, unacked_bytes_ = 0;  // first packet not acknowledged, its position
  std::uint64_t next_ = 0, next_bytes_ = 0;        // next packet to send, its position
  std::size_t message_ = 0;                        // index of the message that next_ is in
  std::uint64_t sent_ = 0;                         // all lower packet numbers have been sent
  std::uint64_t asked_ = 0;  // after the last packet that requested an ACK, unless gone back since
  Time timer_ = kNever;      // runs while asked_ > unacked_
  unsigned retries_ = 0;     // consecutive ones without progress
  bool ask_next_ = false;
  bool failed_ = false;
  RcSenderStats stats_;
};

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

/// Responder of one RC queue pair. Accepts packets in PSN order only. A packet
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
