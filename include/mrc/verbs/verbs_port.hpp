// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/verbs/uc.hpp"
#include "mrc/verbs/verbs_device.hpp"
#include "mrc/verbs/verbs_queues.hpp"

namespace mrc::inline v0_1::port {

/// What a verbs port and one peer port need so that their devices place payload: the receiving ends
/// of the peer's UC paths, the sending ends of the own ones, and the peer's keys. Guarded by the
/// port's lock.
struct VerbsPlacement {
  /// The receiving end of a path from the peer.
  struct Receiver {
    VerbsHandle<ibv_qp> qp;  ///< null: none yet
    std::uint8_t epoch = 0;  ///< of the path
  };

  /// For so many paths in each direction.
  explicit VerbsPlacement(std::uint16_t paths)
      : receiver(receiver_options(paths)),
        receivers(paths),
        connected(paths),
        headers(MutableBytes(message).subspan(kIncarnationSize)) {}

  UcReceiver receiver;                   ///< joins and settles what the peer writes
  std::vector<Receiver> receivers;       ///< by path
  std::unique_ptr<VerbsUcSend> sender;   ///< the sending ends
  std::vector<std::uint32_t> connected;  ///< the peer's queue pairs that `sender` sends to, by path
  /// What the peer's device calls the memory that its program calls by the key; 0: not to be
  /// written to by the device.
  std::unordered_map<std::uint32_t, std::uint32_t> keys;
  bool refused = false;  ///< by either side: a path has broken its promise

  /// In front of each message of headers: which of the receiver's UC paths are meant.
  static constexpr std::size_t kIncarnationSize = 4;
  std::array<std::uint8_t, VerbsQueues::kMaxBytes> message{};  ///< buffer of `headers`
  UcHeadersWriter headers;     ///< of writes whose headers have not been sent yet
  std::uint64_t marked = 0;    ///< paths that are to bring a marker
  std::uint64_t prepared = 0;  ///< paths with writes that are not posted yet
  bool touched = false;        ///< any of these three has something
  bool in_flight = false;      ///< writes are in the device
  bool waiting = false;        ///< `receiver` has, or had, unsettled packets

 private:
  [[nodiscard]] static UcReceiverOptions receiver_options(std::uint16_t paths) noexcept {
    UcReceiverOptions o;
    o.paths = paths;
    o.ring = 256;
    return o;
  }
};

/// What a verbs port knows of one peer port: how to send to it, and how far the two have agreed.
/// Several peers of the engine can be one peer port. Guarded by the port's lock.
struct VerbsSession {
  PeerAddress address;                ///< its GID, and where it takes control messages
  std::uint64_t token = 0;            ///< its secret
  PeerId number{};                    ///< of the session, in UcSender
  unsigned uses = 0;                  ///< peers of the engine; 0: the session is to be closed
  bool placement_wanted = false;      ///< both ports offer placement
  unsigned failures = 0;              ///< to make what it needs, one after the other
  Time next_placement = Time::min();  ///< when to try again

  // For sending:
  std::uint32_t qkey = 0;                       ///< that its UD queue pairs expect
  std::vector<std::uint32_t> qpns;              ///< of its UD queue pairs, by path
  std::shared_ptr<const VerbsAddress> handles;  ///< null until known
  std::unique_ptr<VerbsPlacement> placement;    ///< null: all goes by UD
  /// A placement is being destroyed: until that is done, its queue pairs may still receive.
  bool closing = false;

  // Control messages:
  VerbsState own;                 ///< as sent last; version 0: never
  std::uint32_t incarnation = 0;  ///< random, of the own receiving UC paths
  std::uint32_t sender = 0;       ///< random, of the own sending ones
  bool renew = false;        ///< the peer's sending ones begin anew: so must the receiving ones
  std::uint32_t echoed = 0;  ///< version of `own` that it has echoed
  VerbsState peer;           ///< its newest; version 0: none
  bool owes_echo = false;    ///< it has asked
  Time next_state = Time::min();  ///< when to repeat the own one
  Duration pause{};               ///< between repetitions
  /// A key that the data path wants to know.
  struct KeyQuery {
    Time next = Time::min();  ///< when to ask again
    unsigned tries = 0;       ///< so far
  };
  std::map<std::uint32_t, KeyQuery> queries;  ///< by the program's key
  unsigned wrong_keys = 0;                    ///< of the peer's queries: no region has it

  static constexpr std::size_t kMaxQueries = 64;  ///< at a time
  static constexpr std::size_t kMaxKeys = 4096;   ///< known, of each session
  static constexpr unsigned kMaxTries = 8;        ///< of a query, or to make queue pairs
  /// Queries of wrong keys that are answered: a peer must not find keys by trying them all.
  static constexpr unsigned kMaxWrongKeys = 1024;
};

class VerbsControl;
class VerbsKeeper;

/// One plane on a port of an RDMA device, through ibverbs: any NIC that carries RoCE v2, with or
/// without MRC in hardware. Transport packets travel in UD messages (verbs_queues.hpp), their
/// payload straight from registered memory. A path is a UD queue pair whose packets also have a
/// flow label of their own; its EV is its number.
///
/// With VerbsPortOptions::placement, the first transmission of a data packet is an RDMA write on an
/// unreliable connection (UC), if both sides have it, the memory's rights allow any order and the
/// packet is not small: the receiver's device places the payload, and the CPU touches headers only.
/// Retransmissions go by UD, and complete nothing before no earlier copy can be written any more
/// (UcReceiver). That relies on paths that neither duplicate nor reorder; a peer whose paths are
/// seen to do so is moved to UD.
///
/// Limits: switches' trimming is not seen (a trimmed packet fails the device's own check). Peers
/// need verbs ports, too, and a ConnectionInfo: a GID alone does not tell their queue pairs.
///
/// The device may go away and come back, and its addresses may change: a thread of the port watches
/// it, and the link is down meanwhile. Queue pair numbers can change then; peers are told.
///
/// Set-up calls (constructor, add_peer(), register_memory(), faults) throw mrc::Error and may
/// allocate; transmit() and receive() do neither. One thread at a time, await_route() excepted.
class VerbsPort final : public Port {
 public:
  /// How a peer is reached.
  struct Route {
    PeerAddress address;   ///< its GID, and where its port takes control messages
    VerbsContact contact;  ///< what it has said of its queue pairs
  };

  /// Opens the device. `control`: a UDP socket at the port's address, where peers send control
  /// messages. Throws mrc::Error that names the device and the remedy.
  VerbsPort(VerbsPortOptions options, VerbsDevice device, Socket control);
  ~VerbsPort() override;

  /// Packets to peers whose address is not known yet, and packets that do not fit,
  /// count as taken and in PortStats::tx_errors: to the protocol they are lost.
  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept override;
  std::span<const wire::CopyId> take_released() noexcept override;
  void receive(Time now, RxBurst& rx) noexcept override;
  std::span<const wire::PacketName> take_settled() noexcept override;
  /// The device may read this memory. Throws mrc::Error, which names RLIMIT_MEMLOCK
  /// if that is the cause. While the device is away, memory is registered when it comes back; if
  /// that fails, its payload is copied.
  void register_memory(const MemorySpan& span) override;
  void deregister_memory(std::uint32_t key) noexcept override;
  /// `route` holds a Route.
  std::uint64_t add_peer(PeerId id, const PeerRoute& route) override {
    return add_peer(id, route.as<Route>());
  }
  /// The same without a PeerRoute.
  std::uint64_t add_peer(PeerId id, const Route& route);
  void remove_peer(PeerId id) noexcept override;
  /// Waits until the device knows the peer's link address.
  [[nodiscard]] std::string await_route(const PeerRoute& route, Duration patience) const override;
  bool arm() noexcept override;
  /// False while a `down` fault is set, or while the device is away, its port is not
  /// active, its address is gone, or the port is disabled.
  [[nodiscard]] bool link_up() const noexcept override { return up_.load() && !cut(); }
  [[nodiscard]] int poll_fd() const noexcept override { return events_.fd(); }
  /// poll_fd() is enough.
  [[nodiscard]] int link_fd() const noexcept override { return -1; }
  [[nodiscard]] Time next_release() const noexcept override;
  /// tx_calls counts doorbells; rx_overrun is not known.
  [[nodiscard]] PortStats stats() const noexcept override;

  /// The port's own paths.
  [[nodiscard]] std::span<const PortPath> paths() const noexcept override { return paths_; }
  /// GID and UDP port of control messages.
  [[nodiscard]] PeerAddress address() const noexcept override { return address_; }
  /// An encoded VerbsContact.
  [[nodiscard]] std::vector<std::uint8_t> connection_data() const override;

  /// Disabled, the port is as it is while its device is away: its queue pairs are reset, and it
  /// neither sends nor reads control messages. Waits for the keeper's thread.
  void set_enabled(bool enabled) noexcept override;

  /// Receive buffers of 4 KiB per byte of capabilities().receive_buffer: small packets take whole
  /// ones.
  static constexpr std::uint64_t kBufferShare = 4;
  /// Payload of a packet from which on the peer's device places it, bytes: a smaller one that would
  /// need a message of headers for itself costs more than it saves.
  static constexpr std::uint32_t kMinPlaced = 1024;

 private:
  friend class VerbsControl;
  friend class VerbsKeeper;

  /// Joined packets of one receive().
  static constexpr std::size_t kMaxJoined = 1024;
  /// Of one message of headers.
  static constexpr std::size_t kJoinedAtOnce = VerbsQueues::kMaxBytes / (16 + 32);

  struct Peer {
    VerbsSession* session = nullptr;  ///< null: no such peer
  };
  /// What placement needs, of all peers.
  struct Uc {
    /// A queue pair that receives.
    struct Receiver {
      VerbsSession* session;  ///< whose
      std::uint16_t path;     ///< of the session
    };
    explicit Uc(const UcSenderOptions& options) : sender(options) {}

    UcSender sender;
    VerbsUcReceive* receive = nullptr;                      ///< of parts_; null while down
    std::unordered_map<std::uint32_t, Receiver> receivers;  ///< by queue pair number
    std::vector<VerbsSession*> touched;                     ///< with something to be posted
    std::vector<VerbsSession*> in_flight;                   ///< with writes in the device
    std::vector<VerbsSession*> waiting;                     ///< VerbsPlacement::waiting
  };
  /// Where received packets go: through the impairment, then to the engine.
  struct Sink;
  /// How a packet is to be sent.
  enum class Way : std::uint8_t { ud, placed, busy, lost, impossible };

  // --- Keeper's thread
  /// The device is open and its queue pairs work: packets flow from now on. `fresh`: they are
  /// others than before.
  void come_up(VerbsParts parts, bool fresh) noexcept;
  /// Packets no longer flow, and what is open is the caller's.
  [[nodiscard]] VerbsParts go_down() noexcept;
  /// Nothing is sent by the keeper, or taken by the device, until the port is enabled again.
  void note_silent() noexcept;
  /// Copies that the device no longer reads.
  void release(const std::vector<wire::CopyId>& copies) noexcept;
  void renew_regions(VerbsQueues& queues) noexcept;
  [[nodiscard]] static bool try_region(VerbsQueues& queues, const MemorySpan& span) noexcept;

  // --- Under the lock
  /// Messages from the session's queue pairs are known to be its.
  void enter_source(VerbsSession& session);
  /// Nothing comes from, or is sent to, the session's UC paths any more. Appends the copies that
  /// they may still read, until they are destroyed.
  void detach(VerbsSession& session, std::vector<wire::CopyId>& copies) noexcept;
  /// The same, and nothing of it is known any more: it is about to be removed.
  void forget_session(VerbsSession& session, std::vector<wire::CopyId>& copies) noexcept;

  void wake() const noexcept;
  /// The keeper's thread looks at once, if there is one.
  void look() const noexcept;
  void leave_to_parent() noexcept;
  [[nodiscard]] VerbsSession& session_of(const Route& route);
  void leave_session(Peer& peer) noexcept;

  [[nodiscard]] std::uint32_t send_group(Time now, const wire::TxBurst& burst,
                                         std::span<const wire::TxPacket> packets) noexcept;
  [[nodiscard]] Way way_of(Time now, const wire::TxBurst& burst, const wire::TxPacket& packet,
                           VerbsSession& session) noexcept;
  [[nodiscard]] bool place(Time now, const wire::TxBurst& burst, const wire::TxPacket& packet,
                           VerbsSession& session) noexcept;
  [[nodiscard]] std::uint32_t device_key(VerbsSession& session, std::uint32_t key) noexcept;
  [[nodiscard]] std::uint32_t send(Time now, const wire::TxBurst& burst,
                                   std::span<const wire::TxPacket> packets, VerbsSession& session,
                                   std::uint16_t path) noexcept;
  [[nodiscard]] VerbsTarget target_of(Time now, const wire::TxPacket& packet,
                                      VerbsSession& session) noexcept;
  void touch(VerbsSession& session) noexcept;
  void mark(VerbsSession& session, std::uint16_t path) noexcept;
  void finish_placing() noexcept;
  void send_headers(VerbsSession& session, std::uint16_t path) noexcept;
  void forget(std::span<const wire::TxPacket> packets) noexcept;

  void receive_placed(Time now, Sink& sink) noexcept;
  void take_in(Time now, const VerbsArrival& arrival, Sink& sink) noexcept;
  void take_headers(const VerbsArrival& arrival, const IpAddress& from, Sink& sink) noexcept;
  void deliver_joined(const UcJoined& joined, const VerbsSession& session, Sink& sink) noexcept;
  [[nodiscard]] bool settle(Time now, const RawPacket& raw, wire::RxPacket& packet) noexcept;
  [[nodiscard]] static std::uint64_t source_of(const IpAddress& ip, std::uint32_t qpn) noexcept {
    return source_tag(ip) ^ (std::uint64_t{qpn} * 0x9E3779B97F4A7C15u);
  }

  const mrc::detail::ForkMark fork_;
  const VerbsPortOptions options_;
  const Socket control_;
  const PeerAddress address_;
  const std::uint64_t token_;
  const std::uint32_t qkey_;
  mutable std::mutex mutex_;         ///< guards what follows against the keeper's thread
  VerbsParts parts_;                 ///< empty while down
  VerbsQueues* queues_ = nullptr;    ///< of parts_
  std::uint32_t generation_ = 0;     ///< counts devices
  std::vector<std::uint32_t> qpns_;  ///< of the last queues
  std::shared_ptr<std::uint8_t[]> receive_memory_;  ///< that the last arrivals point into
  std::unordered_map<std::uint32_t, MemorySpan> regions_;
  std::map<std::uint64_t, std::unique_ptr<VerbsSession>> sessions_;  ///< by the peer's token
  std::unordered_map<std::uint64_t, VerbsSession*> sources_;         ///< by source_of()
  std::uint32_t next_session_ = 0;
  std::vector<PeerId> free_sessions_;  ///< numbers below it
  PeerTable<Peer> peers_;
  std::optional<Uc> uc_;                        ///< nothing without placement
  std::vector<wire::CopyId> released_;          ///< since the last take_released()
  std::vector<wire::PacketName> settled_late_;  ///< of UC paths that are gone
  PortStats stats_;
  std::uint64_t doorbells_ = 0;  ///< of queues that are gone, and of UC
  // Of the thread that uses the port:
  std::atomic<bool> up_{false};
  std::atomic<bool> enabled_{true};   ///< see set_enabled()
  bool silent_ = false;               ///< under the lock: the keeper knows that it is disabled
  std::condition_variable silenced_;  ///< silent_ was set
  std::vector<PortPath> paths_;
  std::vector<wire::CopyId> taken_;        ///< what take_released() returned
  std::vector<wire::PacketName> settled_;  ///< what take_settled() returned
  std::vector<std::uint32_t> handed_out_;  ///< buffers that the last receive() gave views of
  std::vector<std::array<std::uint8_t, wire::kMaxTransportHeader>> headers_;  ///< of joined packets
  std::size_t headers_used_ = 0;                                     ///< by the last receive()
  std::array<std::uint8_t, uc_origins_size(kMaxUcPaths)> prefix_{};  ///< of a retransmission
  UniqueFd events_;  ///< epoll: wake_ and the queues' event_fd()
  UniqueFd wake_;
  UniqueFd look_;  ///< wakes the keeper; the port's, since other threads may use it to the end
  std::unique_ptr<VerbsAddresses> addresses_;
  std::unique_ptr<VerbsKeeper> keeper_;
};

}  // namespace mrc::inline v0_1::port
