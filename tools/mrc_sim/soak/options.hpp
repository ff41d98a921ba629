// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "mrc/core/types.hpp"

/// The soak of mrc_sim: random fabrics, faults and traffic, every byte checked.
namespace mrc::soak {

/// A deliberate mistake injected into a run, to test that the checks detect it.
enum class SoakSabotage : std::uint8_t {
  none,
  flip_bit,           ///< in a message that has arrived and is not yet verified
  write_again,        ///< writes a message again after its completion
  write_outside,      ///< one byte between two messages
  lose_completion,    ///< of a send request
  repeat_completion,  ///< likewise
  swap_immediate,     ///< a receive completion has another one's immediate data
  keep_packet,        ///< a packet stays in the network forever
  cut_wires,          ///< all links stay down from some time on
};

/// How seeds are run. Everything else is determined by the seed.
struct SoakOptions {
  std::uint64_t max_events = 40'000'000;  ///< a longer run counts as endless
  SoakSabotage sabotage = SoakSabotage::none;
};

/// Result of a seed.
struct SoakResult {
  std::uint64_t seed = 0;
  std::string failure;   ///< cause of the failure; empty: passed
  std::string scenario;  ///< description of the seed's scenario, several lines
  std::uint64_t digest = 0, events = 0;
  std::uint64_t messages = 0, bytes = 0;  ///< completed
  std::uint64_t packets = 0, retransmits = 0, trimmed = 0, timeouts = 0;
  std::uint64_t dropped = 0, lost = 0;  ///< by full queues; by faults
  unsigned faults = 0, killed = 0, failed_qps = 0;
  std::optional<Duration> after_faults;  ///< from the end of faults and posting to completion
  Duration bound{};                      ///< limit for that

  [[nodiscard]] bool passed() const noexcept { return failure.empty(); }
};

/// Thrown where a check fails.
class SoakFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws SoakFailure with `what()` unless `ok`. `what` is called only then.
template <class What>
void soak_require(bool ok, What&& what) {
  if (!ok) throw SoakFailure(what());
}

}  // namespace mrc::soak
