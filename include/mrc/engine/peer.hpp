// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "mrc/cc/controller.hpp"
#include "mrc/core/timing_wheel.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/options.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/path/reverse_set.hpp"

namespace mrc::inline v0_1::engine {

/// Everything that queue pairs to the same remote device share: the congestion control context
/// (mrc-1.0 §6.8), the health of the paths, the reverse paths, what is known of its ports.
struct Peer : EngineTimer {
  Peer(PeerId number, const PeerSpec& spec, const EngineOptions& options, std::uint64_t seed)
      : EngineTimer(Owner::peer),
        id(number),
        slot(spec.slot),
        planes(spec.planes),
        source_tags(spec.source_tags),
        plane_window(spec.plane_window),
        congestion(options.cc),
        paths(spec.paths, path_options(spec, options), seed),
        reverse({.probe_floor = options.reverse_probe_floor}) {}

  [[nodiscard]] static path::PathSetOptions path_options(const PeerSpec& spec,
                                                         const EngineOptions& options) {
    path::PathSetOptions paths = options.paths;
    if (spec.active_paths != 0) paths.active = spec.active_paths;
    paths.shared_routes = paths.shared_routes || spec.shared_routes;
    return paths;
  }

  using ReadyList = intrusive::list<
      QueuePairState,
      intrusive::member_hook<QueuePairState, QueuePairState::Hook, &QueuePairState::ready_hook>,
      intrusive::constant_time_size<false>>;

  const PeerId id;
  const std::uint8_t slot;
  const PlaneMask planes;               ///< where it has an address
  PlaneMask remote_up = ~PlaneMask{0};  ///< its port status (mrc-1.0 §5)
  PlaneMask full = 0;                   ///< planes that may not take more now (plane_window)
  std::array<std::uint64_t, kMaxPlanes> source_tags;
  std::array<std::uint64_t, kMaxPlanes> plane_inflight{};  ///< bytes sent and not yet reported
  std::uint64_t plane_window;
  cc::Controller congestion;
  path::PathSet paths;
  path::ReverseSet reverse;
  ReadyList ready;    ///< READY queue pairs in round-robin order
  ReadyList starved;  ///< those that need a packet record, of which there are none left
  intrusive::list_member_hook<intrusive::link_mode<intrusive::auto_unlink>> hook;
  std::uint32_t queue_pairs = 0;
  Time answered{};           ///< when the newest answer to one of them came
  Time owed{};               ///< when each of them was last allowed a packet beyond the window
  Time status_due = kNever;  ///< when to send (again) the port status
  std::uint8_t status_tries = 0;
  std::uint16_t status_id = 0;                ///< request id of the newest one
  PlaneMask told = ~PlaneMask{0};             ///< the mask in it
  std::uint16_t heard_id = 0;                 ///< the same of the peer's newest port status ...
  Time heard_at = Time{Duration::min() / 2};  ///< ... and when it came

  [[nodiscard]] bool came_from_here(Plane plane, std::uint64_t tag) const noexcept {
    if (tag == 0 || source_tags[plane] == tag || source_tags[plane] == 0) return true;
    for (const auto t : source_tags)
      if (t == tag) return true;
    return false;
  }
};

}  // namespace mrc::inline v0_1::engine
