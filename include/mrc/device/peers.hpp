// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/config/config.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/device/log.hpp"
#include "mrc/device/planes.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/exchange/connection_info.hpp"

namespace mrc::inline v0_1::detail {

/// The remote devices that queue pairs of an engine are connected to: entered into engine and ports
/// when the first one connects, removed with the last.
///
/// Thread contract: under the device's lock. What the constructor takes must outlive it.
class Peers {
 public:
  Peers(const Config& config, const Log& log, OpenedPlanes& planes, engine::Engine& engine)
      : config_(config), log_(log), planes_(planes), engine_(engine) {}

  /// The peer that a ConnectionInfo names: a known one, or a new one. Throws mrc::Error, and
  /// changes nothing then, if it cannot be reached or there are too many.
  [[nodiscard]] PeerId find_or_add(const ConnectionInfo& info);
  /// Removes a peer without queue pairs, since it may come back with other addresses.
  void forget_unused(PeerId peer) noexcept;
  /// Why a queue pair is in ERR, with its peer, retries and path states; empty if it is not.
  [[nodiscard]] std::string error_text(const engine::QueuePairState& qp) const;

 private:
  /// A remote device.
  struct Known {
    std::uint64_t guid = 0;  ///< ConnectionInfo::device_guid
    PeerId id{};
    std::string name;  ///< its addresses, for messages
  };
  /// A remote device that is being added to the engine and the ports.
  struct Candidate {
    engine::PeerSpec spec;
    std::vector<PeerRoute> routes;  ///< [plane]
    std::string name;
  };

  [[nodiscard]] Candidate make_candidate(const ConnectionInfo& info) const;
  void add_to_port(PeerId peer, Plane plane, const port::PeerAddress& address,
                   const PeerRoute& route);

  const Config& config_;
  const Log& log_;
  OpenedPlanes& planes_;
  engine::Engine& engine_;
  std::vector<Known> known_;
};

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/device/impl/peers.ipp"
#endif
