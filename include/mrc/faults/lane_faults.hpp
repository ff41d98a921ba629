// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/faults/schedule.hpp"
#include "mrc/host/lane.hpp"
#include "mrc/host/modules.hpp"

namespace mrc::inline v0_1::detail {

/// Injects a schedule of faults into the ports of a lane. Its times count from construction. Under
/// the lane's lock, but for the constructor.
class MRC_LOCAL LaneFaults final : public LaneService {
 public:
  /// The lane must outlive it.
  LaneFaults(Lane& lane, port::FaultSchedule schedule);

  /// Gives the ports the faults that are in force.
  void begin(Time now) noexcept override;
  [[nodiscard]] Time next_deadline() const noexcept override { return next_change_; }

 private:
  OpenedPlanes& planes_;
  const std::uint64_t seed_;
  const port::FaultSchedule schedule_;
  const Time start_;
  Time next_change_ = Time::min();
};

/// Replaces the faults of a device, for fault_setter: throws mrc::Error for wrong syntax and for
/// faults that this device cannot inject.
void set_faults(DeviceCore& core, std::string_view text, const std::string& source);

}  // namespace mrc::inline v0_1::detail
