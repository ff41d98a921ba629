// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "mrc/cc/controller.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/histogram.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/path/reverse_paths.hpp"
#include "mrc/path/trials.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// Least number of bytes that a packet counts as, in plane windows and quanta: the receive buffer
/// spends about this much on a small packet's bookkeeping.
inline constexpr std::uint32_t kLeastCharge = 1024;

/// A peer that no data was exchanged with for so long is idle.
inline constexpr Duration kIdleAfter = std::chrono::milliseconds(100);

/// A remote device, and what all queue pairs connected to it share: the congestion control context
/// (mrc-1.0 §6.8), path health, reverse paths, bytes in flight per plane, port status.
struct Peer : EngineTimer {
  /// `seed` determines the order in which paths are used.
  Peer(PeerId number, const PeerSpec& spec, const EngineOptions& options, std::uint64_t seed)
      : EngineTimer(Owner::peer),
        id(number),
        slot(spec.slot),
        planes(spec.planes),
        head_check(spec.head_check),
        sizes(options.segmenting_planes),
        pieces(options.burst > 1 ? options.segmenting_planes : 0),
        source_tags(spec.source_tags),
        plane_window(spec.plane_window),
        congestion(spec.cc.value_or(options.cc)),
        paths(spec.paths, path_options(spec, options), seed),
        reverse({.probe_floor = options.reverse_probe_floor},
                static_cast<unsigned>(std::bit_width(spec.planes))),
        announced(options.planes) {
    for (const path::PathIndex path : spec.denied)
      (void)paths.set_health(path, path::Health::denied);
  }

  /// EngineOptions::paths with the settings of `spec` applied.
  [[nodiscard]] static path::PathSetOptions path_options(const PeerSpec& spec,
                                                         const EngineOptions& options) {
    path::PathSetOptions paths = options.paths;
    if (spec.active_paths != 0) paths.active = spec.active_paths;
    paths.shared_routes = paths.shared_routes || spec.shared_routes;
    paths.min_active = spec.min_active_paths.value_or(paths.min_active);
    paths.event_mask = spec.event_mask.value_or(paths.event_mask);
    return paths;
  }

  /// Queue pairs, linked by their ready_hook.
  using ReadyList = intrusive::list<
      QueuePairState,
      intrusive::member_hook<QueuePairState, QueuePairState::Hook, &QueuePairState::ready_hook>,
      intrusive::constant_time_size<false>>;

  const PeerId id;                      ///< index in ObjectTables
  const std::uint8_t slot;              ///< top 8 bits of its QPNs
  const PlaneMask planes;               ///< planes in which it has an address
  const bool head_check;                ///< PeerSpec::head_check
  PlaneMask remote_up = ~PlaneMask{0};  ///< its ports that are up (mrc-1.0 §5)
  path::PlaneTrials trials;             ///< planes that have to prove that they work
  path::SizeTrials sizes;               ///< planes that may be too narrow for full-size packets
  path::NarrowPath narrow_path;         ///< bad paths that may be too narrow for them
  path::PieceTrials pieces;             ///< planes in which bursts in one piece may vanish
  PlaneMask narrow = 0;                 ///< planes that are, here or on the way
  PlaneMask narrow_told = 0;            ///< as the driver knows it
  PlaneMask singly_told = 0;            ///< of pieces.singly(), as the driver knows it
  std::uint32_t largest_payload = 0;    ///< bytes of a packet to it, most: full size
  /// Planes of which nothing new can be learned from a packet that arrives in them.
  PlaneMask trusted = ~PlaneMask{0};
  PlaneMask full = 0;  ///< planes whose window (plane_window) is used up
  std::array<std::uint64_t, kMaxPlanes> source_tags;  ///< by plane: RxPacket::source of its packets
  std::array<std::uint64_t, kMaxPlanes> plane_inflight{};  ///< bytes sent and not yet reported
  std::uint64_t plane_window;                              ///< bytes, 0: no limit
  cc::Controller congestion;                               ///< shared by its queue pairs
  path::PathSet paths;                                     ///< paths to it, and their health
  path::ReverseSet reverse;  ///< paths for responses to it (mrc-1.0 §3.6)
  ReadyList ready;           ///< queue pairs with packets to send, in service order
  /// Its queue pairs with tags. Endpoint packets to it are sent to the first of them: the one by
  /// which it was heard since it was last used, or they take turns.
  intrusive::list<
      QueuePairState,
      intrusive::member_hook<QueuePairState, QueuePairState::Hook, &QueuePairState::tagged_hook>,
      intrusive::constant_time_size<false>>
      tagged;
  ReadyList starved;  ///< those that need a packet record while the pool is empty
  /// Link in ReadyQueue's list of peers.
  intrusive::list_member_hook<intrusive::link_mode<intrusive::auto_unlink>> hook;
  std::uint32_t queue_pairs = 0;  ///< connected to it
  bool served = false;            ///< one of them has been in RTS, since there are any
  Time answered{};                ///< newest SACK, NACK or Transport ACK from it
  Time asked{};                   ///< first data packet sent to it after that
  Time exempted{};                ///< when its waiting queue pairs last got a window exemption
  Time status_due = kNever;       ///< when to send, or repeat, the port status
  std::uint8_t status_tries = 0;  ///< times the current port status was sent
  std::uint16_t status_id = 0;    ///< request number of the newest port status sent
  /// Endpoint requests that carry no tag, and so may be anybody's, are answered so often.
  TokenBucket plain_answers{20'000, 64};
  std::uint8_t rtt_probes = 0;   ///< EV probes sent to measure the round-trip time
  bool tagged_heard = false;     ///< a packet came by the first of `tagged` since it was last used
  bool rtt_measured = false;     ///< an EV probe was answered since the first queue pair connected
  Time next_rtt_probe = kNever;  ///< when to send the next of them
  bool rtt_probe_turn = false;   ///< that is its turn (ProbePacer)
  Time data_at = Time{Duration::min() / 2};  ///< newest data packet sent to it or received from it
  Time held_probe = kNever;  ///< until then an EV probe waits for its turn (ProbePacer)
  /// The port mask in it; before, what a peer takes for granted: all of them are up.
  PlaneMask announced;
  std::uint16_t remote_status_id = 0;  ///< request number of the newest port status received
  Time remote_status_at = Time{Duration::min() / 2};  ///< when that arrived

  /// Is a data packet of that nominal size one that a narrow plane does not carry?
  [[nodiscard]] static constexpr bool is_large(std::uint32_t size) noexcept {
    return size > wire::kNominalOverhead + wire::kMaxPart;
  }
  /// Are EV probes in that plane of full size? Only they prove that it carries data.
  [[nodiscard]] bool probes_full_size(Plane plane) const noexcept {
    return sizes.probed() && (narrow >> plane & 1) == 0;
  }

  /// A packet of that nominal size is lost, which was sent in `plane`.
  void on_loss(Plane plane, std::uint32_t size, Time now) noexcept {
    if (is_large(size)) (void)sizes.on_loss(plane, now);
    (void)pieces.on_loss(plane, now);
  }

  /// Is no data exchanged with it, and none waiting to be sent?
  [[nodiscard]] bool idle(Time now) const noexcept {
    return ready.empty() && now - data_at >= kIdleAfter;
  }

  /// A packet was sent in `plane`. The plane is full once its window is used up.
  void charge(Plane plane, std::uint32_t size) noexcept {
    std::uint64_t& inflight = plane_inflight[plane];
    inflight += std::max(size, kLeastCharge);
    if (plane_window != 0 && inflight >= plane_window) full |= plane_bit(plane);
  }
  /// A packet charged to `plane` has arrived or is lost.
  void release(Plane plane, std::uint32_t size) noexcept {
    std::uint64_t& inflight = plane_inflight[plane];
    inflight -= std::min<std::uint64_t>(inflight, std::max(size, kLeastCharge));
    if (inflight < plane_window) full &= ~plane_bit(plane);
  }

  /// Is `tag`, the source of a packet received in `plane`, an address of this peer? A tag of 0 is
  /// not checked.
  [[nodiscard]] bool came_from_here(Plane plane, std::uint64_t tag) const noexcept {
    if (tag == 0 || source_tags[plane] == tag || source_tags[plane] == 0) return true;
    for (const auto t : source_tags)
      if (t == tag) return true;
    return false;
  }
};

/// Gives turns to those who want to send something that is not urgent: so many per second, after a
/// burst of a sixth as many, but of kLeastBurst at least. A turn is a time in the future, each is
/// given once, so that thousands who wait need not ask again. One thread.
class ProbePacer {
 public:
  /// A burst lets a few peers begin at once, whatever the rate.
  static constexpr std::uint32_t kLeastBurst = 64;

  /// `rate`: turns per second; 0: no limit.
  explicit ProbePacer(std::uint32_t rate) noexcept
      : interval_(rate == 0 ? 0 : std::chrono::nanoseconds(std::chrono::seconds(1)).count() / rate),
        burst_(interval_ * std::max(rate / 6, kLeastBurst)) {}

  /// The first free turn, now or later.
  [[nodiscard]] Time take(Time now) noexcept {
    const Time turn = std::max(now, spent_until_ - burst_);
    spent_until_ = std::max(spent_until_, now) + interval_;
    return turn;
  }

 private:
  Duration interval_;
  Duration burst_;
  Time spent_until_{};  ///< the turns until then are given, and a burst
};

/// What a responder asks of the requesters that send to it because its own resources run short: the
/// receiver's penalty (mrc-1.0 §6.7, [O-8]) and the MPR of its SACKs (§2.4).
///
/// The penalty follows the fill of the ports' receive buffers: 0 up to three quarters, then growing
/// to 64, half a window per round trip, for a full one. It is lifted as soon as the buffer is below
/// three quarters again, and restore_cwnd then gives senders their windows back: the buffer says
/// nothing about the network. An application can ask for a penalty of its own; the greater counts.
///
/// The MPR is halved each time that the free part of a resource has halved, from a quarter on, down
/// to one unit; it grows back as that part does. Nothing is remembered, so that it can't stay
/// small.
///
/// One thread.
class ReceivePressure {
 public:
  /// Fill of a full buffer, see set_fill().
  static constexpr std::uint32_t kFull = 128;
  /// Fill from which on there is a penalty.
  static constexpr std::uint32_t kHigh = 96;

  /// The part of a plane's receive buffer that is in use, 0 .. kFull.
  void set_fill(Plane plane, std::uint32_t fill) noexcept {
    fill = std::min(fill, kFull);
    if (fill_[plane] == fill) return;
    fill_[plane] = static_cast<std::uint8_t>(fill);
    highest_ = *std::max_element(fill_.begin(), fill_.end());
    if (own_penalty() > 0) own_seen_ = true;
  }
  /// The application's penalty, 0 .. 127, and its restore flag.
  void set_asked(std::uint8_t penalty, bool restore) noexcept {
    asked_ = penalty;
    asked_restore_ = restore;
  }

  /// rcv_cwnd_pen of the next SACK.
  [[nodiscard]] std::uint8_t penalty() const noexcept { return std::max(asked_, own_penalty()); }
  /// restore_cwnd of the next SACK: with a penalty, that the window is to be remembered; without
  /// one, that the window remembered is to be restored.
  [[nodiscard]] bool restore() const noexcept {
    if (asked_ > own_penalty()) return asked_restore_;
    return own_seen_ || asked_restore_;
  }

  /// The MPR to announce where `limit` is that of the queue pair (0: Dynamic MPR is off, and stays
  /// off), and `free` of `all` items of a pool that it draws on are left.
  [[nodiscard]] std::uint8_t mpr(std::uint8_t limit, std::size_t free,
                                 std::size_t all) const noexcept {
    const unsigned halved = std::max(halvings(free, all), halvings(kFull - highest_, kFull));
    return limit == 0 ? limit : std::max<std::uint8_t>(1, halved < 8 ? limit >> halved : 0);
  }

 private:
  /// How often the free part has halved, counted from a quarter on.
  [[nodiscard]] static unsigned halvings(std::size_t free, std::size_t all) noexcept {
    if (free == 0) return 8;
    const auto width = static_cast<unsigned>(std::bit_width(all / free));
    return width > 2 ? width - 2 : 0;
  }
  [[nodiscard]] std::uint8_t own_penalty() const noexcept {
    return static_cast<std::uint8_t>(highest_ > kHigh ? (highest_ - kHigh) * 2 : 0);
  }

  std::array<std::uint8_t, kMaxPlanes> fill_{};
  std::uint32_t highest_ = 0;  ///< greatest fill of a plane
  std::uint8_t asked_ = 0;
  bool asked_restore_ = false;
  bool own_seen_ = false;  ///< there has been a penalty of our own: senders may have windows saved
};

}  // namespace mrc::inline v0_1::engine
