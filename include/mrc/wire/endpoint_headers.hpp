// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "mrc/core/types.hpp"
#include "mrc/wire/data_headers.hpp"
#include "mrc/wire/endian.hpp"

/// Endpoint requests and responses between the endpoints (QPN 2) of two hosts: mrc-1.0 §1.10.
/// BTH.psn[15:0] is the request id; the response copies it.
namespace mrc::inline v0_1::wire {

/// Operation of an endpoint request, as numbered on the wire. The MRC API numbers them the other
/// way round (EV probe 0, port status update 1): convert with to_api(), never copy the number.
enum class EndpointOp : std::uint8_t { port_status = 0, ev_probe = 1 };

/// Whether a value, possibly from the wire, is one of the enumerators.
[[nodiscard]] constexpr bool is_known(EndpointOp op) noexcept {
  return op == EndpointOp::port_status || op == EndpointOp::ev_probe;
}

/// The number of an operation in the MRC API (mrc_ctl_ep_op_type).
[[nodiscard]] constexpr int to_api(EndpointOp op) noexcept {
  return op == EndpointOp::ev_probe ? 0 : 1;
}
/// The operation for a number of the MRC API; empty for an undefined number.
[[nodiscard]] constexpr std::optional<EndpointOp> endpoint_op_from_api(int number) noexcept {
  if (number == 0) return EndpointOp::ev_probe;
  if (number == 1) return EndpointOp::port_status;
  return std::nullopt;
}

/// Endpoint request. A new instance is all zero: port status, no valid timestamp.
struct Erth {
  Be16 type_op_;                  ///< type, nh, reserved; op in bits 1:0
  std::uint8_t reserved_ = 0;     ///< sent 0
  std::uint8_t vendor_info_ = 0;  ///< see vendor_info()
  Be32 port_status_mask_;         ///< see port_status_mask()
  Be32 tag_;                      ///< reserved in MRC; see tag()
  Be16 tx_timestamp_;             ///< see tx_timestamp()
  Be16 tsr_ftype_;                ///< tsr 15, reserved 14:4, ftype 3:0

  /// Not checked: see is_known(EndpointOp).
  [[nodiscard]] constexpr EndpointOp op() const noexcept {
    return static_cast<EndpointOp>(type_op_ & 3);
  }
  /// Sets the operation.
  constexpr void set_op(EndpointOp op) noexcept {
    type_op_ = static_cast<std::uint16_t>((type_op_ & ~3u) | (static_cast<unsigned>(op) & 3u));
  }
  /// Vendor specific; OpenMRC sends the slot of the requesting process.
  [[nodiscard]] constexpr std::uint8_t vendor_info() const noexcept { return vendor_info_; }
  /// Sets vendor_info.
  constexpr void set_vendor_info(std::uint8_t info) noexcept { vendor_info_ = info; }
  /// The sender's planes that are up, bit 0 for plane 0 ([O-19]). Only with port_status.
  [[nodiscard]] constexpr PlaneMask port_status_mask() const noexcept { return port_status_mask_; }
  /// Sets port_status_mask.
  constexpr void set_port_status_mask(PlaneMask mask) noexcept { port_status_mask_ = mask; }
  /// Tag::endpoint() of the queue pair that it is sent to; 0 in MRC, which has no tags.
  [[nodiscard]] constexpr std::uint32_t tag() const noexcept { return tag_; }
  /// Sets the tag.
  constexpr void set_tag(std::uint16_t tag) noexcept { tag_ = tag; }
  /// The sender's clock in ticks; valid if has_timestamp().
  [[nodiscard]] constexpr std::uint16_t tx_timestamp() const noexcept { return tx_timestamp_; }
  /// Whether ftype says that the timestamp is valid.
  [[nodiscard]] constexpr bool has_timestamp() const noexcept {
    return (tsr_ftype_ & kFtypeMask) == kFtypeTimestamp;
  }
  /// The timestamp's tick is 128 ns (tsr = 0).
  [[nodiscard]] constexpr bool tick_is_128ns() const noexcept {
    return (tsr_ftype_ & kTsrBit) == 0;
  }
  /// Sets a timestamp in ticks of 128 ns, and ftype.
  constexpr void set_tx_timestamp(std::uint16_t ts) noexcept {
    tx_timestamp_ = ts;
    tsr_ftype_ = kFtypeTimestamp;
  }
};

/// Endpoint response. Its size is that of SETH and CC_STATE, with the timestamp at the same offset.
struct Eeth {
  Be16 type_op_;  ///< type, nh, reserved; op in bits 3:2 ([C-3]: other bits than in ERTH)
  std::uint8_t reserved_[26] = {};  ///< sent 0
  Be16 tx_timestamp_;               ///< see tx_timestamp()
  Be16 tag_;                        ///< reserved in MRC; see tag()
  std::uint8_t reserved2_[4] = {};  ///< sent 0

  /// Not checked: see is_known(EndpointOp).
  [[nodiscard]] constexpr EndpointOp op() const noexcept {
    return static_cast<EndpointOp>((type_op_ >> 2) & 3);
  }
  /// Sets the operation.
  constexpr void set_op(EndpointOp op) noexcept {
    type_op_ =
        static_cast<std::uint16_t>((type_op_ & ~0xCu) | ((static_cast<unsigned>(op) & 3u) << 2));
  }
  /// As in the request (Erth::tag()).
  [[nodiscard]] constexpr std::uint16_t tag() const noexcept { return tag_; }
  /// Sets the tag.
  constexpr void set_tag(std::uint16_t tag) noexcept { tag_ = tag; }
  /// Copied from the request.
  [[nodiscard]] constexpr std::uint16_t tx_timestamp() const noexcept { return tx_timestamp_; }
  /// Sets tx_timestamp.
  constexpr void set_tx_timestamp(std::uint16_t ts) noexcept { tx_timestamp_ = ts; }
};

static_assert(sizeof(Erth) == 16 && alignof(Erth) == 1 && std::is_trivially_copyable_v<Erth>);
static_assert(offsetof(Erth, type_op_) == 0 && offsetof(Erth, reserved_) == 2);
static_assert(offsetof(Erth, vendor_info_) == 3 && offsetof(Erth, port_status_mask_) == 4);
static_assert(offsetof(Erth, tag_) == 8 && offsetof(Erth, tx_timestamp_) == 12);
static_assert(offsetof(Erth, tsr_ftype_) == 14);
static_assert(sizeof(Eeth) == 36 && alignof(Eeth) == 1 && std::is_trivially_copyable_v<Eeth>);
static_assert(offsetof(Eeth, type_op_) == 0 && offsetof(Eeth, reserved_) == 2);
static_assert(offsetof(Eeth, tx_timestamp_) == 28 && offsetof(Eeth, tag_) == 30);

}  // namespace mrc::inline v0_1::wire
