// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/exchange.hpp"
#include "mrc/net/address.hpp"
#include "mrc/profile_types.hpp"

namespace mrc::inline v0_1 {

/// A change of a queue pair as ibv_modify_qp() and mrc_modify_qp() make it: one step to another
/// state, with the attributes of that step (mrc-1.0 §2.11, §7.3). A plain value.
struct QpChange {
  QpState state = QpState::init;  ///< to go to: RESET to INIT to RTR to RTS; ERR and RESET from any

  // To INIT.
  std::optional<QpProfiles> profiles{};  ///< default: as in QpOptions, or of the last time

  // To RTR: one of these two.
  std::optional<Destination> destination{};    ///< GID and QPN; the device finds out the rest
  std::optional<ConnectionInfo> connection{};  ///< what the peer has said by other means

  // To RTR.
  /// First PSN that the peer sends; needed with `destination`. Where both sides offer SEND, READ
  /// and atomics, it is that of the peer's ConnectionInfo instead.
  std::optional<Psn> receive_psn{};
  std::optional<std::uint32_t> mtu{};  ///< payload bytes per packet; default: the queue pair's own.
                                       ///< Both sides agree on agreed_mtu()
  RtrAttributes rtr{};                 ///< own limits, and whether the peer answers trims

  // To RTS.
  RtsAttributes rts{};  ///< first PSN to send, own limits, timeout and retries
};

/// What is known of a queue pair.
struct QpInfo {
  QpState state = QpState::reset;           ///< as QueuePair::state()
  QpErrorCause cause = QpErrorCause::none;  ///< as QueuePair::error_cause()
  PdId pd{};                                ///< protection domain
  QpCapacity capacity{};                    ///< sizes of its queues
  QpAttributes attributes{};                ///< in force now
  bool signal_all = false;                  ///< as created
  std::uint32_t sends = 0;                  ///< slots of the send queue that are not free
  std::optional<SrqId> srq{};               ///< its shared receive queue, if it has one
  Psn send_psn;                             ///< first PSN that it sends, given or not
  Psn receive_psn;                          ///< first PSN that the peer sends; from RTR on
  std::uint32_t mtu = 0;                    ///< payload bytes per packet; 0 before RTR
  Qpn remote_qpn{};                         ///< the peer's queue pair; from RTR on
  port::IpAddress gid{};                    ///< the peer, if it was given by GID
  bool resolving = false;                   ///< the device still looks for the peer
  QpProfiles profiles{};                    ///< its EV and CC profile, if it has some
};

}  // namespace mrc::inline v0_1
