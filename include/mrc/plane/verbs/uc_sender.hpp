// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/plane/peer_table.hpp"
#include "mrc/plane/verbs/uc_message.hpp"

namespace mrc::inline v0_1::port {

/// Settings of a UcSender.
struct UcSenderOptions {
  std::uint16_t paths = 16;  ///< UC paths to each peer, 1 .. kMaxUcPaths
  /// Packets that it knows the origin of, 16 bytes each; rounded up to a power of two, 2^24 at
  /// most. A queue pair that sends alone is known completely if it may have no more than so many
  /// packets unacknowledged.
  std::uint32_t capacity = 65536;
  /// Entries older than this are not believed: a PSN, or a QPN, may have come round.
  Duration believe = std::chrono::seconds{10};
  /// An entry is kept from other queue pairs for this long: about as long as it takes until most of
  /// what is lost has been sent again. It must be well below `capacity` / packets per second, or
  /// too much goes by UD; 1 ms are 3,000 packets of 4 KiB at 100 Gbit/s.
  Duration protect = std::chrono::milliseconds{1};
};

/// Counters of a UcSender.
struct UcSenderStats {
  std::uint64_t refused = 0;    ///< remember() found the place taken
  std::uint64_t forgotten = 0;  ///< origin() no longer knew
};

/// How an earlier transmission of a packet went, as far as is known.
enum class UcOriginKind : std::uint8_t {
  none,     ///< no copy of it can come by UC any more
  name,     ///< by UC, under a name
  unknown,  ///< perhaps by UC: its origins are those of barrier()
};

/// The sending end of a port whose peers' NICs place payload: numbers the packets of each UC path
/// to each peer, and knows of each data packet where its first transmission went, which a
/// retransmission has to say.
///
/// What is known is in a table of fixed size, without chains: an entry can get lost. That costs
/// time only, since a retransmission can name the newest packet of every path instead. For this
/// remember() must be called for *every* first transmission to a peer that has UC paths, also those
/// that go by UD.
///
/// One thread. Only the constructor and add_peer() allocate and throw. `now` never goes back.
class UcSender {
 public:
  /// Throws Error if the options are out of range.
  explicit UcSender(const UcSenderOptions& options = {});

  /// A peer's UC paths exist: they begin with epoch 0 and sequence number 0. A peer that is there
  /// begins anew. Throws Error if its number is too large.
  void add_peer(PeerId peer, Time now);
  /// A peer is gone. Nothing if it was not there.
  void forget(PeerId peer) noexcept;
  /// Whether assign(), origin() and barrier() may be called.
  [[nodiscard]] bool knows(PeerId peer) const noexcept;

  /// Name of the next packet, or marker, on a path (less than UcSenderOptions::paths) of a peer
  /// that is known. A number that is then not sent does no harm.
  [[nodiscard]] UcName assign(PeerId peer, std::uint16_t path) noexcept;
  /// The packet was not sent: its number is given out again, if no later one was.
  void take_back(PeerId peer, const UcName& name) noexcept;
  /// The peer has reset a path: it is in `epoch`, and begins with sequence number 0. Nothing that
  /// went by it in older epochs needs to be named any more. Nothing happens, and false returned, if
  /// the epoch is not a newer one: the message is old, or a repetition.
  bool restart(PeerId peer, std::uint16_t path, std::uint8_t epoch) noexcept;

  /// A data packet of local queue pair `owner` is about to be sent for the first time, as UC packet
  /// `name`, or by UD (null). False: there is no place for that, and it must go by UD: take_back()
  /// its name. What origin() will say of it is safe.
  [[nodiscard]] bool remember(Qpn owner, Psn psn, const UcName* name, Time now) noexcept;
  /// How the first transmission of a packet to this peer, which is known, went. `name` is set if
  /// that is the result.
  [[nodiscard]] UcOriginKind origin(Qpn owner, Psn psn, PeerId peer, Time now,
                                    UcName& name) noexcept;
  /// The newest packet of every path to a peer: nothing that went before is missing. Empty if all
  /// paths are unused since they began.
  void barrier(PeerId peer, UcOrigins& origins) const noexcept;

  /// What has happened so far.
  [[nodiscard]] const UcSenderStats& stats() const noexcept { return stats_; }

 private:
  struct Path {
    std::uint32_t next = 0;  ///< sequence number
    bool used = false;       ///< has given out a number in this epoch
    std::uint8_t epoch = 0;
  };
  struct Peer {
    std::vector<Path> paths;  ///< empty: not there
    std::uint32_t since = 0;  ///< tick of add_peer()
  };
  struct Entry {
    std::uint32_t owner_path = 0;  ///< QPN 31:8, path or kByUd 7:0
    std::uint32_t psn_epoch = 0;   ///< PSN 31:8, epoch 7:0
    std::uint32_t seq = 0;
    std::uint32_t tick = 0;  ///< when it was made
  };
  static_assert(sizeof(Entry) == 16);

  static constexpr std::uint32_t kByUd = 0xFF;       ///< in the place of the path
  static constexpr std::uint32_t kNoOwner = 0;       ///< a QPN that no queue pair has
  static constexpr std::int32_t kMaxWindow = 32640;  ///< largest MPR_DEST, in packets

  /// Time in ticks of 2^18 ns (0.26 ms), modulo 13 days.
  [[nodiscard]] static std::uint32_t tick(Time now) noexcept {
    return static_cast<std::uint32_t>(now.time_since_epoch().count() >> 18);
  }
  /// The least number of ticks that cover a span.
  [[nodiscard]] static std::uint32_t ticks(Duration span) noexcept {
    return static_cast<std::uint32_t>((span.count() + (1 << 18) - 1) >> 18);
  }
  /// Whether the packet in this place may be outstanding, and is another one.
  [[nodiscard]] bool taken(const Entry& e, Qpn owner, Psn psn,
                           std::uint32_t now_tick) const noexcept;
  /// The only place of a packet: consecutive ones of a queue pair have consecutive places.
  [[nodiscard]] Entry& entry_of(Qpn owner, Psn psn) noexcept {
    return entries_[(value(owner) * 0x9E3779B1u + psn.value()) & mask_];
  }

  std::uint16_t path_count_;
  std::uint32_t believe_;  ///< ticks
  std::uint32_t protect_;  ///< ticks
  std::uint32_t mask_;
  std::vector<Entry> entries_;
  PeerTable<Peer> peers_;
  UcSenderStats stats_;
};

}  // namespace mrc::inline v0_1::port
