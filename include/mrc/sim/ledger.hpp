// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace mrc::inline v0_1::sim {

/// What became of a data packet that a host has sent: of its payload, since the headers of a
/// trimmed packet go on. Every copy has one fate, or is still under way.
enum class PacketFate : std::uint8_t {
  arrived,    ///< whole at a host
  trimmed,    ///< at a full queue
  overflow,   ///< dropped at a full queue
  loss_rate,  ///< by a link's loss rate
  link_down,  ///< in flight or queued on a link that went down, or sent onto one that was down
  corrupted,  ///< arrived with a wrong bit and was discarded
  no_route,   ///< by a switch without a route to its destination
  dead_host,  ///< arrived at a host that hangs
};
/// Number of fates.
inline constexpr std::size_t kFates = 8;
/// "link down"
[[nodiscard]] constexpr const char* to_string(PacketFate fate) noexcept {
  constexpr std::array<const char*, kFates> kNames{"arrived",   "trimmed",   "overflow",
                                                   "loss rate", "link down", "corrupted",
                                                   "no route",  "dead host"};
  return kNames[static_cast<std::size_t>(fate)];
}

/// The account of all data packets of a network, copies sent again included. It is kept by links
/// and ports, independently of what the hosts count, so that each can be checked by the other.
class Ledger {
 public:
  /// A host sent a data packet.
  void send() noexcept { ++sent_; }
  /// This became of one.
  void end(PacketFate fate) noexcept { ++ended_[static_cast<std::size_t>(fate)]; }

  /// Data packets sent.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  /// Of these, those with this fate.
  [[nodiscard]] std::uint64_t operator[](PacketFate fate) const noexcept {
    return ended_[static_cast<std::size_t>(fate)];
  }
  /// Of these, those that have not arrived and never will.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return ended() - (*this)[PacketFate::arrived];
  }
  /// Of these, those in queues or on links.
  [[nodiscard]] std::uint64_t under_way() const noexcept { return sent_ - ended(); }

 private:
  [[nodiscard]] std::uint64_t ended() const noexcept {
    return std::accumulate(ended_.begin(), ended_.end(), std::uint64_t{0});
  }

  std::uint64_t sent_ = 0;
  std::array<std::uint64_t, kFates> ended_{};
};

}  // namespace mrc::inline v0_1::sim
