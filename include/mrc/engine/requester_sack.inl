// SPDX-License-Identifier: Apache-2.0
// Requester: SACKs (mrc-1.0 §2.7).
#pragma once

#include <bit>
#include <utility>

#include "mrc/engine/message_layout.hpp"
#include "mrc/engine/requester.hpp"

namespace mrc::inline v0_1::engine {

namespace detail {

/// Answers to so many of the newest reliability probes are taken.
inline constexpr std::uint16_t kLateProbes = 16;

/// A peer of which so many SACKs in a row lacked the time stamp of a packet that was sent once
/// reflects none.
inline constexpr std::uint8_t kUnreflected = 4;

/// Half the span of a 16-bit time stamp: the age from which a sample is ambiguous (mrc-1.0 §1.5).
inline constexpr Duration kHalfTimestampSpan{128 * 0x8000};

[[nodiscard]] constexpr path::Mark to_path_mark(wire::SackMark m) noexcept {
  switch (m) {
    case wire::SackMark::skip_once:
      return path::Mark::skip_once;
    case wire::SackMark::always_skip:
      return path::Mark::always_skip;
    default:
      return path::Mark::none;
  }
}

/// Is `timestamp` certainly that of the packet's last transmission? (mrc-1.0 §6.3)
[[nodiscard]] inline bool is_last_transmission(reliability::Packet packet, Time now,
                                               std::uint16_t timestamp) noexcept {
  if (wire::timestamp_of(packet.sent()) != timestamp) return false;
  return packet.transmissions() == 1 || now - packet.sent() <= kHalfTimestampSpan;
}

/// Has a later packet of the same burst arrived, that is one which left at the same moment behind
/// it on the same path?
[[nodiscard]] inline bool passed_in_burst(const reliability::SendWindow& window, Psn psn,
                                          reliability::Packet packet) noexcept {
  if (packet.transmissions() != 1) return false;
  for (Psn p = psn + 1; window.contains(p); ++p) {
    const reliability::Packet later = window.at(p);
    if (later.transmissions() != 1 || later.path() != packet.path() ||
        later.sent() != packet.sent())
      return false;
    if (later.state() == reliability::PacketState::reported) return true;
  }
  return false;
}

/// Is `psn` the newest one that the SACK reports?
[[nodiscard]] inline bool is_newest_in(const wire::Seth& seth, Psn psn) noexcept {
  const std::uint64_t bits = seth.sack_bitmap();
  const Psn cack = seth.cack_psn();
  if (bits == 0) return psn == cack;
  const Psn highest = cack + seth.sack_offset() + (63 - std::countl_zero(bits));
  return psn == (highest.after(cack) ? highest : cack);
}

/// The clear bits of a SACK that carry information: those below the highest set one.
[[nodiscard]] constexpr std::uint64_t holes_in(std::uint64_t bits) noexcept {
  return bits == 0 ? 0 : ~bits & (~std::uint64_t{0} >> std::countl_zero(bits));
}

}  // namespace detail

void Requester::on_sack(Time now, QueuePairState& qp, const wire::RxPacket& packet) noexcept {
  const auto& sack = wire::view_as<wire::SackPacket>(packet.bytes);
  RequesterState& tx = qp.tx;
  const Psn cack = sack.seth.cack_psn();
  if (!cack.before(tx.window.next())) {
    ++ctx_.stats.drops.implausible;
    return;
  }
  // A late SACK is at most a window behind; anything older is of an earlier connection.
  if (tx.window.unacked() - cack > static_cast<std::int32_t>(tx.fixed_range)) {
    ++ctx_.stats.drops.stale;
    return;
  }
  // An answer to a probe names one of the last that were sent.
  if (sack.seth.probe()) {
    const auto late = static_cast<std::uint16_t>(tx.probe_id - sack.seth.probe_id());
    if (late >= detail::kLateProbes) {
      DropStats& drops = ctx_.stats.drops;
      ++(late < 0x8000 ? drops.stale : drops.implausible);
      return;
    }
  }
  ++ctx_.stats.sacks_received;
  qp.heard = true;

  const bool overtaken = Requester::overtaken(qp, sack);
  if (!overtaken) tx.newest_sack = {cack, sack.cc.rcvd_bytes()};
  const RttSample sample = sample_rtt(now, qp, sack);  // first: take_cack() may free the record
  // A peer that has received everything and answers is at work on a response.
  if (sack.seth.probe() && qp.rc && tx.window.empty()) tx.start_anew(now);
  if (sack.seth.m() != wire::SackMark::none) apply_mark(now, qp, sack, sample.path);
  if (sample.valid) {
    tx.rtt.sample(sample.rtt);
    qp.peer->paths.on_rtt(sample.path, sample.rtt);
  }

  take_cack(now, qp, cack);
  // It may have been overtaken by a Transport ACK, too.
  const bool shows_gaps = !overtaken && cack + 1 == tx.window.unacked();
  take_sack_bits(now, qp, cack + sack.seth.sack_offset(), sack.seth.sack_bitmap(), shows_gaps);
  if (qp.rc) finish_reported(qp);
  if (!overtaken && sack.seth.mpr() != 0 && qp.attributes.dynamic_mpr && qp.remote.dynamic_mpr)
    tx.range = std::min(tx.fixed_range, sack.seth.mpr() * kMprUnit);
  feed_congestion(now, qp, sack, sample, overtaken);
  loss_.request_review(qp);
  ctx_.ready.update(qp);
  ctx_.ready.wake(*qp.peer);
  ctx_.ready.wake_starved();
  ctx_.rearm(qp, now);
}

/// The round-trip time of the packet or probe that triggered a SACK.
[[gnu::always_inline]] inline Requester::RttSample Requester::sample_rtt(
    Time now, QueuePairState& qp, const wire::SackPacket& sack) noexcept {
  RequesterState& tx = qp.tx;
  RttSample sample;
  if (sack.seth.probe()) return sample_probe(now, qp, sack);
  const Psn trigger = sack.seth.cack_psn() + sack.seth.ack_psn_offset();
  if (!tx.window.contains(trigger)) return sample;
  const reliability::Packet sent = tx.window.at(trigger);
  if (detail::is_last_transmission(sent, now, sack.cc.tx_timestamp()))
    tx.unreflected = 0;
  else if (!timed_by_psn(now, tx, sack, trigger, sent))
    return sample;
  sample.rtt = now - sent.sent();
  sample.valid = ctx_.options.timestamps;
  sample.path = sent.path();
  qp.peer->reverse.on_working(sample.path, now, qp.peer->paths);
  return sample;
}

/// Can a packet without a reflected time stamp be timed? If the peer reflects none, and the packet
/// was sent once, and this SACK is the first to report it and was sent for it: it names the packet,
/// or the packet is the newest one that has arrived. A packet that arrived before others would be
/// timed until the SACK that they brought about.
bool Requester::timed_by_psn(Time now, RequesterState& tx, const wire::SackPacket& sack,
                             Psn trigger, reliability::Packet sent) noexcept {
  if (sent.transmissions() != 1) return false;
  if (tx.unreflected < detail::kUnreflected) {
    ++tx.unreflected;
    return false;
  }
  if (sent.state() != reliability::PacketState::outstanding) return false;
  if (now - sent.sent() >= reliability::kOldestSent) return false;  // it may have been sent earlier
  return sack.seth.ack_psn_offset() != 0 || detail::is_newest_in(sack.seth, trigger);
}

/// The round-trip time of a reliability probe, and what its answer proves: the probe has overtaken
/// what was sent before it. An older probe is equally conclusive if no packet followed it: its
/// answer may only be late, and that to the newest be lost.
Requester::RttSample Requester::sample_probe(Time now, QueuePairState& qp,
                                             const wire::SackPacket& sack) noexcept {
  RequesterState& tx = qp.tx;
  RttSample sample;
  const auto older = static_cast<std::uint16_t>(tx.probe_id - sack.seth.probe_id());
  const auto same = static_cast<std::uint16_t>(tx.probe_id - tx.probe_first);
  if (!tx.probe_pending || older > same) return sample;
  ++ctx_.stats.probe_answers;
  tx.retries.on_answer();
  tx.window.on_probe_answered(tx.probe_order);
  const std::uint16_t timestamp = sack.cc.tx_timestamp();
  if (older == 0) {
    tx.probe_pending = false;
    sample.rtt = now - tx.probe_sent;
    sample.valid = timestamp == wire::timestamp_of(tx.probe_sent) ||
                   tx.unreflected >= detail::kUnreflected;  // its number is unique as well
    return sample;
  }
  // Its time is known from the time stamp only.
  if (tx.unreflected > 0) return sample;
  sample.rtt = wire::timestamp_distance(timestamp, wire::timestamp_of(now));
  sample.valid = sample.rtt <= detail::kHalfTimestampSpan && sample.rtt > now - tx.probe_sent;
  return sample;
}

/// Applies a SACK's mark to the path of its trigger; to the path with the reflected EV if the
/// trigger is unknown.
void Requester::apply_mark(Time now, QueuePairState& qp, const wire::SackPacket& sack,
                           path::PathIndex path) noexcept {
  if (path == path::kNoPath) path = qp.peer->paths.find(sack.seth.entropy());
  if (path != path::kNoPath) qp.peer->paths.on_mark(path, detail::to_path_mark(sack.seth.m()), now);
  if (sack.seth.m() == wire::SackMark::always_skip)
    ctx_.timers.arm(*qp.peer);  // the path is probed from now on
}

/// Everything up to `cack` has arrived.
void Requester::take_cack(Time now, QueuePairState& qp, Psn cack) noexcept {
  if (cack.before(qp.tx.window.unacked())) return;
  qp.tx.window.acknowledge(
      cack, [&](Psn psn, reliability::Packet packet) { on_reported(now, qp, psn, packet); });
  qp.tx.on_progress(now);
}

/// True if a newer SACK has already been processed: its state, the MPR above all, takes precedence.
/// Two SACKs of one cumulative PSN may have the same byte count: its unit is 256 bytes, and not
/// every peer counts. A clear bit for a packet already reported then shows which one is older.
bool Requester::overtaken(const QueuePairState& qp, const wire::SackPacket& sack) noexcept {
  const SackOrder order{sack.seth.cack_psn(), sack.cc.rcvd_bytes()};
  const SackOrder& newest = qp.tx.newest_sack;
  if (newest.after(order)) return true;
  if (order.cack != newest.cack) return false;
  const reliability::SendWindow& window = qp.tx.window;
  const Psn base = order.cack + sack.seth.sack_offset();
  for (std::uint64_t h = detail::holes_in(sack.seth.sack_bitmap()); h != 0; h &= h - 1) {
    const Psn psn = base + std::countr_zero(h);
    if (window.contains(psn) && window.at(psn).state() == reliability::PacketState::reported)
      return true;
  }
  return false;
}

/// A set bit is definite. A clear bit below a set one means that the PSN was missing when a later
/// one had arrived. Clear bits above the highest set bit carry no information, nor do any clear
/// bits of a SACK that a newer one has overtaken.
void Requester::take_sack_bits(Time now, QueuePairState& qp, Psn base, std::uint64_t bits,
                               bool shows_gaps) noexcept {
  if (bits == 0) return;
  reliability::SendWindow& window = qp.tx.window;
  window.report(base, bits,
                [&](Psn psn, reliability::Packet packet) { on_reported(now, qp, psn, packet); });
  if (!shows_gaps) return;
  for (std::uint64_t holes = detail::holes_in(bits); holes != 0; holes &= holes - 1) {
    const Psn psn = base + std::countr_zero(holes);
    if (window.contains(psn)) note_missing(qp, psn);
  }
}

/// A SACK shows that an outstanding packet was missing when a later PSN had arrived: records how
/// strong the evidence for a loss is, for LossRecovery.
[[gnu::always_inline]] inline void Requester::note_missing(QueuePairState& qp, Psn psn) noexcept {
  reliability::Packet packet = qp.tx.window.at(psn);
  if (packet.state() != reliability::PacketState::outstanding) return;
  path::PathSet& paths = qp.peer->paths;
  if (paths.passed(packet.path(), packet.sent())) {
    qp.tx.passed += packet.missed() != reliability::Missed::passed;
    packet.set_missed(reliability::Missed::passed);
  } else if (packet.missed() != reliability::Missed::passed) {
    // What left at one moment keeps its order on a path as well, but hosts may delay parts of it
    // differently: lost when it is as old as round trips usually become.
    packet.set_missed(detail::passed_in_burst(qp.tx.window, psn, packet)
                          ? reliability::Missed::passed
                          : reliability::Missed::absent);
  }
}

/// A packet is reported as received, for the first time.
[[gnu::always_inline]] inline void Requester::on_reported(Time now, QueuePairState& qp, Psn psn,
                                                          reliability::Packet packet) noexcept {
  Peer& peer = *qp.peer;
  const Plane plane = peer.paths[packet.path()].plane;
  // Of a packet sent more than once it is unknown which transmission, and so which path, arrived.
  const bool certain = packet.transmissions() == 1;
  const bool outstanding = packet.state() == reliability::PacketState::outstanding;
  // Its last transmission was given up, or the port has refused it: an earlier one arrived.
  if (certain || outstanding) peer.paths.on_delivered(packet.path(), packet.sent(), now, certain);
  if (!outstanding) return;  // released when it was given up
  const std::uint32_t size = nominal_size(qp, psn, packet, ctx_.options.timestamps);
  peer.release(plane, size);
  qp.tx.inflight -= size;
  qp.tx.reported += size;
  if (peer.sizes.doubted() != 0 && certain && Peer::is_large(size)) [[unlikely]]
    peer.sizes.on_delivered(plane);
}

/// Hands a SACK to congestion control. The bytes newly received are those of the packets that it
/// was the first to report, by the records of this side: peers count rcvd_bytes in several ways
/// ([C-15]), and no way of counting can corrupt the account that queue pairs share. Of a SACK that
/// was overtaken nothing else is used: the window follows the present state of the network.
void Requester::feed_congestion(Time now, QueuePairState& qp, const wire::SackPacket& sack,
                                const RttSample& rtt, bool overtaken) noexcept {
  RequesterState& tx = qp.tx;
  cc::SackSample sample;
  sample.now = now;
  sample.early = std::exchange(tx.reported_early, 0);
  sample.newly = sample.early + std::exchange(tx.reported, 0);
  if (!overtaken) {
    sample.rtt = rtt.rtt;
    sample.has_rtt = rtt.valid;
    sample.ecn = sack.seth.m() == wire::SackMark::skip_once;
    sample.rcv_cwnd_pen = sack.cc.rcv_cwnd_pen();
    sample.restore_cwnd = sack.cc.restore_cwnd();
  }
  qp.peer->congestion.on_sack(sample);
}

}  // namespace mrc::inline v0_1::engine
