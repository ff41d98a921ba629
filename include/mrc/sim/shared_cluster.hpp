// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mrc/sim/cluster.hpp"

namespace mrc::inline v0_1::sim {

/// Lets several workloads, each of which must be its cluster's only listener, share one cluster:
/// each gets a view, which forwards its calls and reports the events of the flows that it opened.
/// The cluster must outlive it. One thread at a time, that of the network.
class SharedCluster : private FlowListener {
 public:
  /// Becomes the listener of `cluster`.
  explicit SharedCluster(Cluster& cluster) : cluster_(cluster) { cluster.set_listener(this); }
  SharedCluster(const SharedCluster&) = delete;
  SharedCluster& operator=(const SharedCluster&) = delete;

  /// A view for another workload; lives as long as this.
  Cluster& add_view() {
    views_.push_back(std::make_unique<View>(*this));
    return *views_.back();
  }

 private:
  class View final : public Cluster {
   public:
    explicit View(SharedCluster& shared) : shared_(shared) {}

    FlowId open(unsigned from, unsigned to, unsigned queue_pairs) override {
      const FlowId flow = shared_.cluster_.open(from, to, queue_pairs);
      if (shared_.owners_.size() <= value(flow)) shared_.owners_.resize(value(flow) + 1);
      shared_.owners_[value(flow)] = this;
      return flow;
    }
    void send(FlowId flow, std::uint64_t bytes, std::uint64_t message) override {
      shared_.cluster_.send(flow, bytes, message);
    }
    [[nodiscard]] unsigned hosts() const noexcept override { return shared_.cluster_.hosts(); }
    [[nodiscard]] std::uint64_t received_bytes(unsigned host) const override {
      return shared_.cluster_.received_bytes(host);
    }
    [[nodiscard]] ClusterStats stats() const override { return shared_.cluster_.stats(); }
    [[nodiscard]] FlowListener* listener() const noexcept { return listener_; }

   private:
    SharedCluster& shared_;
  };

  [[nodiscard]] FlowListener* listener_of(FlowId flow) const noexcept {
    const View* view = value(flow) < owners_.size() ? owners_[value(flow)] : nullptr;
    return view == nullptr ? nullptr : view->listener();
  }
  void on_sent(FlowId flow, std::uint64_t message, Time now) override {
    if (FlowListener* l = listener_of(flow)) l->on_sent(flow, message, now);
  }
  void on_delivered(FlowId flow, std::uint64_t message, Time now) override {
    if (FlowListener* l = listener_of(flow)) l->on_delivered(flow, message, now);
  }
  void on_failed(FlowId flow, const std::string& reason, Time now) override {
    if (FlowListener* l = listener_of(flow)) l->on_failed(flow, reason, now);
  }

  Cluster& cluster_;
  std::vector<std::unique_ptr<View>> views_;
  std::vector<View*> owners_;  // by FlowId
};

}  // namespace mrc::inline v0_1::sim
