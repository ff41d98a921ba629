// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "mrc/engine/verbs_types.hpp"

/// RC as a program may rely on it: every posted request is executed at once and in posting order.
/// program.hpp makes programs in which RC leaves nothing open, and run.hpp has
/// engines run them and compares.
namespace mrc::test::rc {

/// What an engine did that the model does not allow.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Throws Mismatch with text() unless `condition` holds.
template <class Text>
void expect(bool condition, Text&& text) {
  if (!condition) throw Mismatch(text());
}

/// Untouched memory.
inline constexpr std::uint8_t kFill = 0xEE;
/// What every request's source turns into once it is complete.
inline constexpr std::uint8_t kReused = 0xDD;

using Buffer = std::vector<std::uint8_t>;

/// Bytes of one of a flow's buffers.
struct Slice {
  std::uint32_t at = 0;
  std::uint32_t length = 0;

  [[nodiscard]] std::uint32_t end() const { return at + length; }
  [[nodiscard]] bool overlaps(const Slice& o) const { return at < o.end() && o.at < end(); }
};

/// What is wrong with a request; a flow has one such request at most.
enum class Wrong : std::uint8_t {
  nothing,
  key,         ///< an R_Key that no region has
  bounds,      ///< ends behind the end of its region
  right,       ///< the region lacks the right
  domain,      ///< the region belongs to another protection domain
  misaligned,  ///< an atomic whose address is not a multiple of 8
  too_long,    ///< a SEND with less room in its receive
  not_ready,   ///< nobody ever posts its receive, and the requester does not wait for ever
};
[[nodiscard]] constexpr const char* to_string(Wrong w) noexcept {
  constexpr const char* kNames[] = {"",
                                    "unknown key",
                                    "out of bounds",
                                    "without the right",
                                    "of another domain",
                                    "misaligned",
                                    "too long for its receive",
                                    "without a receive"};
  return kNames[static_cast<unsigned>(w)];
}
/// Status of its completion at the requester.
[[nodiscard]] constexpr WcStatus status_of(Wrong w) noexcept {
  switch (w) {
    case Wrong::nothing:
      return WcStatus::success;
    case Wrong::key:
    case Wrong::bounds:
    case Wrong::right:
    case Wrong::domain:
      return WcStatus::rem_access_err;
    case Wrong::misaligned:
    case Wrong::too_long:
      return WcStatus::rem_inv_req_err;
    case Wrong::not_ready:
      return WcStatus::rnr_retry_exc_err;
  }
  return WcStatus::fatal_err;
}
/// Why the responder's queue pair is in ERR; none: it is not.
[[nodiscard]] constexpr QpErrorCause responder_cause(Wrong w) noexcept {
  constexpr QpErrorCause kCauses[] = {QpErrorCause::none,
                                      QpErrorCause::bad_key,
                                      QpErrorCause::bad_bounds,
                                      QpErrorCause::bad_access,
                                      QpErrorCause::bad_pd,
                                      QpErrorCause::bad_atomic,
                                      QpErrorCause::receive_too_short,
                                      QpErrorCause::none};
  return kCauses[static_cast<unsigned>(w)];
}
/// Why the requester's is.
[[nodiscard]] constexpr QpErrorCause requester_cause(Wrong w) noexcept {
  switch (status_of(w)) {
    case WcStatus::rem_access_err:
      return QpErrorCause::nak_remote_access;
    case WcStatus::rem_inv_req_err:
      return QpErrorCause::nak_invalid_request;
    case WcStatus::rnr_retry_exc_err:
      return QpErrorCause::rnr_exhausted;
    default:
      return QpErrorCause::none;
  }
}

/// A request of a program.
struct Op {
  SendOpcode opcode = SendOpcode::write;
  Wrong wrong = Wrong::nothing;
  bool from_landing = false;  ///< sends what an earlier READ or atomic has brought
  bool counter = false;       ///< an atomic on the word that all flows to this side count in
  bool kept = false;          ///< a later request sends what this one brings
  bool visible = false;       ///< what it writes to the target stays until the end
  std::vector<Slice> local;   ///< SGEs: of the source, or of the landing
  std::uint32_t length = 0;
  std::uint32_t remote = 0;  ///< offset in the target
  std::uint32_t immediate = 0;
  SendFlags flags{};
  std::uint64_t compare_add = 0, swap = 0;

  [[nodiscard]] bool is_send() const {
    return opcode == SendOpcode::send || opcode == SendOpcode::send_imm;
  }
  [[nodiscard]] bool is_atomic() const { return opcode >= SendOpcode::compare_swap; }
  /// Needs a receive.
  [[nodiscard]] bool consumes() const { return is_send() || opcode == SendOpcode::write_imm; }
  [[nodiscard]] bool has_immediate() const {
    return opcode == SendOpcode::write_imm || opcode == SendOpcode::send_imm;
  }
  [[nodiscard]] Slice target() const { return {remote, length}; }
  /// Changes the target.
  [[nodiscard]] bool changes() const {
    return !counter && (is_write(opcode) || is_atomic()) && length > 0;
  }
  [[nodiscard]] std::string text() const;
};

/// The buffers of a flow that requests name.
struct Memory {
  Buffer source;   ///< at the requester: what is sent
  Buffer landing;  ///< at the requester: what READs and atomics bring
  Buffer target;   ///< at the responder: what WRITEs, READs and atomics are about
};

/// One direction of a connection: the requests of one side, and the receives of the other.
struct Flow {
  std::vector<Op> ops;
  std::vector<std::vector<Slice>> receives;  ///< in order, each a scatter list in the inbox
  bool shared = false;                       ///< receives come from the responder's shared queue
  std::uint32_t inbox = 0;                   ///< bytes of the inbox
  bool relaxed = true;                       ///< order of visibility in target and inbox
  /// The other direction has a wrong request: this one may end after any of its requests.
  bool open_end = false;
  std::optional<std::size_t> fails;  ///< index of its own wrong request
  Memory before;                     ///< initial contents

  /// Requests that complete with success, unless it has an open end.
  [[nodiscard]] std::size_t good() const { return fails ? *fails : ops.size(); }
};

/// Everything that two engines are to do.
struct Program {
  struct Connection {
    std::array<Flow, 2> flows;               ///< by the requester's side
    std::array<QpCapacity, 2> capacities;    ///< by side
    std::array<QpAttributes, 2> attributes;  ///< by side
    std::array<bool, 2> signal_all{};        ///< by side
  };
  std::vector<Connection> connections;
  std::array<std::uint32_t, 2> shared_depth{};  ///< receives in a side's shared queue; 0: none
  std::array<std::uint32_t, 2> shared_room{};   ///< bytes of each
  std::uint32_t near_wrap = 1u << 24;           ///< first PSNs are among the last so many
};

/// A message that consumes a receive.
struct Delivery {
  std::size_t op;  ///< its index
  Buffer payload;  ///< of a SEND
  bool too_long;   ///< it did not fit: the receive fails, and the queue pair
};

/// What has to come of a flow.
struct Outcome {
  Memory after;
  std::vector<Delivery> deliveries;
};

/// Executes one request, which is right.
void execute(Memory& m, const Op& op, std::vector<Delivery>* deliveries = nullptr,
             std::size_t index = 0);
/// Executes a flow, to its end or to its wrong request.
[[nodiscard]] Outcome execute(const Flow& flow);

}  // namespace mrc::test::rc
