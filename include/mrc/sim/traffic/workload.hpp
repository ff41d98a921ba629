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

/// From one host to another.
struct HostPair {
  unsigned from = 0, to = 0;
  friend bool operator==(const HostPair&, const HostPair&) = default;
};

/// Base of the traffic patterns: keeps the books of what is under way and what failed, and lets a
/// pattern say only what is sent when. Runs on any transport, so that all get the same traffic.
///
/// A workload is the cluster's only listener from start() on, runs once, and must outlive the runs
/// of its network, as must the log. One thread at a time, that of its network.
class Workload : public FlowListener {
 public:
  /// A flow that the transport gave up.
  struct Failure {
    FlowId flow;
    HostPair hosts;
    std::string reason;
    Time when;
  };

  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  /// Opens the flows and begins to send, at the network's present time. Throws mrc::Error: settings
  /// that do not fit each other or the cluster, or a flow that could not be opened.
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

  /// Nothing new is begun from `when` on; what is under way runs to its end. May be called before
  /// and after start(); the earliest time holds.
  void stop_at(Time when) {
    stop_ = std::min(stop_, when);
    if (network_ == nullptr) return;
    network_->call_at(when, [this] {
      on_stop();
      settle();
    });
  }

  /// Takes the flows of a sender that has died as failed, for this reason: a transport that is dead
  /// can't say so itself, and done() would wait for ever. After start().
  void abandon_sender(unsigned host, const std::string& reason) {
    for (std::uint32_t i = 0; i < flows_.size(); ++i)
      if (flows_[i].mine && !flows_[i].failed && log_->flows()[i].from == host)
        on_failed(FlowId{i}, reason, now());
  }

  /// Everything was sent, delivered and acknowledged, or failed.
  [[nodiscard]] bool done() const noexcept { return done_; }
  /// Called once, when done() has become true: for instance to stop the network.
  void when_done(std::function<void()> call) { when_done_ = std::move(call); }

  [[nodiscard]] Time started() const noexcept { return started_; }
  /// Of the last delivery so far.
  [[nodiscard]] Time finished() const noexcept { return finished_; }
  /// In the order of their time.
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
  // Any post() may call these from within, so a pattern's own state has to be in order before.

  /// Checks the settings, opens flows, sends the first messages.
  virtual void begin() = 0;
  /// True if nothing more will be sent, whatever arrives. Asked often: must be cheap.
  [[nodiscard]] virtual bool exhausted() const = 0;
  /// `tag`: what open() got. `message`: its number in the flow.
  virtual void message_sent(std::uint32_t /*tag*/, std::uint64_t /*message*/) {}
  virtual void message_delivered(std::uint32_t /*tag*/, std::uint64_t /*message*/) {}
  virtual void flow_failed(std::uint32_t /*tag*/) {}
  /// The time of stop_at() has come.
  virtual void on_stop() {}

  // --- What a pattern uses ----------------------------------------------------------------------

  FlowId open(HostPair hosts, unsigned queue_pairs, std::uint32_t tag) {
    const FlowId flow = cluster_->open(hosts.from, hosts.to, queue_pairs);
    if (flows_.size() <= value(flow)) flows_.resize(value(flow) + 1);
    flows_[value(flow)] = {tag, 0, true, false};
    log_->open(flow, hosts.from, hosts.to);
    return flow;
  }
  /// Sends a message. Not on a failed flow: it would never be heard of again.
  void post(FlowId flow, std::uint64_t bytes) {
    FlowState& f = flows_[value(flow)];
    f.reports_due += 2;
    reports_due_ += 2;
    cluster_->send(flow, bytes, log_->post(flow, bytes, now()));
  }
  [[nodiscard]] bool has_failed(FlowId flow) const noexcept { return flows_[value(flow)].failed; }
  [[nodiscard]] bool stopped() const noexcept { return now() >= stop_; }
  [[nodiscard]] Time now() const noexcept { return network_->now(); }
  [[nodiscard]] unsigned hosts() const noexcept { return cluster_->hosts(); }
  /// Runs `what` after a time; the books are settled after it.
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

  /// The flow if it is one of this workload's (an earlier one on the same cluster may have left
  /// some) and lives.
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
