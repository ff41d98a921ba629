// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/stats.hpp"

namespace mrc_nccl {

/// How many lines a log gets of one thing: four at once, then one every ten seconds.
inline constexpr mrc::TokenBucket kLineBudget{std::chrono::seconds(10), 4};

/// The paths to a peer, as they are at one moment.
struct PeerPaths {
  std::uint64_t number = 0;  ///< of the peer, see Peers
  std::string name;          ///< "host:pid (address)"
  std::vector<mrc::PathReport> paths;
};

/// Decides what the log says of the paths of a net device: that some have failed, how many are
/// left, and that they work again. A state machine without a clock: time is an argument. One thread
/// at a time.
///
/// * A path has failed when it has not worked for kLasting without a break. What random losses take
///   out of use is back within milliseconds, and is not told.
/// * EVs of a plane with the same port path take the same route: together they are one path.
/// * A line waits until the number of failed paths has not changed for kLasting, so that a switch
///   is one line. Each plane has a kLineBudget; what exceeds it is summed up in the next line.
/// * A peer at which nothing arrives while packets to it time out for kSilent has a line of its
///   own, and says nothing about planes.
class PathWatch {
 public:
  static constexpr mrc::Duration kLasting = std::chrono::milliseconds(500);
  static constexpr mrc::Duration kSilent = std::chrono::seconds(2);

  /// A plane of the device.
  struct Plane {
    std::string text;  ///< as messages name it
    bool up = true;
  };

  /// The lines that are due. `peers`: all that there are now.
  [[nodiscard]] std::vector<std::string> update(mrc::Time now, std::span<const Plane> planes,
                                                std::span<const PeerPaths> peers);
  /// True while something has failed or is not told yet: update() is to be called again soon.
  [[nodiscard]] bool busy() const noexcept { return busy_; }

 private:
  // An EV.
  struct EvState {
    std::uint64_t times_bad = 0;
    mrc::Time bad_since = mrc::kNever;  // without a break
  };
  struct PeerState {
    std::string name;
    std::vector<EvState> evs;               // [i]: of PeerPaths::paths
    std::uint64_t delivered = 0;            // packets, over all paths
    std::uint64_t timeouts = 0;             // of packets, likewise
    mrc::Time timed_out{};                  // the last
    mrc::Time waiting_since = mrc::kNever;  // the first since something has arrived
    bool silent = false;                    // none is
  };
  struct Route {
    bool used = false;    // not all of its EVs are denied
    bool failed = false;  // an EV has
    bool usable = false;  // an EV carries data
  };
  // Plane and port path.
  using Routes = std::map<std::pair<mrc::Plane, std::uint16_t>, Route>;
  // Of one plane, over all peers that are not silent.
  struct Count {
    unsigned paths = 0, failed = 0;
    std::set<unsigned> numbers;   // port paths of those that have failed
    std::set<std::string> peers;  // to which they lead
  };
  struct PlaneState {
    unsigned failed = 0;    // paths,
    mrc::Time since{};      // for so long
    unsigned stable = 0;    // how many it were when the number was stable last
    unsigned told = 0;      // how many, according to the log
    unsigned failures = 0;  // how often the first path has failed since the last line
    mrc::TokenBucket budget = kLineBudget;
  };

  [[nodiscard]] static Routes routes_of(mrc::Time now, const PeerPaths& peer, PeerState& state);
  static void judge(mrc::Time now, const PeerPaths& peer, PeerState& state, Routes& routes);
  [[nodiscard]] static bool waits(const PeerState& state) noexcept {
    return state.waiting_since != mrc::kNever;
  }
  void tell_peers(mrc::Time now, std::vector<std::string>& lines);
  void tell_plane(mrc::Time now, std::size_t plane, std::span<const Plane> planes,
                  std::span<const Count> counts, std::vector<std::string>& lines);
  [[nodiscard]] std::string plane_line(std::size_t plane, std::span<const Plane> planes,
                                       std::span<const Count> counts) const;
  [[nodiscard]] bool anything_bad() const noexcept;

  std::map<std::uint64_t, PeerState> peers_;
  std::set<std::string> told_silent_;
  mrc::TokenBucket peer_budget_ = kLineBudget;
  std::vector<PlaneState> planes_;
  bool busy_ = false;
};

}  // namespace mrc_nccl
