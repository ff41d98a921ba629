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

}  // namespace mrc::inline v0_1::sim
