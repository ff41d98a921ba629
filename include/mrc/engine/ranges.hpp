// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/reliability/retry.hpp"

/// What numbers queue pairs and queues can have.
namespace mrc::inline v0_1::engine {

/// Most requests of a send or receive queue.
inline constexpr std::uint32_t kMaxQueue = 1u << 15;
/// Most entries of a completion queue.
inline constexpr std::uint32_t kMaxCqDepth = 1u << 22;

/// A field, its value and what it may be.
struct Field {
  const char* name;        ///< as a program names it
  std::uint32_t value;     ///< what it is
  std::uint32_t least;     ///< the smallest that it may be
  std::uint32_t most;      ///< the largest that it may be
  std::uint32_t step = 1;  ///< it is a multiple of this

  /// It may be that.
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

/// The first of the fields that is out of its range; none if all are in.
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

/// See above.
[[nodiscard]] constexpr std::optional<Field> out_of_range(const QpCapacity& c) noexcept {
  return out_of_range({{"capacity.send", c.send, 1, kMaxQueue},
                       {"capacity.receive", c.receive, 0, kMaxQueue},
                       {"capacity.send_sges", c.send_sges, 0, kMaxSendSges},
                       {"capacity.receive_sges", c.receive_sges, 0, kMaxReceiveSges},
                       {"capacity.inline_bytes", c.inline_bytes, 0, kMaxInlineBytes}});
}

/// See above.
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

/// See above.
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
