// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::cc {

/// What the user of a congestion control context specifies about the network, and overrides of
/// derived parameters (mrc-1.0 §6.1; names as in the API's NSCC configuration). An empty optional
/// is derived.
struct NsccOptions {
  std::uint64_t link_speed = 100'000'000'000;         ///< bit/s
  Duration base_rtt = std::chrono::microseconds(12);  ///< upper bound; measurements lower it
  /// Measurements don't lower base_rtt below this. For ports that batch, where the minimum measured
  /// RTT is unrepresentative and would make every normal round trip look queued.
  Duration base_rtt_floor{0};
  std::uint32_t mtu = 4096;  ///< longest packet in bytes, headers included
  bool trimming = false;     ///< the switches trim instead of dropping

  std::optional<Duration> target_delay;       ///< queueing delay aimed at
  std::optional<std::uint64_t> max_cwnd;      ///< bytes
  std::optional<double> fi;                   ///< fair increase, bytes per round trip
  std::optional<double> fi_scale;             ///< fast increase, bytes per byte acknowledged
  std::optional<double> eta;                  ///< unconditional increase, bytes per adjust_period
  std::optional<Duration> qa_threshold;       ///< delay that starts quick adapt
  std::optional<std::uint32_t> adjust_bytes;  ///< apply pending increases after so many bytes
  std::optional<Duration> adjust_period;      ///< or after this time, whichever comes first
  double gamma = 0.8;                         ///< gain of the decrease, 0 .. 1
  double max_md_jump = 0.5;                   ///< smallest factor of one decrease, 0 .. 1
  unsigned qa_gate = 3;                       ///< quick adapt below max_cwnd >> qa_gate per round
  bool disable_qa = false;                    ///< turns quick adapt off

  Duration zero_delay = std::chrono::microseconds(1);  ///< delays up to this count as zero
  /// The weight of a delay sample, time since the previous one over base_rtt, is clamped to these
  /// bounds. Both at 0.0125 give a plain moving average per sample.
  double delay_weight_min = 0.0125;
  /// Upper bound of the weight.
  double delay_weight_max = 0.25;

  std::uint32_t ack_gen_trigger = 16 * 1024;  ///< responders' SACK threshold in bytes
  /// Send while cwnd > inflight instead of inflight + size <= cwnd (mrc-1.0 [C-12]).
  bool send_while_below = false;
};

/// Parameters of NSCC in the form it computes with (mrc-1.0 §6.1).
struct NsccParameters {
  double bytes_per_ns;            ///< link speed, bytes per ns
  double scale;                   ///< a: BDP / 150,000 B
  Duration base_rtt;              ///< as in NsccOptions
  Duration base_rtt_floor;        ///< as in NsccOptions
  Duration target_qdelay;         ///< queueing delay aimed at
  Duration adjust_period;         ///< as in NsccOptions
  Duration qa_threshold;          ///< as in NsccOptions
  Duration zero_delay;            ///< as in NsccOptions
  double max_wnd;                 ///< bytes; also the initial cwnd
  bool max_wnd_fixed;             ///< set by the user, so it does not follow base_rtt
  double min_wnd;                 ///< bytes: one MTU
  double alpha;                   ///< bytes/s
  double fi;                      ///< as in NsccOptions
  double fi_scale;                ///< as in NsccOptions
  double eta;                     ///< as in NsccOptions
  double adjust_bytes;            ///< as in NsccOptions
  double gamma;                   ///< as in NsccOptions
  double max_md_jump;             ///< as in NsccOptions
  double delay_weight_min;        ///< as in NsccOptions
  double delay_weight_max;        ///< as in NsccOptions
  unsigned qa_gate;               ///< as in NsccOptions
  std::uint32_t ack_gen_trigger;  ///< as in NsccOptions
  bool disable_qa;                ///< as in NsccOptions
  bool send_while_below;          ///< as in NsccOptions
};

namespace detail {

template <class T>
void require_range(const char* option, T value, T low, T high) {
  if (value >= low && value <= high) return;  // false for a NaN
  throw Error(Errc::invalid_argument, std::string("congestion control option ") + option + ": " +
                                          std::to_string(value) + " is not within " +
                                          std::to_string(low) + " .. " + std::to_string(high));
}

}  // namespace detail

/// The window that fills a link: 1.5 bandwidth-delay products (mrc-1.0 §6.1, [C-20]), at least one
/// MTU. In bytes.
[[nodiscard]] inline double full_window(double bytes_per_ns, Duration base_rtt,
                                        double mtu) noexcept {
  return std::max(1.5 * bytes_per_ns * static_cast<double>(base_rtt.count()), mtu);
}

/// Derives the parameters for a network by the rules of mrc-1.0 §6.1: all are scaled from a network
/// of 100 Gb/s and 12 us. Throws Error (invalid_argument) that names option, value and allowed
/// range.
[[nodiscard]] NsccParameters derive(const NsccOptions& o);

}  // namespace mrc::inline v0_1::cc
