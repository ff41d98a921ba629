// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "mrc/sim/fabric.hpp"
#include "mrc/sim/traffic/streams.hpp"

namespace mrc::inline v0_1::sim {

/// Parameters of an Incast.
struct IncastSettings {
  StreamSettings stream{};           ///< of the senders and of the victim
  unsigned receiver = 0;             ///< host
  std::vector<unsigned> senders{};   ///< hosts
  Duration stagger{};                ///< sender i starts after i times this
  std::optional<HostPair> victim{};  ///< a flow between uninvolved hosts, from the start on
};

/// The last `count` hosts of `hosts` (without the receiver), in ascending order; in a Clos fabric
/// these are the furthest from a low-numbered receiver. Fewer if there are not enough.
[[nodiscard]] inline std::vector<unsigned> far_senders(unsigned hosts, unsigned receiver,
                                                       unsigned count) {
  std::vector<unsigned> senders;
  for (unsigned h = hosts; h-- > 0 && senders.size() < count;)
    if (h != receiver) senders.push_back(h);
  std::reverse(senders.begin(), senders.end());
  return senders;
}

/// A victim for an incast: a flow from an uninvolved host under the T0 of a sender (of as many
/// senders as possible) to one under the receiver's T0. It shares uplinks with the senders and
/// downlinks with the incast, but no host, so that its losses are caused by the fabric alone. Empty
/// if there is no such pair.
[[nodiscard]] inline std::optional<HostPair> pick_victim(const Fabric& fabric,
                                                         const IncastSettings& incast) {
  const auto bystander = [&](unsigned host) {
    return host != incast.receiver &&
           std::find(incast.senders.begin(), incast.senders.end(), host) == incast.senders.end();
  };
  const unsigned hosts = fabric.settings().hosts;
  const auto neighbours = [&](unsigned host) {
    return std::count_if(incast.senders.begin(), incast.senders.end(),
                         [&](unsigned s) { return fabric.t0_of(s) == fabric.t0_of(host); });
  };
  std::optional<unsigned> from, to;
  for (unsigned h = 0; h < hosts; ++h)
    if (!to && bystander(h) && fabric.t0_of(h) == fabric.t0_of(incast.receiver)) to = h;
  for (unsigned h = 0; h < hosts; ++h)
    if (bystander(h) && h != to && neighbours(h) > (from ? neighbours(*from) : 0)) from = h;
  if (!from || !to) return std::nullopt;
  return HostPair{*from, *to};
}

/// Many senders to one receiver, whose link is the bottleneck, and a victim flow that ideally is
/// unaffected. Without senders the victim runs alone, for reference.
class Incast final : public Streams {
 public:
  /// See Workload.
  explicit Incast(const IncastSettings& settings) : Streams(settings.stream), incast_(settings) {}

  /// Flows of the senders, in their order. After start().
  [[nodiscard]] std::vector<FlowId> sender_flows() const {
    std::vector<FlowId> flows;
    for (std::size_t i = 0; i < incast_.senders.size(); ++i) flows.push_back(streams()[i].flow);
    return flows;
  }
  /// Flow of the victim, if there is one. After start().
  [[nodiscard]] std::optional<FlowId> victim_flow() const {
    if (!incast_.victim) return std::nullopt;
    return streams().back().flow;
  }

 private:
  void plan() override {
    require(!incast_.senders.empty() || incast_.victim, "incast: neither senders nor a victim");
    for (std::size_t i = 0; i < incast_.senders.size(); ++i)
      add({incast_.senders[i], incast_.receiver}, incast_.stagger * static_cast<Duration::rep>(i));
    if (incast_.victim) add(*incast_.victim);
  }

  IncastSettings incast_;
};

}  // namespace mrc::inline v0_1::sim
