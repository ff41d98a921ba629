// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/sim/baseline/dcqcn.hpp"
#include "mrc/sim/baseline/rc_receiver.hpp"
#include "mrc/sim/baseline/rc_sender.hpp"
#include "mrc/sim/link.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// A switch queue for DCQCN: the paper's marking (from 5 KB on, 1 % at 200 KB, for links of 40
/// Gb/s) scaled with the link; tail drop at `data_limit` bytes. For FabricSettings::queue.
[[nodiscard]] inline QueueSettings roce_queue(double gbps, std::uint64_t data_limit) noexcept {
  return {.data_limit = data_limit,
          .ecn_min = static_cast<std::uint64_t>(125 * gbps),
          .ecn_max = static_cast<std::uint64_t>(5000 * gbps),
          .ecn_probability = 0.01};
}

/// Settings of simulated hosts that run RoCE.
struct RoceHostSettings {
  RcSenderOptions sender{};      ///< of each queue pair; first_psn is drawn
  RcReceiverOptions receiver{};  ///< likewise
  /// Off: data is not ECN capable and is sent at the port's rate.
  bool dcqcn = true;
  DcqcnOptions reaction{};                    ///< of each queue pair; line_rate is the port's
  std::uint64_t nic_queue = 12 * 1024;        ///< bytes queued in a NIC port before it is busy
  TrafficClass answers = TrafficClass::data;  ///< of ACKs and NAKs; CNPs are control
};

/// Counters of a RoceHost, summed over its queue pairs.
struct RoceHostStats {
  std::uint64_t data_packets = 0;     ///< sent for the first time
  std::uint64_t retransmitted = 0;    ///< data packets resent
  std::uint64_t timeouts = 0;         ///< of senders
  std::uint64_t accepted = 0;         ///< data packets received in their turn
  std::uint64_t duplicates = 0;       ///< data packets received before
  std::uint64_t out_of_order = 0;     ///< data packets dropped because an earlier one is missing
  std::uint64_t control_packets = 0;  ///< ACKs, NAKs and CNPs sent
  std::uint64_t received_bytes = 0;   ///< payload accepted, without duplicates
  std::uint64_t marked = 0;           ///< data packets received with ECN CE
  std::uint64_t bad_icrc = 0;         ///< received and dropped: a bit was flipped
  std::uint64_t trimmed = 0;          ///< received and dropped: RC can't use trimmed packets
  std::uint64_t malformed = 0;        ///< received and dropped: not for a queue pair of this host
};

}  // namespace mrc::inline v0_1::sim::baseline
