// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mrc/core/time.hpp"

namespace mrc::inline v0_1::sim {

/// Index of a flow in its cluster.
enum class FlowId : std::uint32_t {};
[[nodiscard]] constexpr std::uint32_t value(FlowId id) noexcept {
  return static_cast<std::uint32_t>(id);
}

/// What a cluster tells a workload. Called in virtual time; may send and open flows.
class FlowListener {
 public:
  virtual ~FlowListener() = default;
  /// The message is acknowledged: its memory is the sender's again.
  virtual void on_sent(FlowId, std::uint64_t message, Time now) = 0;
  /// The whole message is in the receiver's memory, and the receiver has been told.
  virtual void on_delivered(FlowId, std::uint64_t message, Time now) = 0;
  /// The transport gave up, for this reason. What was not reported before never will be.
  virtual void on_failed(FlowId, const std::string& reason, Time now) = 0;
};

/// Counters of all hosts of a cluster together.
struct ClusterStats {
  std::uint64_t data_packets = 0;   ///< sent for the first time
  std::uint64_t retransmitted = 0;  ///< sent again
  std::uint64_t duplicates = 0;     ///< received more than once
  std::uint64_t control_packets = 0;
  std::uint64_t trimmed = 0;  ///< trimmed packets that receivers saw
  std::uint64_t marked = 0;   ///< data packets received with ECN CE
  std::uint64_t timeouts = 0;
  std::uint64_t failed_flows = 0;
};

/// Hosts that talk by one transport, as workloads see them, so that MRC and the baselines can be
/// compared under the same traffic. Throws only while flows are opened. One thread at a time.
class Cluster {
 public:
  virtual ~Cluster() = default;
  void set_listener(FlowListener* listener) noexcept { listener_ = listener; }

  /// A way for messages from one host to another over `queue_pairs` queue pairs, to which each
  /// message is spread in equal parts. Messages of a flow with one queue pair arrive in order.
  virtual FlowId open(unsigned from, unsigned to, unsigned queue_pairs = 1) = 0;
  /// Sends `bytes` >= 1. Any number of messages may wait. Nothing happens on a failed flow.
  virtual void send(FlowId flow, std::uint64_t bytes, std::uint64_t message) = 0;

  [[nodiscard]] virtual unsigned hosts() const noexcept = 0;
  /// Payload bytes that a host has received, each once.
  [[nodiscard]] virtual std::uint64_t received_bytes(unsigned host) const = 0;
  [[nodiscard]] virtual ClusterStats stats() const = 0;

 protected:
  FlowListener* listener_ = nullptr;
};

}  // namespace mrc::inline v0_1::sim
