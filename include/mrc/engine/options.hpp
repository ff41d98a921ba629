// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "mrc/cc/controller.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/wire/dscp.hpp"

namespace mrc::inline v0_1::engine {

/// Limits and settings of an engine, fixed when it is made.
struct EngineOptions {
  std::uint8_t slot = 0;         ///< top 8 bits of its QPNs
  std::uint64_t seed = 1;        ///< of keys, PSNs, path order: same seed, same run
  Time start{};                  ///< no later than the first time that it is told
  std::uint32_t max_qps = 1024;  ///< 1 .. 65,533
  std::uint32_t max_cqs = 1024;
  std::uint32_t max_mrs = 4096;  ///< 1 .. 65,536
  std::uint32_t max_pds = 64;
  std::uint32_t max_peers = 1024;
  std::uint32_t max_outstanding = 65'536;  ///< packets in flight, over all queue pairs
  std::uint32_t control_queue = 4096;      ///< answers waiting to be sent
  std::uint32_t guest_probes = 0;   ///< kept for poll_guest_probe() at a time; 0: they are dropped
  std::uint32_t held_tails = 4096;  ///< out-of-order message ends held back (placement.hpp)
  std::uint32_t sack_threshold = 16 * 1024;  ///< bytes between SACKs (mrc-1.0 §2.6, [C-14])
  std::uint32_t burst = 1;  ///< packets that a queue pair sends on one path in a row
  /// Bytes that a queue pair sends before the next one of its peer has its turn, rounded up to
  /// whole bursts. With less than
  /// brings a SACK, each turn would be followed by a reliability probe where many queue pairs take
  /// turns; what a change of turns costs is spread over twice as much (docs/performance.md).
  std::uint32_t quantum = 32 * 1024;
  bool trimming = true;    ///< mark data trimmable towards peers that answer trims
  bool timestamps = true;  ///< TSETH in data packets; without it there is no RTT
  Duration reverse_probe_floor = std::chrono::milliseconds(1);
  wire::DscpMap dscp{};
  cc::Options cc{};
  path::PathSetOptions paths{};
};

/// A peer as add_peer() takes it.
struct PeerSpec {
  std::uint8_t slot = 0;                                ///< of its QPNs
  PlaneMask planes = 0;                                 ///< where it has an address
  std::array<std::uint64_t, kMaxPlanes> source_tags{};  ///< Port::add_peer(); 0: not checked
  std::vector<path::PathSpec> paths;                    ///< the EVs towards it
  std::uint64_t plane_window = 0;  ///< most bytes in flight per plane, 0: no limit
  /// Places in its active set, in place of EngineOptions::paths.active; 0: that.
  std::uint16_t active_paths = 0;
  bool shared_routes = false;  ///< see path::PathSetOptions
};

}  // namespace mrc::inline v0_1::engine
