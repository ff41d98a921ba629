// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::path {

/// The health of a path and its transitions (mrc-1.0 §3.4). Pure functions: PathSet decides which
/// entry changes and whether enough paths stay active.

/// State of an entropy value.
enum class Health : std::uint8_t {
  good,         ///< carries data
  skip,         ///< skipped once, then good again
  assumed_bad,  ///< carries no data until probes succeed
  denied,       ///< disabled by the administrator; only the administrator can re-enable it
};

/// The M field of a SACK: the responder's verdict on the reflected EV (mrc-1.0 §1.7).
enum class Mark : std::uint8_t { none, skip_once, always_skip };

/// The API's value of a state; the API has no SKIP and reports it as GOOD (mrc-1.0 §3.4, [C-11]).
[[nodiscard]] constexpr std::uint8_t to_api(Health health) noexcept {
  switch (health) {
    case Health::good:
    case Health::skip:
      return 1;
    case Health::assumed_bad:
      return 2;
    case Health::denied:
      return 4;
  }
  return 0;
}

/// Name of a state; static storage.
[[nodiscard]] constexpr const char* to_string(Health health) noexcept {
  switch (health) {
    case Health::good:
      return "good";
    case Health::skip:
      return "skip";
    case Health::assumed_bad:
      return "assumed bad";
    case Health::denied:
      return "denied";
  }
  return "unknown";
}

/// Every input of the health state machine.
enum class HealthInput : std::uint8_t {
  skip_once,          ///< SACK with m = 01
  always_skip,        ///< SACK with m = 10
  trimmed,            ///< NACK TRIMMED (not TRIMMED_LASTHOP, which is unrelated to the path)
  timeout,            ///< a packet sent on it timed out without SACK or trim NACK
  loss,               ///< an inferred loss below the limit of consecutive losses
  loss_limit,         ///< the inferred loss that reaches the limit [O-4]
  rotation,           ///< the spraying order reaches the path
  revived,            ///< enough consecutive probes were answered [C-9]
  revived_marked,     ///< the same, and the last answer had m = 01 [C-9]
  refused,            ///< ASSUMED_BAD refused, as too few paths would be left [O-14]
  released,           ///< ASSUMED_BAD revoked, as too few paths are left [O-14]
  administer_good,    ///< the administrator sets GOOD
  administer_denied,  ///< the administrator sets DENIED
};
/// Number of HealthInput values.
inline constexpr unsigned kHealthInputs = 13;

/// The state that follows `from` on `input`: the table of mrc-1.0 §3.4. DENIED reacts only to the
/// administrator; ASSUMED_BAD only to probes, release and the administrator.
[[nodiscard]] constexpr Health next_health(Health from, HealthInput input) noexcept {
  if (input == HealthInput::administer_denied) return Health::denied;
  if (input == HealthInput::administer_good) return Health::good;
  if (from == Health::denied) return Health::denied;
  if (from == Health::assumed_bad) {
    if (input == HealthInput::revived) return Health::good;
    if (input == HealthInput::revived_marked || input == HealthInput::released) return Health::skip;
    return Health::assumed_bad;
  }
  switch (input) {
    case HealthInput::skip_once:
    case HealthInput::trimmed:
    case HealthInput::refused:
      return Health::skip;
    case HealthInput::always_skip:
    case HealthInput::timeout:
    case HealthInput::loss_limit:
      return Health::assumed_bad;
    case HealthInput::rotation:
      return Health::good;
    default:
      return from;
  }
}

/// GOOD or SKIP: the path may carry data, now or after being skipped once.
[[nodiscard]] constexpr bool usable(Health health) noexcept {
  return health == Health::good || health == Health::skip;
}

/// Index of a path in its PathSet; stable for the set's lifetime.
using PathIndex = std::uint16_t;
/// "No path".
inline constexpr PathIndex kNoPath = 0xFFFF;
/// Largest number of paths in a PathSet: a slot of the spraying order fits 16 bits.
inline constexpr std::size_t kMaxPaths = 32'768;

/// One path to a destination: the EV that identifies it, the plane (NIC port) that it starts at,
/// and its index among that port's own paths (for instance which bound socket).
struct PathSpec {
  Ev ev{};                      ///< entropy value
  Plane plane = 0;              ///< NIC port
  std::uint16_t port_path = 0;  ///< index among the port's own paths

  /// Equal in all fields.
  friend bool operator==(const PathSpec&, const PathSpec&) = default;
};

/// Counters of one path since the set was created or the entry was replaced.
struct PathStats {
  std::uint64_t sent_packets = 0;     ///< data packets, retransmissions included
  std::uint64_t sent_bytes = 0;       ///< of these, as IPv6 packets (UDP length + 40)
  std::uint64_t delivered = 0;        ///< packets reported received
  std::uint32_t marks = 0;            ///< SACKs with m = 01 or 10
  std::uint32_t trims = 0;            ///< NACK TRIMMED
  std::uint32_t losses = 0;           ///< inferred losses
  std::uint32_t timeouts = 0;         ///< packets timed out, up to 65,535
  std::uint32_t probes_sent = 0;      ///< revive probes
  std::uint32_t probes_answered = 0;  ///< answered probes of any use that prove that data passes
  std::uint32_t times_bad = 0;        ///< changes to ASSUMED_BAD, up to 65,535
  std::uint32_t rtt_ns = 0;           ///< smoothed round-trip time; 0: not measured
};

namespace detail {

/// A path as stored in PathSet: one cache line, the fields used per packet first.
struct alignas(64) Entry {
  std::uint64_t sent_packets = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t delivered = 0;
  Time newest_delivered = Time::min();  ///< when the packet was sent, of those delivered the newest
  Ev ev{};
  std::uint16_t port_path = 0;
  Plane plane = 0;
  Health health = Health::good;
  std::uint8_t strikes = 0;  ///< consecutive inferred losses without a delivery
  bool active : 1 = false;   ///< holds a place in the active set
  bool waits : 1 = false;    ///< SKIP, and the walk has passed over it: becomes GOOD in its turn
  bool queued : 1 = false;   ///< stands in the queue of those that wait
  std::uint16_t slot =
      0;  ///< index in the spraying order's plane lists; valid while the path is in the order
  std::uint32_t marks = 0;
  std::uint32_t trims = 0;
  std::uint32_t losses = 0;
  std::uint32_t probes_sent = 0;
  std::uint16_t timeouts = 0;  ///< this and times_bad saturate
  std::uint16_t times_bad = 0;
};
static_assert(sizeof(Entry) == 64, "one cache line per path");

/// Counters of a path that its entry has no room for.
struct Figures {
  std::uint32_t probes_answered = 0;
  std::uint32_t rtt_ns = 0;
};

[[nodiscard]] inline PathStats stats_of(const Entry& e, const Figures& f) noexcept {
  return {e.sent_packets, e.sent_bytes,  e.delivered,       e.marks,     e.trims, e.losses,
          e.timeouts,     e.probes_sent, f.probes_answered, e.times_bad, f.rtt_ns};
}

/// Limits planes that have lost some of their paths while others have all of theirs.
///
/// Where the host's ports are the limit, such a plane gets too much: each destination sends it a
/// little less, so its port is free most often and takes packets of all, which overload the paths
/// that are left (docs/results.md, 10). So while its packets are marked, it may carry a sixteenth
/// less per path than whole planes do on average, until the queues have drained.
///
/// Progress is counted in passes over a plane's paths, SKIP ones included. One thread at a time.
class PlaneShares {
 public:
  static constexpr std::uint64_t kPass = std::uint64_t{1} << 32;  ///< progress: one pass

  /// What a step in `plane` adds to its progress.
  void set_step(unsigned plane, std::uint64_t progress) noexcept {
    planes_[plane].step = static_cast<std::int64_t>(progress);
  }

  /// The planes with paths, and those of them that have lost some.
  void set(PlaneMask planes, PlaneMask reduced) noexcept {
    reduced &= planes;
    if (reduced == planes) reduced = 0;
    for (PlaneMask m = reduced & ~reduced_; m != 0; m &= m - 1)
      planes_[static_cast<unsigned>(std::countr_zero(m))].behind = 0;
    reduced_ = reduced;
    whole_ = static_cast<std::uint32_t>(std::popcount(planes & ~reduced));
  }

  /// Some planes have lost paths, others have not: steps have to be counted.
  [[nodiscard]] bool apply() const noexcept { return reduced_ != 0; }

  /// A step was made in `plane`.
  void count_step(unsigned plane) noexcept {
    const std::int64_t step = planes_[plane].step;
    if ((reduced_ >> plane & 1) == 0) {
      const std::int64_t credit = (step - step / 16) / whole_;
      for (PlaneMask m = reduced_; m != 0; m &= m - 1) {
        State& s = planes_[static_cast<unsigned>(std::countr_zero(m))];
        s.behind = std::min(s.behind + credit, s.step);
      }
      return;
    }
    State& s = planes_[plane];
    s.behind = std::max(s.behind - step, -kMostAhead * step);
    s.calm = std::min(s.calm + step, kCalm);
  }

  /// A packet sent in `plane` was marked.
  void on_mark(Plane plane) noexcept { planes_[plane].calm = 0; }

  /// Those of `planes` that may carry a new packet.
  [[nodiscard]] PlaneMask within_limits(PlaneMask planes) const noexcept {
    PlaneMask ahead = 0;
    for (PlaneMask m = planes & reduced_; m != 0; m &= m - 1) {
      const auto p = static_cast<Plane>(std::countr_zero(m));
      if (planes_[p].behind <= 0 && planes_[p].calm < kCalm) ahead |= plane_bit(p);
    }
    return planes & ~ahead;
  }

 private:
  static constexpr std::int64_t kMostAhead = 64;     ///< steps that it makes up for, at most
  static constexpr std::int64_t kCalm = kPass << 6;  ///< progress without a mark that ends a limit

  struct State {
    std::int64_t step = 0;      ///< progress of one step
    std::int64_t behind = 0;    ///< progress it may still make; negative: it has made too much
    std::int64_t calm = kCalm;  ///< progress since the last mark, while reduced
  };

  std::array<State, kMaxPlanes> planes_{};
  PlaneMask reduced_ = 0;
  std::uint32_t whole_ = 0;  ///< number of planes that have all their paths
};

/// Maps a reflected EV to a path that has it: open addressing over 16-bit indices, at most half
/// full, so lookups end after a few steps for any value that a peer reflects. Of several paths with
/// the same EV, the first is kept.
class EvIndex {
 public:
  /// An empty index with room for `paths` entries; the only allocation.
  explicit EvIndex(std::size_t paths)
      : full_(std::bit_ceil(2 * std::max<std::size_t>(paths, 1)), kNoPath),
        low_(full_.size(), kNoPath),
        shift_(32 - static_cast<unsigned>(std::countr_zero(full_.size()))) {}

  /// Rebuilds the index from `entries`. Linear; allocates nothing.
  void rebuild(std::span<const Entry> entries) noexcept {
    std::fill(full_.begin(), full_.end(), kNoPath);
    std::fill(low_.begin(), low_.end(), kNoPath);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      insert(full_, entries, static_cast<PathIndex>(i), 0xFFFF'FFFF);
      insert(low_, entries, static_cast<PathIndex>(i), 0xFFFF);
    }
  }

  /// A path with this EV, or kNoPath. IPv4 carries only the low half of a structured EV and
  /// reflects zeros above it, so such a value is also looked up by its low half (mrc-1.0 [O-29]).
  [[nodiscard]] PathIndex find(std::span<const Entry> entries, Ev ev) const noexcept {
    const PathIndex exact = full_[probe(full_, entries, value(ev), 0xFFFF'FFFF)];
    if (exact != kNoPath || (value(ev) >> 16) != 0) return exact;
    return low_[probe(low_, entries, value(ev), 0xFFFF)];
  }

 private:
  /// The cell of `key`, or the empty cell where it would be inserted. Terminates because half of
  /// the cells are empty.
  [[nodiscard]] std::size_t probe(const std::vector<PathIndex>& table,
                                  std::span<const Entry> entries, std::uint32_t key,
                                  std::uint32_t mask) const noexcept {
    std::size_t at = (key & mask) * std::uint32_t{0x9E37'79B1} >> shift_;
    while (table[at] != kNoPath && (value(entries[table[at]].ev) & mask) != (key & mask))
      at = (at + 1) & (table.size() - 1);
    return at;
  }
  void insert(std::vector<PathIndex>& table, std::span<const Entry> entries, PathIndex path,
              std::uint32_t mask) noexcept {
    PathIndex& cell = table[probe(table, entries, value(entries[path].ev), mask)];
    if (cell == kNoPath) cell = path;
  }

  std::vector<PathIndex> full_;  ///< by all 32 bits
  std::vector<PathIndex> low_;   ///< by the low 16 bits
  unsigned shift_;               ///< the hash is the top bits of a product
};

}  // namespace detail
}  // namespace mrc::inline v0_1::path
