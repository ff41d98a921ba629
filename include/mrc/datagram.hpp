// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/path/ev_format.hpp"
#include "mrc/profile_types.hpp"

namespace mrc::inline v0_1 {

class CompletionQueue;
class Device;
class SharedReceiveQueue;
namespace detail {
class DeviceCore;
class Lane;
}  // namespace detail

/// Unreliable datagrams. Names and values follow the verbs API.

/// Bytes in front of each received datagram: its IPv6 header, or 20 zeros and its IPv4 header.
/// Completion::byte_len counts them.
inline constexpr std::uint32_t kGrhBytes = wire::kGrhSize;
/// A DatagramRequest::remote_q_key with this bit stands for the sending queue pair's own Q_Key.
inline constexpr std::uint32_t kOwnQKey = 0x8000'0000;

/// Where a datagram goes: a device, and how packets to it are marked. A plain value.
struct AddressHandle {
  wire::IpAddress gid{};  ///< an address of the device; IPv4 mapped (::ffff:a.b.c.d)
  /// DSCP and ECN of the packets. 0, and those that MRC uses for packets that may be trimmed or
  /// were: the DSCP of packets that are not to be trimmed.
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;  ///< for programs that carry it; ports have one of their own
  /// Chooses, with both QPNs, one of the paths: datagrams that agree in all of them take the same.
  std::uint32_t flow_label = 0;

  /// Equal in every field.
  friend bool operator==(const AddressHandle&, const AddressHandle&) = default;
};

/// Where an answer to a received datagram goes, by the first kGrhBytes bytes of its memory: to its
/// source, in the same class. Nothing if they name no sender (Completion::has_grh).
[[nodiscard]] inline std::optional<AddressHandle> answer_to(Bytes grh) noexcept {
  const std::optional<wire::Origin> origin = wire::read_grh(grh);
  if (!origin || origin->source == wire::IpAddress{}) return std::nullopt;
  AddressHandle to;
  to.gid = origin->source;
  to.traffic_class = origin->traffic_class;
  to.flow_label = origin->flow_label;
  return to;
}

/// A datagram to send. A plain value; what it points to must live until it is posted.
struct DatagramRequest {
  std::uint64_t wr_id = 0;                   ///< returned in the completion
  std::span<const Sge> sges{};               ///< data to send, at most the queue pair's MTU
  AddressHandle to{};                        ///< the peer's device
  Qpn remote_qpn{};                          ///< its queue pair there
  std::uint32_t remote_q_key = 0;            ///< that one's Q_Key, or with kOwnQKey the own one
  std::optional<std::uint32_t> immediate{};  ///< delivered in the peer's completion
  SendFlags flags{};                         ///< signaled, inline, solicited
};

/// A step of a datagram queue pair to another state. A plain value.
struct DatagramChange {
  /// RESET to INIT to RTR to RTS; ERR and RESET from any. The present state, from INIT on, if only
  /// the Q_Key is to change.
  QpState state = QpState::init;
  std::optional<std::uint32_t> q_key{};  ///< to INIT, RTR or RTS; 0 after creation and reset
  std::optional<Psn> send_psn{};         ///< to RTS: of the first datagram; default: a random one
};

/// Counters of a datagram queue pair.
struct DatagramStats {
  std::uint64_t tx_packets = 0;  ///< datagrams given to a port
  std::uint64_t tx_bytes = 0;    ///< their payload
  std::uint64_t tx_lost = 0;     ///< not sent: all planes towards them are down
  std::uint64_t completed = 0;   ///< posted ones that are complete, signaled or not; not flushed
  std::uint64_t rx_packets = 0;  ///< datagrams received into a posted receive
  std::uint64_t rx_bytes = 0;    ///< their payload
  std::uint64_t no_receive = 0;  ///< dropped: there was no posted receive
  std::uint64_t bad_qkey = 0;    ///< dropped: they had another Q_Key
};

/// What is known of a datagram queue pair.
struct DatagramInfo {
  QpState state = QpState::reset;           ///< present state
  QpErrorCause cause = QpErrorCause::none;  ///< why it is in ERR
  PdId pd{};                                ///< protection domain
  QpCapacity capacity{};                    ///< sizes of its queues
  std::uint32_t mtu = 0;                    ///< largest payload, bytes
  std::uint32_t q_key = 0;                  ///< that datagrams to it must carry
  Psn send_psn;                             ///< of the first datagram that it sends or has sent
  bool signal_all = false;                  ///< as created
  std::uint32_t sends = 0;                  ///< slots of the send queue that are not free
  std::optional<SrqId> srq{};               ///< its shared receive queue, if it has one
  DatagramStats stats{};                    ///< counters since it was created
};

/// What a datagram queue pair is made of.
struct DatagramOptions {
  const CompletionQueue* send_cq = nullptr;     ///< required
  const CompletionQueue* receive_cq = nullptr;  ///< default: send_cq
  QpCapacity capacity{};                        ///< sizes of its queues
  std::optional<PdId> pd{};                     ///< default: the device's own
  bool signal_all = false;                      ///< every datagram completes, flags or not
  /// Where its receives come from; default: a receive queue of its own, of capacity.receive. The
  /// queue pair goes to the lane of this queue. Its receives need kGrhBytes more for datagrams.
  const SharedReceiveQueue* srq = nullptr;
  std::optional<unsigned> lane{};  ///< as QpOptions::lane
  bool as_verbs = false;           ///< as QpOptions::as_verbs
};

/// A queue pair for unreliable datagrams, in the format of RoCEv2 and beside MRC (UD). Each message
/// is one packet to any queue pair of this kind, whose device's address, number and Q_Key are given
/// with it: what is lost is lost, what finds no receive is dropped, and order is not promised.
///
/// A receive needs kGrhBytes bytes more than the message, which come first and say where it came
/// from. One that is too short completes with loc_len_err and moves the queue pair to ERR. Anybody
/// who can send packets to the device, and knows or guesses QPN and Q_Key, can fill receives;
/// docs/security.md.
///
/// Move-only. Methods may be called from any thread, but for those that end the handle: see Device.
class MRC_API DatagramQueuePair {
 public:
  DatagramQueuePair() = default;
  /// Takes the queue pair over; `other` is empty afterwards.
  DatagramQueuePair(DatagramQueuePair&& other) noexcept { swap(other); }
  /// Takes `other` over; the former queue pair is destroyed.
  DatagramQueuePair& operator=(DatagramQueuePair&& other) noexcept;
  ~DatagramQueuePair();

  /// Queue pair number, 24 bits; the top 8 are the slot of its lane.
  [[nodiscard]] Qpn qpn() const noexcept { return qpn_; }
  /// Which lane of the device it belongs to, for life.
  [[nodiscard]] unsigned lane() const noexcept;
  /// Current state; calls that it does not allow return Errc::invalid_state.
  [[nodiscard]] QpState state() const noexcept;
  /// One step to another state. Errc::invalid_state if the present one does not allow it;
  /// Errc::invalid_argument if an attribute belongs to another step. Never waits.
  Errc modify(const DatagramChange& change) noexcept;
  /// From RESET through INIT and RTR to RTS, with that Q_Key. Errc::invalid_state if it is not in
  /// RESET.
  Errc start(std::uint32_t q_key) noexcept;
  /// What is known of it. Throws mrc::Error if it was closed.
  [[nodiscard]] DatagramInfo query() const;

  /// Finds the way to a device, as post_send() does, and waits up to `patience` until packets to it
  /// are not lost for want of a next hop. Throws mrc::Error if there is no way, or the next hop
  /// does not answer. `remote` is a queue pair there.
  void prepare(const AddressHandle& to, Qpn remote,
               Duration patience = std::chrono::milliseconds(100)) const;

  /// Posts one datagram and starts sending it. Never blocks, never throws. Errc::unreachable if no
  /// plane leads to its address, Errc::too_long above DatagramInfo::mtu. It completes when its
  /// memory may be reused; delivery is not implied.
  Errc post_send(const DatagramRequest& request) noexcept;
  /// Posts several with one doorbell. Stops at the first that fails; `posted` counts the others.
  Errc post_sends(std::span<const DatagramRequest> requests, std::size_t& posted) noexcept;
  /// Posts a receive request. Errc::unsupported if its receives come from a shared queue.
  Errc post_receive(const ReceiveRequest& request) noexcept;

  /// As QueuePair::complete_send().
  Errc complete_send(std::uint64_t wr_id, WcStatus status) noexcept;

  /// Destroys the queue pair; posted requests vanish without completions.
  Errc close() noexcept;

 private:
  friend class Device;
  DatagramQueuePair(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane, Qpn qpn);
  void swap(DatagramQueuePair& other) noexcept;

  std::shared_ptr<detail::DeviceCore> core_;
  detail::Lane* lane_ = nullptr;
  Qpn qpn_{};
};

/// Endpoint requests (mrc-1.0 §5, §7.4): what a device asks, or tells, any host that speaks MRC.
/// Device::request_endpoints() sends them, each once, as plain MRC packets to QPN 2, by lane 0.
/// Without a helper, the calling thread makes its rounds.
///
/// Requests to one host leave at 10,000 per second, 64 at once, since no more are answered. Those
/// in a plane that is down are not sent. NICs answer, and OpenMRC devices on UDP and packet ports
/// within the limits of docs/security.md; over UDP the process in slot 0. A port status is a hint
/// to a peer without tags and nothing to others: connected OpenMRC devices tell each other
/// themselves.
///
/// Errors (mrc::Error) name the request, and nothing is sent then: invalid_argument for an ID that
/// is in the batch twice, a source that is no address of this device, a port that it does not have,
/// an EV wider than its mode, a DSCP above 63 or of trimmed packets; unsupported for EVs that the
/// ports can't send, and on RDMA devices; unreachable if no plane leads to the destination, or
/// option peers_allowed leaves it out.

/// What all requests of a batch are. The API numbers them alike.
enum class EndpointOperation : std::uint8_t {
  ev_probe = 0,     ///< does this path work?
  port_status = 1,  ///< these planes of this device are up
};

/// One request. A plain value.
struct EndpointRequest {
  std::uint16_t id = 0;                   ///< given back in the response; unique in the batch
  port::IpAddress source{};               ///< an address of a plane of this device; IPv4 mapped
  port::IpAddress destination{};          ///< the peer's address, its GID; IPv4 mapped
  path::EvMode mode = path::EvMode::udp;  ///< which packet fields the bits of `ev` are
  /// Path: packet fields as `mode` has them, and the plane that it leaves by (port 1 is plane 0).
  /// A value of 0: the device's first path to the peer; port 0: in the plane of `source`.
  ProfileEv ev{};
  /// port_status: bit N is plane N, 1 if it is up, counted as on the wire (mrc-1.0 §1.10).
  PlaneMask port_status = 0;
};

/// The response to a request.
struct EndpointResponse {
  std::uint16_t id = 0;  ///< of the request
  Plane plane = 0;       ///< in which it arrived
  Duration rtt{};        ///< from sending the request to its arrival
};

}  // namespace mrc::inline v0_1
