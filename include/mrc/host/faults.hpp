// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mrc/api/fault_schedule.hpp"
#include "mrc/core/types.hpp"
#include "mrc/plane/plane_kind.hpp"

namespace mrc::inline v0_1::detail {

/// The faults that a device injects into its ports: reads and checks a schedule, and applies what
/// is in force. Thread contract: parse() any thread; the rest under the lane's lock.
class Faults {
 public:
  /// `paths`: paths per plane. The planes must outlive it.
  Faults(OpenedPlanes& planes, std::uint16_t paths) noexcept : planes_(planes), paths_(paths) {}

  /// Reads a schedule (api/fault_schedule.hpp has the syntax). Throws mrc::Error for wrong syntax
  /// and for faults that this device cannot inject. `source` goes in front of error texts.
  [[nodiscard]] port::FaultSchedule parse(std::string_view text, const std::string& source) const;

  /// Replaces the schedule; its times count from `now`.
  void start(port::FaultSchedule schedule, Time now) noexcept;
  /// Gives the ports the faults that are in force at `now`.
  void apply(Time now) noexcept;
  /// When apply() is due again, or kNever.
  [[nodiscard]] Time next_change() const noexcept { return next_change_; }

 private:
  void check(const port::FaultSchedule& schedule, const std::string& source) const;

  OpenedPlanes& planes_;
  std::uint16_t paths_;
  port::FaultSchedule schedule_;
  Time start_{};
  Time next_change_ = kNever;
};

}  // namespace mrc::inline v0_1::detail
