// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/fabric/packet_kind.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

class PacketReceiver;
class PacketTransmitter;
struct PacketPeer;

/// One plane with the full MRC encapsulation: it builds whole Ethernet frames, IPv6 inside IPv6
/// whose outer destination address is a stack of uSIDs (mrc-1.0 §1.1, §4), or plain IPv6 with
/// structured EVs (§3.1). It sees the outer header of received packets, so ECN marks and trimmed
/// packets with their full UDP length reach the engine. Frames go through packet sockets, or
/// another channel that it is given.
///
/// Needs CAP_NET_RAW for its packet sockets, and no other privilege. The next hop of the frames is
/// taken from the kernel's routes and neighbours, or from PacketPortOptions::next_hop. The link's
/// state is watched by netlink; if the interface is removed and created again, the port binds to
/// the new one.
///
/// Set-up calls (constructor, add_peer(), faults) throw mrc::Error and may allocate; transmit() and
/// receive() do neither. In capabilities(), max_burst is 1: there is no segmentation offload, so
/// packets gain nothing from sharing a path. One thread at a time. Movable; a moved-from port can
/// only be destroyed.
class PacketPort final : public CopyingPort {
 public:
  /// How a peer is reached.
  struct Route {
    PeerAddress address;               ///< (inner) destination, IPv6
    std::vector<PacketRoute> outer{};  ///< outer header for each port_path; none: not encapsulated
  };

  /// Interval between reads of the netlink socket, in transmit() and receive().
  static constexpr Duration kLinkCheck = std::chrono::milliseconds{1};
  /// MTU assumed for an interface that does not exist yet, in bytes.
  static constexpr std::uint32_t kAbsentMtu = 65'535;

  /// On packet sockets. Throws Error: no CAP_NET_RAW, or no such interface (unless
  /// options.may_be_absent).
  explicit PacketPort(const PacketPortOptions& options);
  /// On a channel. Throws Error: no such interface (unless options.may_be_absent).
  PacketPort(PacketPortOptions options, std::unique_ptr<FrameChannel> frames);
  /// Takes the other port over.
  PacketPort(PacketPort&&) noexcept;
  /// Closes this port and takes the other one over.
  PacketPort& operator=(PacketPort&&) noexcept;
  ~PacketPort() override;

  /// One frame per packet, up to PacketTransmitter::kBatch with one call of the
  /// channel. Fewer taken than given: the channel is full (try again soon), or the link is
  /// down. Packets that can't be sent at all (too long, no such peer or path, no next hop) count as
  /// taken and in PortStats::tx_errors: to the protocol they are lost.
  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept override;
  void receive(Time now, RxBurst& rx) noexcept override;
  /// Costs nothing if the last receive() took all there was; else a look at some slots of the ring,
  /// or, without a ring, a system call.
  [[nodiscard]] std::uint32_t receive_fill() const noexcept override;
  /// `route` holds a Route. If the next hop's Ethernet address is not known, the kernel is asked
  /// for it, and packets are lost until it answers: use await_route() first. The next hop is looked
  /// up again whenever the network changes. Throws Error if the address is not IPv6.
  std::uint64_t add_peer(PeerId id, const PeerRoute& route) override {
    return add_peer(id, route.as<Route>());
  }
  /// The same without a PeerRoute.
  std::uint64_t add_peer(PeerId id, const Route& route);
  /// Waits until the next hop's Ethernet address is known. The text names the missing
  /// route, or the next hop that does not answer.
  [[nodiscard]] std::string await_route(const PeerRoute& to, Duration patience) const override;
  void remove_peer(PeerId id) noexcept override;

  /// False while a `down` fault is set, or the interface is gone, administratively
  /// down or without a carrier.
  [[nodiscard]] bool link_up() const noexcept override { return interface_up_ && !cut(); }
  bool arm() noexcept override { return frames_->arm(); }
  /// The channel's.
  [[nodiscard]] int poll_fd() const noexcept override { return frames_->poll_fd(); }
  /// The netlink socket.
  [[nodiscard]] int link_fd() const noexcept override { return monitor_.fd(); }
  /// In the past while frames that were read wait for room, else when a fault
  /// releases its next packet, or the channel is to be looked at.
  [[nodiscard]] Time next_release() const noexcept override;
  /// Costs a system call.
  [[nodiscard]] PortStats stats() const noexcept override;

  /// The port's own paths, as in the options.
  [[nodiscard]] std::span<const PortPath> paths() const noexcept override { return options_.paths; }
  /// Where peers send to.
  [[nodiscard]] PeerAddress address() const noexcept override {
    return {options_.local, options_.udp_port};
  }

  /// capabilities().receive_buffer is the channel's receive buffer divided by this, see
  /// UdpPort::kBufferShare and SocketFrames::kSlotWorth.
  static constexpr std::uint64_t kBufferShare = 4;

 private:
  /// Least time between look-ups of the next hops: a look-up costs some 20 us per peer, and the
  /// neighbours of a busy network change often.
  static constexpr Duration kRefreshInterval = std::chrono::milliseconds{20};
  /// Interval between look-ups while a next hop is stale, to have it confirmed if it is in use.
  static constexpr Duration kCheckInterval = std::chrono::seconds{1};
  /// Interval between attempts to attach the channel to an interface that it can't use.
  static constexpr Duration kAttachInterval = std::chrono::milliseconds{100};

  /// The progress of a transmit() call.
  struct Batch;

  [[nodiscard]] PacketPeer* find_peer(const wire::TxPacket& packet) noexcept;
  [[nodiscard]] std::uint32_t refuse(std::uint32_t count) noexcept;

  // --- interface and neighbours

  /// Adds to notes_ what an operator should know of the interface.
  void note_surroundings();

  /// Reads the interface's state and binds to it if it is new. False if there is none or bind()
  /// fails.
  bool attach_interface() noexcept;
  /// What the interface is called now: the one that the port was attached to, while it exists, then
  /// one of the configured name, or a link that has the plane's address.
  [[nodiscard]] std::string interface_name() noexcept;
  /// Bytes of an IP packet before BTH, at most (wire::envelope_size()).
  [[nodiscard]] std::uint32_t headers() const noexcept;

  void check_link(Time now) noexcept;

  /// Looks up gateway and Ethernet address. An address found earlier stays in use if the kernel no
  /// longer has it. The kernel does not see the packets that this port sends, so a neighbour that
  /// is in use and has become stale is solicited here. Returns 0, or the errno of the route
  /// look-up.
  int refresh_next_hop(PacketPeer& peer) noexcept;

  /// Looks up the next hop of a new peer. If it is not known, check_link() tries again when netlink
  /// reports a change.
  void find_next_hop(PacketPeer& peer) noexcept;

  PacketPortOptions options_;
  std::unique_ptr<FrameChannel> frames_;
  Socket ask_;                     ///< to ask the kernel for the interface's state
  std::array<Socket, 2> silence_;  ///< one for each UDP port that MRC packets come to
  NetlinkMonitor monitor_;
  std::uint32_t index_ = 0;
  Interface interface_;              ///< the last one that the port was attached to
  mutable std::uint32_t known_ = 0;  ///< interface_.index; by std::atomic_ref
  MacAddress own_{};
  bool interface_up_ = false;
  Time next_link_check_ = Time::min();
  Time next_attach_ = Time::min();
  bool refresh_due_ = false;         ///< the next hops must be looked up again,
  Time next_refresh_ = Time::min();  ///< but not before this time
  bool stale_ = false;               ///< a next hop was stale: look it up again,
  Time next_check_ = Time::min();    ///< but not before this time
  PortStats stats_;
  PeerTable<PacketPeer> peers_;
  std::unique_ptr<PacketTransmitter> transmitter_;
  std::unique_ptr<PacketReceiver> receiver_;
};

/// The settings of a PacketReceiver. A plain value.
struct PacketReceiverOptions {
  IpAddress local{};                                ///< (inner) destination address of the packets
  Plane plane = 0;                                  ///< copied into RxPacket::plane
  wire::EvFormat ev_format = wire::EvFormat::stev;  ///< how EVs are carried
  wire::ParseOptions parse;                         ///< what is accepted; its check_icrc is ignored
  bool icrc = true;                                 ///< false: the iCRC is not checked
};

/// Takes frames from a channel, parses their headers, checks the iCRC and returns the packets as
/// views into the channel's memory, valid until the next receive(). All input is untrusted. One
/// thread at a time.
class PacketReceiver {
 public:
  /// Nothing is read before the first receive().
  explicit PacketReceiver(const PacketReceiverOptions& options);
  PacketReceiver(const PacketReceiver&) = delete;
  PacketReceiver& operator=(const PacketReceiver&) = delete;

  /// Appends what has arrived for the Ethernet address `own`, up to rx.room(). What does not fit is
  /// returned by the next call.
  void receive(FrameChannel& channel, const wire::MacAddress& own, Time now, Impairment* impairment,
               RxBurst& rx, PortStats& stats) noexcept;

  /// True if frames that have been read wait for room.
  [[nodiscard]] bool leftover() const noexcept { return next_ < frames_.size(); }

 private:
  /// Where packets go behind the impairment.
  struct Sink;

  /// Parses a frame. False, and counted in `stats`, if it is not an MRC packet for this port.
  [[nodiscard]] bool take_apart(MutableBytes frame, const wire::MacAddress& own, RawPacket& packet,
                                PortStats& stats) noexcept;

  PacketReceiverOptions options_;
  std::span<const MutableBytes> frames_;  ///< of the last read
  std::size_t next_ = 0;                  ///< frame that is parsed next
  ReceiveCheck check_;
};

/// An entry of a packet port's address table: the headers in front of BTH, complete except for the
/// fields that differ between packets.
struct PacketPeer {
  bool known = false;               ///< the entry is in use
  bool resolved = false;            ///< next_hop is known
  bool used = false;                ///< a packet was sent since the next hop was looked up
  IpAddress target{};               ///< address that the next hop is looked up for
  IpAddress gateway{};              ///< neighbour that gets the frames: a router, or the peer
  MacAddress next_hop{};            ///< its Ethernet address, if resolved
  wire::Envelope envelope;          ///< of all its packets
  std::vector<PacketRoute> routes;  ///< [port_path]; none: not encapsulated
  wire::IcrcPrefix prefix;          ///< iCRC input in front of BTH, patched per packet
};

/// Sends each packet as a frame of its own, up to kBatch frames with one call. Payload is not
/// copied here: the channel gathers it from the user's memory. The object is large (scratch space)
/// and belongs on the heap. One thread at a time.
class PacketTransmitter {
 public:
  static constexpr std::size_t kBatch = 64;  ///< frames per call

  /// `format`: how EVs are carried; `icrc`: if false, the iCRC is sent as 0.
  PacketTransmitter(wire::EvFormat format, bool icrc) noexcept : format_(format), icrc_(icrc) {}
  PacketTransmitter(const PacketTransmitter&) = delete;
  PacketTransmitter& operator=(const PacketTransmitter&) = delete;

  /// True while no further packet may be added before flush().
  [[nodiscard]] bool full(const wire::TxPacket& next) const noexcept {
    return count_ == kBatch || vectors_used_ + next.sge_count + 2 > kVectors;
  }

  /// Adds a frame. `route` is null for a packet without encapsulation. full() must be false.
  void add(const wire::TxBurst& burst, const wire::TxPacket& packet, PacketPeer& peer,
           const PacketRoute* route, const MacAddress& own) noexcept;

  /// Sends the frames added, as many as the channel takes, discards the rest and returns how many
  /// were sent. If not all, errno is the error of the first that was not.
  std::size_t flush(FrameChannel& channel, PortStats& stats) noexcept;

 private:
  static constexpr std::size_t kVectors = 2048;
  using Head = std::array<std::uint8_t,
                          wire::kEthernetHeader + wire::kMaxEnvelope + wire::kMaxTransportHeader>;
  using Trailer = std::array<std::uint8_t, 8>;

  /// Writes the headers from Ethernet to UDP; returns their length in bytes.
  [[nodiscard]] std::size_t put_envelope(Head& head, const wire::TxPacket& packet,
                                         const PacketPeer& peer, const PacketRoute* route,
                                         const MacAddress& own) const noexcept;

  [[nodiscard]] std::uint32_t icrc_of(const wire::TxBurst& burst, const wire::TxPacket& packet,
                                      PacketPeer& peer) const noexcept;

  wire::EvFormat format_;
  bool icrc_;
  std::size_t count_ = 0, vectors_used_ = 0;
  std::array<mmsghdr, kBatch> messages_{};
  std::array<Head, kBatch> heads_;
  std::array<Trailer, kBatch> trailers_;
  std::array<std::uint32_t, kBatch> lengths_{};
  std::array<iovec, kVectors> vectors_;
};

/// Attaches a filter to a packet socket, by which the kernel selects the MRC packets of one
/// process. It passes frames that carry MRC (mrc-1.0 §1.1): IPv6, optionally within IPv6 with or
/// without an SRH; UDP to `udp_port`, or to the alternative port if that is the usual one [C-1]; to
/// a QPN whose top 8 bits are `slot`. Endpoint operations go to QPN 2 of the host and so to all
/// processes on it; each recognises its own by sender and operation number. Throws Error if the
/// kernel refuses the filter.
void attach_slot_filter(const Socket& socket, std::uint8_t slot, std::uint16_t udp_port);

}  // namespace mrc::inline v0_1::port
