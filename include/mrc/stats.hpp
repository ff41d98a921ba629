// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/engine/engine_stats.hpp"
#include "mrc/engine/verbs_types.hpp"

namespace mrc::inline v0_1::port {

/// Number of packets that each kind of fault has hit; one packet can be hit by several.
struct FaultStats {
  std::uint64_t lost = 0;         ///< dropped
  std::uint64_t duplicated = 0;   ///< delivered twice
  std::uint64_t reordered = 0;    ///< overtaken by later packets
  std::uint64_t corrupted = 0;    ///< one bit flipped
  std::uint64_t marked = 0;       ///< ECN set to CE
  std::uint64_t trimmed = 0;      ///< both kinds of trimming
  std::uint64_t delayed = 0;      ///< held back by delay or jitter
  std::uint64_t black_holed = 0;  ///< in and out
  std::uint64_t link_down = 0;    ///< received while down, or refused for sending
  std::uint64_t overflow = 0;     ///< dropped because too many packets were held back already
};

/// Counters of one port. System calls are counted too: packets per call is the batch size.
struct PortStats {
  std::uint64_t tx_packets = 0;    ///< packets sent
  std::uint64_t tx_bytes = 0;      ///< their bytes, BTH .. iCRC
  std::uint64_t tx_calls = 0;      ///< system calls that sent
  std::uint64_t tx_busy = 0;       ///< packets that the kernel did not take (socket buffer full)
  std::uint64_t tx_errors = 0;     ///< packets refused for another reason (no route, port down)
  std::uint64_t rx_packets = 0;    ///< packets handed to the engine
  std::uint64_t rx_bytes = 0;      ///< their bytes, BTH .. iCRC
  std::uint64_t rx_calls = 0;      ///< system calls that received
  std::uint64_t rx_foreign = 0;    ///< MRC, but for another address than the port's
  std::uint64_t rx_malformed = 0;  ///< too short for BTH and iCRC, or cut by the buffer's size
  /// Dropped by the kernel because the receive buffer was full; on UDP sockets also what is no MRC
  /// packet at all (plane/udp_port.hpp), which the kernel counts together.
  std::uint64_t rx_overrun = 0;

  // Of ports whose devices place payload by themselves (verbs):
  std::uint64_t tx_placed = 0;     ///< packets sent for the peer's device to place
  std::uint64_t rx_placed = 0;     ///< packets whose payload the own device has placed
  std::uint64_t tx_markers = 0;    ///< empty writes, so that retransmissions are soon settled
  std::uint64_t rx_unsettled = 0;  ///< retransmissions while an earlier copy could still be written
  std::uint64_t path_resets = 0;   ///< receiving paths that were replaced to settle them
  std::uint64_t late_writes = 0;   ///< by paths that duplicated or reordered: memory may be wrong
  std::uint64_t peers_refused = 0;  ///< peers moved to UD for such paths
};

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1 {

/// Statistics of a device: plain structs, copies of the state at one moment. Counters only grow
/// from the opening of the device on. stats_json.hpp writes them as JSON under the same names.

/// One plane of a device.
struct PlaneStats {
  std::string address;            ///< as Device::plane_names() gives it
  bool up = false;                ///< can be used: as PlaneState::up
  bool enabled = true;            ///< as PlaneState::enabled
  std::uint64_t times_down = 0;   ///< times that `up` became false, for whatever reason
  std::uint64_t rx_bad_icrc = 0;  ///< packets received and dropped: the iCRC is wrong
  std::uint64_t rx_disabled = 0;  ///< packets received and dropped: the plane was disabled
  port::PortStats port;           ///< packets, bytes and system calls
  port::FaultStats faults;        ///< packets hit by injected faults
};

/// One path towards one peer: its state and counters (mrc-1.0 §3.4). Packets are the first
/// transmissions and retransmissions of all queue pairs to that peer.
struct PathReport {
  Ev ev{};                            ///< entropy value: names the path in SACKs
  Plane plane = 0;                    ///< plane of the path
  std::uint16_t port_path = 0;        ///< index among the port's own paths
  std::string state;                  ///< "good", "skip", "assumed_bad" or "denied"
  bool active = false;                ///< in use, not held as a backup
  std::uint64_t packets = 0;          ///< data packets sent over it
  std::uint64_t bytes = 0;            ///< of these, as IPv6 packets (UDP length + 40)
  std::uint64_t delivered = 0;        ///< packets reported received
  std::uint64_t marks = 0;            ///< SACKs that asked to skip it
  std::uint64_t trims = 0;            ///< packets trimmed on it
  std::uint64_t losses = 0;           ///< packets inferred lost on it
  std::uint64_t timeouts = 0;         ///< timeouts of packets sent over it, up to 65,535
  std::uint64_t probes_sent = 0;      ///< EV probes sent to find out whether it is good again
  std::uint64_t probes_answered = 0;  ///< answered EV probes that prove that data passes
  std::uint64_t times_bad = 0;        ///< times that it became ASSUMED_BAD, up to 65,535
  std::uint64_t rtt_ns = 0;           ///< smoothed round-trip time of its packets; 0: not measured
};

/// One lane of a device (Config::lanes).
struct LaneStats {
  std::uint8_t slot = 0;            ///< top 8 bits of its QPNs
  std::uint32_t qps = 0;            ///< queue pairs that exist now
  std::uint32_t peers = 0;          ///< remote lanes that they are connected to
  std::uint64_t helper_rounds = 0;  ///< rounds of progress that its helper thread made
  EngineStats engine;               ///< counters of its protocol engine
};

/// A remote lane that queue pairs of a lane here are connected to.
struct PeerReport {
  std::string addresses;          ///< of its planes, with UDP ports
  std::uint32_t lane = 0;         ///< number of the lane here
  std::uint32_t number = 0;       ///< of the peer in that lane; another one may get it later
  std::uint32_t queue_pairs = 0;  ///< connected to it now
  std::uint32_t paths = 0;        ///< paths to it, and
  std::uint32_t paths_up = 0;     ///< those that can carry data now
  std::uint32_t backups = 0;      ///< those held back, to replace one that fails
  bool foreign = false;           ///< another implementation of MRC, or taken for one
  bool head_check = false;        ///< the iCRC of data packets to it leaves the payload out
};

/// A queue pair with a peer, or on its way to one.
struct QpReport {
  std::uint32_t lane = 0;  ///< number of its lane
  Qpn qpn{};               ///< its number
  std::string state;       ///< "INIT", "RTR", "RTS", "ERR", ...
  std::string error;       ///< why it is in ERR, with its peer and what was tried; else empty
  bool rc = false;         ///< both sides offer SEND, READ and atomics
  /// PeerReport::number of its peer; not set while the peer is not known.
  std::optional<std::uint32_t> peer{};
  Qpn remote_qpn{};              ///< the peer's queue pair; from RTR on
  std::string waits_for;         ///< engine::WaitsFor: "nothing", "answer", "path", ...
  std::uint64_t silent_ns = 0;   ///< how long the peer has owed an answer; 0: it owes none
  std::uint32_t unfinished = 0;  ///< messages that were sent whole and have no answer yet
  QpStats stats;                 ///< its counters
};

/// A device. Counters are sums over its lanes.
struct DeviceStats {
  EngineStats engine;                 ///< counters of the protocol engines
  std::vector<PlaneStats> planes;     ///< one entry per plane; addresses and ports of lane 0
  std::vector<LaneStats> lanes;       ///< one entry per lane
  std::uint32_t qps = 0;              ///< queue pairs that exist now
  std::uint32_t cqs = 0;              ///< completion queues
  std::uint32_t srqs = 0;             ///< shared receive queues
  std::uint32_t mrs = 0;              ///< memory regions
  std::uint32_t pds = 0;              ///< protection domains
  std::uint32_t peers = 0;            ///< remote lanes, counted in each lane
  std::vector<PeerReport> connected;  ///< these one by one; with profiles one may be there twice
  /// Datagrams and messages to connect from hosts that option peers_allowed leaves out.
  std::uint64_t peers_refused = 0;
  /// EV probes and port status answered that came from hosts to which no queue pair is connected.
  std::uint64_t unconnected_probes_answered = 0;
  /// Those not answered: left to another process of this host, from a host that is not of the
  /// fabric or not in option peers_allowed, or too many.
  std::uint64_t unconnected_probes_refused = 0;
  std::uint64_t resolutions_answered = 0;  ///< questions of devices that connect by GID, and
  std::uint64_t resolutions_refused = 0;   ///< those not answered: there were too many
  std::uint64_t events_dropped = 0;        ///< events that nobody took in time
  std::uint64_t helper_rounds = 0;         ///< rounds of progress that helper threads made
};

/// Planes in and out of use. All are enabled at first. A disabled one carries nothing, neither data
/// nor control packets, and what arrives in it is dropped (PlaneStats::rx_disabled); only what the
/// kernel or a NIC was given before may still leave. To queue pairs it is as if its link were down:
/// peers are told to use the others, lost packets are sent again over them, and the events
/// plane_down and plane_up come. Without any plane queue pairs wait, and retry, as in an outage.
/// Link state and injected faults are other reasons for a plane to be down, and stay as they are.

/// State of a plane of a device (mrc-1.0 §7.4, port administration).
struct PlaneState {
  bool enabled = true;  ///< by the administrator: Device::set_plane_enabled()
  /// It can carry packets now: enabled, its link is there (injected faults included), and its MTU
  /// is large enough; as PlaneStats::up.
  bool up = false;

  /// Equal in both.
  friend bool operator==(const PlaneState&, const PlaneState&) = default;
};

/// Something that happened to a device or its objects without being asked for.
struct DeviceEvent {
  /// What happened.
  enum class Kind : std::uint8_t {
    qp_error,    ///< a queue pair moved to ERR
    cq_overrun,  ///< a completion queue had no room for a completion
    plane_down,  ///< a plane can't be used any more: its link, too small an MTU, or disabled
    plane_up,    ///< it can again
    srq_limit,   ///< fewer receives are left in a shared receive queue than its limit
    last_wqe,    ///< a queue pair in ERR takes no more receives from its shared receive queue
  };
  Kind kind{};                              ///< what happened
  Qpn qpn{};                                ///< qp_error, last_wqe: the queue pair
  QpErrorCause cause = QpErrorCause::none;  ///< qp_error: why
  CqId cq{};                                ///< cq_overrun: the queue
  SrqId srq{};                              ///< srq_limit: the queue
  Plane plane = 0;                          ///< plane_down, plane_up: the plane

  /// Equal in every field.
  friend bool operator==(const DeviceEvent&, const DeviceEvent&) = default;
};

}  // namespace mrc::inline v0_1

namespace mrc::inline v0_1::port {

/// Whether to use a feature that the kernel may lack.
enum class Offload : std::uint8_t {
  off,
  on,         ///< opening the port fails without it
  automatic,  ///< used if there; its absence is one of UdpPort::notes()
};

}  // namespace mrc::inline v0_1::port
