// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::sim {

/// Index of a flow in its cluster.
enum class FlowId : std::uint32_t {};
/// The index itself.
[[nodiscard]] constexpr std::uint32_t value(FlowId id) noexcept {
  return static_cast<std::uint32_t>(id);
}

/// Events of a cluster reported to a workload. Called in virtual time; the listener may send and
/// open flows.
class FlowListener {
 public:
  virtual ~FlowListener() = default;
  /// The message is acknowledged: the sender may reuse its memory.
  virtual void on_sent(FlowId, std::uint64_t message, Time now) = 0;
  /// The whole message is in the receiver's memory, and the receiver has been notified.
  virtual void on_delivered(FlowId, std::uint64_t message, Time now) = 0;
  /// The transport gave up for this reason. Nothing further is reported for the flow.
  virtual void on_failed(FlowId, const std::string& reason, Time now) = 0;
};

/// Control packets that hosts have sent, by kind; MRC only.
struct ControlStats {
  std::uint64_t sacks = 0;             ///< for data packets
  std::uint64_t probe_sacks = 0;       ///< SACKs that answer reliability probes
  std::uint64_t nacks = 0;             ///< refusals of data packets, trimmed ones among them
  std::uint64_t acks = 0;              ///< Transport ACKs and NAKs
  std::uint64_t probes = 0;            ///< reliability probes: what has arrived?
  std::uint64_t ev_probes = 0;         ///< round-trip times, reverse paths, paths that were bad
  std::uint64_t port_updates = 0;      ///< port status
  std::uint64_t endpoint_answers = 0;  ///< answers to EV probes and port status
};

/// Sums of counters over all hosts of a cluster.
struct ClusterStats {
  std::uint64_t data_packets = 0;     ///< sent for the first time
  std::uint64_t retransmitted = 0;    ///< retransmissions
  std::uint64_t accepted = 0;         ///< received for the first time
  std::uint64_t duplicates = 0;       ///< received more than once
  std::uint64_t control_packets = 0;  ///< sent
  ControlStats control{};             ///< the same by kind
  std::uint64_t trimmed = 0;          ///< trimmed packets received
  std::uint64_t marked = 0;           ///< data packets received with ECN CE
  std::uint64_t timeouts = 0;         ///< retransmission timer expiries
  std::uint64_t failed_flows = 0;     ///< flows that the transport gave up
};

/// Hosts with one transport, as seen by workloads, so that MRC and the baselines can be compared
/// under the same traffic. Throws only while flows are opened. One thread at a time.
class Cluster {
 public:
  virtual ~Cluster() = default;
  /// Sets the receiver of events; nullptr for none.
  void set_listener(FlowListener* listener) noexcept { listener_ = listener; }

  /// Opens a flow for messages from one host to another over `queue_pairs` queue pairs, among which
  /// each message is split in equal parts. Messages of a flow with one queue pair arrive in order.
  virtual FlowId open(unsigned from, unsigned to, unsigned queue_pairs = 1) = 0;
  /// Sends `bytes` >= 1. Any number of messages may be queued. No effect on a failed flow.
  virtual void send(FlowId flow, std::uint64_t bytes, std::uint64_t message) = 0;

  /// Number of hosts.
  [[nodiscard]] virtual unsigned hosts() const noexcept = 0;
  /// Payload bytes received by a host, without duplicates.
  [[nodiscard]] virtual std::uint64_t received_bytes(unsigned host) const = 0;
  /// Sums over all hosts.
  [[nodiscard]] virtual ClusterStats stats() const = 0;

 protected:
  /// The receiver of events; may be null.
  FlowListener* listener_ = nullptr;
};

}  // namespace mrc::inline v0_1::sim
