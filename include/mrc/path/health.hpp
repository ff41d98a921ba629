// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The health of a path and its transitions (mrc-1.0 §3.4). Pure functions: PathSet decides which
/// entry changes and whether enough paths stay active.
namespace mrc::inline v0_1::path {

/// State of an entropy value.
enum class Health : std::uint8_t {
  good,         ///< carries data
  skip,         ///< skipped once, then good again
  assumed_bad,  ///< carries no data until probes succeed
  denied,       ///< disabled by the administrator; only the administrator can re-enable it
};

/// The M field of a SACK: the responder's verdict on the reflected EV (mrc-1.0 §1.7).
enum class Mark : std::uint8_t { none, skip_once, always_skip };

/// The API's value of a state; the API has no SKIP and reports it as GOOD (mrc-1.0 §3.4, [C-11]).
[[nodiscard]] constexpr std::uint8_t to_api(Health health) noexcept {
  switch (health) {
    case Health::good:
    case Health::skip:
      return 1;
    case Health::assumed_bad:
      return 2;
    case Health::denied:
      return 4;
  }
  return 0;
}

/// Name of a state; static storage.
[[nodiscard]] constexpr const char* to_string(Health health) noexcept {
  switch (health) {
    case Health::good:
      return "good";
    case Health::skip:
      return "skip";
    case Health::assumed_bad:
      return "assumed bad";
    case Health::denied:
      return "denied";
  }
  return "unknown";
}

/// Every input of the health state machine.
enum class HealthInput : std::uint8_t {
  skip_once,          ///< SACK with m = 01
  always_skip,        ///< SACK with m = 10
  trimmed,            ///< NACK TRIMMED (not TRIMMED_LASTHOP, which is unrelated to the path)
  timeout,            ///< a packet sent on it timed out without SACK or trim NACK
  loss,               ///< an inferred loss below the limit of consecutive losses
  loss_limit,         ///< the inferred loss that reaches the limit [O-4]
  rotation,           ///< the spraying order reaches the path
  revived,            ///< enough consecutive probes were answered [C-9]
  revived_marked,     ///< the same, and the last answer had m = 01 [C-9]
  refused,            ///< ASSUMED_BAD refused, as too few paths would be left [O-14]
  released,           ///< ASSUMED_BAD revoked, as too few paths are left [O-14]
  administer_good,    ///< the administrator sets GOOD
  administer_denied,  ///< the administrator sets DENIED
};
/// Number of HealthInput values.
inline constexpr unsigned kHealthInputs = 13;

/// The state that follows `from` on `input`: the table of mrc-1.0 §3.4. DENIED reacts only to the
/// administrator; ASSUMED_BAD only to probes, release and the administrator.
[[nodiscard]] constexpr Health next_health(Health from, HealthInput input) noexcept {
  if (input == HealthInput::administer_denied) return Health::denied;
  if (input == HealthInput::administer_good) return Health::good;
  if (from == Health::denied) return Health::denied;
  if (from == Health::assumed_bad) {
    if (input == HealthInput::revived) return Health::good;
    if (input == HealthInput::revived_marked || input == HealthInput::released) return Health::skip;
    return Health::assumed_bad;
  }
  switch (input) {
    case HealthInput::skip_once:
    case HealthInput::trimmed:
    case HealthInput::refused:
      return Health::skip;
    case HealthInput::always_skip:
    case HealthInput::timeout:
    case HealthInput::loss_limit:
      return Health::assumed_bad;
    case HealthInput::rotation:
      return Health::good;
    default:
      return from;
  }
}

/// GOOD or SKIP: the path may carry data, now or after being skipped once.
[[nodiscard]] constexpr bool usable(Health health) noexcept {
  return health == Health::good || health == Health::skip;
}

}  // namespace mrc::inline v0_1::path
