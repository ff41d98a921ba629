// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/sim/cluster.hpp"
#include "mrc/sim/traffic/measures.hpp"

namespace mrc::inline v0_1::sim {

/// A message and the times of its events; kNever for events that have not happened.
struct MessageRecord {
  FlowId flow{};            ///< flow of the message
  std::uint64_t bytes = 0;  ///< payload
  Time posted{};            ///< passed to the cluster
  Time delivered = kNever;  ///< complete in the receiver's memory, receiver notified
  Time sent = kNever;       ///< acknowledged to the sender

  /// From posting to delivery; only for delivered messages.
  [[nodiscard]] Duration completion_time() const noexcept { return delivered - posted; }
};

/// A flow of the log, and its failure if any.
struct FlowRecord {
  unsigned from = 0;                    ///< host
  unsigned to = 0;                      ///< host
  Time failed_at = kNever;              ///< time of the failure
  std::string failure;                  ///< the transport's reason
  std::vector<std::uint32_t> messages;  ///< indices in MessageLog::messages(), in order of posting
};

/// All messages of a run, and statistics over them. Messages are identified by their flow and their
/// number in it (0, 1, ...), which post() returns. Recording is an append of 40 bytes per message.
/// For the flows of one cluster. One thread at a time.
class MessageLog {
 public:
  // --- Recording (workloads do it) --------------------------------------------------------------

  /// Records a new flow.
  void open(FlowId flow, unsigned from, unsigned to) {
    if (flows_.size() <= value(flow)) flows_.resize(value(flow) + 1);
    flows_[value(flow)].from = from;
    flows_[value(flow)].to = to;
  }
  /// Records a message; returns its number in its flow.
  std::uint64_t post(FlowId flow, std::uint64_t bytes, Time now) {
    auto& numbers = flows_[value(flow)].messages;
    numbers.push_back(static_cast<std::uint32_t>(messages_.size()));
    messages_.push_back({flow, bytes, now, kNever, kNever});
    return numbers.size() - 1;
  }
  /// Records the delivery of a message.
  void delivered(FlowId flow, std::uint64_t message, Time now) {
    MessageRecord& m = messages_[index(flow, message)];
    m.delivered = now;
    ++delivered_;
    delivered_bytes_ += m.bytes;
  }
  /// Records the acknowledgement of a message.
  void sent(FlowId flow, std::uint64_t message, Time now) {
    messages_[index(flow, message)].sent = now;
  }
  /// Records the failure of a flow.
  void failed(FlowId flow, const std::string& reason, Time now) {
    flows_[value(flow)].failed_at = now;
    flows_[value(flow)].failure = reason;
  }

  // --- Getters ----------------------------------------------------------------------------------

  /// In order of posting.
  [[nodiscard]] const std::vector<MessageRecord>& messages() const noexcept { return messages_; }
  /// Indexed by FlowId.
  [[nodiscard]] const std::vector<FlowRecord>& flows() const noexcept { return flows_; }
  /// A message by its number in its flow.
  [[nodiscard]] const MessageRecord& message(FlowId flow, std::uint64_t number) const {
    return messages_[index(flow, number)];
  }
  /// Number of messages delivered.
  [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }
  /// Payload bytes of delivered messages.
  [[nodiscard]] std::uint64_t delivered_bytes() const noexcept { return delivered_bytes_; }

  /// Completion times of the delivered messages posted in [from, to), in ascending order as needed
  /// by percentile().
  [[nodiscard]] std::vector<Duration> completion_times(Time from = Time{}, Time to = kNever) const {
    std::vector<Duration> times;
    for (const MessageRecord& m : messages_)
      if (m.delivered != kNever && m.posted >= from && m.posted < to)
        times.push_back(m.completion_time());
    std::sort(times.begin(), times.end());
    return times;
  }

  /// Goodput of a flow in the interval (from, to], in Gb/s. A message counts as arriving evenly
  /// between its posting, or the previous delivery on the flow if that is later, and its own
  /// delivery, so an interval may cut through messages. Undelivered messages count as nothing: let
  /// the messages in flight at `to` arrive first.
  [[nodiscard]] double goodput(FlowId flow, Time from, Time to) const {
    double bytes = 0;
    Time before{};
    for (const std::uint32_t i : flows_[value(flow)].messages) {
      const MessageRecord& m = messages_[i];
      if (m.delivered == kNever) continue;
      bytes +=
          static_cast<double>(m.bytes) * share(std::max(m.posted, before), m.delivered, from, to);
      before = std::max(before, m.delivered);
    }
    return gbps(bytes, to - from);
  }
  /// Total goodput of all flows.
  [[nodiscard]] double goodput(Time from, Time to) const {
    double sum = 0;
    for (std::uint32_t f = 0; f < flows_.size(); ++f) sum += goodput(FlowId{f}, from, to);
    return sum;
  }

  /// One line per message: flow,number,from,to,bytes,posted_ns,delivered_ns,sent_ns,failure. Events
  /// that did not happen are empty; `failure` is that of the flow, of messages not delivered.
  void write_csv(std::ostream& out) const;

 private:
  [[nodiscard]] std::size_t index(FlowId flow, std::uint64_t number) const {
    return flows_[value(flow)].messages[static_cast<std::size_t>(number)];
  }
  /// The fraction of (begin, end] that lies in (from, to], 0 .. 1.
  [[nodiscard]] static double share(Time begin, Time end, Time from, Time to) noexcept {
    if (begin >= end) return end > from && end <= to ? 1.0 : 0.0;
    const Duration inside = std::min(end, to) - std::max(begin, from);
    return inside <= Duration{}
               ? 0.0
               : static_cast<double>(inside.count()) / static_cast<double>((end - begin).count());
  }

  std::vector<MessageRecord> messages_;
  std::vector<FlowRecord> flows_;
  std::uint64_t delivered_ = 0, delivered_bytes_ = 0;
};

/// A CSV field, quoted if necessary.
[[nodiscard]] inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') quoted += c;
  }
  return quoted + '"';
}

inline void MessageLog::write_csv(std::ostream& out) const {
  const auto time = [](Time t) {
    return t == kNever ? std::string() : std::to_string(t.time_since_epoch().count());
  };
  std::vector<std::uint64_t> next(flows_.size());
  out << "flow,number,from,to,bytes,posted_ns,delivered_ns,sent_ns,failure\n";
  for (const MessageRecord& m : messages_) {
    const FlowRecord& f = flows_[value(m.flow)];
    out << value(m.flow) << ',' << next[value(m.flow)]++ << ',' << f.from << ',' << f.to << ','
        << m.bytes << ',' << time(m.posted) << ',' << time(m.delivered) << ',' << time(m.sent)
        << ',' << (m.delivered == kNever ? csv_field(f.failure) : std::string()) << '\n';
  }
}

}  // namespace mrc::inline v0_1::sim
