// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mrc::check_tool {

/// Packets of one size, one way, between two planes: by paths, that is source ports.
struct Way {
  bool tried = false;
  unsigned paths = 0, passed = 0;
  int error = 0;           ///< errno of a sender that could not send; 0: none
  std::uint32_t size = 0;  ///< bytes of the IP packets
  std::uint32_t fits = 0;  ///< the largest size that passes where `size` does not; 0: none found

  [[nodiscard]] bool whole() const noexcept { return tried && passed == paths; }
  friend bool operator==(const Way&, const Way&) = default;
};

/// What probes between plane N here and plane N there have shown.
struct PlaneResult {
  Way small_there, small_here;  ///< arrived there, and here
  Way full_there, full_here;    ///< the same for packets of full size
  /// The same for what leaves in one piece: anything of it, of both kinds.
  Way pieces_there{}, pieces_here{};
};

/// Paths by which probes of one size were sent.
struct PathCount {
  unsigned tried = 0, answered = 0;
};

/// What probes of the paths of a fabric have shown.
struct FabricResult {
  /// A part that is dead, silent, lossy or too narrow.
  struct Fault {
    std::string text;
    bool full = false;     ///< it lets small packets through
    bool serious = false;  ///< nothing passes; else some do
  };

  bool tried = false;
  std::string problem;  ///< why not; empty if it was not to be
  PathCount small, full;
  std::uint32_t full_size = 0;  ///< bytes of the IP packets; 0: none were sent
  std::vector<Fault> faults;
};

/// What the check of a host has measured.
struct Results {
  std::vector<PlaneResult> planes;  ///< those that both have
  FabricResult fabric{};            ///< of planes of a fabric
  std::uint16_t tcp_port = 0;       ///< at which the other host has answered
  double clock_ahead = 0;           ///< seconds by which the clock there is ahead
  double round_trip = 0;            ///< of that question, in seconds
};

}  // namespace mrc::check_tool
