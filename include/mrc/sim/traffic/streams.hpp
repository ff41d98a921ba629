// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/traffic/workload.hpp"

namespace mrc::inline v0_1::sim {

/// A stream of equal messages, of which a fixed number is kept in flight.
struct StreamSettings {
  std::uint64_t bytes = 1024 * 1024;  ///< per message
  unsigned depth = 2;                 ///< messages posted but not acknowledged
  std::uint64_t count = 0;            ///< messages per stream; 0: no limit
  Duration duration{};                ///< from the start on; 0: until stop_at() or the count
  unsigned queue_pairs = 1;           ///< per stream
};

/// Independent streams between hosts, each a flow of its own. Base of the patterns that differ only
/// in the pairs of hosts; used directly, streams are added by add(). A stream ends by its count, at
/// the time to stop or when its flow fails. See Workload for threads and lifetimes.
class Streams : public Workload {
 public:
  /// The same settings for all streams.
  explicit Streams(const StreamSettings& settings) : settings_(settings) {}

  /// Adds a stream that begins `delay` after the start. Only before start().
  void add(HostPair hosts, Duration delay = {}) { streams_.push_back({hosts, delay}); }

  /// State of a stream.
  struct Stream {
    HostPair hosts;            ///< from, to
    Duration delay{};          ///< after the start
    FlowId flow{};             ///< valid from the start on
    std::uint64_t posted = 0;  ///< messages
    unsigned under_way = 0;    ///< messages not yet acknowledged
    bool ended = false;        ///< posts no more messages
  };
  /// All streams.
  [[nodiscard]] const std::vector<Stream>& streams() const noexcept { return streams_; }
  /// The settings of all streams.
  [[nodiscard]] const StreamSettings& settings() const noexcept { return settings_; }

 protected:
  /// Adds the pattern's streams; the number of hosts is known.
  virtual void plan() {}

  void begin() final {
    require(settings_.bytes > 0, "stream: bytes is 0, must be at least 1");
    require(settings_.depth > 0, "stream: depth is 0, must be at least 1");
    plan();
    for (std::uint32_t i = 0; i < streams_.size(); ++i)
      streams_[i].flow = open(streams_[i].hosts, settings_.queue_pairs, i);
    live_ = streams_.size();
    if (settings_.duration > Duration{}) stop_at(now() + settings_.duration);
    for (std::uint32_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i].delay <= Duration{})
        fill(streams_[i]);
      else
        call_after(streams_[i].delay, [this, i] { fill(streams_[i]); });
    }
  }
  [[nodiscard]] bool exhausted() const final { return live_ == 0; }
  void message_sent(std::uint32_t tag, std::uint64_t) final {
    --streams_[tag].under_way;
    fill(streams_[tag]);
  }
  /// See Workload.
  void flow_failed(std::uint32_t tag) final { end(streams_[tag]); }

 private:
  void fill(Stream& s) {
    if (stopped()) end(s);
    while (!s.ended && s.under_way < settings_.depth) {
      ++s.under_way;
      if (++s.posted == settings_.count) end(s);
      post(s.flow, settings_.bytes);
    }
  }
  void end(Stream& s) noexcept {
    if (!s.ended) --live_;
    s.ended = true;
  }

  StreamSettings settings_;
  std::vector<Stream> streams_;
  std::size_t live_ = 0;
};

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

/// A random permutation without fixed points: element i is the destination of host i. `hosts` >= 2.
[[nodiscard]] inline std::vector<unsigned> derangement(unsigned hosts, std::uint64_t seed) {
  Random random(seed);
  std::vector<unsigned> to(hosts);
  std::iota(to.begin(), to.end(), 0u);
  // One shuffle in e has no fixed point, so this takes about three; all derangements are equally
  // likely.
  const auto fixed = [&] {
    for (unsigned h = 0; h < hosts; ++h)
      if (to[h] == h) return true;
    return false;
  };
  do random.shuffle(std::span<unsigned>(to));
  while (fixed());
  return to;
}

/// Parameters of a Permutation.
struct PermutationSettings {
  StreamSettings stream{};  ///< of each host
  unsigned shift = 0;       ///< host h sends to h + shift; 0: random permutation
  Duration spread{};        ///< hosts begin at random within this time; 0: all at once, in step
  std::uint64_t seed = 1;   ///< of the random permutation, and of when hosts begin
};

/// Every host sends a stream to one other and receives one: the pattern that a fabric without
/// oversubscription can carry at full rate if the load is spread evenly over its paths.
class Permutation final : public Streams {
 public:
  /// See Workload.
  explicit Permutation(const PermutationSettings& settings)
      : Streams(settings.stream),
        shift_(settings.shift),
        spread_(settings.spread),
        seed_(settings.seed) {}

 private:
  void plan() override {
    const unsigned n = hosts();
    require(n >= 2, "permutation: needs at least 2 hosts");
    require(shift_ == 0 || shift_ % n != 0, "permutation: shift is " + std::to_string(shift_) +
                                                ", a multiple of the " + std::to_string(n) +
                                                " hosts");
    const std::vector<unsigned> to = shift_ == 0 ? derangement(n, seed_) : shifted(n);
    Random random(seed_ ^ kStarts);
    const auto times = static_cast<std::uint64_t>(std::max(spread_, Duration{}).count()) + 1;
    for (unsigned h = 0; h < n; ++h)
      add({h, to[h]}, Duration{static_cast<Duration::rep>(random.next() % times)});
  }
  [[nodiscard]] std::vector<unsigned> shifted(unsigned n) const {
    std::vector<unsigned> to(n);
    for (unsigned h = 0; h < n; ++h) to[h] = (h + shift_ % n) % n;
    return to;
  }

  static constexpr std::uint64_t kStarts = 0x5354'4152'5453;  ///< a stream of numbers of its own
  unsigned shift_;
  Duration spread_;
  std::uint64_t seed_;
};

/// Parameters of a SendRecv.
struct SendRecvSettings {
  StreamSettings stream{};  ///< of each pair and direction
  std::vector<HostPair>
      pairs{};            ///< empty: host h with h + hosts / 2, for the first half of the hosts
  bool both_ways = true;  ///< both directions at the same time
};

/// Pairs of hosts that send to each other: with one pair a point-to-point test, with all hosts the
/// send/recv test of collective libraries.
class SendRecv final : public Streams {
 public:
  /// See Workload.
  explicit SendRecv(const SendRecvSettings& settings)
      : Streams(settings.stream), pairs_(settings.pairs), both_ways_(settings.both_ways) {}

 private:
  void plan() override {
    const unsigned half = hosts() / 2;
    if (pairs_.empty())
      for (unsigned h = 0; h < half; ++h) pairs_.push_back({h, h + half});
    for (const HostPair& pair : pairs_) {
      add(pair);
      if (both_ways_) add({pair.to, pair.from});
    }
  }

  std::vector<HostPair> pairs_;
  bool both_ways_;
};

}  // namespace mrc::inline v0_1::sim
