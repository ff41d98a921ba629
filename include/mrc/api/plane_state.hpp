// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Planes in and out of use. All are enabled at first. A disabled one carries nothing: neither data
/// nor control packets, probes and questions, and what arrives in it is dropped
/// (PlaneStats::rx_disabled); only what the kernel or a NIC was given before may still leave. To
/// queue pairs it is as if its link were down: peers are told to use the others, lost packets are
/// sent again over them, and the events plane_down and plane_up come. The last plane may be
/// disabled, too: then queue pairs wait, and retry, as in an outage. Link state and injected faults
/// are other reasons for a plane to be down, and stay as they are.
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
