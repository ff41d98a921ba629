// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/sim/cluster.hpp"
#include "mrc/sim/message_log.hpp"
#include "mrc/sim/network.hpp"

namespace mrc::inline v0_1::sim {

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
