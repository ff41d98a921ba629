// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mrc::inline v0_1 {

/// State of a plane of a device (mrc-1.0 §7.4, port administration).
struct PlaneState {
  bool enabled = true;  ///< by the administrator: Device::set_plane_enabled()
  /// It can carry packets now: it is enabled, its link is there (injected faults included), and its
  /// MTU is large enough; as PlaneStats::up.
  bool up = false;

  /// Equal in both.
  friend bool operator==(const PlaneState&, const PlaneState&) = default;
};

}  // namespace mrc::inline v0_1
