// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mrc/sim/traffic/collective.hpp"

namespace mrc::inline v0_1::sim {

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

}  // namespace mrc::inline v0_1::sim
