// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/sim/traffic/streams.hpp"

namespace mrc::inline v0_1::sim {

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

}  // namespace mrc::inline v0_1::sim
