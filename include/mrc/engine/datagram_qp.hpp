// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/engine/datagram_queue.hpp"
#include "mrc/engine/datagram_types.hpp"
#include "mrc/engine/receive_queue.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::engine {

namespace intrusive = boost::intrusive;

/// What a datagram queue pair is created with.
struct DatagramInit {
  PdId pd{};                 ///< protection domain of all memory it uses
  CqId send_cq{};            ///< for completions of sent datagrams
  CqId receive_cq{};         ///< for completions of receives
  QpCapacity capacity{};     ///< sizes of its queues
  std::uint32_t mtu = 4096;  ///< largest payload: 256, 512, 1024, 2048 or 4096 bytes
  bool signal_all = false;   ///< every datagram is signaled, whatever its flags
  /// Where its receives come from, in place of a queue of its own: capacity.receive and
  /// capacity.receive_sges do not count then.
  std::optional<SrqId> srq{};
  /// Its queues are as in verbs (QpOptions::as_verbs).
  bool as_verbs = false;
};

/// A device that datagrams are sent to, for Engine::add_destination().
struct DestinationSpec {
  PeerId peer{};  ///< under which the ports know how it is reached; not one of Engine::add_peer()
  /// Paths to it. Those of the first one's plane are used, while that is up; then those of the next
  /// plane in the list, and so on.
  std::vector<path::PathSpec> paths;
};

/// A queue pair for unreliable datagrams. It has no connection, no peer, no window and no timer.
struct DatagramState {
  /// Throws std::bad_alloc.
  DatagramState(Qpn number, const DatagramInit& how)
      : qpn(number),
        init(how),
        queue(how.capacity.send, how.capacity.send_sges, how.capacity.inline_bytes, how.as_verbs),
        receives(how.capacity.receive, how.capacity.receive_sges) {}

  /// Link in a list; unlinks itself.
  using Hook = intrusive::list_member_hook<intrusive::link_mode<intrusive::auto_unlink>>;

  const Qpn qpn;                            ///< its number
  const DatagramInit init;                  ///< as created
  QpState state = QpState::reset;           ///< present state
  QpErrorCause cause = QpErrorCause::none;  ///< why it is in ERR
  std::uint32_t q_key = 0;                  ///< that datagrams to it must carry
  /// PSN of the datagram at position 0 of `queue`: PSNs name entries that a port hands back.
  Psn first_psn;
  DatagramQueue queue;           ///< posted datagrams
  ReceiveQueue receives;         ///< posted receives; none with a shared receive queue
  std::uint32_t given_from = 0;  ///< position of the first entry that the newest burst has,
  std::uint32_t given_to = 0;    ///< and behind the last one
  bool error_reported = false;   ///< its qp_error event waits to be polled
  DatagramStats stats;           ///< counters
  Hook ready_hook;               ///< has datagrams to send (DatagramTables)
  Hook given_hook;               ///< has some in the newest burst
};

}  // namespace mrc::inline v0_1::engine
