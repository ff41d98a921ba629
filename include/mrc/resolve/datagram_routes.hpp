// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/resolve/connector.hpp"
#include "mrc/resolve/datagrams.hpp"

namespace mrc::inline v0_1::detail {

/// How datagrams reach devices that are known by GID: entered into engine and ports when the first
/// one is posted, kept for the next, and replaced when there are too many, oldest first. A process
/// of a device is reached by a UDP port that follows from the slot in its QPNs, so each is an entry
/// of its own.
///
/// Nothing tells a sender of datagrams that they do not arrive. So where there are several ways to
/// a device, it is asked over all of them, once per second while datagrams are posted to it, and
/// the likeliest one that has brought an answer is used. A device that answers by none, which other
/// makes never do, gets them over the likeliest one whose plane is up here.
///
/// Thread contract: under the lane's lock, except plan(), which any thread may call without it.
/// What the constructor takes must outlive it.
class DatagramRoutes {
 public:
  /// Entries that are kept, most. Only programs that send to more hosts than that look up again.
  static constexpr std::size_t kMost = 4096;
  /// Ways to a device that are tried, most.
  static constexpr std::size_t kMostWays = 8;

  /// A way to a device.
  struct Way {
    Contact contact;
    PlanePaths paths;
    bool answered = false;  ///< since it was last asked
  };
  /// How a device is reached.
  struct Plan {
    std::vector<Way> ways;  ///< likeliest first: used while its plane is up
  };

  DatagramRoutes(const Config& config, const OpenedPlanes& planes, engine::Engine& engine,
                 Connector& connector, const PeerFilter& filter, const Steering& steering)
      : planes_(planes),
        engine_(engine),
        connector_(connector),
        filter_(filter),
        steering_(steering),
        asks_(config.peer != PeerKind::mrc && !config.strict),
        first_peer_(config.max_peers + 1 + planes.own_peers) {}

  /// Throws mrc::Error if no plane leads there, or the device is not allowed as a peer.
  [[nodiscard]] Plan plan(const port::IpAddress& gid, Qpn qpn) const;
  /// The entry for a device and the process that a QPN belongs to. Errc::unreachable if no plane
  /// leads there; Errc::no_resources if there are datagrams waiting to all that are kept. `own`:
  /// the queue pair that is about to send there.
  [[nodiscard]] Result<engine::DestinationId> find(Time now, const port::IpAddress& gid, Qpn qpn,
                                                   Qpn own) noexcept;
  /// Steering denies other paths than before.
  void deny_paths() noexcept;
  /// A device has answered the question with that number, from there.
  void on_answer(std::uint64_t question, const Contact& from) noexcept;

 private:
  struct Key {
    port::IpAddress gid{};
    std::uint8_t slot = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    [[nodiscard]] std::size_t operator()(const Key& key) const noexcept {
      return port::source_tag(key.gid) + key.slot;
    }
  };
  struct Entry {
    Key key;
    engine::DestinationId id{};
    std::vector<Way> ways;
    std::size_t used = 0;        ///< index in `ways`
    std::uint64_t question = 0;  ///< its number, which nobody can guess
    bool asking = false;         ///< answers are awaited
    Time next{};                 ///< when to ask, or to stop waiting for answers
    bool live = false;
  };

  void look_after(Time now, Entry& entry, Qpn qpn, Qpn own) noexcept;
  void use_best(Entry& entry);
  [[nodiscard]] std::vector<path::PathSpec> allowed_paths(const std::vector<Way>& ways) const;
  [[nodiscard]] Result<std::size_t> place();
  void forget(std::size_t place) noexcept;
  [[nodiscard]] PeerId peer_of(std::size_t place) const noexcept {
    return PeerId{first_peer_ + static_cast<std::uint32_t>(place)};
  }

  const OpenedPlanes& planes_;
  engine::Engine& engine_;
  Connector& connector_;
  const PeerFilter& filter_;
  const Steering& steering_;
  const bool asks_;  ///< else no device is OpenMRC: see PlaneKind::keep_real_header()
  const std::uint32_t first_peer_;  ///< under which ports know the first entry
  std::vector<Entry> entries_;
  std::unordered_map<Key, std::size_t, Hash> by_key_;  ///< index in entries_
  std::size_t oldest_ = 0;                             ///< next one to be replaced
};

}  // namespace mrc::inline v0_1::detail
