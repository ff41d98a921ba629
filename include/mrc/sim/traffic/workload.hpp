// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/sim/cluster.hpp"
#include "mrc/sim/network.hpp"

namespace mrc::inline v0_1::sim {

/// The `p`-th percentile (p: 0 .. 100) of `sorted` by nearest rank (exact: one of its elements).
/// Zero if empty. `sorted` must be in ascending order.
[[nodiscard]] inline Duration percentile(std::span<const Duration> sorted, double p) noexcept {
  if (sorted.empty()) return Duration{};
  const double n = static_cast<double>(sorted.size());
  const double exact = std::clamp(p, 0.0, 100.0) * n / 100.0;
  auto rank = static_cast<std::size_t>(exact);
  if (static_cast<double>(rank) < exact) ++rank;
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

/// Arithmetic mean, rounded down to whole nanoseconds. Zero if empty.
[[nodiscard]] inline Duration mean(std::span<const Duration> times) noexcept {
  Duration sum{};
  for (const Duration t : times) sum += t;
  return times.empty() ? sum : sum / static_cast<Duration::rep>(times.size());
}

/// Bytes in a time as Gb/s (10^9 bits per second). Zero if the time is not positive.
[[nodiscard]] inline double gbps(double bytes, Duration time) noexcept {
  return time > Duration{} ? bytes * 8.0 / static_cast<double>(time.count()) : 0.0;
}

/// Jain's fairness index: 1 when all shares are equal, 1/n when one has everything. 1 if empty or
/// all zero.
[[nodiscard]] inline double jain_index(std::span<const double> shares) noexcept {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1.0;
}

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

/// Source and destination of a flow.
struct HostPair {
  unsigned from = 0;  ///< host
  unsigned to = 0;    ///< host
  /// Equal in both.
  friend bool operator==(const HostPair&, const HostPair&) = default;
};

/// Base of the traffic patterns: tracks flows in progress and failures, so that a pattern only
/// defines what is sent when. Independent of the transport, so that all get the same traffic.
/// A workload is the cluster's only listener from start() on, runs once, and must outlive the runs
/// of its network, as must the log. One thread at a time, that of its network.
class Workload : public FlowListener {
 public:
  /// A flow that the transport gave up.
  struct Failure {
    FlowId flow;         ///< the flow
    HostPair hosts;      ///< its hosts
    std::string reason;  ///< the transport's reason
    Time when;           ///< virtual time
  };

  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  /// Opens the flows and starts sending, at the network's current time. Throws mrc::Error for
  /// settings that are inconsistent or do not suit the cluster, or a flow that could not be opened.
  void start(Network& network, Cluster& cluster, MessageLog& log) {
    if (network_ != nullptr) throw Error(Errc::invalid_state, "workload: start() comes once");
    network_ = &network;
    cluster_ = &cluster;
    log_ = &log;
    started_ = finished_ = network.now();
    cluster.set_listener(this);
    if (stop_ != kNever) stop_at(stop_);
    begin();
    running_ = true;
    settle();
  }

  /// Starts nothing new from `when` on; traffic in progress is completed. May be called before and
  /// after start(); the earliest time applies.
  void stop_at(Time when) {
    stop_ = std::min(stop_, when);
    if (network_ == nullptr) return;
    network_->call_at(when, [this] {
      on_stop();
      settle();
    });
  }

  /// Marks the flows of a dead sender as failed for this reason: a dead transport can't report it,
  /// and done() would never become true. After start().
  void abandon_sender(unsigned host, const std::string& reason) {
    for (std::uint32_t i = 0; i < flows_.size(); ++i)
      if (flows_[i].mine && !flows_[i].failed && log_->flows()[i].from == host)
        on_failed(FlowId{i}, reason, now());
  }

  /// Whether everything was sent, delivered and acknowledged, or failed.
  [[nodiscard]] bool done() const noexcept { return done_; }
  /// Sets a function that is called once when done() becomes true, for instance to stop the
  /// network.
  void when_done(std::function<void()> call) { when_done_ = std::move(call); }

  /// Time of start().
  [[nodiscard]] Time started() const noexcept { return started_; }
  /// Time of the last delivery so far.
  [[nodiscard]] Time finished() const noexcept { return finished_; }
  /// In order of time.
  [[nodiscard]] const std::vector<Failure>& failures() const noexcept { return failures_; }

  // --- FlowListener -----------------------------------------------------------------------------

  void on_sent(FlowId flow, std::uint64_t message, Time now) final {
    FlowState* f = find(flow);
    if (f == nullptr) return;
    log_->sent(flow, message, now);
    take_back(*f, 1);
    message_sent(f->tag, message);
    settle();
  }
  void on_delivered(FlowId flow, std::uint64_t message, Time now) final {
    FlowState* f = find(flow);
    if (f == nullptr) return;
    log_->delivered(flow, message, now);
    finished_ = now;
    take_back(*f, 1);
    message_delivered(f->tag, message);
    settle();
  }
  void on_failed(FlowId flow, const std::string& reason, Time now) final {
    FlowState* f = find(flow);
    if (f == nullptr) return;
    f->failed = true;
    take_back(*f, f->reports_due);
    log_->failed(flow, reason, now);
    const FlowRecord& hosts = log_->flows()[value(flow)];
    failures_.push_back({flow, {hosts.from, hosts.to}, reason, now});
    flow_failed(f->tag);
    settle();
  }

 protected:
  // --- What a pattern defines -------------------------------------------------------------------
  // post() may call these recursively, so a pattern's state must be consistent before any post().

  /// Checks the settings, opens flows, sends the first messages.
  virtual void begin() = 0;
  /// Whether the pattern will send nothing more in any case. Called often: must be cheap.
  [[nodiscard]] virtual bool exhausted() const = 0;
  /// A message was acknowledged. `tag`: the argument of open(). `message`: its number in the flow.
  virtual void message_sent(std::uint32_t /*tag*/, std::uint64_t /*message*/) {}
  /// A message was delivered; arguments as above.
  virtual void message_delivered(std::uint32_t /*tag*/, std::uint64_t /*message*/) {}
  /// A flow failed; argument as above.
  virtual void flow_failed(std::uint32_t /*tag*/) {}
  /// The time of stop_at() is reached.
  virtual void on_stop() {}

  // --- What a pattern uses ----------------------------------------------------------------------

  /// Opens a flow; `tag` is passed to the functions above.
  FlowId open(HostPair hosts, unsigned queue_pairs, std::uint32_t tag) {
    const FlowId flow = cluster_->open(hosts.from, hosts.to, queue_pairs);
    if (flows_.size() <= value(flow)) flows_.resize(value(flow) + 1);
    flows_[value(flow)] = {tag, 0, true, false};
    log_->open(flow, hosts.from, hosts.to);
    return flow;
  }
  /// Sends a message. Not on a failed flow, which reports nothing any more.
  void post(FlowId flow, std::uint64_t bytes) {
    FlowState& f = flows_[value(flow)];
    f.reports_due += 2;
    reports_due_ += 2;
    cluster_->send(flow, bytes, log_->post(flow, bytes, now()));
  }
  /// Whether the flow has failed.
  [[nodiscard]] bool has_failed(FlowId flow) const noexcept { return flows_[value(flow)].failed; }
  /// Whether the time to stop is reached.
  [[nodiscard]] bool stopped() const noexcept { return now() >= stop_; }
  /// Virtual time.
  [[nodiscard]] Time now() const noexcept { return network_->now(); }
  /// Number of hosts of the cluster.
  [[nodiscard]] unsigned hosts() const noexcept { return cluster_->hosts(); }
  /// Runs `what` after a delay, and then checks whether the workload is done.
  template <class F>
  void call_after(Duration time, F what) {
    network_->call_at(now() + time, [this, what] {
      what();
      settle();
    });
  }
  /// Throws mrc::Error unless `good`.
  static void require(bool good, const std::string& what) {
    if (!good) throw Error(Errc::invalid_argument, what);
  }

 private:
  struct FlowState {
    std::uint32_t tag = 0;
    std::uint32_t reports_due = 0;  // two per message: sent, delivered
    bool mine = false;
    bool failed = false;
  };

  /// The flow if it belongs to this workload (an earlier one on the same cluster may have left
  /// some) and has not failed.
  [[nodiscard]] FlowState* find(FlowId flow) noexcept {
    if (value(flow) >= flows_.size()) return nullptr;
    FlowState& f = flows_[value(flow)];
    return f.mine && !f.failed ? &f : nullptr;
  }
  void take_back(FlowState& flow, std::uint32_t reports) noexcept {
    flow.reports_due -= reports;
    reports_due_ -= reports;
  }
  void settle() {
    if (done_ || !running_ || reports_due_ != 0 || !exhausted()) return;
    done_ = true;
    if (when_done_) when_done_();
  }

  Network* network_ = nullptr;
  Cluster* cluster_ = nullptr;
  MessageLog* log_ = nullptr;
  std::vector<FlowState> flows_;  // by FlowId
  std::vector<Failure> failures_;
  std::function<void()> when_done_;
  std::uint64_t reports_due_ = 0;
  Time started_{}, finished_{};
  Time stop_ = kNever;
  bool running_ = false;
  bool done_ = false;
};

}  // namespace mrc::inline v0_1::sim
