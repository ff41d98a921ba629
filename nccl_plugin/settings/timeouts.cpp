// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/settings/timeouts.hpp"

#include <cstdio>

#include "mrc/engine/send_window.hpp"

namespace mrc_nccl {
namespace {

using mrc::reliability::kMaxTimeoutExponent;
using mrc::reliability::kRetryForever;

void set(std::uint8_t& option, std::optional<int> value) {
  if (value) option = static_cast<std::uint8_t>(*value);
}

/// NCCL_IB_TIMEOUT in units of 4.096 us x 2^n, which is MRC's 1.024 us x 2^(n + 2).
void take_verbs_timeout(int n, mrc::Config& config, std::vector<std::string>& warnings) {
  constexpr int kLargest = static_cast<int>(kMaxTimeoutExponent) - 2;
  if (n == 0) {
    config.retry_exponential = kRetryForever;
  } else if (n > kLargest) {
    config.timeout = kMaxTimeoutExponent;
    warnings.push_back("environment variable NCCL_IB_TIMEOUT: value '" + std::to_string(n) +
                       "' counts as " + std::to_string(kLargest) +
                       " (17.2 s), the longest timeout of MRC");
  } else {
    config.timeout = static_cast<std::uint8_t>(n + 2);
  }
}

}  // namespace

mrc::Duration give_up_time(const mrc::Config& config) {
  if (config.retry_exponential >= kRetryForever) return kForEver;
  return mrc::reliability::give_up_time(
      {config.timeout, config.retry_linear, config.retry_exponential}, 2 * config.cc_base_rtt);
}

void read_timeouts(const Environment& environment, mrc::Config& config,
                   std::vector<std::string>& warnings) {
  const auto verbs_timeout =
      environment.integer("NCCL_IB_TIMEOUT", 0, 31, "4.096 us x 2^n; 0: for ever");
  const auto verbs_retries = environment.integer("NCCL_IB_RETRY_CNT", 0, 7, "retries");
  const auto timeout = environment.integer("NCCL_MRC_TIMEOUT", 0, kMaxTimeoutExponent,
                                           "1.024 us x 2^n, such as 12 for 4.2 ms");
  const auto linear = environment.integer("NCCL_MRC_RETRY_CNT_LINEAR", 0, 7, "retries");
  const auto exponential = environment.integer("NCCL_MRC_RETRY_CNT_EXP", 0, kRetryForever,
                                               "doubling retries; 25: for ever");
  // The more specific variable replaces the other one whole, "for ever" included.
  const bool own_timeout = timeout.has_value() || environment.has("MRC_TIMEOUT");
  if (verbs_timeout && !own_timeout) take_verbs_timeout(*verbs_timeout, config, warnings);
  set(config.retry_linear, verbs_retries);
  set(config.timeout, timeout);
  set(config.retry_linear, linear);
  set(config.retry_exponential, exponential);
}

std::string duration_text(mrc::Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  char text[32];
  if (seconds >= 0.1) {
    std::snprintf(text, sizeof text, "%.3g s", seconds);
  } else {
    std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  }
  return text;
}

}  // namespace mrc_nccl
