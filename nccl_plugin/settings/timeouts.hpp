// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "nccl_plugin/settings/environment.hpp"

/// How long a queue pair waits for its peer: NCCL's variables, and the time that they add up to.
namespace mrc_nccl {

/// Doubling timeouts of a queue pair of the plugin if nothing says otherwise. With the library's
/// timeout T(12) = 4.194 ms and 7 linear retries a queue pair fails 518 T = 2.17 s after the peer's
/// last sign of life: 8 waits of T (the first one and 7 retries), then 2T, 4T .. 256T. With one
/// retry less it would be 1.1 s. T itself stays short, since it also ends the waits for packets
/// whose loss can't be inferred otherwise.
inline constexpr std::uint8_t kRetryExponential = 8;

/// What give_up_time() returns when the retries never end.
inline constexpr mrc::Duration kForEver = mrc::Duration::max();

/// The time from the last progress of a queue pair until it fails: the sum of its timeouts, each at
/// least two base round trips. It is longer where the measured round trip is longer than these.
[[nodiscard]] mrc::Duration give_up_time(const mrc::Config& config);

/// Sets timeout and retries from NCCL_MRC_TIMEOUT, NCCL_MRC_RETRY_CNT_LINEAR and _EXP, and where
/// these are not set from NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT. Appends to `warnings` what could
/// not be taken over exactly. Throws SettingsError.
void read_timeouts(const Environment& environment, mrc::Config& config,
                   std::vector<std::string>& warnings);

/// "2.17 s", "6.4 ms".
[[nodiscard]] std::string duration_text(mrc::Duration duration);

}  // namespace mrc_nccl
