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
#include "mrc/net/socket.hpp"
#include "mrc/plane/fault.hpp"
#include "mrc/plane/peer_table.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/plane/port_path.hpp"
#include "mrc/plane/verbs/uc_sender.hpp"
#include "mrc/plane/verbs/verbs_addresses.hpp"
#include "mrc/plane/verbs/verbs_contact.hpp"
#include "mrc/plane/verbs/verbs_options.hpp"
#include "mrc/plane/verbs/verbs_queues.hpp"
#include "mrc/plane/verbs/verbs_session.hpp"
#include "mrc/plane/verbs/verbs_uc.hpp"

namespace mrc::inline v0_1::port {

class VerbsControl;
class VerbsKeeper;

/// One plane on a port of an RDMA device, through ibverbs: any NIC that carries RoCE v2, with or
/// without MRC in hardware. Transport packets travel in UD messages (verbs_format.hpp), their
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
  [[nodiscard]] bool link_up() const noexcept override { return up_.load() && !faults_.down(); }
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

  /// Fault injection for the whole port, see FaultInjector::set(). A device drops damaged packets
  /// before anybody sees them: `corrupt` and trimming act as loss.
  void set_fault(const FaultSpec& spec) override;
  /// Fault injection for the packets sent on a path, see FaultInjector::set_outbound().
  void set_path_fault(std::uint16_t port_path, const FaultSpec& spec) override;

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
  /// Where received packets go: fault injection, then the engine.
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
