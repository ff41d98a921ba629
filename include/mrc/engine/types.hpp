// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mrc/core/access.hpp"
#include "mrc/core/types.hpp"

/// Types shared by application and engine: work requests, completions, states, attributes. Their
/// names and values follow the verbs API.
namespace mrc::inline v0_1 {

/// States of a queue pair (mrc-1.0 §2.11). There is no SQD or SQE.
enum class QpState : std::uint8_t { reset, init, rtr, rts, err };

/// Name of the state, in capitals as in the verbs documentation.
[[nodiscard]] constexpr const char* to_string(QpState s) noexcept {
  switch (s) {
    case QpState::reset:
      return "RESET";
    case QpState::init:
      return "INIT";
    case QpState::rtr:
      return "RTR";
    case QpState::rts:
      return "RTS";
    case QpState::err:
      return "ERR";
  }
  return "?";
}

/// Status of a completion. The numbers are those of ibv_wc_status.
enum class WcStatus : std::uint8_t {
  success = 0,
  loc_prot_err = 4,
  wr_flush_err = 5,
  rem_inv_req_err = 9,
  rem_access_err = 10,
  rem_op_err = 11,
  retry_exc_err = 12,
  fatal_err = 19,
};

/// The status in words.
[[nodiscard]] constexpr const char* to_string(WcStatus s) noexcept {
  switch (s) {
    case WcStatus::success:
      return "success";
    case WcStatus::loc_prot_err:
      return "local protection error";
    case WcStatus::wr_flush_err:
      return "work request flushed";
    case WcStatus::rem_inv_req_err:
      return "remote invalid request";
    case WcStatus::rem_access_err:
      return "remote access error";
    case WcStatus::rem_op_err:
      return "remote operation error";
    case WcStatus::retry_exc_err:
      return "retry counter exceeded";
    case WcStatus::fatal_err:
      return "fatal error";
  }
  return "unknown status";
}

/// Which completions raise the event of an armed completion queue.
enum class Arm : std::uint8_t {
  none,
  solicited,  ///< failed ones, and receives whose sender asked for it (SendFlags::solicited)
  all,        ///< any
};

/// What a completion completes.
enum class WcOpcode : std::uint8_t { write, write_imm, recv_write_imm };

/// One entry of a completion queue.
struct Completion {
  std::uint64_t wr_id = 0;              ///< of the request that is complete
  std::uint32_t byte_len = 0;           ///< recv_write_imm: length of the message
  std::uint32_t immediate = 0;          ///< recv_write_imm only
  Qpn qpn{};                            ///< queue pair of the request
  WcStatus status = WcStatus::success;  ///< success, or why the request failed
  WcOpcode opcode = WcOpcode::write;    ///< kind of the request
  bool solicited = false;               ///< receives: the peer asked for it, see CompletionQueue
};

/// A range of local memory inside a registered region. Receive requests write to it: const only
/// says that send requests do not.
struct Sge {
  const void* address = nullptr;  ///< first byte
  std::uint32_t length = 0;       ///< bytes
  std::uint32_t lkey = 0;         ///< of the region that holds the SGE
};

/// Where a write goes in the peer's memory.
struct RemoteAddress {
  std::uint64_t address = 0;  ///< virtual address at the peer
  std::uint32_t rkey = 0;     ///< of the peer's memory region
};

/// Flags of a send request.
struct SendFlags {
  bool signaled = true;      ///< produce a completion on success (errors always produce one)
  bool inline_data = false;  ///< copy the data now; the SGEs need no lkey and are free at once
  /// write_imm: the peer's completion is solicited (CompletionQueue::arm()). Peers that are not
  /// OpenMRC devices do not learn of it (mrc-1.0 §1.3).
  bool solicited = false;
};

/// What a send request does.
enum class SendOpcode : std::uint8_t {
  write,      ///< RDMA Write
  write_imm,  ///< RDMA Write with Immediate: consumes a receive and completes at the peer
};

/// A work request for the send queue. A plain value; what it points to must live until it is
/// posted.
struct SendRequest {
  std::uint64_t wr_id = 0;                ///< returned in the completion
  SendOpcode opcode = SendOpcode::write;  ///< what to do
  std::span<const Sge> sges{};            ///< data to send; none: a zero-length message
  RemoteAddress remote{};                 ///< destination of a write
  std::uint32_t immediate = 0;            ///< write_imm: delivered in the peer's completion
  SendFlags flags{};                      ///< signaled, inline, solicited
};

/// A work request for the receive queue. A write with immediate consumes it and writes to none of
/// its memory.
struct ReceiveRequest {
  std::uint64_t wr_id = 0;      ///< returned in the completion
  std::span<const Sge> sges{};  ///< memory with local_write access
};

/// Longest message, in bytes (as in RC, mrc-1.0 §9).
inline constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 31;
/// Unit of MPR values (mrc-1.0 §2.4).
inline constexpr std::uint32_t kMprUnit = 128;
/// Largest MPR that the API's 8 bits express, in units.
inline constexpr std::uint32_t kMaxMpr = 255;

/// Most SGEs of a send request.
inline constexpr std::uint32_t kMaxSendSges = 64;
/// Most SGEs of a receive request.
inline constexpr std::uint32_t kMaxReceiveSges = 64;
/// Most bytes of inline data of a send request.
inline constexpr std::uint32_t kMaxInlineBytes = 1024;

/// Sizes of a queue pair, fixed at creation.
struct QpCapacity {
  std::uint32_t send = 128;         ///< work requests on the send queue, 1 .. 32,768
  std::uint32_t receive = 128;      ///< receive requests, 0 .. 32,768
  std::uint32_t send_sges = 1;      ///< SGEs per send request, 0 .. 64
  std::uint32_t inline_bytes = 16;  ///< inline data per send request, 0 .. 1,024
  std::uint32_t receive_sges = 0;   ///< SGEs per receive request, 0 .. 64
};

/// Attributes of a connection that this side chooses (mrc-1.0 §2.10, §2.12, §7.3).
struct QpAttributes {
  std::uint32_t mtu = 4096;             ///< payload bytes per packet (is_mtu())
  std::uint8_t mpr = 32;                ///< as requester: most PSNs in flight, units of 128
  std::uint8_t mpr_dest = 32;           ///< as responder: PSNs tracked, units of 128
  std::uint16_t max_wimm = 128;         ///< as requester: most WriteImm in flight
  std::uint16_t max_wimm_dest = 128;    ///< as responder: WriteImm tracked
  std::uint8_t timeout = 12;            ///< T = 1.024 us x 2^n, n = 0 .. 24: 12 is 4.2 ms
  std::uint8_t retry_linear = 7;        ///< expirations with T, 0 .. 7
  std::uint8_t retry_exponential = 10;  ///< then doubling ones, 0 .. 24; 25: for ever
  bool dynamic_mpr = true;              ///< obey the MPR in the responder's SACKs
  bool trim_nack = true;                ///< as responder, answer trimmed packets
};

/// What may be changed of the own attributes on the way from INIT to RTR (mrc-1.0 §7.3).
struct RtrAttributes {
  std::optional<std::uint8_t> mpr_dest{};        ///< QpAttributes::mpr_dest
  std::optional<std::uint16_t> max_wimm_dest{};  ///< QpAttributes::max_wimm_dest
  std::optional<bool> dynamic_mpr{};             ///< QpAttributes::dynamic_mpr

  /// Equal in every field.
  friend bool operator==(const RtrAttributes&, const RtrAttributes&) = default;
};

/// The same on the way from RTR to RTS.
struct RtsAttributes {
  std::optional<Psn> send_psn{};                    ///< first PSN to send; default: a random one
  std::optional<std::uint8_t> mpr{};                ///< QpAttributes::mpr
  std::optional<std::uint16_t> max_wimm{};          ///< QpAttributes::max_wimm
  std::optional<std::uint8_t> timeout{};            ///< QpAttributes::timeout
  std::optional<std::uint8_t> retry_linear{};       ///< QpAttributes::retry_linear
  std::optional<std::uint8_t> retry_exponential{};  ///< QpAttributes::retry_exponential

  /// Equal in every field.
  friend bool operator==(const RtsAttributes&, const RtsAttributes&) = default;
};

/// What an application knows of the traffic to come: that it is about to send to several peers at
/// once, as in a step of a collective operation. Congestion control then starts carefully
/// (QueuePair::set_hint()). The same number of hosts is taken to send to each peer.
struct QpHint {
  std::uint32_t peers = 1;           ///< peers sent to at the same time; 0: not known, as 1
  std::uint32_t flows_per_peer = 1;  ///< queue pairs to each of them; 0: not known, as 1
};

/// The peer's side of a connection, from its ConnectionInfo.
struct RemoteQp {
  PeerId peer{};          ///< the remote device
  Qpn qpn{};              ///< its queue pair
  Psn start_psn;          ///< first PSN that the peer will send
  std::uint32_t mtu = 0;  ///< agreed payload bytes per packet, at most the own mtu; 0: the own mtu
  std::uint8_t mpr_dest = 32;         ///< units of 128 PSNs that it tracks as responder
  std::uint16_t max_wimm_dest = 128;  ///< WriteImm in flight that it tracks as responder
  bool dynamic_mpr = false;           ///< takes part in Dynamic MPR
  bool trim_nack = false;             ///< answers trimmed packets
  bool solicited = false;             ///< understands solicited events
  /// Verification tag that it wants in the packets sent to it (wire::Tag); then this side expects
  /// its own one. 0: no tags.
  std::uint64_t tag = 0;
};

/// Why a queue pair went to ERR; kept until it is reset.
enum class QpErrorCause : std::uint8_t {
  none,
  requested,               ///< the application moved it to ERR
  retry_exhausted,         ///< no answer from the peer
  nak_invalid_request,     ///< the peer refused a request (NAK 0x61)
  nak_remote_access,       ///< the peer refused a key, an address or a right (NAK 0x62)
  nak_remote_operational,  ///< the peer could not take a request (NAK 0x63)
  peer_in_error,           ///< the peer's queue pair is in ERR (NACK UNEXP_EVENT)
  bad_key,                 ///< as responder: unknown R_Key
  bad_bounds,              ///< as responder: write outside the memory region
  bad_access,              ///< as responder: region lacks remote write
  bad_pd,                  ///< as responder: region of another protection domain
  bad_request,             ///< as responder: packet length or opcode against the rules
  wimm_overflow,           ///< as responder: more WriteImm in flight than max_wimm_dest
  no_receive,              ///< as responder: WriteImm without a posted receive
  cq_overrun,              ///< a completion queue of this QP is full
  memory_withdrawn,        ///< memory under a posted request was deregistered by force
  unresolved,              ///< the peer, given by GID and QPN, was not found
};

/// The cause in words.
[[nodiscard]] constexpr const char* to_string(QpErrorCause c) noexcept {
  switch (c) {
    case QpErrorCause::none:
      return "none";
    case QpErrorCause::requested:
      return "moved to ERR by the application";
    case QpErrorCause::retry_exhausted:
      return "retry counter exceeded: the peer does not answer";
    case QpErrorCause::nak_invalid_request:
      return "peer answered NAK: invalid request";
    case QpErrorCause::nak_remote_access:
      return "peer answered NAK: remote access error";
    case QpErrorCause::nak_remote_operational:
      return "peer answered NAK: remote operational error";
    case QpErrorCause::peer_in_error:
      return "peer's queue pair is in ERR";
    case QpErrorCause::bad_key:
      return "peer used an unknown R_Key";
    case QpErrorCause::bad_bounds:
      return "peer wrote outside a memory region";
    case QpErrorCause::bad_access:
      return "peer wrote to a region without remote write access";
    case QpErrorCause::bad_pd:
      return "peer used a region of another protection domain";
    case QpErrorCause::bad_request:
      return "peer sent an invalid request";
    case QpErrorCause::wimm_overflow:
      return "peer has too many writes with immediate in flight";
    case QpErrorCause::no_receive:
      return "write with immediate found no posted receive";
    case QpErrorCause::cq_overrun:
      return "completion queue overrun";
    case QpErrorCause::memory_withdrawn:
      return "memory of a posted request was deregistered";
    case QpErrorCause::unresolved:
      return "peer not found";
  }
  return "unknown cause";
}

/// Handle of a completion queue.
enum class CqId : std::uint32_t {};
/// Handle of a protection domain.
enum class PdId : std::uint32_t {};

}  // namespace mrc::inline v0_1
