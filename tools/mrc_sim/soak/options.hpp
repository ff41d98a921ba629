// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "mrc/core/time.hpp"

/// The soak of mrc_sim: random fabrics, faults and traffic, every byte checked.
namespace mrc::soak {

/// A deliberate mistake in the midst of a run, to see that the checks find it.
enum class SoakSabotage : std::uint8_t {
  none,
  flip_bit,           ///< in a message that has come and was not yet looked at
  write_again,        ///< a message comes a second time, after its completion
  write_outside,      ///< one byte between two messages
  lose_completion,    ///< of a send request
  repeat_completion,  ///< likewise
  swap_immediate,     ///< a receive completion has another one's immediate data
  keep_packet,        ///< a packet stays in the network for ever
  cut_wires,          ///< no link ever comes back: nothing gets through any more
};

/// How seeds are run. The seed alone decides about everything else.
struct SoakOptions {
  std::uint64_t max_events = 40'000'000;  ///< a run that takes more does not end
  SoakSabotage sabotage = SoakSabotage::none;
};

/// What a seed came to.
struct SoakResult {
  std::uint64_t seed = 0;
  std::string failure;   ///< what went wrong; empty: passed
  std::string scenario;  ///< what the seed stands for, several lines
  std::uint64_t digest = 0, events = 0;
  std::uint64_t messages = 0, bytes = 0;  ///< completed
  std::uint64_t packets = 0, retransmits = 0, trimmed = 0, timeouts = 0;
  std::uint64_t dropped = 0, lost = 0;  ///< by full queues; by faults
  unsigned faults = 0, killed = 0, failed_qps = 0;
  Duration after_faults{};  ///< from the end of faults and posting until all was done
  Duration bound{};         ///< for that

  [[nodiscard]] bool passed() const noexcept { return failure.empty(); }
};

/// Thrown where a check fails.
class SoakFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws SoakFailure with `what()` unless `ok`. `what` is only asked for when it is needed.
template <class What>
void soak_require(bool ok, What&& what) {
  if (!ok) throw SoakFailure(what());
}

}  // namespace mrc::soak
