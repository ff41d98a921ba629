// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "nccl_plugin/settings/environment.hpp"

/// How long a queue pair waits for its peer: NCCL's variables, and the time that they add up to.
namespace mrc_nccl {

/// Doubling timeouts of a queue pair of the plugin if nothing says otherwise. With the library's
/// timeout T(12) = 4.194 ms and 7 linear retries a host counts as dead 4,102 T = 17.2 s after its
/// last sign of life: 8 waits of T (the first one and 7 retries), then 2T, 4T .. 2048T. So an
/// outage of all planes for 10 s costs no connection; with one retry less it would be 8.6 s. T
/// itself stays short, since it also ends the waits for packets whose loss can't be inferred
/// otherwise.
inline constexpr std::uint8_t kRetryExponential = 11;

/// What give_up_time() returns when the retries never end.
inline constexpr mrc::Duration kForEver = mrc::Duration::max();

/// How long a host may be silent: the time in which a queue pair with these options would use up
/// its retries, that is the sum of its timeouts, each at least two base round trips.
[[nodiscard]] mrc::Duration give_up_time(const mrc::Config& config);

/// Sets timeout and retries from NCCL_MRC_TIMEOUT, NCCL_MRC_RETRY_CNT_LINEAR and _EXP, and where
/// these are not set from NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT. Appends to `warnings` what could
/// not be taken over exactly. Throws SettingsError.
void read_timeouts(const Environment& environment, mrc::Config& config,
                   std::vector<std::string>& warnings);

/// "2.17 s", "6.4 ms".
[[nodiscard]] std::string duration_text(mrc::Duration duration);

}  // namespace mrc_nccl
