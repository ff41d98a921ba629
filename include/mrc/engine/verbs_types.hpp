// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1 {

/// Types shared by application and engine: work requests, completions, states, attributes. Their
/// names and values follow the verbs API.

/// States of a queue pair (mrc-1.0 §2.11). There is no SQD or SQE.
enum class QpState : std::uint8_t { reset, init, rtr, rts, err };

/// Name of the state, in capitals as in the verbs documentation.
[[nodiscard]] constexpr const char* to_string(QpState s) noexcept {
  constexpr const char* names[] = {"RESET", "INIT", "RTR", "RTS", "ERR"};
  return s <= QpState::err ? names[static_cast<std::size_t>(s)] : "?";
}

/// Status of a completion. The numbers are those of ibv_wc_status.
enum class WcStatus : std::uint8_t {
  success = 0,
  loc_len_err = 1,
  loc_qp_op_err = 2,
  loc_prot_err = 4,
  wr_flush_err = 5,
  rem_inv_req_err = 9,
  rem_access_err = 10,
  rem_op_err = 11,
  retry_exc_err = 12,
  rnr_retry_exc_err = 13,
  fatal_err = 19,
};

/// The status in words.
[[nodiscard]] constexpr const char* to_string(WcStatus s) noexcept {
  switch (s) {
    case WcStatus::success:
      return "success";
    case WcStatus::loc_len_err:
      return "local length error";
    case WcStatus::loc_qp_op_err:
      return "local queue pair operation error";
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
    case WcStatus::rnr_retry_exc_err:
      return "receiver not ready, retry counter exceeded";
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
enum class WcOpcode : std::uint8_t {
  write,
  write_imm,
  recv_write_imm,  ///< a receive that a write with immediate has consumed
  send,            ///< with or without immediate
  read,
  compare_swap,
  fetch_add,
  recv,  ///< a receive that a SEND or a datagram has consumed
};

/// One entry of a completion queue.
struct Completion {
  std::uint64_t wr_id = 0;  ///< of the request that is complete
  /// Receives, READ, atomics: length of the message; of datagrams with kGrhBytes.
  std::uint32_t byte_len = 0;
  std::uint32_t immediate = 0;          ///< receives, if has_immediate
  Qpn qpn{};                            ///< queue pair of the request
  Qpn source_qpn{};                     ///< received datagrams: queue pair that sent it
  WcStatus status = WcStatus::success;  ///< success, or why the request failed
  WcOpcode opcode = WcOpcode::write;    ///< kind of the request
  bool solicited = false;               ///< receives: the peer asked for it, see CompletionQueue
  bool has_immediate = false;           ///< receives: the message had an immediate value
  /// Received datagrams: the first kGrhBytes bytes of the memory say where it came from.
  bool has_grh = false;
  /// Sends: by QueuePair::complete_send() or DatagramQueuePair::complete_send().
  bool made = false;
  /// Sends: how many requests its queue pair had been given before, modulo 2^16.
  std::uint16_t position = 0;

  /// Of a receive, not of a send.
  [[nodiscard]] constexpr bool is_receive() const noexcept {
    return opcode == WcOpcode::recv || opcode == WcOpcode::recv_write_imm;
  }
};
static_assert(sizeof(Completion) == 32);  // copied for each completion

/// A range of local memory inside a registered region. Receives, READs and atomics write to it:
/// const only says that other requests do not.
struct Sge {
  const void* address = nullptr;  ///< first byte
  std::uint32_t length = 0;       ///< bytes
  std::uint32_t lkey = 0;         ///< of the region that holds the SGE
};

/// Memory of the peer: where a write goes, what a READ reads, what an atomic changes.
struct RemoteAddress {
  std::uint64_t address = 0;  ///< virtual address at the peer
  std::uint32_t rkey = 0;     ///< of the peer's memory region
};

/// Flags of a send request.
struct SendFlags {
  /// Produce a completion on success (errors always produce one). The acknowledgement of a request
  /// that is not signaled may come late, with that of a later one.
  bool signaled = true;
  bool inline_data = false;  ///< copy the data now; the SGEs need no lkey and are free at once
  /// write_imm, send: the peer's completion is solicited (CompletionQueue::arm()). Peers that are
  /// not OpenMRC devices do not learn of it (mrc-1.0 §1.3).
  bool solicited = false;
  /// Not started before all earlier READs and atomics of the queue pair are complete.
  bool fence = false;
};

/// What a send request does. MRC has the writes; the others are OpenMRC's own, for peers that have
/// agreed on them (RemoteQp::rc).
enum class SendOpcode : std::uint8_t {
  write,         ///< RDMA Write
  write_imm,     ///< RDMA Write with Immediate: consumes a receive and completes at the peer
  send,          ///< SEND: consumes a receive, whose memory gets the data
  send_imm,      ///< SEND with Immediate
  read,          ///< RDMA READ: the peer's memory to the SGEs
  compare_swap,  ///< atomic: 8 bytes of the peer's memory change from `compare_add` to `swap`
  fetch_add,     ///< atomic: `compare_add` is added to 8 bytes of the peer's memory
};

/// Whether the peer answers a request of this kind with data.
[[nodiscard]] constexpr bool has_response(SendOpcode op) noexcept {
  return op >= SendOpcode::read;
}
/// Whether it is one of those that MRC has.
[[nodiscard]] constexpr bool is_write(SendOpcode op) noexcept {
  return op <= SendOpcode::write_imm;
}

/// A work request for the send queue. A plain value; what it points to must live until it is
/// posted.
struct SendRequest {
  std::uint64_t wr_id = 0;                ///< returned in the completion
  SendOpcode opcode = SendOpcode::write;  ///< what to do
  /// Data to send; none: a zero-length message. READs and atomics: where the response goes, memory
  /// with local_write access.
  std::span<const Sge> sges{};
  RemoteAddress remote{};         ///< memory of the peer; not used by SENDs
  std::uint32_t immediate = 0;    ///< write_imm, send_imm: delivered in the peer's completion
  SendFlags flags{};              ///< signaled, inline, solicited, fence
  std::uint64_t compare_add = 0;  ///< compare_swap: value to compare with; fetch_add: to add
  std::uint64_t swap = 0;         ///< compare_swap: the new value
};

/// A work request for the receive queue. A SEND consumes it and writes to its memory; a write with
/// immediate consumes it and writes to none of its memory.
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

/// Most READs and atomics in flight of a queue pair, in each direction.
inline constexpr std::uint8_t kMaxReads = 128;

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
  std::uint32_t receive_sges = 1;   ///< SGEs per receive request, 0 .. 64
  /// Room for the operands of atomics in each send request: with one SGE and little inline data, 16
  /// bytes more. Not needed with two SGEs or 32 bytes of inline data.
  bool atomics = false;
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
  /// Where doubling ends, 1.024 us x 2^n, n = 0 .. 24: after an outage a queue pair that retries
  /// for long is back within this time.
  std::uint8_t max_timeout = 24;
  bool dynamic_mpr = true;  ///< obey the MPR in the responder's SACKs
  bool trim_nack = true;    ///< as responder, answer trimmed packets
  // OpenMRC's own (RemoteQp::rc).
  bool rc = true;                   ///< offer SEND, READ and atomics
  std::uint8_t max_rd_atomic = 16;  ///< as requester: most READs and atomics in flight, 0 .. 128
  std::uint8_t max_rd_atomic_dest = 16;  ///< as responder: such requests tracked, 0 .. 128
  std::uint8_t rnr_retry = 7;            ///< waits for a receive at the peer, 0 .. 6; 7: for ever
  std::uint8_t min_rnr_timer = 12;       ///< time that the peer waits for one here: RnrTimer code
};

/// The time that a code of RC's RNR NAK stands for (QpAttributes::min_rnr_timer), 0 .. 31: 12 is
/// 640 us, 0 is 655.36 ms.
[[nodiscard]] constexpr Duration rnr_time(std::uint8_t code) noexcept {
  // In units of 10 us: 1, 2, 3, 4, 6, 8, 12, 16, 24, ... from code 1 on; 0 is the longest.
  if (code == 0) return std::chrono::microseconds(655'360);
  const unsigned n = code & 31u;
  if (n <= 3) return std::chrono::microseconds(10) * n;
  const auto base = (n % 2 == 0 ? 4u : 6u) << ((n - 4) / 2);
  return std::chrono::microseconds(10) * base;
}

/// What may be given on the way from INIT to RTR (mrc-1.0 §7.3): own attributes, and what is known
/// of the peer. RtsAttributes can replace the limits as requester.
struct RtrAttributes {
  std::optional<std::uint8_t> mpr_dest{};            ///< QpAttributes::mpr_dest
  std::optional<std::uint16_t> max_wimm_dest{};      ///< QpAttributes::max_wimm_dest
  std::optional<bool> dynamic_mpr{};                 ///< QpAttributes::dynamic_mpr
  std::optional<std::uint8_t> max_rd_atomic_dest{};  ///< QpAttributes::max_rd_atomic_dest
  std::optional<std::uint8_t> min_rnr_timer{};       ///< QpAttributes::min_rnr_timer
  std::optional<std::uint8_t> mpr{};                 ///< QpAttributes::mpr
  std::optional<std::uint16_t> max_wimm{};           ///< QpAttributes::max_wimm
  /// In place of ConnectionInfo::trim_nack: does the peer answer trimmed packets (mrc-1.0 §7.3,
  /// TRIM_NACK_DEST_UNSUPPORTED)? False: packets to it are not trimmable.
  std::optional<bool> trim_nack{};

  /// Equal in every field.
  friend bool operator==(const RtrAttributes&, const RtrAttributes&) = default;
};

/// The same on the way from RTR to RTS. The limits as responder replace those of RTR while the peer
/// is not known. Once it is, smaller ones have no effect, since it may count on what it was told;
/// nor has any once a packet of it has arrived. QpInfo::attributes shows what is in force.
struct RtsAttributes {
  std::optional<Psn> send_psn{};                    ///< first PSN to send; default: a random one
  std::optional<std::uint8_t> mpr{};                ///< QpAttributes::mpr
  std::optional<std::uint16_t> max_wimm{};          ///< QpAttributes::max_wimm
  std::optional<std::uint8_t> timeout{};            ///< QpAttributes::timeout
  std::optional<std::uint8_t> retry_linear{};       ///< QpAttributes::retry_linear
  std::optional<std::uint8_t> retry_exponential{};  ///< QpAttributes::retry_exponential
  std::optional<std::uint8_t> max_timeout{};        ///< QpAttributes::max_timeout
  std::optional<std::uint8_t> max_rd_atomic{};      ///< QpAttributes::max_rd_atomic
  std::optional<std::uint8_t> rnr_retry{};          ///< QpAttributes::rnr_retry
  std::optional<std::uint8_t> mpr_dest{};           ///< QpAttributes::mpr_dest
  std::optional<std::uint16_t> max_wimm_dest{};     ///< QpAttributes::max_wimm_dest

  /// Equal in every field.
  friend bool operator==(const RtsAttributes&, const RtsAttributes&) = default;
};

/// An application is about to send to several peers at once, as in a step of a collective
/// operation: congestion control starts carefully (QueuePair::set_hint()). As many hosts are taken
/// to send to each peer.
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
  std::uint8_t mpr_dest = 32;           ///< units of 128 PSNs that it tracks as responder
  std::uint8_t max_rd_atomic_dest = 0;  ///< READs and atomics in flight that it tracks (`rc`)
  std::uint16_t max_wimm_dest = 128;    ///< WriteImm and SENDs in flight that it tracks
  bool dynamic_mpr = false;             ///< takes part in Dynamic MPR
  bool trim_nack = false;               ///< answers trimmed packets
  bool solicited : 1 = false;           ///< understands solicited events
  /// With `tag`: takes packet parts, and EV probes of full size. Used if EngineOptions::part_places
  /// is set here.
  bool parts : 1 = false;  // one byte for three: each queue pair has such a record
  /// All this is a guess, since the peer is silent. Until it is heard, a request that it would not
  /// offer makes the peer unknown again, and waits for resolve().
  bool presumed : 1 = false;
  /// Offers SEND, READ and atomics; used if QpAttributes::rc is set here, too. Then `start_psn` of
  /// resolve() counts, and the queue pair answers from RTR on.
  bool rc = false;
  /// Verification tag that it wants in the packets sent to it (wire::Tag); then this side expects
  /// its own one. 0: no tags.
  std::uint64_t tag = 0;
  /// It was found by its GID, and need not know this side yet: until it is heard, but only up to
  /// this time, timeouts use up no retries.
  Time heard_by = Time::min();
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
  bad_access,              ///< as responder: region lacks the right
  bad_pd,                  ///< as responder: region of another protection domain
  bad_request,             ///< as responder: packet length or opcode against the rules
  wimm_overflow,           ///< as responder: more WriteImm in flight than max_wimm_dest
  no_receive,              ///< as responder: WriteImm without a posted receive
  cq_overrun,              ///< a completion queue of this QP is full
  memory_withdrawn,        ///< memory under a posted request was deregistered by force
  unresolved,              ///< the peer, given by GID and QPN, was not found
  unsupported,             ///< a request was posted that the peer does not offer
  rnr_exhausted,           ///< the peer posts no receive
  receive_too_short,       ///< a SEND, or a datagram, is longer than its receive
  bad_atomic,              ///< as responder: the address of an atomic is not aligned to 8 bytes
  bad_rqmsn,               ///< as responder: WriteImm (and SENDs) not numbered 0, 1, 2, ...
  unacknowledged,          ///< the peer answers probes, but does not acknowledge what it received
};

/// The cause in words.
[[nodiscard]] constexpr const char* to_string(QpErrorCause c) noexcept {
  constexpr const char* texts[] = {
      // in the order of the causes
      "none",
      "moved to ERR by the application",
      "retry counter exceeded: the peer does not answer",
      "peer answered NAK: invalid request",
      "peer answered NAK: remote access error",
      "peer answered NAK: remote operational error",
      "peer's queue pair is in ERR",
      "peer used an unknown R_Key",
      "peer used addresses outside a memory region",
      "peer used a region without the remote access right that it needs",
      "peer used a region of another protection domain",
      "peer sent an invalid request",
      "peer has too many writes with immediate in flight",
      "write with immediate found no posted receive",
      "completion queue overrun",
      "memory of a posted request was deregistered",
      "peer not found",
      "the peer offers neither SEND nor READ nor atomics",
      "the peer posts no receive: RNR retry counter exceeded",
      "peer sent more than the receive has room for",
      "peer sent an atomic to an address that is not a multiple of 8",
      "peer does not number its writes with immediate 0, 1, 2, ... (METH.rqmsn)",
      "the peer answers probes and has received everything, but sends no Transport ACK",
  };
  static_assert(std::size(texts) == static_cast<std::size_t>(QpErrorCause::unacknowledged) + 1);
  return c <= QpErrorCause::unacknowledged ? texts[static_cast<std::size_t>(c)] : "unknown cause";
}

/// Handle of a completion queue.
enum class CqId : std::uint32_t {};
/// Handle of a protection domain.
enum class PdId : std::uint32_t {};
/// Handle of a shared receive queue.
enum class SrqId : std::uint32_t {};

}  // namespace mrc::inline v0_1
