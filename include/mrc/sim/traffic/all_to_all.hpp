// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mrc/sim/traffic/collective.hpp"

namespace mrc::inline v0_1::sim {

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
