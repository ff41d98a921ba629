// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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
  Steps(EnginePair& pair, const StepsOptions& options)
      : pair_(pair), options_(options), from_(options.size, 1), to_(options.size) {
    key_ = pair.register_memory(0, from_.data(), from_.size(), Access::none);
    rkey_ = pair.register_memory(1, to_.data(), to_.size(),
                                 Access::remote_write | Access::relaxed_ordering);
    for (unsigned side = 0; side < 2; ++side) {
      send_cq_[side] = *pair[side].create_cq(256);
      receive_cq_[side] = *pair[side].create_cq(256);
      engine::QpInit init;
      init.pd = pair.pd(side);
      init.send_cq = send_cq_[side];
      init.receive_cq = receive_cq_[side];
      init.capacity = {.send = 64, .receive = 64};
      init.attributes = options.attributes;
      qpn_[side] = *pair[side].create_qp(init);
    }
    pair.connect(qpn_[0], qpn_[1]);
    for (unsigned side = 0; side < 2; ++side)
      for (unsigned i = 0; i < 64; ++i) (void)pair[side].post_receive(qpn_[side], i);
    free_ = options.depth;
  }

  /// Runs until all steps are done. False if they are not within `limit`, or one failed.
  bool run(Duration limit) {
    begin_ = pair_.now();
    return pair_.run_for(limit, [this] { return work(); }) && !failed_;
  }
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
  [[nodiscard]] Duration mean() const {
    Duration sum{};
    for (Duration t : times_) sum += t;
    return times_.empty() ? sum : sum / static_cast<std::int64_t>(times_.size());
  }
  /// The time that a share of the steps does not exceed.
  [[nodiscard]] Duration quantile(double share) const {
    std::vector<Duration> sorted = times_;
    std::sort(sorted.begin(), sorted.end());
    const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
    return sorted.empty() ? Duration{} : sorted[std::min(at, sorted.size() - 1)];
  }
  /// Copies that arrived although the packet had been received before, of all data packets.
  [[nodiscard]] double spurious() const {
    const auto& rx = pair_[1].stats();
    return static_cast<double>(rx.rx_duplicates) / static_cast<double>(rx.rx_data);
  }

 private:
  bool work() {
    if (between) between();
    poll();
    while (!pair_.stalled(0) && free_ > 0 && posted_ < options_.steps) {
      --free_;
      const Sge sge{from_.data(), options_.size, key_};
      post(0, {.sges = {&sge, 1}, .id = posted_});
      times_at_.push_back(pair_.now());
      ++posted_;
    }
    if (received_ == options_.steps && completed_ == options_.steps && end_ == Time{})
      end_ = pair_.now();
    return failed_ || end_ != Time{};
  }

  struct Post {
    std::span<const Sge> sges;
    std::uint64_t id;
  };
  void post(unsigned side, const Post& p) {
    SendRequest request;
    request.wr_id = p.id;
    request.sges = p.sges;
    request.opcode = SendOpcode::write_imm;
    request.remote = {reinterpret_cast<std::uint64_t>(to_.data()), rkey_};
    request.flags.signaled = true;
    failed_ |= pair_[side].post_send(qpn_[side], request, pair_.now()) != Errc::ok;
  }

  /// Takes what has completed. Side 1 answers each message by the permission for another one.
  void poll() {
    std::array<Completion, 16> out;
    for (unsigned side = 0; side < 2; ++side) {
      if (pair_.stalled(side)) continue;
      while (const std::size_t n = pair_[side].poll_cq(send_cq_[side], out)) {
        for (std::size_t i = 0; i < n; ++i) failed_ |= out[i].status != WcStatus::success;
        if (side == 0) completed_ += static_cast<unsigned>(n);
      }
      while (const std::size_t n = pair_[side].poll_cq(receive_cq_[side], out))
        for (std::size_t i = 0; i < n; ++i) on_receive(side, out[i]);
    }
  }
  void on_receive(unsigned side, const Completion& c) {
    failed_ |= c.status != WcStatus::success;
    failed_ |= pair_[side].post_receive(qpn_[side], c.wr_id) != Errc::ok;
    if (side == 0) {
      ++free_;
      return;
    }
    times_.push_back(pair_.now() - times_at_[received_++]);
    post(1, {.sges = {}, .id = received_});
  }

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
