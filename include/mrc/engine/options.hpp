// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/cc/controller.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/send_window.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// Limits and settings of an engine, fixed when it is created.
struct EngineOptions {
  std::uint8_t slot = 0;   ///< among the engines of a host; top 8 bits of its QPNs
  std::uint64_t seed = 1;  ///< of path order; the same seed and secret give the same run
  /// Key of the generator of all numbers that nobody may predict: QPNs, PSNs, keys, tags, numbers
  /// of requests. Random wherever there can be attackers.
  SipKey secret{};
  Time start{};                            ///< no later than the first `now` passed to the engine
  std::uint32_t max_qps = 1024;            ///< queue pairs, 1 .. 65,533
  std::uint32_t max_cqs = 1024;            ///< completion queues
  std::uint32_t max_srqs = 1024;           ///< shared receive queues
  std::uint32_t max_mrs = 4096;            ///< memory regions, 1 .. 65,536
  std::uint32_t max_pds = 64;              ///< protection domains
  std::uint32_t max_peers = 1024;          ///< remote devices
  std::uint32_t max_outstanding = 65'536;  ///< packets in flight of all queue pairs together
  std::uint32_t control_queue = 4096;      ///< control packets waiting to be sent
  /// Endpoint requests of unconnected hosts that wait for the driver; 0: they are dropped.
  std::uint32_t unconnected_requests = 0;
  /// Ports of this engine; port status names no others as up.
  PlaneMask planes = ~PlaneMask{0};
  bool icrc = true;  ///< the ports check the iCRC, so that a tag (wire::Tag) can be part of it
  /// Planes whose ports hand bursts over in one piece, which is cut into packets somewhere behind
  /// them (Capabilities::segmentation).
  PlaneMask segmenting_planes = 0;
  /// Planes whose ports may read payload after transmit() has returned (TxPacket::copy).
  PlaneMask holding_planes = 0;
  /// Copies of payload that these ports can hold at a time, 0 .. 65,535; more are not sent before
  /// some are released. Needed only with holding_planes.
  std::uint32_t held_copies = 0;
  /// Data packets that may arrive in parts at a time (engine/memory.hpp); 0: peers are told that
  /// none are taken. Each takes largest_payload bytes of memory once it is used.
  std::uint32_t part_places = 0;
  std::uint32_t largest_payload = 4096;  ///< bytes of a packet that arrives in parts, most
  /// Planes whose ports may write payload to its place by themselves (RxPacket::unsettled).
  PlaneMask placing_planes = 0;
  std::uint32_t early_packets = 0;           ///< kept for early(); 0: they are dropped
  std::uint32_t resolution_inputs = 0;       ///< messages that wait for the driver; 0: likewise
  std::uint32_t deferred_stores = 4096;      ///< ends of out-of-order messages (engine/memory.hpp)
  std::uint32_t sack_threshold = 16 * 1024;  ///< bytes between SACKs (mrc-1.0 §2.6, [C-14])
  std::uint32_t burst = 1;  ///< consecutive packets of a queue pair on one path, most
  /// Most bytes of these together, as congestion control counts them; 0: no limit but their number.
  std::uint32_t burst_bytes = 0;
  /// Bytes that a queue pair sends before the next queue pair of its peer is served, rounded up to
  /// whole bursts. With less than sack_threshold, most services would end without a packet that
  /// makes the peer send a SACK; where many queue pairs are ready, a reliability probe would follow
  /// each. Twice that amount saves a fifth of the time per packet with 10,000 queue pairs
  /// (docs/performance_log.md).
  std::uint32_t quantum = 32 * 1024;
  /// Peers are processes, which the system may stop before they have read all of their ports: while
  /// nothing is heard from one for more than half a round trip, packets to it grow no older. The
  /// loss of a message's tail is then found by asking for it.
  bool peers_stop = false;
  /// How long a Transport ACK may wait for a SACK to travel with, to an OpenMRC peer that has not
  /// asked for one. The end of a message asks for none where nobody waits for it: the request is
  /// unsignaled, and there is room for more. 0: each message is acknowledged at once.
  Duration ack_delay{};
  bool trimming = true;    ///< DSCP class of trimmable data, to peers that answer trims
  bool timestamps = true;  ///< TSETH in data packets; without it there is no RTT, and no nscc
  /// EV probes by which the round-trip time to a peer is measured when the first queue pair
  /// connects, one per round trip (mrc-1.0 §6.8); 0: data measures it.
  std::uint8_t rtt_probes = 8;
  /// Turns per second (ProbePacer) for EV probes of bad paths, reverse paths, planes and sizes to
  /// all peers together that no data is exchanged with, and for rtt_probes; 0: no limit. What a
  /// plane's bursts do (PieceTrials) is asked beside it. As many answers to such probes of peers
  /// make it two packets for each.
  std::uint32_t idle_probes = 400;
  /// Shortest interval between EV probes for reverse paths; the interval is the RTT if that is
  /// longer (mrc-1.0 §3.6).
  Duration reverse_probe_floor = std::chrono::milliseconds(1);
  wire::DscpMap dscp{};          ///< the fabric's packet classes (mrc-1.0 §1.14)
  cc::Options cc{};              ///< congestion control (mrc-1.0 §6)
  path::PathSetOptions paths{};  ///< path selection and health (mrc-1.0 §3)
};

/// A remote device, for Engine::add_peer().
struct PeerSpec {
  std::uint8_t slot = 0;                                ///< of its QPNs
  PlaneMask planes = 0;                                 ///< planes in which it has an address
  std::array<std::uint64_t, kMaxPlanes> source_tags{};  ///< Port::add_peer(); 0: not checked
  std::vector<path::PathSpec> paths;                    ///< to it, with their EVs
  std::uint64_t plane_window = 0;  ///< most bytes in flight per plane, 0: no limit
  /// Size of its active set of paths; 0: EngineOptions::paths.active.
  std::uint16_t active_paths = 0;
  bool shared_routes = false;  ///< see path::PathSetOptions
  /// Data packets to it leave the payload out of the iCRC (wire::Bth::head_check()), as both sides
  /// have agreed.
  bool head_check = false;

  // What profiles say (mrc-1.0 §3.2); else as in EngineOptions.
  std::optional<std::uint16_t> min_active_paths{};  ///< see path::PathSetOptions
  std::optional<std::uint8_t> event_mask{};         ///< see path::PathSetOptions
  std::vector<path::PathIndex> denied{};            ///< paths that are DENIED from the start
  std::optional<cc::Options> cc{};                  ///< congestion control
  /// The same process of the remote device, reached with other profiles: what it has said of its
  /// ports holds here, too.
  std::optional<PeerId> sibling{};
};

inline constexpr std::uint32_t kMaxQueue = 1u << 15;    ///< requests of a queue, most
inline constexpr std::uint32_t kMaxCqDepth = 1u << 22;  ///< entries of a completion queue, most

/// A field, as a program names it, its value and what it may be.
struct Field {
  const char* name;
  std::uint32_t value;
  std::uint32_t least;
  std::uint32_t most;
  std::uint32_t step = 1;  ///< it is a multiple of this

  [[nodiscard]] constexpr bool in_range() const noexcept {
    return value >= least && value <= most && value % step == 0;
  }
};

/// For errors: "capacity.send is 0; it can be 1 to 32768".
[[nodiscard]] inline std::string to_string(const Field& field) {
  return std::string(field.name) + " is " + std::to_string(field.value) + "; it can be " +
         std::to_string(field.least) + " to " + std::to_string(field.most) +
         (field.step == 1 ? "" : ", in steps of " + std::to_string(field.step));
}

/// The first field that is out of its range.
[[nodiscard]] constexpr std::optional<Field> out_of_range(
    std::initializer_list<Field> fields) noexcept {
  for (const Field& field : fields)
    if (!field.in_range()) return field;
  return std::nullopt;
}

/// Throws Error that names the field, if there is one.
inline void check(std::string_view doing, const std::optional<Field>& bad) {
  if (!bad) return;
  throw Error(Errc::invalid_argument, std::string(doing) + ": " + to_string(*bad));  // set-up
}
/// Throws Error that names the first field that is out of its range.
inline void check(std::string_view doing, std::initializer_list<Field> fields) {
  check(doing, out_of_range(fields));
}

/// The first number of a capacity that is out of its range.
[[nodiscard]] constexpr std::optional<Field> out_of_range(const QpCapacity& c) noexcept {
  return out_of_range({{"capacity.send", c.send, 1, kMaxQueue},
                       {"capacity.receive", c.receive, 0, kMaxQueue},
                       {"capacity.send_sges", c.send_sges, 0, kMaxSendSges},
                       {"capacity.receive_sges", c.receive_sges, 0, kMaxReceiveSges},
                       {"capacity.inline_bytes", c.inline_bytes, 0, kMaxInlineBytes}});
}

/// The first attribute that is out of its range.
[[nodiscard]] constexpr std::optional<Field> out_of_range(const QpAttributes& a) noexcept {
  return out_of_range({{"mtu", a.mtu, kSmallestMtu, kLargestMtu, kMtuUnit},
                       {"mpr", a.mpr, 1, UINT8_MAX},
                       {"mpr_dest", a.mpr_dest, 1, UINT8_MAX},
                       {"max_wimm", a.max_wimm, 1, kMaxQueue},
                       {"max_wimm_dest", a.max_wimm_dest, 1, kMaxQueue},
                       {"timeout", a.timeout, 0, reliability::kMaxTimeoutExponent},
                       {"retry_linear", a.retry_linear, 0, 7},
                       {"retry_exponential", a.retry_exponential, 0, reliability::kRetryForever},
                       {"max_timeout", a.max_timeout, 0, reliability::kMaxTimeoutExponent},
                       {"max_rd_atomic", a.max_rd_atomic, 0, kMaxReads},
                       {"max_rd_atomic_dest", a.max_rd_atomic_dest, 0, kMaxReads},
                       {"rnr_retry", a.rnr_retry, 0, 7},
                       {"min_rnr_timer", a.min_rnr_timer, 0, 31}});
}

/// What a queue pair has once these are given.
[[nodiscard]] constexpr QpAttributes with(QpAttributes a, const RtrAttributes& own) noexcept {
  a.mpr_dest = own.mpr_dest.value_or(a.mpr_dest);
  a.max_wimm_dest = own.max_wimm_dest.value_or(a.max_wimm_dest);
  a.dynamic_mpr = own.dynamic_mpr.value_or(a.dynamic_mpr);
  a.max_rd_atomic_dest = own.max_rd_atomic_dest.value_or(a.max_rd_atomic_dest);
  a.min_rnr_timer = own.min_rnr_timer.value_or(a.min_rnr_timer);
  a.mpr = own.mpr.value_or(a.mpr);
  a.max_wimm = own.max_wimm.value_or(a.max_wimm);
  return a;
}

/// What a queue pair has once the attributes of RTS are given.
[[nodiscard]] constexpr QpAttributes with(QpAttributes a, const RtsAttributes& own) noexcept {
  a.mpr = own.mpr.value_or(a.mpr);
  a.max_wimm = own.max_wimm.value_or(a.max_wimm);
  a.timeout = own.timeout.value_or(a.timeout);
  a.retry_linear = own.retry_linear.value_or(a.retry_linear);
  a.retry_exponential = own.retry_exponential.value_or(a.retry_exponential);
  a.max_timeout = own.max_timeout.value_or(a.max_timeout);
  a.max_rd_atomic = own.max_rd_atomic.value_or(a.max_rd_atomic);
  a.rnr_retry = own.rnr_retry.value_or(a.rnr_retry);
  a.mpr_dest = own.mpr_dest.value_or(a.mpr_dest);
  a.max_wimm_dest = own.max_wimm_dest.value_or(a.max_wimm_dest);
  return a;
}

}  // namespace mrc::inline v0_1::engine
