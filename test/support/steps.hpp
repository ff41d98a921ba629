// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "support/engine_pair.hpp"

/// The traffic of collective communication: messages of one size, a few in flight, each posted
/// when the receiver has said that its buffer is free.
namespace mrc::test {

struct StepsOptions {
  unsigned steps = 1000;            ///< messages
  std::uint32_t size = 512 * 1024;  ///< bytes of each
  unsigned depth = 8;               ///< in flight at most
  QpAttributes attributes{.mtu = 1024, .mpr = 64, .mpr_dest = 64, .retry_exponential = 25};
};

/// Side 0 sends, with immediate; side 1 frees a buffer by an empty write with immediate on the same
/// queue pair. Times are from post_send() to the completion of the receive.
class Steps {
 public:
  Steps(EnginePair& pair, const StepsOptions& options);

  /// Runs until all steps are done. False if they are not within `limit`, or one failed.
  bool run(Duration limit);
  /// Called before each look at the state; for faults that come and go.
  std::function<void()> between;

  [[nodiscard]] Qpn qpn(unsigned side) const { return qpn_[side]; }
  /// Messages posted so far.
  [[nodiscard]] unsigned posted() const { return posted_; }
  /// From the posting of the last message to its completion on both sides.
  [[nodiscard]] Duration elapsed_since_last_post() const { return end_ - times_at_.back(); }
  /// The time that all took.
  [[nodiscard]] Duration elapsed() const { return end_ - begin_; }
  /// Mean time of a step.
  [[nodiscard]] Duration mean() const;
  /// The time that a share of the steps does not exceed.
  [[nodiscard]] Duration quantile(double share) const;
  /// Copies that arrived although the packet had been received before, of all data packets.
  [[nodiscard]] double spurious() const;

 private:
  bool work();

  struct Post {
    std::span<const Sge> sges;
    std::uint64_t id;
  };
  void post(unsigned side, const Post& p);

  /// Takes what has completed. Side 1 answers each message by the permission for another one.
  void poll();
  void on_receive(unsigned side, const Completion& c);

  EnginePair& pair_;
  StepsOptions options_;
  std::vector<std::uint8_t> from_, to_;
  std::uint32_t key_ = 0, rkey_ = 0;
  std::array<CqId, 2> send_cq_{}, receive_cq_{};
  std::array<Qpn, 2> qpn_{};
  unsigned free_ = 0, posted_ = 0, received_ = 0, completed_ = 0;
  bool failed_ = false;
  Time begin_{}, end_{};
  std::vector<Time> times_at_;
  std::vector<Duration> times_;
};

}  // namespace mrc::test
