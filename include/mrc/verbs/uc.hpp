// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/verbs/verbs_queues.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

/// What the two ends of a verbs port say about payload that the NIC places. The first transmission
/// of a data packet can be one RDMA write on an unreliable connection (UC): it carries the payload
/// and, as immediate, a sequence number. Its transport header follows by UD, in a message that
/// names the write; a retransmission goes by UD as a whole and names the writes before it.
///
/// No state, no allocation, any thread. Readers accept any bytes.

/// Most UC paths from one device to another: all of them fit into the origins of one packet.
inline constexpr std::size_t kMaxUcPaths = 64;
/// Most payload of one UC packet in bytes, the largest path MTU of a NIC.
inline constexpr std::uint32_t kMaxUcPayload = 4096;

/// A sequence number that no UC packet has: it stands for "none".
inline constexpr std::uint32_t kNoUcSeq = ~std::uint32_t{0};

/// Names one UC packet between two devices, in one direction. Each path counts its packets from 0,
/// and begins again, with the next epoch, when its receiver has reset it.
struct UcName {
  std::uint16_t path = 0;  ///< index of the path, less than kMaxUcPaths
  std::uint8_t epoch = 0;  ///< how often the path has been reset, modulo 2^8
  std::uint32_t seq = 0;   ///< number on the path, modulo 2^32; never kNoUcSeq

  /// Equal in all three.
  friend bool operator==(const UcName&, const UcName&) = default;
};

/// Steps from `from` to `to`, two sequence numbers of one path: positive if `to` is the later one.
/// Right within 2^31 packets.
[[nodiscard]] constexpr std::int32_t uc_steps(std::uint32_t from, std::uint32_t to) noexcept {
  return static_cast<std::int32_t>(to - from);
}
/// The same for two epochs of one path; right within 2^7 resets.
[[nodiscard]] constexpr std::int32_t uc_epoch_steps(std::uint8_t from, std::uint8_t to) noexcept {
  using Epoch = Serial<struct UcEpochTag, 8>;
  return Epoch{to} - Epoch{from};
}

/// What the receiver of a UC packet must know of it besides its payload.
struct UcHeader {
  UcName name;                       ///< of the UC packet
  std::uint16_t payload_length = 0;  ///< bytes that it writes, 1 .. kMaxUcPayload
  std::uint8_t pad = 0;     ///< zero bytes (0..3) that follow the payload where it goes by UD
  std::uint32_t check = 0;  ///< of the transport header; what it covers is the port's business
  Bytes header;             ///< the transport header, 12 .. kMaxTransportHeader bytes
};

namespace detail {

/// In front of each transport header of a `headers` message.
struct UcHeaderEntry {
  wire::Be16 path;                 ///< UcName::path
  std::uint8_t epoch = 0;          ///< UcName::epoch
  std::uint8_t header_length = 0;  ///< bytes of the transport header, which follows
  wire::Be32 seq;                  ///< UcName::seq
  wire::Be16 payload_length;       ///< UcHeader::payload_length
  std::uint8_t pad = 0;            ///< UcHeader::pad
  std::uint8_t reserved = 0;       ///< sent 0, ignored on receipt
  wire::Be32 check;                ///< UcHeader::check
};
static_assert(sizeof(UcHeaderEntry) == 16 && alignof(UcHeaderEntry) == 1);

/// An origin. One byte precedes the first: how many follow.
struct UcOriginEntry {
  wire::Be16 path;         ///< UcName::path
  std::uint8_t epoch = 0;  ///< UcName::epoch
  wire::Be32 seq;          ///< UcName::seq
};
static_assert(sizeof(UcOriginEntry) == 7 && alignof(UcOriginEntry) == 1);

/// In that byte: what follows are UcPathOrigin, of the paths 0, 1 and so on.
inline constexpr std::uint8_t kUcAllPaths = 0x80;
/// The origin on a path, or none.
struct UcPathOrigin {
  std::uint8_t epoch = 0;  ///< UcName::epoch
  wire::Be32 seq;          ///< UcName::seq, or kNoUcSeq
};
static_assert(sizeof(UcPathOrigin) == 5 && alignof(UcPathOrigin) == 1);

/// Shortest transport header: BTH.
inline constexpr std::size_t kMinUcHeader = 12;

}  // namespace detail

/// Fills a buffer with the entries of a `headers` message.
class UcHeadersWriter {
 public:
  /// The buffer stays the caller's. Its size is the longest message, in bytes.
  explicit UcHeadersWriter(MutableBytes buffer) noexcept : buffer_(buffer) {}
  /// Appends an entry. False: it does not fit, or `header` is out of the bounds that UcHeader
  /// states; nothing has changed then.
  [[nodiscard]] bool append(const UcHeader& header) noexcept;
  /// Bytes written.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether there are no entries.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Begins a new message in the same buffer.
  void clear() noexcept { size_ = 0; }

 private:
  MutableBytes buffer_;
  std::size_t size_ = 0;
};

/// Reads the entries of a `headers` message.
class UcHeadersReader {
 public:
  /// `message`: the entries, without what the port puts in front of them.
  explicit UcHeadersReader(Bytes message) noexcept : rest_(message) {}
  /// The next entry; its UcHeader::header points into the message. False: there is none, or what
  /// follows is malformed.
  [[nodiscard]] bool next(UcHeader& header) noexcept;
  /// The message had bytes that are no entry; those before them were good.
  [[nodiscard]] bool malformed() const noexcept { return malformed_; }

 private:
  Bytes rest_;
  bool malformed_ = false;
};

/// Origins of a packet: the UC packets that may have carried it before.
struct UcOrigins {
  std::array<UcName, kMaxUcPaths> names;  ///< the first `count` are used
  std::uint8_t count = 0;                 ///< number of them

  /// One more; needs count < kMaxUcPaths.
  void add(const UcName& name) noexcept { names[count++] = name; }
  /// All of them.
  [[nodiscard]] std::span<const UcName> all() const noexcept { return {names.data(), count}; }
};

/// Bytes that origins take at most, in front of a retransmission, with so many paths.
[[nodiscard]] constexpr std::size_t uc_origins_size(std::size_t paths) noexcept {
  return std::max(1 + sizeof(detail::UcOriginEntry), 1 + paths * sizeof(detail::UcPathOrigin));
}
/// Writes 1 to kMaxUcPaths origins, at most one of each path and in the order of their paths, in
/// the shortest form, and returns how many bytes it took. 0: they do not fit or are not of this
/// kind.
[[nodiscard]] std::size_t write_uc_origins(MutableBytes buffer,
                                           std::span<const UcName> origins) noexcept;
/// Reads what write_uc_origins() has written from the start of `message` and returns how many bytes
/// that were. 0: malformed; `origins` is empty then.
[[nodiscard]] std::size_t read_uc_origins(Bytes message, UcOrigins& origins) noexcept;

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

/// Settings of a UcReceiver.
struct UcReceiverOptions {
  std::uint16_t paths = 16;  ///< UC paths from the peer, 1 .. kMaxUcPaths
  /// Packets of each path that can wait for their header, or the header for them; 68 bytes each,
  /// rounded up to a power of two, 2 .. 65,536.
  std::uint32_t ring = 1024;
  /// Unsettled packets, times the paths that each waits for; 60 bytes each, 1 .. 2^20.
  std::uint32_t waits = 4096;
  /// How long a path may bring nothing while packets wait for it, before it must be reset.
  Duration reset_after = std::chrono::milliseconds{10};
};

/// Counters of a UcReceiver. Packets are those with payload, if not said otherwise.
struct UcReceiverStats {
  std::uint64_t joined = 0;              ///< packets given to the caller
  std::uint64_t unmatched_headers = 0;   ///< headers whose packet did not come
  std::uint64_t unmatched_arrivals = 0;  ///< packets whose header did not come
  std::uint64_t length_mismatches = 0;   ///< pairs dropped: header and packet differ
  std::uint64_t markers = 0;             ///< packets without payload
  std::uint64_t duplicates = 0;   ///< packets and markers that came twice, as far as is known
  std::uint64_t overtaken = 0;    ///< packets and markers that came after a later one
  std::uint64_t late_writes = 0;  ///< both, with payload: memory may have changed when it must not
  std::uint64_t resets = 0;       ///< of all paths
  /// Packets, headers and markers of an epoch that is not the path's.
  std::uint64_t stale_epochs = 0;
  std::uint64_t malformed = 0;  ///< headers and retransmissions with impossible names
  std::uint64_t no_room = 0;    ///< retransmissions dropped: too many are unsettled
};

/// A packet whose payload is in its place and whose header is known.
struct UcJoined {
  Bytes header;                      ///< transport header, as it was sent
  std::uint16_t payload_length = 0;  ///< bytes placed
  std::uint16_t path = 0;            ///< on which it came
  std::uint8_t pad = 0;              ///< UcHeader::pad
  std::uint32_t check = 0;           ///< UcHeader::check, to be compared
};

/// What to do with a retransmission.
enum class UcVerdict : std::uint8_t {
  settled,    ///< hand it on
  unsettled,  ///< hand it on as RxPacket::unsettled; take_settled() will name it
  drop,       ///< drop it: no room (it comes again), or malformed
};

/// The receiving end of one peer's UC paths: joins placed payload with the headers that follow by
/// UD, and knows when no earlier copy of a retransmitted packet can be written any more: each path
/// on which one was sent has brought it, or something later, or was reset.
///
/// It relies on a path that keeps order and duplicates nothing. A packet that contradicts this,
/// because it is not later than what its path has brought, makes the receiver broken(). Such a path
/// gives no joined packets and settles nothing from then on, before it is reset; but what was
/// settled before cannot be taken back, so the caller stops using UC with that peer.
///
/// Whether a copy was written is known when its completion has been read: arrived() must be called
/// for all completions in the order of the path. Names that the peer says may be anything.
///
/// One thread. Only the constructor allocates and throws. `now` never goes back.
class UcReceiver {
 public:
  /// Paths begin with epoch 0 and sequence number 0. Throws Error if the options are out of range.
  explicit UcReceiver(const UcReceiverOptions& options = {});

  /// A UC packet came on a queue pair of `path` that belongs to `epoch`, with immediate `seq` and
  /// `length` bytes of payload; 0 is a marker. Returns it if its header is here, until the next
  /// call.
  [[nodiscard]] const UcJoined* arrived(std::uint16_t path, std::uint8_t epoch, std::uint32_t seq,
                                        std::uint32_t length, Time now) noexcept;
  /// An entry of a `headers` message. Returns the packet if its payload is here, until the next
  /// call; `entry.header` must be there as long.
  [[nodiscard]] const UcJoined* header(const UcHeader& entry) noexcept;
  /// A packet to `packet.qpn`, that was sent before as one or several of `origins`. Call this when
  /// the packet is handed on, not when it is put aside: who takes it must learn of it before it
  /// learns what take_settled() returns.
  [[nodiscard]] UcVerdict retransmitted(std::span<const UcName> origins,
                                        const wire::PacketName& packet, Time now) noexcept;
  /// Nothing that was sent to the path so far can be written any more: its queue pair is destroyed.
  /// Its next one has `epoch` and begins with sequence number 0. False, and nothing happens, if the
  /// epoch is not a newer one. Give arrived() the old queue pair's completions before: later they
  /// are stale, their packets lost, and late writes among them not counted.
  bool reset(std::uint16_t path, std::uint8_t epoch) noexcept;

  /// Retransmitted packets that have become settled since the last call; valid until the next call.
  [[nodiscard]] std::span<const wire::PacketName> take_settled() noexcept {
    return waits_.take_settled();
  }
  /// Packets that are not settled.
  [[nodiscard]] std::size_t unsettled() const noexcept { return waits_.packets(); }

  /// Paths that must be reset, bit i for path i: packets wait for them, and they have brought
  /// nothing for UcReceiverOptions::reset_after; or they are broken. Names a path again after that
  /// time.
  [[nodiscard]] std::uint64_t wants_reset(Time now) noexcept;
  /// When wants_reset() will name a path; kNever: not before something comes.
  [[nodiscard]] Time next_deadline() const noexcept;

  /// Epoch of a path.
  [[nodiscard]] std::uint8_t epoch(std::uint16_t path) const noexcept { return paths_[path].epoch; }
  /// A path has brought a packet twice or too late. For ever.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// What has happened so far.
  [[nodiscard]] const UcReceiverStats& stats() const noexcept { return stats_; }

 private:
  /// No path has a deadline.
  [[nodiscard]] bool idle() const noexcept { return waits_.packets() == 0 && !broken_; }

  struct Path {
    std::uint32_t highest = ~std::uint32_t{0};  ///< sequence number; all before it need no waiting
    std::uint8_t epoch = 0;
    bool broken = false;
    Time deadline = kNever;
  };
  enum class Has : std::uint8_t { nothing, header, payload, both };
  struct Slot {
    std::uint32_t seq = 0;
    std::uint32_t arrived = 0;  ///< sequence number of the last packet that came, and belongs here
    std::uint32_t check = 0;
    std::uint16_t length = 0;  ///< of the payload
    Has has = Has::nothing;
    std::uint8_t pad = 0;
    std::uint8_t header_length = 0;
    std::array<std::uint8_t, wire::kMaxTransportHeader> header{};
  };

  [[nodiscard]] Slot& slot(std::uint16_t path, std::uint32_t seq) noexcept {
    return slots_[std::size_t{path} * (ring_mask_ + std::size_t{1}) + (seq & ring_mask_)];
  }
  /// Empties a slot and counts what it held in vain.
  void vacate(Slot& slot) noexcept;
  void empty_ring(std::uint16_t path) noexcept;
  /// A packet that its path had promised not to bring.
  void promise_broken(std::uint16_t path, std::uint32_t seq, std::uint32_t length,
                      Time now) noexcept;
  [[nodiscard]] const UcJoined* join(const UcHeader& entry, std::uint32_t arrived_length) noexcept;

  Duration reset_after_;
  std::uint32_t ring_mask_;
  bool broken_ = false;
  std::vector<Path> paths_;
  std::vector<Slot> slots_;  ///< of all paths
  UcWaits waits_;
  UcJoined joined_;
  UcReceiverStats stats_;
};

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

/// Unreliable connections (UC) of a verbs port: RDMA writes with immediate, of one packet each,
/// whose payload the device of the receiver places. One queue pair per peer, path and direction.

/// A write has been placed, or a marker has come.
struct VerbsUcArrival {
  std::uint32_t qpn = 0;     ///< of the receiving queue pair
  std::uint32_t seq = 0;     ///< the immediate
  std::uint32_t length = 0;  ///< bytes placed; 0: a marker
};

/// The receiving side of all peers: a shared queue of receive requests without memory, and a
/// completion queue with room for all of them.
///
/// Set-up calls (constructor, make_receiver()) throw mrc::Error; the rest is data path. One thread
/// at a time, except make_receiver(), which any thread may call beside it.
class VerbsUcReceive {
 public:
  /// On the device of `queues`, which must outlive it.
  explicit VerbsUcReceive(const VerbsQueues& queues);

  /// A queue pair that receives from that address: ready to, when it is returned.
  [[nodiscard]] VerbsHandle<ibv_qp> make_receiver(ibv_ah_attr address) const;

  /// Takes up to `out.size()` arrivals in. Returns how many. Posts their requests again.
  [[nodiscard]] std::size_t take_arrived(std::span<VerbsUcArrival> out) noexcept;
  /// Arrivals from now on make VerbsQueues::event_fd() readable. False: there are some already.
  [[nodiscard]] bool arm() noexcept;
  /// The shared queue has failed.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  void refill(std::size_t count) noexcept;

  const VerbsQueues& queues_;
  VerbsHandle<ibv_cq> arrived_;
  VerbsHandle<ibv_srq> requests_;
  VerbsArrivals arrivals_;  ///< of arrived_
  bool failed_ = false;
};

/// The sending side to one peer: a queue pair per path, and a completion queue with room for all
/// that they send.
///
/// Set-up calls (constructor, make_sender()) throw mrc::Error; the rest is data path. One thread at
/// a time.
class VerbsUcSend {
 public:
  /// On the device of `queues`, which must outlive it.
  VerbsUcSend(const VerbsQueues& queues, std::uint16_t paths);
  VerbsUcSend(const VerbsUcSend&) = delete;
  VerbsUcSend& operator=(const VerbsUcSend&) = delete;

  /// A new queue pair that sends to the peer's queue pair `qpn` at that address. Any thread.
  [[nodiscard]] VerbsHandle<ibv_qp> make_sender(ibv_ah_attr address, std::uint32_t qpn) const;
  /// From now on, a path uses that queue pair (null: none), and the former one is returned. What it
  /// still had to send counts as sent: its copies are appended. The caller destroys it before these
  /// are released.
  [[nodiscard]] VerbsHandle<ibv_qp> exchange(std::uint16_t path, VerbsHandle<ibv_qp> qp,
                                             std::vector<wire::CopyId>& copies) noexcept;

  /// All that it still had to send counts as sent: its copies are appended. The object is destroyed
  /// before these are released.
  void give_up(std::vector<wire::CopyId>& copies) noexcept;

  /// Whether a path has a queue pair.
  [[nodiscard]] bool ready(std::uint16_t path) const noexcept { return lanes_[path].qp != nullptr; }
  /// Writes that a path can take now, those that wait for post() included.
  [[nodiscard]] std::uint32_t room(std::uint16_t path) const noexcept {
    const Lane& lane = lanes_[path];
    return kDepth - (lane.posted + lane.waiting - lane.done);
  }
  /// Appends a write to what post() will send: `payload` to `remote` with the peer's `rkey`. Needs
  /// ready() and room().
  void add(std::uint16_t path, std::span<const ibv_sge> payload, std::uint64_t remote,
           std::uint32_t rkey, std::uint32_t seq, wire::CopyId copy) noexcept;
  /// Sends what was added, with one doorbell. False: the device failed.
  bool post(std::uint16_t path) noexcept;
  /// Takes send completions in, and appends the copies that the device no longer reads.
  void take_sent(std::vector<wire::CopyId>& released) noexcept;
  /// Send completions from now on make VerbsQueues::event_fd() readable; call take_sent() after it.
  void arm() noexcept { failed_ = ibv_req_notify_cq(sent_.get(), 0) != 0 || failed_; }
  /// Writes that the device has not reported as sent.
  [[nodiscard]] bool busy() const noexcept { return outstanding_ > 0; }
  /// A queue pair has failed.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

  static constexpr std::uint32_t kDepth = 64;    ///< writes of one path in the device
  static constexpr std::size_t kMaxPieces = 14;  ///< SGEs of a write

 private:
  struct Lane {
    VerbsHandle<ibv_qp> qp;
    std::uint32_t posted = 0;
    std::uint32_t done = 0;
    std::uint32_t waiting = 0;  ///< added since the last post()
    std::uint32_t life = 0;     ///< counts queue pairs: completions of former ones are ignored
    std::array<wire::CopyId, kDepth> copies{};
    std::array<ibv_send_wr, kDepth> requests{};
    std::array<std::array<ibv_sge, kMaxPieces>, kDepth> sges{};
  };

  void release(Lane& lane, std::uint32_t up_to, std::vector<wire::CopyId>& released) noexcept;

  const VerbsQueues& queues_;
  VerbsHandle<ibv_cq> sent_;
  std::vector<Lane> lanes_;
  std::uint32_t outstanding_ = 0;
  bool failed_ = false;
};

/// What a verbs port has open on its device.
struct VerbsParts {
  std::unique_ptr<VerbsQueues> queues;  ///< null: nothing is open
  std::unique_ptr<VerbsUcReceive> uc;   ///< null without placement
};

}  // namespace mrc::inline v0_1::port
