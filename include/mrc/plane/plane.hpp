// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <any>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"
#include "mrc/path/ev_format.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/profile_types.hpp"
#include "mrc/stats.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

/// One of a port's own paths, as an EV profile needs it.
struct PortPath {
  Ev ev;                    ///< as the receiver will see and reflect it (mrc-1.0 §3.1)
  std::uint16_t port_path;  ///< TxPacket::port_path
};

/// What a port can do; probed when it is opened.
struct Capabilities {
  std::uint32_t max_packet = 0;      ///< largest transport packet, BTH .. iCRC, in bytes
  std::uint32_t max_burst = 1;       ///< packets of one path that it can send with one call
  std::uint64_t receive_buffer = 0;  ///< bytes of unread traffic that it holds before it drops
  bool segmentation = false;         ///< one call sends a burst (GSO)
  bool coalescing = false;           ///< one receive can bring a burst (GRO)
  bool batching = true;          ///< delays packets to work on many: its RTT is not the network's
  bool exact_icrc = false;       ///< sees every field that the iCRC covers
  bool outer_headers = false;    ///< sees ECN and DSCP of the outermost header
  bool trimmed_packets = false;  ///< sees packets that switches have trimmed (mrc-1.0 §1.12)
  bool holds_payload = false;    ///< may read payload after transmit(): TxPacket::copy
  bool places_payload = false;   ///< may write payload to its place: RxPacket::placed
  bool drops_damaged = false;    ///< a device drops what is damaged or trimmed before it sees it
};

/// Received packets, filled by Port::receive(). Fixed capacity; allocated once.
class RxBurst {
 public:
  /// Room for `capacity` packets.
  explicit RxBurst(std::size_t capacity = 512) {
    packets_.reserve(capacity);
    origins_.reserve(capacity);
  }
  /// Forgets all packets.
  void clear() noexcept {
    packets_.clear();
    origins_.clear();
  }
  /// So many more packets it takes.
  [[nodiscard]] std::size_t room() const noexcept { return packets_.capacity() - packets_.size(); }
  /// True if there are none.
  [[nodiscard]] bool empty() const noexcept { return packets_.empty(); }
  /// Needs room() > 0.
  void push(const wire::RxPacket& packet) noexcept { packets_.push_back(packet); }
  /// The same for a packet that has_origin(), whose RxPacket::origin will be a copy of `origin`.
  void push(wire::RxPacket packet, const wire::Origin& origin) noexcept {
    packet.origin = &origins_.emplace_back(origin);
    packets_.push_back(packet);
  }
  /// Removes the packets for which `gone` holds.
  template <class F>
  void erase_if(F&& gone) {
    std::erase_if(packets_, gone);
  }
  /// In order of arrival.
  [[nodiscard]] std::span<const wire::RxPacket> packets() const noexcept { return packets_; }

 private:
  std::vector<wire::RxPacket> packets_;
  std::vector<wire::Origin> origins_;  ///< of those that have one
};

/// A registered memory region, as a port is told of it.
struct MemorySpan {
  std::uint32_t key = 0;            ///< L_Key and R_Key; TxSge::region
  std::uint8_t* address = nullptr;  ///< first byte
  std::uint64_t length = 0;         ///< bytes
  Access access = Access::none;     ///< rights
};

/// How a peer is reached in one plane: made by the PlaneKind, read by a port of that kind alone.
class PeerRoute {
 public:
  PeerRoute() = default;
  /// Holds `route`.
  template <class R>
  requires(!std::same_as<std::remove_cvref_t<R>, PeerRoute>) explicit PeerRoute(R&& route)
      : value_(std::forward<R>(route)) {}
  /// R: the type that it was made with.
  template <class R>
  [[nodiscard]] const R& as() const {
    return std::any_cast<const R&>(value_);
  }
  /// The same, to be changed.
  template <class R>
  [[nodiscard]] R& as() {
    return std::any_cast<R&>(value_);
  }

 private:
  std::any value_;
};

/// A received packet before its iCRC is checked: what an Impairment acts on. The iCRC covers the
/// addresses and ports here (mrc-1.0 §1.12).
struct RawPacket {
  wire::RxPacket facts;            ///< all but `bytes`, which is set after the check
  MutableBytes bytes;              ///< BTH .. iCRC
  IpAddress from{};                ///< the sender's address
  std::uint16_t port = 0;          ///< UDP source port, host byte order
  std::uint16_t to_port = 0;       ///< UDP destination port, host byte order
  std::uint32_t flow_label = 0;    ///< of the IP header nearest to UDP; 0 on IPv4
  std::uint8_t traffic_class = 0;  ///< of that header, or the outermost one
  bool trimmable = false;          ///< its DSCP allows switches to trim it
};

/// Where packets go that have passed an Impairment.
class PacketSink {
 public:
  /// There is no room for another one.
  [[nodiscard]] virtual bool full() const noexcept = 0;
  /// Hands one on; there must be room.
  virtual void deliver(const RawPacket& packet) noexcept = 0;

 protected:
  ~PacketSink() = default;
};

/// What a port's packets pass between it and the wire, received ones before their iCRC is checked:
/// injected faults (mrc/faults.hpp). Data path; the thread that owns the port.
class Impairment {
 public:
  virtual ~Impairment() = default;
  /// False: packets pass as if it were not there, and no other call is needed.
  [[nodiscard]] bool active() const noexcept { return active_; }
  /// The link counts as down.
  [[nodiscard]] bool down() const noexcept { return down_; }
  /// Packets hit since construction, by what has hit them.
  [[nodiscard]] virtual const FaultStats& stats() const noexcept = 0;
  /// When release() will have a packet to deliver, or kNever.
  [[nodiscard]] virtual Time next_release() const noexcept = 0;

  /// Sending: decides on the next packet of this path. True: it must be dropped silently.
  [[nodiscard]] virtual bool vanishes(std::uint16_t port_path) noexcept = 0;
  /// Sending: counts packets that were not accepted because the link is down.
  virtual void count_refused(std::uint32_t packets) noexcept = 0;
  /// Receiving, first call of a round: frees the packets delivered in earlier rounds and delivers
  /// those that are due.
  virtual void release(Time now, PacketSink& sink) noexcept = 0;
  /// Receiving: acts on one packet, in place, and delivers none, one or several, now or later.
  virtual void receive(Time now, RawPacket& packet, PacketSink& sink) noexcept = 0;

 protected:
  bool active_ = false;  ///< see active()
  bool down_ = false;    ///< see down()
};

/// One NIC port, that is one plane: turns an engine's bursts into packets on a network and back.
/// One thread at a time, except where stated. Set-up calls throw mrc::Error; calls of the data path
/// neither throw nor allocate. In a forked child at most the destructor is called, which must leave
/// alone what the parent still uses.
class Port {
 public:
  virtual ~Port() = default;

  // --- Transmission
  /// Sends these groups of the burst in order and returns how many packets it took; the rest were
  /// not sent (port busy or down). Adds pad and iCRC, to which it adds TxPacket::check_seed.
  ///
  /// A port with Capabilities::holds_payload may read the payload of a packet with a TxPacket::copy
  /// until take_released() returns that number. Other payload, and SGEs with region 0, must not be
  /// read after transmit().
  virtual std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                                 std::span<const wire::TxGroup> groups) noexcept = 0;
  /// Numbers of copies that the port no longer reads, those since the last call, in any order. The
  /// view is valid until the next call.
  virtual std::span<const wire::CopyId> take_released() noexcept = 0;

  // --- Reception
  /// Appends what has arrived, up to rx.room(). The views stay valid until the next receive().
  ///
  /// A port with Capabilities::places_payload does so only in regions with relaxed_ordering, and
  /// says it in RxPacket::placed. While a further copy of a packet may still be written, placed or
  /// not, the packet is RxPacket::unsettled.
  virtual void receive(Time now, RxBurst& rx) noexcept = 0;
  /// Packets of which no copy can be written any more, those since the last call: memory does not
  /// change behind a completion. The view is valid until the next call.
  virtual std::span<const wire::PacketName> take_settled() noexcept = 0;
  /// Part of the receive buffer in use after the last receive(), in 1/128; 0 if not known. When it
  /// is high, the engine asks senders for less.
  [[nodiscard]] virtual std::uint32_t receive_fill() const noexcept { return 0; }

  // --- Memory and peers
  /// Called before a packet names the region or a peer may write to it.
  virtual void register_memory(const MemorySpan& memory) = 0;
  /// Called when no request uses the region and no copy of it is held any more.
  virtual void deregister_memory(std::uint32_t key) noexcept = 0;
  /// Enters or replaces how a peer is reached; returns RxPacket::source of its packets. Does not
  /// wait.
  virtual std::uint64_t add_peer(PeerId peer, const PeerRoute& route) = 0;
  /// Empties the entry; unknown peers are ignored.
  virtual void remove_peer(PeerId peer) noexcept = 0;
  /// Waits until the route has a next hop; returns why it has none, or an empty text. Any thread.
  [[nodiscard]] virtual std::string await_route(const PeerRoute& route, Duration patience) const {
    (void)route, (void)patience;
    return {};
  }

  // --- Sleep
  /// Before a thread sleeps on poll_fd(). False: it must not, since something has arrived.
  virtual bool arm() noexcept = 0;
  /// Becomes readable when something arrives, or is released or settled; -1: never.
  [[nodiscard]] virtual int poll_fd() const noexcept = 0;
  /// Becomes readable when link_up() may have changed, which receive() finds out, or at arrivals of
  /// a second socket; -1: never.
  [[nodiscard]] virtual int link_fd() const noexcept = 0;
  /// When receive() will return packets that poll_fd() does not announce, held back for want of
  /// room or by an impairment; kNever: there are none.
  [[nodiscard]] virtual Time next_release() const noexcept = 0;

  // --- State
  /// Packets can be sent and received.
  [[nodiscard]] virtual bool link_up() const noexcept = 0;
  /// Counters since the port was opened.
  [[nodiscard]] virtual PortStats stats() const noexcept = 0;
  /// What the port can do; may change while it is open.
  [[nodiscard]] const Capabilities& capabilities() const noexcept { return capabilities_; }
  /// A line to log for each capability that was wanted and is missing. Set-up calls may append.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

  // --- What peers need to know
  /// The port's own paths, in the order of their numbers.
  [[nodiscard]] virtual std::span<const PortPath> paths() const noexcept = 0;
  /// Where peers send to. Any thread.
  [[nodiscard]] virtual PeerAddress address() const noexcept = 0;
  /// The interface of this plane's link-local address; "": none, or not known. Any thread.
  [[nodiscard]] virtual std::string zone() const { return {}; }
  /// ConnectionInfo::port_data of its plane, for the peers' PlaneKind.
  [[nodiscard]] virtual std::vector<std::uint8_t> connection_data() const { return {}; }

  // --- Administration
  /// An administrator takes the port out of use, or lets it be used again. What the port sends and
  /// places by itself stops before this returns; its owner sees to the rest.
  virtual void set_enabled(bool enabled) noexcept { (void)enabled; }

  /// True: GSO bursts vanish behind the port: it sends packets one by one from now on, but those of
  /// a TxGroup::one_piece.
  virtual void send_singly(bool singly) noexcept { (void)singly; }

  /// Puts it between the port and the wire. Not while packets of an earlier one are still used.
  void set_impairment(std::unique_ptr<Impairment> impairment) noexcept {
    impairment_ = std::move(impairment);
  }
  /// Null: there is none.
  [[nodiscard]] Impairment* impairment() const noexcept { return impairment_.get(); }

 protected:
  Port() = default;
  Port(Port&&) noexcept = default;             ///< for ports that can be moved
  Port& operator=(Port&&) noexcept = default;  ///< the same

  Capabilities capabilities_;       ///< see capabilities()
  std::vector<std::string> notes_;  ///< see notes()

  /// The impairment, if it is active.
  [[nodiscard]] Impairment* impaired() const noexcept {
    return impairment_ != nullptr && impairment_->active() ? impairment_.get() : nullptr;
  }
  /// The link is down because the impairment says so.
  [[nodiscard]] bool cut() const noexcept { return impairment_ != nullptr && impairment_->down(); }
  /// Packets were not accepted, since the link is down.
  void count_refused(std::uint32_t packets) noexcept {
    if (cut()) impairment_->count_refused(packets);
  }
  /// When the impairment has a packet to deliver, or kNever.
  [[nodiscard]] Time next_impaired() const noexcept {
    return impairment_ != nullptr ? impairment_->next_release() : kNever;
  }

 private:
  std::unique_ptr<Impairment> impairment_;
};

/// A port that copies payload within transmit() and places nothing, such as one on sockets.
class CopyingPort : public Port {
 public:
  std::span<const wire::CopyId> take_released() noexcept override { return {}; }
  std::span<const wire::PacketName> take_settled() noexcept override { return {}; }
  void register_memory(const MemorySpan&) override {}
  void deregister_memory(std::uint32_t) noexcept override {}
  /// poll_fd() is readable as long as something is there.
  bool arm() noexcept override { return true; }
};

/// Settings common to all ports on sockets. A plain value.
struct PortOptions {
  Plane plane = 0;        ///< copied into RxPacket::plane
  std::uint8_t slot = 0;  ///< top 8 bits of this process's QPNs
  /// SO_RCVBUF wanted, bytes; the kernel may cap it. Packet ports have a ring of twice the size.
  std::uint32_t receive_buffer = 8u << 20;
  std::uint32_t send_buffer = 1u << 20;  ///< SO_SNDBUF of each sending socket, bytes
  std::uint16_t receive_slots = 16;      ///< messages per receive call, 64 KiB each; 1 .. 256
  /// False: the iCRC is sent as 0 and not checked (both ends must agree).
  bool icrc = true;
  wire::DscpMap dscp;  ///< to recognise trimmed packets

  /// Throws Error that names the kind of port, the option, its value and what is allowed.
  void check(const char* kind) const;

 protected:
  /// Throws the Error of check(): "KIND: NAME is VALUE, allowed is ALLOWED".
  [[noreturn]] static void reject(const char* kind, const char* name, std::size_t value,
                                  const char* allowed);
};

/// Most payload SGEs of a packet: a message has UIO_MAXIOV (1024) buffers, of which header and
/// trailer take one each.
inline constexpr std::size_t kMaxSges = 1024 - 2;

/// Whether a port that can carry transport packets of `max_packet` bytes can send this one.
[[nodiscard]] inline bool sendable(const wire::TxPacket& p, std::uint32_t max_packet) noexcept {
  return p.header_length >= sizeof(wire::Bth) && p.header_length <= wire::kMaxTransportHeader &&
         p.pad <= wire::kMaxPad && p.sge_count <= kMaxSges && p.transport_length() <= max_packet;
}

/// Checks the length of received packets, computes their iCRC for the engine to judge (mrc-1.0
/// §2.13 steps 2 to 4), and appends them to a burst. Runs behind the port's impairment.
class ReceiveCheck {
 public:
  /// `local`: destination of the packets. Without `icrc`, it is removed and passes for right.
  ReceiveCheck(const IpAddress& local, bool icrc) : local_(local), icrc_(icrc) {}

  /// Believes packets from that address that their iCRC covers the head alone
  /// (wire::Bth::head_check()), until forget_heads() has been called as often. Set-up; throws
  /// std::bad_alloc, and changes nothing then.
  void take_heads(const IpAddress& from);
  /// Undoes one take_heads().
  void forget_heads(const IpAddress& from) noexcept;

  /// Appends the packet to `rx`, which must have room, or counts in `stats` why it is dropped.
  void pass(const RawPacket& raw, RxBurst& rx, PortStats& stats) noexcept;

 private:
  /// A cache entry: the part of the iCRC that all packets of one sender share.
  struct Source {
    IpAddress ip{};
    std::uint64_t tag = 0;  ///< 0: empty
    std::uint16_t to_port = 0;
    bool heads = false;  ///< one of heads_: see take_heads()
    wire::IcrcPrefix prefix;
  };

  struct Heads {
    IpAddress ip{};
    std::uint32_t times = 0;
  };

  [[nodiscard]] Heads* find_heads(const IpAddress& from) noexcept;
  [[nodiscard]] std::uint32_t check_of(const RawPacket& raw, const wire::RxPacket& packet) noexcept;

  IpAddress local_;
  bool icrc_;
  std::array<Source, 64> sources_{};
  std::vector<Heads> heads_;
};

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::detail {

/// An EV as packets carry it.
struct ExpandedEv {
  path::EvValue fields{};  ///< the packet fields of the format, from the first bit on
  Ev name{};               ///< the 32 bits that SACKs reflect; equal only for copies of an EV
  Plane plane = 0;         ///< the port that it leaves by

  friend bool operator==(const ExpandedEv&, const ExpandedEv&) = default;
};

/// An EV profile that is ONLINE. Entry i is path i of every peer that is reached with it. Does not
/// change: a changed profile has another table.
struct EvTable {
  struct Entry {
    ProfileEv ev;
    ExpandedEv expanded;
    bool denied = false;
    std::uint32_t writes = 0;  ///< of its state by the controller
  };

  ProfileId profile = 0;
  EvProfileMode mode = EvProfileMode::automatic;
  path::EvMode format = path::EvMode::udp;  ///< not in AUTO mode
  std::uint32_t ev_count = 0;
  std::uint16_t min_active = 1;
  std::uint8_t event_mask = 0;
  std::vector<Entry> entries;  ///< empty in AUTO mode

  /// Paths that carry data from the start. More gain little (mrc-1.0 §3.2): the rest are backups.
  static constexpr std::uint32_t kActive = 128;
};

using EvTablePtr = std::shared_ptr<const EvTable>;

using port::PeerRoute;
using port::Port;

/// Bytes of the longest packets besides their payload: headers and iCRC. They have no pad, since an
/// MTU is a multiple of 4.
inline constexpr std::uint32_t kPacketOverhead = wire::kMaxWriteHeader + wire::kIcrcSize;

/// How a peer is reached in one plane.
struct PlanePaths {
  std::vector<path::PathSpec> specs;  ///< its EVs; the first `active` carry data from the start
  std::size_t active = 0;             ///< the rest are backups
  PeerRoute route;                    ///< for Port::add_peer()
};

/// An address at which a device may be reached, and the own plane from which.
struct Contact {
  Plane plane = 0;
  port::PeerAddress address;

  /// Equal in both fields.
  friend bool operator==(const Contact&, const Contact&) = default;
};

class PlaneKind;

/// The ports of a lane, one for each plane. Not synchronized: the lane's lock guards it.
struct OpenedPlanes {
  PlaneKind* kind = nullptr;                 ///< that opened them; set by the lane
  std::vector<std::unique_ptr<Port>> ports;  ///< [plane]
  PlaneMask disabled = 0;                    ///< planes that an administrator has taken out of use
  std::uint8_t slot = 0;  ///< of this process on this host: top 8 bits of its QPNs
  UniqueFd slot_claim;    ///< keeps the slot claimed; not open where a port's socket does
  /// The plane whose address this device goes by, its GID: one that is up, if there is any.
  Plane gid_plane = 0;
  std::uint32_t mtu = 0;         ///< payload of a packet: option mtu, or less if a port needs it
  std::uint32_t wanted_mtu = 0;  ///< option mtu, or what `auto` means with these planes
  /// ConnectionInfo::network_namespace of this device: not 0 if its ports may leave the payload of
  /// packets to processes of this host out of the iCRC.
  std::uint64_t network_namespace = 0;
  std::size_t burst = 256;       ///< packets of all planes that are taken from the engine at a time
  std::size_t few_packets = 16;  ///< bursts up to this size are treated as latency-sensitive
  /// Numbers of peers in the ports, from Config::max_peers + 1 on, that the kind uses itself.
  std::uint32_t own_peers = 0;
  /// Bits of an EV by which profiles, and events of paths without one, name it: those of UDP are
  /// source ports.
  unsigned ev_bits = 32;

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(ports.size()); }
  [[nodiscard]] bool enabled(unsigned plane) const noexcept { return (disabled >> plane & 1) == 0; }
  /// Packets can pass: the plane is enabled, and its link is there.
  [[nodiscard]] bool up(unsigned plane) const noexcept {
    return enabled(plane) && ports[plane]->link_up();
  }
  /// The EV of a path of that plane, as profiles name it.
  [[nodiscard]] ProfileEv profile_ev(Plane plane, Ev ev) const noexcept {
    ProfileEv out;
    path::put_bits(out.value, 0, ev_bits,
                   value(ev) & static_cast<std::uint32_t>((std::uint64_t{1} << ev_bits) - 1));
    out.port = static_cast<std::uint8_t>(plane + 1);
    return out;
  }
  /// Adds the port of the next plane: logs its notes, and lowers the MTU to what it carries. Throws
  /// mrc::Error if that is too little.
  void adopt(std::unique_ptr<Port> port, const Config& config, const Log& log);
};

/// A kind of plane (UDP sockets, packet ports of a fabric, RDMA devices): opens the ports of each
/// lane, and knows how peers are reached through them. One object serves a device for its life.
///
/// in_force(), first_address() and open(): one thread, before the device is open. Other const
/// calls: any thread; of `own`, the lane's planes, they use only addresses, paths and slot.
class PlaneKind {
 public:
  virtual ~PlaneKind() = default;
  /// The configuration with this kind's defaults. Throws mrc::Error if it is not valid.
  [[nodiscard]] virtual Config in_force(const Config& config) const { return config; }
  /// The address that plane 0 would have; opens nothing. Throws mrc::Error.
  [[nodiscard]] virtual port::IpAddress first_address(const Config& config) const {
    (void)config;
    throw Error(Errc::unsupported, "planes of this kind have no address before they are open");
  }
  /// Opens the ports of one lane with a claim of that slot, or of the lowest free one. `config` is
  /// in_force() and outlives this object; `log` is for this call only. Throws mrc::Error.
  [[nodiscard]] virtual OpenedPlanes open(const Config& config, std::optional<std::uint8_t> slot,
                                          const Log& log) = 0;

  /// Where a device with that GID is reached, and there the process with that queue pair: at least
  /// one. Throws mrc::Error if no plane leads there.
  [[nodiscard]] virtual std::vector<Contact> contacts(const OpenedPlanes& own,
                                                      const port::IpAddress& gid,
                                                      Qpn qpn) const = 0;
  /// Where that process may answer, likeliest first: at its GID, at addresses that it probably has,
  /// and `told` ones. `first`: the plane of this device's GID. Throws as contacts() does.
  [[nodiscard]] virtual std::vector<Contact> ways(const OpenedPlanes& own,
                                                  const port::IpAddress& gid, Qpn qpn, Plane first,
                                                  std::span<const port::PeerAddress> told) const {
    (void)first, (void)told;
    return contacts(own, gid, qpn);
  }
  /// In which of these planes single packets to that GID leave.
  [[nodiscard]] virtual Plane nearest(const OpenedPlanes& own, const port::IpAddress& gid,
                                      std::span<const Contact> contacts) const {
    (void)own;
    for (const Contact& contact : contacts)
      if (contact.address.ip == gid) return contact.plane;
    return contacts.front().plane;
  }
  /// RxPacket::source of packets from that address.
  [[nodiscard]] virtual std::uint64_t source_tag(Plane plane,
                                                 const port::IpAddress& ip) const noexcept {
    (void)plane;
    return port::source_tag(ip);
  }
  /// The paths of `plane` to the peer with that address, whose port has said `data`
  /// (Port::connection_data()); no data if it is not known. No specs: none may be used, why_none()
  /// says why. Throws mrc::Error if the address cannot be a peer's.
  [[nodiscard]] virtual PlanePaths paths_to(const OpenedPlanes& own, Plane plane,
                                            const port::PeerAddress& peer, Bytes data) const = 0;
  /// Which EVs path_of() takes.
  [[nodiscard]] virtual path::EvFormats ev_formats() const noexcept { return {}; }
  /// The EVs that path_of() takes, where they are those of the ports' own paths (EvMode::udp),
  /// plane by plane.
  [[nodiscard]] virtual std::vector<ProfileEv> own_evs(const OpenedPlanes& own) const {
    (void)own;
    return {};
  }
  /// The path of an EV of a profile; `index` is its place there. Throws mrc::Error (unsupported)
  /// that says why the ports can't send it.
  [[nodiscard]] virtual path::PathSpec path_of(const OpenedPlanes& own, path::EvMode mode,
                                               const ExpandedEv& ev, std::uint16_t index) const {
    (void)own, (void)mode, (void)ev, (void)index;
    throw Error(Errc::unsupported, "planes of this kind take no EVs: they have paths of their own");
  }
  /// paths_to().route for the EVs of a profile.
  [[nodiscard]] virtual PeerRoute route_with(const OpenedPlanes& own, Plane plane,
                                             const port::PeerAddress& peer, Bytes data,
                                             const EvTable& evs) const {
    (void)evs;
    return paths_to(own, plane, peer, data).route;
  }
  /// Makes `route` one to another implementation of MRC, which checks the iCRC over the headers as
  /// they arrive. True if packets on it cost more for that reason.
  [[nodiscard]] virtual bool keep_real_header(const OpenedPlanes& own, Plane plane,
                                              PeerRoute& route) const {
    (void)own, (void)plane, (void)route;
    return false;
  }
  /// Throws mrc::Error if `denied` names nothing in the planes; Errc::unsupported if this kind does
  /// not know the parts that its paths lead over.
  virtual void check(const DeniedPaths& denied) const {
    if (denied.t0 || denied.t1 || !denied.host.empty())
      throw Error(Errc::unsupported,
                  "planes of this kind don't know the switches that paths lead over: deny EVs, or "
                  "use a fabric description (option fabric)");
  }
  /// Whether a path of the denied plane, on that route to a peer, is denied.
  [[nodiscard]] virtual bool is_among(const DeniedPaths& denied, const PeerRoute& route,
                                      const path::PathSpec& path) const {
    (void)route;
    if (denied.t0 || denied.t1 || !denied.host.empty()) return false;
    return !denied.ev || *denied.ev == path.ev;
  }
  /// If packets to and from that address stay on the loopback interface: lets those on `route`
  /// leave the payload out of the iCRC, as agreed with the peer, and returns true.
  [[nodiscard]] virtual bool take_heads(const OpenedPlanes& own, Plane plane,
                                        const port::PeerAddress& peer, PeerRoute& route) const {
    (void)own, (void)plane, (void)peer, (void)route;
    return false;
  }
  /// Several EVs share a route (path::PathSetOptions::shared_routes).
  [[nodiscard]] virtual bool shared_routes() const noexcept { return false; }
  /// What the fabric description calls this host; empty: there is none.
  [[nodiscard]] virtual std::string host_name() const { return {}; }
  /// The switch farthest from the hosts on that path, such as "p1t1-2"; empty: not known.
  [[nodiscard]] virtual std::string crossed_switch(Plane plane, const port::IpAddress& peer,
                                                   Ev ev) const {
    (void)plane, (void)peer, (void)ev;
    return {};
  }
  /// Why paths_to() may return no specs, for an error message.
  [[nodiscard]] virtual std::string why_none() const = 0;

  /// Most endpoint requests of unconnected hosts that wait: what a port receives at once.
  static constexpr std::uint32_t kStrangers = 256;
  /// Endpoint requests (mrc-1.0 §5) of hosts without a connected queue pair get answers.
  [[nodiscard]] virtual bool knows_strangers() const noexcept { return false; }
  /// Sends or prepares an answer to one, which came to the device's first lane. False: it gets
  /// none here. This and flush_answers() are data path, under that lane's lock.
  virtual bool answer_stranger(Time now, OpenedPlanes& own,
                               const wire::UnconnectedRequest& request) noexcept {
    (void)now, (void)own, (void)request;
    return false;
  }
  /// Sends the answers that were prepared for requests of that plane.
  virtual void flush_answers(Time now, OpenedPlanes& own, Plane plane) noexcept {
    (void)now, (void)own, (void)plane;
  }
};

[[nodiscard]] inline wire::DscpMap dscp_of(const Config& c) noexcept {
  const ExpertConfig& e = c.expert;
  return {e.dscp_no_trim, e.dscp_trimmable,        e.dscp_trimmable_retx,
          e.dscp_trimmed, e.dscp_trimmed_last_hop, e.dscp_control};
}

/// Why this program cannot use RDMA devices: for the kinds that may need them.
[[nodiscard]] Error no_verbs_planes(const Config& config);

/// The Error (unsupported) of `what`, which needs a module that mrc/`header`.hpp brings. `parts`:
/// what the program was built without, such as "fabrics".
[[nodiscard]] Error lacking(const std::string& what, const char* parts, const char* header);

/// Fills in the options that all kinds of ports share.
void set_shared_options(port::PortOptions& options, const Config& config, Plane plane,
                        std::uint8_t slot);

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1::port {

/// A port's address table: one entry per peer, Entry{} for unknown ones. One thread at a time.
template <class Entry>
class PeerTable {
 public:
  /// Empties the entry and returns it. Invalidates pointers to others. Throws Error if the peer's
  /// number is too large.
  [[nodiscard]] Entry& claim(PeerId id) {
    if (value(id) >= kMaxPeers)
      throw Error(Errc::no_resources, "peer number " + std::to_string(value(id)) +
                                          " is over the limit of " + std::to_string(kMaxPeers));
    if (value(id) >= entries_.size()) entries_.resize(value(id) + std::size_t{1});
    return entries_[value(id)] = {};
  }
  /// Empties the entry; unknown peers are ignored.
  void remove(PeerId id) noexcept {
    if (value(id) < entries_.size()) entries_[value(id)] = {};
  }
  /// The entry, which may be empty; null beyond the table.
  [[nodiscard]] Entry* find(PeerId id) noexcept {
    return value(id) < entries_.size() ? &entries_[value(id)] : nullptr;
  }
  /// The same.
  [[nodiscard]] const Entry* find(PeerId id) const noexcept {
    return value(id) < entries_.size() ? &entries_[value(id)] : nullptr;
  }
  /// All entries, also empty ones, in the order of the peers' numbers.
  [[nodiscard]] auto begin() noexcept { return entries_.begin(); }
  /// End of the entries.
  [[nodiscard]] auto end() noexcept { return entries_.end(); }

 private:
  static constexpr std::uint32_t kMaxPeers = 1u << 20;
  std::vector<Entry> entries_;
};

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::detail {

/// How many requests of strangers a device answers: anybody can send them in the name of a host,
/// and an answer is 20 bytes longer (mrc-1.0 §1.10).
struct StrangerLimits {
  /// Answers per second to one host, as fast as mrc_probe and Device::request_endpoints() ask by
  /// themselves; and how many at once.
  static constexpr std::uint32_t kAnswersPerHost = 10'000, kBurstPerHost = 512;
  /// The same to all hosts together.
  static constexpr std::uint32_t kAnswers = 12'000, kBurst = 1024;
};

/// Appends the response to a stranger's request to a burst, which must have room; to that peer of
/// the port, by that path.
inline void append_answer(wire::TxBurst& burst, const wire::UnconnectedRequest& request,
                          PeerId peer, const path::PathSpec& path, std::uint8_t dscp) noexcept {
  wire::EndpointResponsePacket answer{
      wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, Psn{request.id}), {}};
  answer.eeth.set_op(request.op);
  answer.eeth.tx_timestamp = request.timestamp;
  wire::TxPacket& packet = burst.append();
  std::memcpy(packet.header.data(), &answer, sizeof answer);
  packet.header_length = sizeof answer;
  packet.dscp = dscp;
  packet.ecn = Ecn::not_ect;  // mrc-1.0 [O-22]
  packet.peer = peer;
  packet.plane = request.plane;
  packet.entropy = path.ev;
  packet.port_path = path.port_path;
  burst.commit();
}

}  // namespace mrc::inline v0_1::detail
