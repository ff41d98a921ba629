// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::port {

/// What goes wrong on a port or on one path. Rates are probabilities per packet, 0 .. 1. Where
/// several apply, the order is: down or black_hole, loss, trimming, corruption, ECN, duplication,
/// then holding back (reorder, delay).
struct FaultSpec {
  double loss = 0;           ///< the packet vanishes
  double duplicate = 0;      ///< delivered twice, the copy at once or a few packets later
  double reorder = 0;        ///< held back until the next few packets have passed, 1 ms at most
  double corrupt = 0;        ///< one bit flips; the iCRC has to catch it
  double ecn = 0;            ///< an ECN-capable packet gets "congestion experienced"
  double trim = 0;           ///< a trimmable packet loses its payload, as in a switch
  double trim_last_hop = 0;  ///< the same, as in the switch before the receiver
  Duration delay{};          ///< added to every packet's latency
  Duration jitter{};         ///< further latency, uniform in [0, jitter): packets are reordered
  bool black_hole = false;   ///< all packets vanish in both directions; the link stays up
  bool down = false;         ///< the link is down, and the port reports it

  /// Equal in every field.
  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;

  /// True if anything is wrong at all.
  [[nodiscard]] bool any() const noexcept { return *this != FaultSpec{}; }
  /// True if all rates are probabilities and all times are from 0 to 60 s.
  [[nodiscard]] MRC_LOCAL bool valid() const noexcept;
};

/// Both specs in force, independently of one another: a packet is hit by a rate p or a rate q with
/// the probability p + q - pq, and times add up.
[[nodiscard]] FaultSpec combine(const FaultSpec& a, const FaultSpec& b) noexcept;

/// Throws Error if a value of the spec is out of range.
void check(const FaultSpec& spec);

/// Where a fault applies: everywhere, or to one plane, one path (TxPacket::port_path, the index of
/// a path of the sending port), or one path of one plane.
struct FaultTarget {
  std::optional<Plane> plane;         ///< without a value: all planes
  std::optional<std::uint16_t> path;  ///< without a value: the whole port

  /// Equal in both fields.
  friend bool operator==(const FaultTarget&, const FaultTarget&) = default;
};

/// "plane=1,path=3", as a schedule has it; empty for all ports and paths.
[[nodiscard]] std::string to_string(const FaultTarget& target);

/// A fault and where it applies.
struct TargetedFault {
  FaultTarget target;  ///< where it applies
  FaultSpec spec;      ///< what goes wrong
};

/// Faults over time, from a line of text. Entries are separated by ';', the items of an entry by
/// ',', and a window of time from the start of the run may end it:
///
///     loss=0.001                               always, everywhere
///     plane=1,down@2s-4s                       from 2 s until just before 4 s
///     plane=0,path=3,blackhole@1s-             from 1 s to the end
///     plane=2,delay=1ms,jitter=200us@500ms-2s
///
/// Items: plane, path, the rates loss, duplicate, reorder, corrupt, ecn, trim, trim_last_hop
/// (0 to 1), the times delay and jitter, and the words blackhole and down. Times are numbers with
/// the unit ns, us, ms or s, fractions allowed. Entries that overlap are combined (combine()).
/// Set-up code: it allocates. A plain value.
class FaultSchedule {
 public:
  FaultSchedule() = default;

  /// Throws Error that names the item, what is wrong with it and what is allowed. Empty text and
  /// empty entries mean no faults.
  [[nodiscard]] static FaultSchedule parse(std::string_view text);
  /// The message of the Error that parse() would throw; empty if the text is valid.
  [[nodiscard]] static std::string mistake_in(std::string_view text);

  /// The faults of all entries, whatever their windows of time.
  [[nodiscard]] std::vector<TargetedFault> all() const;

  /// The faults in force at time t after the start: one element per target that has any.
  [[nodiscard]] std::vector<TargetedFault> active_at(Duration t) const;

  /// The fault of a whole port at time t: all entries for its plane and for every plane combined,
  /// without those for a path.
  [[nodiscard]] FaultSpec port_fault(Duration t, Plane plane) const;

  /// The fault of one path at time t: all entries for this path in its plane and in every plane
  /// combined, without those for the whole port.
  [[nodiscard]] FaultSpec path_fault(Duration t, Plane plane, std::uint16_t path) const;

  /// The first moment after t at which active_at() changes; Duration::max() if none.
  [[nodiscard]] Duration next_change(Duration t) const noexcept;

  /// True if it has no entries.
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

 private:
  struct Entry {
    TargetedFault fault;
    Duration from{};
    Duration to = Duration::max();
  };

  /// parse(), but throws detail::FaultMistake.
  [[nodiscard]] static FaultSchedule read(std::string_view text);

  std::vector<Entry> entries_;
};

}  // namespace mrc::inline v0_1::port
