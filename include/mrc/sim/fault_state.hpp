// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "mrc/sim/network.hpp"

namespace mrc::inline v0_1::sim {

/// Combines several faults of the same link. Each fault has a cause (a target of a schedule), so
/// that the end of one does not end another. One thread at a time, that of the network.
class FaultState {
 public:
  /// No faults at first.
  explicit FaultState(Network& network) : network_(network), links_(network.link_count()) {}

  /// Adds (begin) or removes one fault that holds the link down.
  void hold_down(LinkId id, bool begin) {
    Faults& link = links_[value(id)];
    link.down += begin ? 1 : -1;
    network_.set_link_up(id, link.down == 0);
  }
  /// Adds (begin) or removes one fault that makes the link a black hole.
  void hold_hole(LinkId id, bool begin) {
    links_[value(id)].holes += begin ? 1 : -1;
    set_loss(id);
  }
  /// Sets a cause's loss rate on the link; 0 removes it.
  void loss(LinkId id, std::uint32_t cause, double p) {
    put(links_[value(id)].loss, cause, p, p > 0);
    set_loss(id);
  }
  /// Sets a cause's corruption rate on the link; 0 removes it.
  void corruption(LinkId id, std::uint32_t cause, double p) {
    Causes& causes = links_[value(id)].corruption;
    put(causes, cause, p, p > 0);
    network_.set_corruption(id, either(causes));
  }
  /// Sets a cause's rate divisor on the link; 1 removes it.
  void slow(LinkId id, std::uint32_t cause, double factor) {
    Causes& causes = links_[value(id)].slow;
    put(causes, cause, factor, factor > 1);
    double most = 1;
    for (const auto& [who, f] : causes) most = std::max(most, f);
    network_.set_slow(id, most);
  }

 private:
  using Causes = std::vector<std::pair<std::uint32_t, double>>;
  struct Faults {
    int down = 0, holes = 0;
    Causes loss, corruption, slow;
  };

  static void put(Causes& causes, std::uint32_t cause, double v, bool present) {
    std::erase_if(causes, [cause](const auto& c) { return c.first == cause; });
    if (present) causes.emplace_back(cause, v);
  }
  /// Probability that at least one of the independent causes acts.
  [[nodiscard]] static double either(const Causes& causes) noexcept {
    double none = 1;
    for (const auto& [who, p] : causes) none *= 1 - p;
    return 1 - none;
  }
  void set_loss(LinkId id) {
    const Faults& link = links_[value(id)];
    network_.set_loss(id, link.holes > 0 ? 1 : either(link.loss));
  }

  Network& network_;
  std::vector<Faults> links_;
};

}  // namespace mrc::inline v0_1::sim
