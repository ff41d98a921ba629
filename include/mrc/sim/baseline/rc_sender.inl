// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/baseline/rc_sender.hpp"

namespace mrc::inline v0_1::sim::baseline {

bool RcSender::poll(Time now, RcPacket& out) {
  if (!sendable() || pacer_.ready() > now) return false;
  const Message& m = messages_[message_];
  out = {};
  out.psn = psn_of(next_);
  out.payload = static_cast<std::uint32_t>(next_payload());
  out.first = next_ == m.first;
  out.last = next_ + 1 == end_of(message_);
  out.notify = out.last && m.notify;
  out.retransmission = next_ < sent_;
  out.message = m.id;
  out.message_bytes = m.bytes;
  ++next_;
  next_bytes_ += out.payload;
  // A packet after which the sender may have to wait requests an ACK; so does the first packet
  // after going back, so that its loss is detected before the message's end.
  out.ack_request = out.last || ask_next_ || inflight() + o_.mtu > o_.window;
  ask_next_ = false;
  if (out.ack_request) {
    asked_ = next_;
    if (timer_ == kNever) timer_ = now + o_.ack_timeout;
  }
  if (out.last) ++message_;
  sent_ = std::max(sent_, next_);
  pacer_.on_send(now, wire_bytes(out));
  ++stats_.packets;
  stats_.bytes += out.payload;
  stats_.retransmitted += out.retransmission;
  return true;
}

void RcSender::on_ack(Time now, Psn psn) {
  ++stats_.acks;
  const std::int32_t ahead = psn - psn_of(unacked_);
  if (failed_ || ahead < 0 || unacked_ + static_cast<std::uint32_t>(ahead) >= sent_) {
    ++stats_.stale;
    return;
  }
  progress(now, unacked_ + static_cast<std::uint32_t>(ahead) + 1);
}

void RcSender::on_nak(Time now, Psn psn) {
  ++stats_.naks;
  const std::int32_t ahead = psn - psn_of(unacked_);
  if (failed_ || ahead < 0 || unacked_ + static_cast<std::uint32_t>(ahead) >= sent_) {
    ++stats_.stale;
    return;
  }
  if (ahead > 0) progress(now, unacked_ + static_cast<std::uint32_t>(ahead));
  if (next_ > unacked_ && spend_retry(now)) go_back();
}

void RcSender::on_timer(Time now) {
  if (timer_ > now) return;
  ++stats_.timeouts;
  if (spend_retry(now)) go_back();
}

/// Makes `packet` the next to send; it belongs to an incomplete message or is the next to be
/// posted.
void RcSender::seek(std::uint64_t packet) noexcept {
  while (message_ > 0 && (message_ == messages_.size() || messages_[message_].first > packet))
    --message_;
  while (message_ < messages_.size() && end_of(message_) <= packet) ++message_;
  next_ = packet;
  next_bytes_ = message_ < messages_.size() ? position(messages_[message_], packet) : posted_bytes_;
}

void RcSender::go_back() noexcept {
  seek(unacked_);
  asked_ = unacked_;
  timer_ = kNever;  // restarts with the first packet, which the rate may delay
  ask_next_ = true;
}

/// Everything before `packet`, which is after unacked_, has arrived.
void RcSender::progress(Time now, std::uint64_t packet) {
  while (!messages_.empty() && end_of(0) <= packet) {
    const Message& m = messages_.front();
    completions_.push_back({m.id, m.bytes, m.notify, true, now});
    messages_.pop_front();
    if (message_ > 0) --message_;
  }
  unacked_ = packet;
  unacked_bytes_ = messages_.empty() ? posted_bytes_ : position(messages_.front(), packet);
  // Responses to packets sent before going back may still arrive and make resending unnecessary.
  if (next_ < unacked_) seek(unacked_);
  retries_ = 0;
  timer_ = asked_ > unacked_ ? now + o_.ack_timeout : kNever;
}

/// Uses a retry; false if none was left and the queue pair has failed.
bool RcSender::spend_retry(Time now) {
  if (++retries_ <= o_.retry_count) return true;
  failed_ = true;
  for (const Message& m : messages_) completions_.push_back({m.id, m.bytes, m.notify, false, now});
  messages_.clear();
  message_ = 0;
  next_ = unacked_;
  next_bytes_ = unacked_bytes_;
  timer_ = kNever;
  return false;
}

}  // namespace mrc::inline v0_1::sim::baseline
