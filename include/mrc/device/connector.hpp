// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "mrc/config/config.hpp"
#include "mrc/config/peer_lists.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/device/log.hpp"
#include "mrc/device/peer_filter.hpp"
#include "mrc/device/peers.hpp"
#include "mrc/device/planes.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/exchange/resolution.hpp"

namespace mrc::inline v0_1::detail {

/// Connects queue pairs to peers that are known by GID and QPN only: asks the peer's device for the
/// rest (exchange/resolution.hpp), and attaches the queue pair when it is known. Peers that do not
/// answer are taken for another implementation of MRC, as option `peer` says.
///
/// Thread contract: under the lane's lock. What the constructor takes must outlive it.
class Connector final : private ResolutionHost {
 public:
  /// `info`: what the peer of an own queue pair needs to know; `profiles`: those of that queue
  /// pair.
  Connector(const Config& config, const Log& log, OpenedPlanes& planes, engine::Engine& engine,
            Peers& peers, PeerFilter& filter, const ResolutionOptions& options,
            std::function<ConnectionInfo(Qpn)> info, std::function<PeerProfiles(Qpn)> profiles);

  /// A queue pair has gone to RTR with this destination. Throws mrc::Error if no plane leads there.
  void start(Time now, Qpn qpn, const Destination& destination);
  /// It has left RTR and RTS, or is gone.
  void stop(Qpn qpn) noexcept;
  /// What it is connected to, if that was given by GID.
  [[nodiscard]] std::optional<Destination> destination(Qpn qpn) const;
  /// Why resolving it failed; empty if it did not.
  [[nodiscard]] std::string failure(Qpn qpn) const;

  /// Does this packet come from the peer of a queue pair that is not resolved yet
  /// (Engine::early())? If so, that peer is another implementation of MRC, and the queue pair is
  /// connected to it. Not once an OpenMRC device has answered there.
  [[nodiscard]] bool accepts(Time now, const wire::RxPacket& packet) noexcept;

  /// Takes the messages that the engine has received, and does what is due.
  void work(Time now) noexcept;
  /// When to call work() at the latest.
  [[nodiscard]] Time next_deadline() const noexcept { return resolution_.next_deadline(); }

 private:
  struct Entry {
    Destination destination;
    bool known = false;      ///< it has a peer
    std::uint64_t guid = 0;  ///< of the peer's device
    std::string failure;
  };

  [[nodiscard]] std::optional<Own> find(Qpn qpn) override;
  [[nodiscard]] bool belongs(const port::IpAddress& address,
                             const Destination& destination) override;
  void on_resolved(Time now, Qpn qpn, const ConnectionInfo& peer, bool asked) override;
  void on_silence(Time now, Qpn qpn) override;
  void on_refused(Time now, Qpn qpn, const std::string& why) override;
  [[nodiscard]] std::uint64_t source_of(Plane plane, const port::IpAddress& ip) override;

  [[nodiscard]] ConnectionInfo plain_peer(const Destination& destination) const;
  void attach(Time now, Qpn qpn, Entry& entry, const ConnectionInfo& peer);
  void take_for_foreign(Time now, Qpn qpn, Entry& entry, const std::string& why);
  void fail(Qpn qpn, const std::string& why);
  void send(Time now, ResolutionMessage& message);

  const Config& config_;
  const Log& log_;
  OpenedPlanes& planes_;
  engine::Engine& engine_;
  Peers& peers_;
  PeerFilter& filter_;
  const std::function<ConnectionInfo(Qpn)> info_;
  const std::function<PeerProfiles(Qpn)> profiles_;
  const PeerId scratch_;  ///< under which ports know who gets the next message
  const PeerPorts peer_ports_;
  Resolution resolution_;
  std::unordered_map<std::uint32_t, Entry> entries_;  ///< by QPN
  wire::TxBurst burst_{1, 1};
};

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/device/impl/connector.ipp"
#endif
