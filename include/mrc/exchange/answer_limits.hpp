// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "mrc/core/histogram.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1 {

/// What a device has to do with a queue pair that another one asks for.
enum class Interest : std::uint8_t {
  none,   ///< it has no such queue pair
  known,  ///< it has that queue pair
  wanted  ///< and that queue pair connects to the one that asks
};

/// How many questions of a kind are answered, so that floods leave the others their answers:
///
///  * those that a queue pair here waits for have a budget of their own. To spend it, a stranger
///    has to know the numbers of both queue pairs and the address of the one that asks. What came
///    in 100 ms may be answered at once, since on a busy host a device does not run all the time;
///  * of those for other queue pairs here, each source address has a share;
///  * for queue pairs that do not exist there is little: it tells who mistakes a number, or is
///    late, that a device is here, and a flood of guesses drowns nothing else.
///
/// One thread.
class AnswerLimits {
 public:
  static constexpr std::uint32_t kWanted = 20'000;             ///< answers per second,
  static constexpr std::uint32_t kWantedBurst = kWanted / 10;  ///< and at once
  static constexpr std::uint32_t kKnown = 20'000;              ///< likewise, in all,
  static constexpr std::uint32_t kPerShare = 10'000;           ///< and to the sources of one share
  static constexpr std::uint32_t kOthers = 1'000;  ///< for queue pairs that do not exist
  static constexpr std::uint32_t kBurst = 256;     ///< of each of the others at once

  /// `key`: nobody can choose addresses that share with another one without it.
  explicit AnswerLimits(const SipKey& key) noexcept : key_(key) {}

  /// May a question from that address be answered now? If so, it counts as answered.
  [[nodiscard]] bool take(Time now, Interest interest, const port::IpAddress& from) noexcept {
    switch (interest) {
      case Interest::wanted:
        return wanted_.take(now);
      case Interest::known:
        return shares_[siphash(key_, from) % shares_.size()].take(now) && known_.take(now);
      case Interest::none:
        break;
    }
    return others_.take(now);
  }

 private:
  struct Share : TokenBucket {
    Share() noexcept : TokenBucket(kPerShare, kBurst) {}
  };

  SipKey key_;
  TokenBucket wanted_{kWanted, kWantedBurst}, known_{kKnown, kBurst}, others_{kOthers, kBurst};
  std::array<Share, 64> shares_;
};

}  // namespace mrc::inline v0_1
