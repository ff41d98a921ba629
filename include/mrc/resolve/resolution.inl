// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>

#include "mrc/core/error.hpp"
#include "mrc/resolve/resolution.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1 {

namespace detail {

/// A challenge is good for one to two of these.
inline constexpr Duration kResolutionEpoch = std::chrono::seconds(4);
/// Messages that wait to be sent, most.
inline constexpr std::size_t kResolutionBacklog = 256;

/// Between the repeated questions of many queue pairs, so that no device is asked more often than
/// it answers (AnswerLimits): many that begin at once are not answered at once.
inline constexpr Duration kResolutionInterval = std::chrono::microseconds(100);
/// Ways over which one hello goes, most.
inline constexpr unsigned kWaysAtOnce = 3;

/// Is the GID an address of the device that has said this from another one?
[[nodiscard]] bool goes_by(const ConnectionInfo& info, const port::IpAddress& from,
                           const port::IpAddress& gid) noexcept {
  return from == gid || std::any_of(info.planes.begin(), info.planes.end(),
                                    [&](const port::PeerAddress& p) { return p.ip == gid; });
}

/// Takes over the fixed part; the caller has checked the size.
[[nodiscard]] wire::ResolutionPacket read_resolution(Bytes bytes) noexcept {
  wire::ResolutionPacket packet;
  std::memcpy(&packet, bytes.data(), sizeof packet);
  return packet;
}
void write_resolution(ResolutionMessage& message, const wire::ResolutionPacket& packet) noexcept {
  std::memcpy(message.bytes.data(), &packet, sizeof packet);
}

}  // namespace detail

void ResolutionMessage::set_sender(const port::PeerAddress& address) noexcept {
  auto packet = detail::read_resolution(Bytes(bytes));
  packet.header.address = address.ip;
  packet.header.udp_port = address.udp_port;
  detail::write_resolution(*this, packet);
}

port::IpAddress ResolutionMessage::sender() const noexcept {
  return detail::read_resolution(Bytes(bytes)).header.address;
}

// ----------------------------------------------------------------------------------- asking

void Resolution::start(Time now, Qpn qpn, const Destination& destination) {
  stop(qpn);
  Asked asked;
  asked.qpn = qpn;
  asked.destination = destination;
  asked.nonce = secret(++nonces_);
  asked.waiting_since = asked.silent_since = asked.next = now;
  Device& device = devices_[{destination.gid, slot_of(destination.qpn)}];
  if (device.asked == 0) device.at_once = options_.at_once;
  asked.device = &device;
  asked_.push_back(asked);
  ++device.asked;
  if (due(asked) == now) send(now, asked_.back());
}

void Resolution::stop(Qpn qpn) noexcept {
  const auto at = std::find_if(asked_.begin(), asked_.end(),
                               [qpn](const Asked& asked) { return asked.qpn == qpn; });
  if (at != asked_.end()) forget(at);
}

std::list<Resolution::Asked>::iterator Resolution::forget(
    std::list<Asked>::iterator asked) noexcept {
  close(*asked);
  if (--asked->device->asked == 0)
    devices_.erase({asked->destination.gid, slot_of(asked->destination.qpn)});
  return asked_.erase(asked);
}

/// No message about it is under way any more: another one has its turn.
void Resolution::close(Asked& asked) noexcept {
  if (asked.open) --asked.device->open;
  asked.open = false;
}

/// When to send again; kNever while others have their turn.
Time Resolution::due(const Asked& asked) const noexcept {
  const bool turn = asked.open || asked.slow || asked.device->open < asked.device->at_once;
  return turn ? asked.next : kNever;
}

/// A number that nobody can guess who does not know the key. Never 0.
std::uint64_t Resolution::secret(std::uint64_t number) const noexcept {
  std::array<std::uint8_t, 9> input{'n'};
  for (unsigned i = 0; i < 8; ++i) input[i + 1] = static_cast<std::uint8_t>(number >> (8 * i));
  return siphash(options_.key, input) | 1;
}

/// Doubles with each try up to `longest`, but heeds how many ask, and how long answers take. Up to
/// a quarter more, so that many that began together do not stay together.
Duration Resolution::retry_wait(const Asked& asked, Duration first, unsigned tries,
                                Duration longest) noexcept {
  const Duration usual = std::min(first * (1 << std::min(tries, 16u)), longest);
  const Duration wait = std::max<Duration>(
      {usual, detail::kResolutionInterval * asked_.size(), 2 * asked.device->delay});
  return wait + Duration{spread_.below(static_cast<std::uint32_t>(wait.count() / 4))};
}

/// A hello, or the offer if there is a challenge. Due again after a while.
void Resolution::send(Time now, Asked& asked) {
  close(asked);
  asked.slow = asked.silent || now - asked.silent_since >= options_.patience;
  const Duration first = asked.slow ? options_.slow_retry : options_.first_retry;
  const Duration longest = asked.slow ? options_.slow_retry : options_.longest_retry;
  asked.next = now + retry_wait(asked, first, asked.tries, longest);
  if (out_.size() >= detail::kResolutionBacklog) return;  // counts as not tried
  if (asked.asked_times++ == 0) asked.asked_at = now;
  ++asked.tries;
  ++asked.device->unanswered;
  if (!asked.slow) {
    asked.open = true;
    ++asked.device->open;
  }
  const auto own = asked.their_nonce != 0 ? host_.find(asked.qpn) : std::nullopt;
  ResolutionMessage& message = out_.emplace_back();
  message.asking = asked.qpn;
  message.attempt = own ? asked.offers++ : asked.hellos++;
  if (own) {  // the proof is for the address there
    message.plane = asked.their_plane;
    message.to = asked.their_address;
  } else if (!asked.answered && message.attempt > 0) {
    message.ways = detail::kWaysAtOnce;
  }
  write_hello(message, asked.nonce, asked.qpn, asked.destination.qpn);
  if (!own) return;
  wire::ResolutionPacket packet = detail::read_resolution(Bytes(message.bytes));
  packet.header.step = static_cast<std::uint8_t>(wire::ResolutionStep::offer);
  packet.header.nonce_b = asked.their_nonce;
  detail::write_resolution(message, packet);
  put_info(message, encode(own->info));
  message.size = wire::kLongResolution;
}

void Resolution::write_hello(ResolutionMessage& message, std::uint64_t nonce, Qpn own, Qpn qpn) {
  message.bytes = {};
  wire::ResolutionPacket packet{};
  packet.bth = wire::Bth::make(wire::Opcode::resolution, qpn, Psn{});
  packet.header.magic = wire::ResolutionHeader::kMagic;
  packet.header.version = wire::ResolutionHeader::kVersion;
  packet.header.step = static_cast<std::uint8_t>(wire::ResolutionStep::hello);
  packet.header.nonce_a = nonce;
  packet.header.qpn_a = value(own);
  packet.header.qpn_b = value(qpn);
  detail::write_resolution(message, packet);
  message.size = wire::kShortResolution;
}

void Resolution::ask(Plane plane, const port::PeerAddress& to, std::uint64_t question, Qpn qpn,
                     Qpn own) {
  if (out_.size() >= detail::kResolutionBacklog) return;
  ResolutionMessage& message = out_.emplace_back();
  message.plane = plane;
  message.to = to;
  message.attempt = static_cast<unsigned>(nonces_);
  write_hello(message, question, own, qpn);
}

/// Silence says something only if there was a chance of an answer: not while a flood drowns
/// questions here, and so perhaps there.
bool Resolution::silent(Time now, const Asked& asked) const noexcept {
  const bool drowned =
      refused_at_ >= asked.silent_since && now - asked.silent_since < options_.patience;
  const Device& device = *asked.device;
  return !asked.answered && !asked.silent && !drowned && device.unanswered >= options_.tries &&
         now - std::max(asked.silent_since, device.answered_at) >= options_.silence;
}

void Resolution::on_time(Time now) {
  for (Asked& asked : asked_)
    if (asked.next <= now) close(asked);
  for (auto at = asked_.begin(); at != asked_.end();) {
    const auto next = std::next(at);
    Asked& asked = *at;
    if (due(asked) > now) {
      at = next;
      continue;
    }
    const Qpn qpn = asked.qpn;
    const auto own = host_.find(qpn);
    if (!own || own->heard) {  // it has failed, or found its peer
      at = forget(at);
      continue;
    }
    if (!own->can_ask && !asked.answered) {
      asked.silent_since = now;
      asked.tries = asked.device->unanswered = 0;
    }
    if (!own->known) asked.silent = false;  // a presumed peer is doubted
    const bool answered = asked.answered;
    const bool waits = own->waited_for || (own->must_answer && !answered);
    if (!waits || (own->known && !answered)) asked.waiting_since = now;
    if (now - asked.waiting_since >= options_.patience) {
      forget(at);
      if (answered)
        host_.on_refused(now, qpn, "its queue pair is not connected to this one");
      else
        host_.on_unanswered(now, qpn);
      at = asked_.begin();  // the host may have changed anything
      continue;
    }
    const bool silent = this->silent(now, asked);
    // A challenge that brought no answer may have become too old, or come by a way that the device
    // there does not know for this one's.
    if (asked.tries % 4 == 0) asked.their_nonce = 0;
    send(now, asked);
    asked_.splice(asked_.end(), asked_, at);
    at = next;
    if (!silent) continue;
    const bool content = host_.on_silence(now, qpn);
    for (Asked& a : asked_)
      if (a.qpn == qpn) a.silent = content;
    at = asked_.begin();
  }
}

Time Resolution::next_deadline() const noexcept {
  Time next = out_.empty() ? kNever : Time::min();
  for (const Asked& a : asked_) next = std::min(next, due(a));
  return next;
}

bool Resolution::poll_message(ResolutionMessage& message) {
  if (out_.empty()) return false;
  message = out_.front();
  out_.pop_front();
  return true;
}

// ---------------------------------------------------------------------------------- messages

void Resolution::on_message(Time now, const ResolutionMessage& message) {
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
bool Resolution::valid(const ResolutionMessage& message, const wire::ResolutionPacket& in) {
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

bool Resolution::may_answer(Time now, AnswerLimits& limits, const wire::ResolutionPacket& in) {
  const Qpn qpn{in.header.qpn_b.value()}, peer{in.header.qpn_a.value()};
  const Interest interest = host_.interest(qpn, peer, in.header.address);
  if (out_.size() < detail::kResolutionBacklog && limits.take(now, interest, in.header.address))
    return true;
  ++refused_;
  if (interest != Interest::none) refused_at_ = now;
  return false;
}

std::uint64_t Resolution::epoch_of(Time now) noexcept {
  return static_cast<std::uint64_t>(now.time_since_epoch() / detail::kResolutionEpoch);
}

/// What only this device can compute, and only who receives at that address knows.
std::uint64_t Resolution::proof(const wire::ResolutionPacket& in, Plane plane,
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
ResolutionMessage& Resolution::answer(const ResolutionMessage& message,
                                      const wire::ResolutionPacket& in, wire::ResolutionStep step) {
  ResolutionMessage& out = out_.emplace_back();
  out.plane = message.plane;
  out.attempt = static_cast<unsigned>(answers_++);
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

void Resolution::put_info(ResolutionMessage& message, const std::vector<std::uint8_t>& info) {
  // 32 planes take 700 bytes. Without the data a message says "not ready".
  if (info.size() > message.bytes.size() - sizeof(wire::ResolutionPacket)) return;
  auto packet = detail::read_resolution(Bytes(message.bytes));
  packet.header.info_length = static_cast<std::uint16_t>(info.size());
  detail::write_resolution(message, packet);
  std::copy(info.begin(), info.end(), message.bytes.begin() + sizeof packet);
  message.size = std::max(message.size, sizeof packet + info.size());
}

/// A's first message: answered without keeping anything.
void Resolution::on_hello(Time now, const ResolutionMessage& message,
                          const wire::ResolutionPacket& in) {
  if (!may_answer(now, hellos_, in)) return;
  wire::ResolutionPacket named = in;
  named.header.nonce_b = proof(in, message.plane, epoch_of(now));
  (void)answer(message, named, wire::ResolutionStep::challenge);
}

Resolution::Asked* Resolution::find(const wire::ResolutionPacket& in) noexcept {
  for (Asked& a : asked_)
    if (value(a.qpn) == in.header.qpn_a && a.nonce == in.header.nonce_a &&
        value(a.destination.qpn) == in.header.qpn_b)
      return &a;
  return nullptr;
}

/// B is there: what it needs to know follows at once.
void Resolution::on_challenge(Time now, const ResolutionMessage& message,
                              const wire::ResolutionPacket& in) {
  Asked* asked = find(in);
  if (asked == nullptr) {
    ++dropped_;
    return host_.on_answer(in.header.nonce_a, message.plane,
                           {in.header.address, in.header.udp_port});
  }
  if (in.header.nonce_b == 0 || asked->their_nonce == in.header.nonce_b) return;
  asked->their_nonce = in.header.nonce_b;
  asked->their_plane = message.plane;
  asked->their_address = {in.header.address, in.header.udp_port};
  note_answer(now, *asked, in.header.address);
  send(now, *asked);
}

/// Somebody has answered who can't be another one than the device asked.
void Resolution::note_answer(Time now, Asked& asked, const port::IpAddress& from) {
  if (!host_.surely_belongs(from, asked.destination)) return;
  note_delay(now, asked);
  if (!asked.answered) {
    asked.tries = 0;
    asked.waiting_since = now;
  }
  asked.answered = true;
  asked.silent = false;
}

/// How long an answer took tells how long to wait for others; but not if it could not come before,
/// say because that device was not there.
void Resolution::note_delay(Time now, Asked& asked) const noexcept {
  Device& device = *asked.device;
  if (asked.asked_times > 0 && asked.asked_times < options_.tries) {
    const Duration sample = std::min<Duration>(now - asked.asked_at, options_.slow_retry / 2);
    device.delay += device.delay == Duration{} ? sample : (sample - device.delay) / 8;
  }
  asked.asked_times = device.unanswered = 0;
  device.answered_at = now;
  device.at_once = std::min(device.at_once + 1, options_.most_at_once);
}

/// A's data, from the address that it names. Answered in any case: with this side's data if the
/// queue pairs are each other's destinations.
void Resolution::on_offer(Time now, const ResolutionMessage& message,
                          const wire::ResolutionPacket& in) {
  const std::uint64_t epoch = epoch_of(now);
  const std::uint64_t proven = in.header.nonce_b;
  if (proven != proof(in, message.plane, epoch) && proven != proof(in, message.plane, epoch - 1)) {
    ++dropped_;
    return;
  }
  if (!may_answer(now, offers_, in)) return;
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
                      host_.belongs(in.header.address, own->destination) &&
                      detail::goes_by(*info, in.header.address, own->destination.gid);
  ResolutionMessage& out = answer(message, in, wire::ResolutionStep::answer);
  if (!wanted) return;
  put_info(out, encode(own->info));
  stop(qpn);
  host_.on_resolved(now, qpn, *info, {false, message.plane, in.header.address});
}

void Resolution::on_answer(Time now, const ResolutionMessage& message,
                           const wire::ResolutionPacket& in) {
  Asked* asked = find(in);
  if (asked == nullptr) {
    ++dropped_;
    return;
  }
  note_answer(now, *asked, in.header.address);
  if (in.header.info_length == 0) {
    // Not ready. It asks when it is: nobody is in a hurry.
    close(*asked);
    asked->next =
        now + retry_wait(*asked, options_.longest_retry, asked->not_ready++, options_.slow_retry);
    return;
  }
  const Qpn qpn = asked->qpn;
  const Destination expected = asked->destination;
  std::string why = "its answer names another queue pair";
  try {
    const ConnectionInfo info = decode_connection_info(
        Bytes(message.bytes).subspan(sizeof(wire::ResolutionPacket), in.header.info_length));
    // Another host, at an address that this one's peer might have had.
    if (!detail::goes_by(info, in.header.address, expected.gid)) return;
    stop(qpn);
    if (info.qpn == expected.qpn)
      return host_.on_resolved(now, qpn, info, {true, message.plane, in.header.address});
  } catch (const Error& error) {
    stop(qpn);
    why = error.what();
  }
  host_.on_refused(now, qpn, why);
}

}  // namespace mrc::inline v0_1
