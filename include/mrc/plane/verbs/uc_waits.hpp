// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/plane/verbs/uc_message.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

/// Received packets that are not settled, and the sequence numbers that they wait for, one for each
/// path at most; part of UcReceiver. A packet is settled when it waits for nothing any more.
///
/// One thread. Nothing allocates after the constructor.
class UcWaits {
 public:
  /// `waits`: pairs of a packet and a path, at least 1; not more packets either. `paths`: at most
  /// kMaxUcPaths.
  UcWaits(std::size_t paths, std::size_t waits);

  /// A packet waits for the sequence numbers of these origins, whose epochs are ignored, besides
  /// what it waits for already. Of two numbers on one path it waits for the later one. False: there
  /// is no room, and nothing has changed.
  [[nodiscard]] bool add(const wire::PacketName& packet, std::span<const UcName> origins) noexcept;
  /// Sequence number `seq`, and so all before it, need not be waited for on a path.
  void reach(std::uint16_t path, std::uint32_t seq) noexcept;
  /// Nothing need be waited for on a path.
  void reach_all(std::uint16_t path) noexcept;
  /// Whether a packet waits for this path.
  [[nodiscard]] bool waits_for(std::uint16_t path) const noexcept {
    return lists_[path].first != kNone;
  }
  /// Whether a packet waits for anything.
  [[nodiscard]] bool contains(const wire::PacketName& packet) noexcept {
    return packet_count_ > 0 && find(packet) != kNone;
  }
  /// Packets that wait.
  [[nodiscard]] std::size_t packets() const noexcept { return packet_count_; }

  /// Packets that were settled since the last call, each once; valid until the next call. A packet
  /// that waits again is not among them, so the caller has to act on the result before it hands on
  /// further packets.
  [[nodiscard]] std::span<const wire::PacketName> take_settled() noexcept;

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};

  struct Wait {
    Index packet = kNone;
    Index before = kNone, after = kNone;  ///< in the path's list, which is sorted
    Index sibling = kNone;                ///< the packet's next one; next free one
    std::uint32_t seq = 0;
    std::uint16_t path = 0;
  };
  struct Packet {
    wire::PacketName name;
    Index first = kNone;  ///< its waits
    Index chain = kNone;  ///< next one with this hash; next free one
  };
  struct List {
    Index first = kNone, last = kNone;
  };

  [[nodiscard]] Index& bucket(const wire::PacketName& name) noexcept;
  [[nodiscard]] Index find(const wire::PacketName& name) noexcept;
  [[nodiscard]] Index new_packet(const wire::PacketName& name) noexcept;
  /// Puts a wait into its path's list, where its number belongs.
  void link(Index wait) noexcept;
  void unlink(Index wait) noexcept;
  /// A wait is over; the packet may be settled by that.
  void finish(Index wait) noexcept;

  std::vector<Wait> waits_;
  std::vector<Packet> packets_;
  std::vector<Index> buckets_;
  std::vector<List> lists_;  ///< by path
  std::vector<wire::PacketName> settled_, given_;
  Index free_wait_ = kNone, free_packet_ = kNone;
  std::size_t wait_count_ = 0, packet_count_ = 0;
};

}  // namespace mrc::inline v0_1::port
