// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/time.hpp"
#include "mrc/sim/fabric.hpp"

namespace mrc::inline v0_1::sim {

/// What goes wrong, or right again.
enum class FaultKind : std::uint8_t {
  down,        ///< the links are down; hosts at their ends lose the carrier
  up,          ///< ends a `down` of the same target
  black_hole,  ///< everything vanishes, and nobody notices
  heal,        ///< ends a `black_hole` of the same target
  loss,        ///< value: probability per packet; 0 ends it
  corruption,  ///< value: probability per packet that a bit turns over; 0 ends it
  slow,        ///< value: the rate is divided by it; 1 ends it
  kill,        ///< a host hangs for good; its links stay up
};

/// The word for it in texts.
[[nodiscard]] constexpr const char* to_string(FaultKind kind) noexcept {
  switch (kind) {
    case FaultKind::down:
      return "down";
    case FaultKind::up:
      return "up";
    case FaultKind::black_hole:
      return "black_hole";
    case FaultKind::heal:
      return "heal";
    case FaultKind::loss:
      return "loss";
    case FaultKind::corruption:
      return "corruption";
    case FaultKind::slow:
      return "slow";
    case FaultKind::kill:
      return "kill";
  }
  return "?";
}
/// Those that come with a value.
[[nodiscard]] constexpr bool has_value(FaultKind kind) noexcept {
  return kind == FaultKind::loss || kind == FaultKind::corruption || kind == FaultKind::slow;
}

/// One event of a schedule.
struct Fault {
  Time at{};           ///< virtual time
  FaultKind kind{};    ///< what happens
  std::string target;  ///< a name that Fabric::find() knows
  double value = 0;    ///< for kinds that have one, else 0

  friend bool operator==(const Fault&, const Fault&) = default;
};

/// "20us down t1.0.2" or "1ms loss h3.p0>t0.0.1 0.02": what FaultSchedule::parse() takes.
[[nodiscard]] std::string to_string(const Fault& fault);
/// A time or span as texts have it: "20us", in the largest unit that it is a multiple of.
[[nodiscard]] std::string time_text(Duration t);

/// Faults of a fabric over time. Faults of different targets may cover the same link: it is up only
/// when nothing holds it down, losses and corruptions are independent of one another, and the
/// slowest rate rules. A target that went down twice has to come up twice; a second value of loss,
/// corruption or slow for a target replaces its first one.
///
/// Text form, entries parted by `;` or newlines, `#` begins a comment:
///
///   TIME KIND TARGET [VALUE] [for SPAN]     20us down t1.0.2 for 1ms;  0us loss p1 0.01
///   TIME flap TARGET UNTIL PERIOD SPAN      1ms flap h3.p0 5ms 200us 50us
///
/// `for` adds what ends the fault so much later. Times are numbers with ns, us, ms or s.
class FaultSchedule {
 public:
  /// Throws mrc::Error when the value is out of range.
  void add(Fault fault);
  /// The fault, and its end `span` later. Not for `up`, `heal` and `kill`, which have none.
  void add_for(const Fault& fault, Duration span);
  /// Goes down at `from`, after `period`, and so on before `until`, for `down_time` each, but up
  /// at `until` at the latest. Throws mrc::Error unless 0 < down_time < period and from < until.
  void flap(const std::string& target, Time from, Time until, Duration period, Duration down_time);
  void add(const FaultSchedule& other) {
    for (const Fault& fault : other.faults_) add(fault);
  }

  /// Throws mrc::Error that names the entry, the word in it and what is allowed there.
  [[nodiscard]] static FaultSchedule parse(std::string_view text);
  /// Parses to the same schedule; one entry per fault, parted by "; ".
  [[nodiscard]] std::string text() const;

  /// In order of time; of the same time, in the order of adding.
  [[nodiscard]] const std::vector<Fault>& faults() const noexcept { return faults_; }
  [[nodiscard]] bool empty() const noexcept { return faults_.empty(); }
  /// When the last one happens; Time{} if there are none.
  [[nodiscard]] Time last() const noexcept { return empty() ? Time{} : faults_.back().at; }

  /// Plans it all in the network, at most one schedule per network; what lies in the past happens
  /// at once. Network and fabric must live as long as the network runs, the schedule need not.
  /// `kill` is given the number of a host. Throws mrc::Error when a target does not exist, when
  /// something ends that has not begun, or when there is a `kill` and no function for it.
  void apply(Network& network, const Fabric& fabric,
             const std::function<void(unsigned host)>& kill = {}) const;

 private:
  std::vector<Fault> faults_;
};

}  // namespace mrc::inline v0_1::sim

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/sim/impl/faults.ipp"
#endif
