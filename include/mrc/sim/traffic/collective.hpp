// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "mrc/sim/traffic/workload.hpp"

namespace mrc::inline v0_1::sim {

/// Parameters of every collective operation.
struct CollectiveSettings {
  std::uint64_t bytes = 64 * 1024 * 1024;  ///< buffer of a rank, bytes
  std::vector<unsigned> ranks{};           ///< their hosts, in order of rank; empty: all hosts
  unsigned iterations = 1;                 ///< run one after another
  unsigned queue_pairs = 1;                ///< per flow
};

/// Base of the collective operations. The first iteration begins at the start, each further one
/// when the last byte of the previous one has been delivered (a barrier without cost). If a flow
/// fails, no further message is sent, since the operation can't complete. stop_at() lets the
/// running iteration finish.
class Collective : public Workload {
 public:
  /// See Workload.
  explicit Collective(const CollectiveSettings& settings) : collective_(settings) {}

  /// Times of the completed iterations, in order.
  [[nodiscard]] const std::vector<Duration>& times() const noexcept { return times_; }
  /// Whether a flow failed.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

  /// Bandwidth as nccl-tests define it, in GB/s (10^9 bytes): a rank's buffer over the mean of
  /// times(). Zero if no iteration completed.
  [[nodiscard]] double algorithm_bandwidth() const noexcept {
    const Duration time = mean(std::span<const Duration>(times_));
    return gbps(static_cast<double>(collective_.bytes), time) / 8;
  }
  /// The same times the fraction of the buffer that crosses the network, which makes it comparable
  /// to the hardware's peak.
  [[nodiscard]] double bus_bandwidth() const noexcept {
    return algorithm_bandwidth() * bus_factor();
  }
  /// Hosts in order of rank. After start().
  [[nodiscard]] const std::vector<unsigned>& ranks() const noexcept { return collective_.ranks; }

 protected:
  /// Checks the operation's own settings and opens the flows; ranks() is set.
  virtual void prepare() = 0;
  /// Sends the first messages of an iteration; messages of earlier ones may be unacknowledged.
  virtual void begin_iteration() = 0;
  /// Number of messages in an iteration.
  [[nodiscard]] virtual std::uint64_t messages() const noexcept = 0;
  /// Ratio of bus_bandwidth() to algorithm_bandwidth().
  [[nodiscard]] virtual double bus_factor() const noexcept = 0;
  /// A message was delivered, other than the iteration's last.
  virtual void delivered(std::uint32_t tag, std::uint64_t message) = 0;

  /// Number of ranks.
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(collective_.ranks.size());
  }
  /// The parameters.
  [[nodiscard]] const CollectiveSettings& collective() const noexcept { return collective_; }

  void begin() final {
    if (collective_.ranks.empty()) {
      collective_.ranks.resize(hosts());
      std::iota(collective_.ranks.begin(), collective_.ranks.end(), 0u);
    }
    auto sorted = collective_.ranks;
    std::sort(sorted.begin(), sorted.end());
    require(sorted.size() >= 2, "collective: needs at least 2 ranks");
    require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
            "collective: a host has two ranks");
    require(sorted.back() < hosts(), "collective: rank on host " + std::to_string(sorted.back()) +
                                         " of " + std::to_string(hosts()));
    require(collective_.iterations > 0, "collective: iterations is 0, must be at least 1");
    prepare();
    next_iteration();
  }
  [[nodiscard]] bool exhausted() const final { return broken_ || missing_ == 0; }
  /// See Workload.
  void message_delivered(std::uint32_t tag, std::uint64_t message) final {
    if (--missing_ > 0) return delivered(tag, message);
    times_.push_back(now() - iteration_start_);
    if (times_.size() < collective_.iterations && !stopped() && !broken_) next_iteration();
  }
  /// See Workload.
  void flow_failed(std::uint32_t) final { broken_ = true; }

 private:
  void next_iteration() {
    iteration_start_ = now();
    missing_ = messages();
    begin_iteration();
  }

  CollectiveSettings collective_;
  std::vector<Duration> times_;
  Time iteration_start_{};
  std::uint64_t missing_ = 0;  // deliveries outstanding
  bool broken_ = false;
};

/// Parameters of a RingAllReduce.
struct RingAllReduceSettings {
  CollectiveSettings collective{};  ///< common to all collectives
  unsigned channels = 1;  ///< rings, each with an equal part of the buffer and its own flows
  unsigned slices = 1;    ///< messages per chunk: the next rank continues after the first of them
  unsigned depth = 2;     ///< messages of a rank in flight on a ring (its send slots)
};

/// Ring all-reduce. Each ring's part of the buffer is divided into one chunk per rank. In step s =
/// 0 .. 2 (n - 1) - 1 rank r sends chunk r - s (modulo n) to rank r + 1: the first half of the
/// steps adds up the chunks, the second half distributes the sums. From the second step on a rank
/// sends what it received in the previous step, so a slice is sent when the same slice of that step
/// was delivered and a send slot is free. The time for the additions is not modelled.
class RingAllReduce final : public Collective {
 public:
  /// See Workload.
  explicit RingAllReduce(const RingAllReduceSettings& settings)
      : Collective(settings.collective),
        channels_(settings.channels),
        slices_(settings.slices),
        depth_(settings.depth) {}

  /// The flow on which a rank sends on a ring. After start(). Its message i, counted from 0 in each
  /// iteration up to messages_per_rank(), is slice i % slices of step i / slices.
  [[nodiscard]] FlowId flow(unsigned channel, unsigned rank) const {
    return seats_[std::size_t{channel} * size() + rank].flow;
  }
  /// Number of messages of a rank on a ring.
  [[nodiscard]] std::uint32_t messages_per_rank() const noexcept {
    return 2 * (size() - 1) * slices_;
  }
  /// Size of message i of a rank on a ring, in bytes.
  [[nodiscard]] std::uint64_t message_bytes(unsigned channel, unsigned rank,
                                            std::uint32_t i) const noexcept {
    const std::uint32_t n = size();
    const std::uint32_t chunk = (rank + 2 * n - i / slices_) % n;
    const std::uint64_t piece = (std::uint64_t{channel} * n + chunk) * slices_ + i % slices_;
    // Rounded so that the pieces add up to the buffer.
    const std::uint64_t even = collective().bytes / pieces(), rest = collective().bytes % pieces();
    return even + (piece < rest ? 1 : 0);
  }

 private:
  /// A rank on a ring.
  struct Seat {
    FlowId flow{};
    std::uint32_t next = 0;              // next message
    std::uint32_t under_way = 0;         // not yet acknowledged
    std::vector<std::uint8_t> received;  // by message of the previous rank
  };

  [[nodiscard]] std::uint64_t pieces() const noexcept {
    return std::uint64_t{channels_} * slices_ * size();
  }
  void prepare() override {
    const std::uint32_t n = size();
    require(channels_ > 0 && slices_ > 0 && depth_ > 0,
            "all-reduce: channels, slices and depth must be at least 1");
    require(collective().bytes >= pieces(),
            "all-reduce: bytes is " + std::to_string(collective().bytes) + ", must be at least " +
                std::to_string(pieces()) + ", one for each message of a step");
    seats_.resize(std::size_t{channels_} * n);
    for (std::uint32_t i = 0; i < seats_.size(); ++i)
      seats_[i].flow = open({ranks()[i % n], ranks()[(i + 1) % n]}, collective().queue_pairs, i);
  }
  void begin_iteration() override {
    for (Seat& seat : seats_) {
      seat.next = 0;
      seat.received.assign(messages_per_rank(), 0);
    }
    for (Seat& seat : seats_) go_on(seat);
  }
  [[nodiscard]] std::uint64_t messages() const noexcept override {
    return std::uint64_t{messages_per_rank()} * seats_.size();
  }
  [[nodiscard]] double bus_factor() const noexcept override { return 2.0 * (size() - 1) / size(); }

  void go_on(Seat& seat) {
    const auto at = static_cast<std::uint32_t>(&seat - seats_.data());
    while (!broken() && seat.under_way < depth_ && seat.next < messages_per_rank()) {
      const std::uint32_t i = seat.next;
      if (i >= slices_ && seat.received[i - slices_] == 0) return;
      ++seat.next;
      ++seat.under_way;
      post(seat.flow, message_bytes(at / size(), at % size(), i));
    }
  }
  void message_sent(std::uint32_t tag, std::uint64_t) override {
    --seats_[tag].under_way;
    go_on(seats_[tag]);
  }
  void delivered(std::uint32_t tag, std::uint64_t message) override {
    const std::uint32_t rank = tag % size();
    Seat& next = seats_[tag - rank + (rank + 1) % size()];
    next.received[message % messages_per_rank()] = 1;
    go_on(next);
  }

  unsigned channels_, slices_, depth_;
  std::vector<Seat> seats_;  // [channel][rank]
};

/// Parameters of an AllToAll.
struct AllToAllSettings {
  CollectiveSettings collective{};  ///< common to all collectives
  unsigned peers = 4;               ///< messages of a rank in flight at a time
};

/// All-to-all: every rank sends a different part of its buffer to every other. The buffer has one
/// part per rank, including its own, as in nccl-tests: of n ranks each sends (n - 1) messages of
/// bytes / n, rounded down. Pairwise exchange: in round r = 1 .. n - 1 rank i sends to i + r
/// (modulo n) and so receives from i - r. Ranks are not synchronized: each starts its next round as
/// soon as one of its messages is acknowledged.
class AllToAll final : public Collective {
 public:
  /// See Workload.
  explicit AllToAll(const AllToAllSettings& settings)
      : Collective(settings.collective), peers_(settings.peers) {}

  /// Size of one message.
  [[nodiscard]] std::uint64_t part() const noexcept { return collective().bytes / size(); }
  /// The flow from one rank to another. After start().
  [[nodiscard]] FlowId flow(unsigned from, unsigned to) const {
    return flows_[std::size_t{from} * size() + to];
  }

 private:
  struct Rank {
    std::uint32_t round = 1;  // next round
    std::uint32_t under_way = 0;
  };

  void prepare() override {
    const std::uint32_t n = size();
    require(peers_ > 0, "all-to-all: peers is 0, must be at least 1");
    require(part() > 0, "all-to-all: bytes is " + std::to_string(collective().bytes) +
                            ", must be at least 1 per rank");
    state_.resize(n);
    flows_.resize(std::size_t{n} * n);
    for (std::uint32_t from = 0; from < n; ++from)
      for (std::uint32_t round = 1; round < n; ++round) {
        const std::uint32_t to = (from + round) % n;
        flows_[std::size_t{from} * n + to] =
            open({ranks()[from], ranks()[to]}, collective().queue_pairs, from);
      }
  }
  void begin_iteration() override {
    for (Rank& rank : state_) rank.round = 1;
    for (std::uint32_t rank = 0; rank < size(); ++rank) go_on(rank);
  }
  void go_on(std::uint32_t rank) {
    Rank& s = state_[rank];
    while (!broken() && s.under_way < peers_ && s.round < size()) {
      const std::uint32_t to = (rank + s.round) % size();
      ++s.round;
      ++s.under_way;
      post(flow(rank, to), part());
    }
  }
  [[nodiscard]] std::uint64_t messages() const noexcept override {
    return std::uint64_t{size()} * (size() - 1);
  }
  [[nodiscard]] double bus_factor() const noexcept override {
    return static_cast<double>(size() - 1) / size();
  }
  void delivered(std::uint32_t, std::uint64_t) override {}
  void message_sent(std::uint32_t tag, std::uint64_t) override {
    --state_[tag].under_way;
    go_on(tag);
  }

  unsigned peers_;
  std::vector<Rank> state_;
  std::vector<FlowId> flows_;  // [from][to]
};

}  // namespace mrc::inline v0_1::sim
