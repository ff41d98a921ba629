// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/api/fault_spec.hpp"
#include "mrc/api/port_stats.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/engine_stats.hpp"

/// Statistics of a device: plain structs, copies of the state at one moment. Counters only grow,
/// from the opening of the device; the difference of two copies is what happened between them.
/// stats_json.hpp writes them as JSON under the same names.
namespace mrc::inline v0_1 {

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
  /// Such requests not answered: left to another process of this host, from a host that is not of
  /// the fabric or not in option peers_allowed, or too many.
  std::uint64_t unconnected_probes_refused = 0;
  /// Questions answered of devices that connect by GID, and
  std::uint64_t resolutions_answered = 0;
  /// those left without an answer, because there were too many.
  std::uint64_t resolutions_refused = 0;
  std::uint64_t events_dropped = 0;  ///< events that nobody took in time
  std::uint64_t helper_rounds = 0;   ///< rounds of progress that helper threads made
};

}  // namespace mrc::inline v0_1
