// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>

#include "mrc/core/error.hpp"
#include "mrc/exchange/resolution.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1 {

namespace detail {

/// A challenge is good for one to two of these.
inline constexpr Duration kResolutionEpoch = std::chrono::seconds(4);
/// Messages that wait to be sent, most.
inline constexpr std::size_t kResolutionBacklog = 256;

/// Takes over the fixed part; the caller has checked the size.
[[nodiscard]] inline wire::ResolutionPacket read_resolution(Bytes bytes) noexcept {
  wire::ResolutionPacket packet;
  std::memcpy(&packet, bytes.data(), sizeof packet);
  return packet;
}
inline void write_resolution(ResolutionMessage& message,
                             const wire::ResolutionPacket& packet) noexcept {
  std::memcpy(message.bytes.data(), &packet, sizeof packet);
}

}  // namespace detail

MRC_SETUP void ResolutionMessage::set_sender(const port::PeerAddress& address) noexcept {
  auto packet = detail::read_resolution(Bytes(bytes));
  packet.header.address = address.ip;
  packet.header.udp_port = address.udp_port;
  detail::write_resolution(*this, packet);
}

MRC_SETUP port::IpAddress ResolutionMessage::sender() const noexcept {
  return detail::read_resolution(Bytes(bytes)).header.address;
}

// ----------------------------------------------------------------------------------- asking

MRC_SETUP void Resolution::start(Time now, Qpn qpn, const Destination& destination) {
  stop(qpn);
  Asked asked;
  asked.qpn = qpn;
  asked.destination = destination;
  asked.nonce = secret(++nonces_);
  asked.begun = now;
  send(now, asked_.emplace_back(asked));
}

MRC_SETUP void Resolution::stop(Qpn qpn) noexcept {
  std::erase_if(asked_, [qpn](const Asked& a) { return a.qpn == qpn; });
}

/// A number that nobody can guess who does not know the key. Never 0.
MRC_SETUP std::uint64_t Resolution::secret(std::uint64_t number) const noexcept {
  std::array<std::uint8_t, 9> input{'n'};
  for (unsigned i = 0; i < 8; ++i) input[i + 1] = static_cast<std::uint8_t>(number >> (8 * i));
  return siphash(options_.key, input) | 1;
}

/// A hello, or the offer if there is a challenge. Due again after a while.
MRC_SETUP void Resolution::send(Time now, Asked& asked) {
  const bool slow = asked.silent || (asked.answered && now - asked.begun >= options_.patience);
  const Duration wait = slow ? options_.slow_retry
                             : std::min(options_.longest_retry,
                                        options_.first_retry * (1 << std::min(asked.tries, 16u)));
  // Up to a quarter more, so that many that began together do not stay together.
  asked.next = now + wait + Duration{spread_.below(static_cast<std::uint32_t>(wait.count() / 4))};
  if (out_.size() >= detail::kResolutionBacklog) return;  // counts as not tried
  ++asked.tries;
  const auto own = asked.their_nonce != 0 ? host_.find(asked.qpn) : std::nullopt;
  ResolutionMessage& message = out_.emplace_back();
  message.gid = asked.destination.gid;
  message.attempt = own ? asked.offers++ : asked.hellos++;
  if (own) message.via = asked.their_plane;  // the proof is for the address there
  message.bytes = {};
  wire::ResolutionPacket packet{};
  packet.bth = wire::Bth::make(wire::Opcode::resolution, asked.destination.qpn, Psn{});
  packet.header.magic = wire::ResolutionHeader::kMagic;
  packet.header.version = wire::ResolutionHeader::kVersion;
  packet.header.step =
      static_cast<std::uint8_t>(own ? wire::ResolutionStep::offer : wire::ResolutionStep::hello);
  packet.header.nonce_a = asked.nonce;
  packet.header.nonce_b = own ? asked.their_nonce : 0;
  packet.header.qpn_a = value(asked.qpn);
  packet.header.qpn_b = value(asked.destination.qpn);
  detail::write_resolution(message, packet);
  message.size = wire::kShortResolution;
  if (own) {
    put_info(message, encode(own->info));
    message.size = wire::kLongResolution;
  }
}

MRC_SETUP void Resolution::on_time(Time now) {
  for (std::size_t i = 0; i < asked_.size();) {
    if (asked_[i].next > now) {
      ++i;
      continue;
    }
    const Qpn qpn = asked_[i].qpn;
    const auto own = host_.find(qpn);
    if (!own || own->heard) {  // it has failed, or found its peer
      asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    Asked& asked = asked_[i];
    const bool impatient = asked.answered && now - asked.begun >= options_.patience;
    if (impatient && own->waited_for) {
      asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(i));
      host_.on_refused(now, qpn, "its queue pair is not connected to this one");
      i = 0;  // the host may have changed anything
      continue;
    }
    const bool silent = !asked.answered && !asked.silent && asked.tries >= options_.tries;
    asked.silent = asked.silent || silent;
    // A challenge that brought no answer may have become too old.
    if (asked.tries % 4 == 0) asked.their_nonce = 0;
    send(now, asked);
    if (silent) {
      host_.on_silence(now, qpn);
      i = 0;
    } else {
      ++i;
    }
  }
}

MRC_SETUP Time Resolution::next_deadline() const noexcept {
  Time next = out_.empty() ? kNever : Time::min();
  for (const Asked& a : asked_) next = std::min(next, a.next);
  return next;
}

MRC_SETUP bool Resolution::poll_message(ResolutionMessage& message) {
  if (out_.empty()) return false;
  message = out_.front();
  out_.pop_front();
  return true;
}

// ---------------------------------------------------------------------------------- messages

MRC_SETUP void Resolution::on_message(Time now, const ResolutionMessage& message) {
  wire::ResolutionPacket in{};
  if (message.size >= wire::kShortResolution) in = detail::read_resolution(Bytes(message.bytes));
  if (!valid(message, in)) {
    ++dropped_;
    return;
  }
  switch (static_cast<wire::ResolutionStep>(in.header.step)) {
    case wire::ResolutionStep::hello:
      return on_hello(now, message, in);
    case wire::ResolutionStep::challenge:
      return on_challenge(now, message, in);
    case wire::ResolutionStep::offer:
      return on_offer(now, message, in);
    case wire::ResolutionStep::answer:
      return on_answer(now, message, in);
  }
}

/// Is it a message of a known form, for one of the queue pairs that it names, from the address that
/// it names?
MRC_SETUP bool Resolution::valid(const ResolutionMessage& message,
                                 const wire::ResolutionPacket& in) {
  using wire::ResolutionStep;
  const wire::ResolutionHeader& h = in.header;
  const auto step = static_cast<ResolutionStep>(h.step);
  if (h.magic != wire::ResolutionHeader::kMagic || h.version != wire::ResolutionHeader::kVersion ||
      step < ResolutionStep::hello || step > ResolutionStep::answer ||
      h.info_length + wire::kShortResolution > message.size || h.udp_port == 0)
    return false;
  const bool to_b = step == ResolutionStep::hello || step == ResolutionStep::offer;
  // What an answer can be as large as.
  const std::size_t least =
      step == ResolutionStep::offer ? wire::kLongResolution : wire::kShortResolution;
  return value(in.bth.dqp()) == (to_b ? h.qpn_b : h.qpn_a) && message.size >= least &&
         host_.source_of(message.plane, h.address) == message.source;
}

MRC_SETUP bool Resolution::may_answer(Time now, Budget& budget, unsigned limit) noexcept {
  if (now - budget.second >= std::chrono::seconds(1)) budget = {now, 0};
  if (budget.answers < limit && out_.size() < detail::kResolutionBacklog) {
    ++budget.answers;
    return true;
  }
  ++dropped_;
  return false;
}

MRC_SETUP std::uint64_t Resolution::epoch_of(Time now) noexcept {
  return static_cast<std::uint64_t>(now.time_since_epoch() / detail::kResolutionEpoch);
}

/// What only this device can compute, and only who receives at that address knows.
MRC_SETUP std::uint64_t Resolution::proof(const wire::ResolutionPacket& in, Plane plane,
                                          std::uint64_t epoch) const noexcept {
  struct {
    wire::Be64 epoch, nonce;
    wire::Be32 qpn_a, qpn_b;
    wire::IpAddress address;
    wire::Be16 port;
    std::uint8_t plane, zero;
  } input{};
  static_assert(sizeof input == 44);
  input.epoch = epoch;
  input.nonce = in.header.nonce_a;
  input.qpn_a = in.header.qpn_a;
  input.qpn_b = in.header.qpn_b;
  input.address = in.header.address;
  input.port = in.header.udp_port;
  input.plane = plane;
  return siphash(options_.key, {reinterpret_cast<const std::uint8_t*>(&input), sizeof input}) | 1;
}

/// A message back to who sent `message`.
MRC_SETUP ResolutionMessage& Resolution::answer(const ResolutionMessage& message,
                                                const wire::ResolutionPacket& in,
                                                wire::ResolutionStep step) {
  ResolutionMessage& out = out_.emplace_back();
  out.plane = message.plane;
  out.attempt = answers_++;
  out.to = port::PeerAddress{in.header.address, in.header.udp_port};
  out.bytes = {};
  wire::ResolutionPacket packet = in;
  packet.bth = wire::Bth::make(wire::Opcode::resolution, Qpn{in.header.qpn_a.value()}, Psn{});
  packet.header.step = static_cast<std::uint8_t>(step);
  packet.header.info_length = 0;
  packet.header.reserved = {};
  detail::write_resolution(out, packet);
  out.size = wire::kShortResolution;
  return out;
}

MRC_SETUP void Resolution::put_info(ResolutionMessage& message,
                                    const std::vector<std::uint8_t>& info) {
  // 32 planes take 700 bytes. Without the data a message says "not ready".
  if (info.size() > message.bytes.size() - sizeof(wire::ResolutionPacket)) return;
  auto packet = detail::read_resolution(Bytes(message.bytes));
  packet.header.info_length = static_cast<std::uint16_t>(info.size());
  detail::write_resolution(message, packet);
  std::copy(info.begin(), info.end(), message.bytes.begin() + sizeof packet);
  message.size = std::max(message.size, sizeof packet + info.size());
}

/// A's first message: answered without keeping anything.
MRC_SETUP void Resolution::on_hello(Time now, const ResolutionMessage& message,
                                    const wire::ResolutionPacket& in) {
  if (!may_answer(now, hellos_, options_.hellos_per_second)) return;
  wire::ResolutionPacket named = in;
  named.header.nonce_b = proof(in, message.plane, epoch_of(now));
  (void)answer(message, named, wire::ResolutionStep::challenge);
}

MRC_SETUP Resolution::Asked* Resolution::find(const wire::ResolutionPacket& in) noexcept {
  for (Asked& a : asked_)
    if (value(a.qpn) == in.header.qpn_a && a.nonce == in.header.nonce_a &&
        value(a.destination.qpn) == in.header.qpn_b)
      return &a;
  ++dropped_;
  return nullptr;
}

/// B is there: what it needs to know follows at once.
MRC_SETUP void Resolution::on_challenge(Time now, const ResolutionMessage& message,
                                        const wire::ResolutionPacket& in) {
  Asked* asked = find(in);
  if (asked == nullptr || in.header.nonce_b == 0 || asked->their_nonce == in.header.nonce_b) return;
  asked->their_nonce = in.header.nonce_b;
  asked->their_plane = message.plane;
  if (!asked->answered) asked->tries = 0;
  asked->answered = true;
  asked->silent = false;
  send(now, *asked);
}

/// A's data, from the address that it names. Answered in any case: with this side's data if the
/// queue pairs are each other's destinations.
MRC_SETUP void Resolution::on_offer(Time now, const ResolutionMessage& message,
                                    const wire::ResolutionPacket& in) {
  const std::uint64_t epoch = epoch_of(now);
  const std::uint64_t proven = in.header.nonce_b;
  if (proven != proof(in, message.plane, epoch) && proven != proof(in, message.plane, epoch - 1)) {
    ++dropped_;
    return;
  }
  if (!may_answer(now, offers_, options_.offers_per_second)) return;
  std::optional<ConnectionInfo> info;
  try {
    info = decode_connection_info(
        Bytes(message.bytes).subspan(sizeof(wire::ResolutionPacket), in.header.info_length));
  } catch (const Error&) {
    ++dropped_;
    return;
  }
  const Qpn qpn{in.header.qpn_b.value()};
  const auto own = host_.find(qpn);
  const bool wanted = own && own->destination.qpn == info->qpn &&
                      value(info->qpn) == in.header.qpn_a &&
                      host_.belongs(in.header.address, own->destination);
  ResolutionMessage& out = answer(message, in, wire::ResolutionStep::answer);
  if (!wanted) return;
  put_info(out, encode(own->info));
  stop(qpn);
  host_.on_resolved(now, qpn, *info, false);
}

MRC_SETUP void Resolution::on_answer(Time now, const ResolutionMessage& message,
                                     const wire::ResolutionPacket& in) {
  Asked* asked = find(in);
  if (asked == nullptr) return;
  asked->answered = true;
  asked->silent = false;
  if (in.header.info_length == 0) return;  // not ready: asked again when it is due
  const Qpn qpn = asked->qpn;
  const Qpn expected = asked->destination.qpn;
  std::string why = "its answer names another queue pair";
  try {
    const ConnectionInfo info = decode_connection_info(
        Bytes(message.bytes).subspan(sizeof(wire::ResolutionPacket), in.header.info_length));
    stop(qpn);
    if (info.qpn == expected) return host_.on_resolved(now, qpn, info, true);
  } catch (const Error& error) {
    stop(qpn);
    why = error.what();
  }
  host_.on_refused(now, qpn, why);
}

}  // namespace mrc::inline v0_1
