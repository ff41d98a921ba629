// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/network.hpp"

namespace mrc::inline v0_1::sim {

/// Start or end of a fault.
enum class FaultKind : std::uint8_t {
  down,        ///< the links are down; hosts at their ends lose the carrier
  up,          ///< ends a `down` of the same target
  black_hole,  ///< all packets are lost without the link going down
  heal,        ///< ends a `black_hole` of the same target
  loss,        ///< value: probability per packet; 0 ends it
  corruption,  ///< value: probability per packet that a bit is flipped; 0 ends it
  slow,        ///< value: the rate is divided by it; 1 ends it
  kill,        ///< a host hangs permanently; its links stay up
};

/// The keyword for it in the text form.
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
/// Whether faults of this kind have a value.
[[nodiscard]] constexpr bool has_value(FaultKind kind) noexcept {
  return kind == FaultKind::loss || kind == FaultKind::corruption || kind == FaultKind::slow;
}

/// One event of a schedule.
struct Fault {
  Time at{};           ///< virtual time
  FaultKind kind{};    ///< what happens
  std::string target;  ///< a name accepted by Fabric::find()
  double value = 0;    ///< for kinds that have one, else 0

  /// Equal in all fields.
  friend bool operator==(const Fault&, const Fault&) = default;
};

/// "20us down p0t1-2" or "1ms loss h3.p0>p0t0-1 0.02": accepted by FaultSchedule::parse().
[[nodiscard]] std::string to_string(const Fault& fault);
/// Text of a time, in the largest unit that divides it: "20us".
[[nodiscard]] std::string time_text(Duration t);

/// Faults of a fabric over time. Faults of different targets may affect the same link: it is up
/// only when no fault holds it down, losses and corruptions are independent, and the lowest rate
/// applies. A target that went down twice must come up twice; a new value of loss, corruption or
/// slow for a target replaces the previous one.
///
/// Text form, entries separated by `;` or newlines, `#` starts a comment:
///
///   TIME KIND TARGET [VALUE] [for SPAN]     20us down p0t1-2 for 1ms;  0us loss p1 0.01
///   TIME flap TARGET UNTIL PERIOD SPAN      1ms flap h3.p0 5ms 200us 50us
///
/// `for` adds the end of the fault after SPAN. Times are numbers with ns, us, ms or s.
class FaultSchedule {
 public:
  /// Adds one fault. Throws mrc::Error when its value is out of range.
  void add(Fault fault);
  /// Adds the fault and its end `span` later. Not for `up`, `heal` and `kill`, which have no end.
  void add_for(const Fault& fault, Duration span);
  /// Adds periodic downs: first at `from`, then each `period` while before `until`, for `down_time`
  /// each, but up again by `until`. Throws mrc::Error unless 0 < down_time < period and from <
  /// until.
  void flap(const std::string& target, Time from, Time until, Duration period, Duration down_time);
  /// Adds all faults of another schedule.
  void add(const FaultSchedule& other) {
    for (const Fault& fault : other.faults_) add(fault);
  }

  /// Parses the text form. Throws mrc::Error that names the entry, the wrong word and what is
  /// allowed.
  [[nodiscard]] static FaultSchedule parse(std::string_view text);
  /// The text form: one entry per fault, separated by "; ".
  [[nodiscard]] std::string text() const;

  /// Ordered by time, then by order of adding.
  [[nodiscard]] const std::vector<Fault>& faults() const noexcept { return faults_; }
  /// Whether there are no faults.
  [[nodiscard]] bool empty() const noexcept { return faults_.empty(); }
  /// Time of the last fault; Time{} if there are none.
  [[nodiscard]] Time last() const noexcept { return empty() ? Time{} : faults_.back().at; }

  /// Schedules all faults in the network, at most one schedule per network; faults in the past take
  /// effect at once. Network and fabric must live as long as the network runs, the schedule need
  /// not. `kill` gets the index of a host. Throws mrc::Error when a target does not exist, when an
  /// end has no beginning, or when there is a `kill` fault but no function for it.
  void apply(Network& network, const Fabric& fabric,
             const std::function<void(unsigned host)>& kill = {}) const;

 private:
  std::vector<Fault> faults_;
};

/// Combines several faults of the same link. Each fault has a cause (a target of a schedule), so
/// that the end of one does not end another. One thread at a time, that of the network.
class FaultState {
 public:
  /// No faults at first.
  explicit FaultState(Network& network) : network_(network), links_(network.link_count()) {}

  /// Adds (begin) or removes one fault that holds the link down.
  void hold_down(LinkId id, bool begin) {
    Faults& link = links_[value(id)];
    link.down += begin ? 1 : -1;
    network_.set_link_up(id, link.down == 0);
  }
  /// Adds (begin) or removes one fault that makes the link a black hole.
  void hold_hole(LinkId id, bool begin) {
    links_[value(id)].holes += begin ? 1 : -1;
    set_loss(id);
  }
  /// Sets a cause's loss rate on the link; 0 removes it.
  void loss(LinkId id, std::uint32_t cause, double p) {
    put(links_[value(id)].loss, cause, p, p > 0);
    set_loss(id);
  }
  /// Sets a cause's corruption rate on the link; 0 removes it.
  void corruption(LinkId id, std::uint32_t cause, double p) {
    Causes& causes = links_[value(id)].corruption;
    put(causes, cause, p, p > 0);
    network_.set_corruption(id, either(causes));
  }
  /// Sets a cause's rate divisor on the link; 1 removes it.
  void slow(LinkId id, std::uint32_t cause, double factor) {
    Causes& causes = links_[value(id)].slow;
    put(causes, cause, factor, factor > 1);
    double most = 1;
    for (const auto& [who, f] : causes) most = std::max(most, f);
    network_.set_slow(id, most);
  }

 private:
  using Causes = std::vector<std::pair<std::uint32_t, double>>;
  struct Faults {
    int down = 0, holes = 0;
    Causes loss, corruption, slow;
  };

  static void put(Causes& causes, std::uint32_t cause, double v, bool present) {
    std::erase_if(causes, [cause](const auto& c) { return c.first == cause; });
    if (present) causes.emplace_back(cause, v);
  }
  /// Probability that at least one of the independent causes acts.
  [[nodiscard]] static double either(const Causes& causes) noexcept {
    double none = 1;
    for (const auto& [who, p] : causes) none *= 1 - p;
    return 1 - none;
  }
  void set_loss(LinkId id) {
    const Faults& link = links_[value(id)];
    network_.set_loss(id, link.holes > 0 ? 1 : either(link.loss));
  }

  Network& network_;
  std::vector<Faults> links_;
};

/// Limits of a random schedule.
struct SwarmOptions {
  Time begin{};                 ///< earliest fault
  Time end{};                   ///< all faults end by then, except killed hosts
  unsigned max_faults = 10;     ///< a flap counts once
  double max_loss = 0.5;        ///< largest probability per packet
  double max_corruption = 0.2;  ///< largest probability per packet
  double max_slow = 50;         ///< largest rate divisor
  bool kills = false;           ///< hosts may be killed; at least one survives
};

/// A random schedule for a fabric; equal arguments give equal schedules. Swarm testing: each seed
/// disables some kinds of fault and of place, since bugs that a mix of all kinds masks show with
/// few kinds.
[[nodiscard]] FaultSchedule random_faults(const Fabric& fabric, const SwarmOptions& options,
                                          std::uint64_t seed);

}  // namespace mrc::inline v0_1::sim
