// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "mrc/core/system.hpp"
#include "mrc/device.hpp"
#include "nccl_plugin/rules/path_watch.hpp"

namespace mrc_nccl {

/// The peers of a net device. A peer is a lane of a remote process, seen from a lane here: its
/// queue pairs share their paths. Any thread. In a child made by fork() nothing happens.
class Peers {
 public:
  /// A queue pair is connected to that peer, a process called `name`. Returns the peer's number,
  /// which is unique: a peer that returns after its last queue pair has gone is another one, with
  /// counters that start at zero. The queue pair must stay until remove().
  [[nodiscard]] std::uint64_t add(const mrc::QueuePair& qp, const mrc::ConnectionInfo& peer,
                                  const std::string& name);
  /// The peer has closed the connection of this queue pair, or, with `process`, has died: what
  /// happens on its paths from now on says nothing about the network.
  void ignore(const mrc::QueuePair& qp, bool process) noexcept;
  void remove(const mrc::QueuePair& qp) noexcept;

  /// A connection has heard nothing for some time: the paths are to be looked at.
  void suspect() noexcept { suspected_.store(true, std::memory_order_relaxed); }
  /// Whether that was said since the last call.
  [[nodiscard]] bool take_suspicion() noexcept { return suspected_.exchange(false); }

  /// The paths to all peers that are not ignored.
  [[nodiscard]] std::vector<PeerPaths> paths(const mrc::Device& device) const;

 private:
  struct Key {
    std::uint64_t guid;
    std::uint8_t slot;
    unsigned lane;  // here
    auto operator<=>(const Key&) const = default;
  };
  struct Member {
    const mrc::QueuePair* qp;
    bool ignored = false;
  };
  struct Peer {
    std::uint64_t number;
    std::string name;
    std::vector<Member> members;
  };

  const mrc::detail::ForkMark
      fork_;  // in a child a thread of the parent may hold the lock for ever
  mutable std::mutex mutex_;
  std::map<Key, Peer> peers_;
  std::uint64_t count_ = 0;  // of all that there have been
  std::atomic<bool> suspected_{false};
};

}  // namespace mrc_nccl
