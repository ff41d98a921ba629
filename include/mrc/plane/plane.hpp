// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <any>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mrc/stats.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1::port {

/// One of a port's own paths, as an EV profile needs it.
struct PortPath {
  Ev ev;                    ///< as the receiver will see and reflect it (mrc-1.0 §3.1)
  std::uint16_t port_path;  ///< TxPacket::port_path
};

/// What a port and its driver exchange beside wire::TxBurst.

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
  /// How many more packets it takes.
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
  /// The packets, in order of arrival.
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

/// How a peer is reached in one plane: a value of a type of the kind of plane. The PlaneKind makes
/// it and the port of that kind reads it; nothing between them looks inside.
class PeerRoute {
 public:
  /// No route.
  PeerRoute() = default;
  /// Holds `route`.
  template <class R>
  requires(!std::same_as<std::remove_cvref_t<R>, PeerRoute>) explicit PeerRoute(R&& route)
      : value_(std::forward<R>(route)) {}
  /// What it holds; R is the type that it was made with.
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
  virtual void deliver(const RawPacket& packet) noexcept = 0;

 protected:
  ~PacketSink() = default;
};

/// What a port's packets pass between it and the wire: received ones before their iCRC is checked,
/// so that damage is detected as if the network had caused it, and those to be sent. Injected
/// faults are one (mrc/faults.hpp). Data path; the thread that owns the port.
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
  bool active_ = false, down_ = false;
};

/// One NIC port, that is one plane: it turns an engine's bursts into packets on a network and back.
/// The engine never sees a port, only bursts. Calls are virtual, at most a few per burst.
///
/// One thread at a time, except where another is stated. Set-up calls throw mrc::Error; transmit(),
/// receive() and the other calls of the data path neither throw nor allocate. In a forked child the
/// destructor is called at most, which must leave alone what the parent still uses.
class Port {
 public:
  virtual ~Port() = default;

  // --- Transmission
  /// Sends the packets of these groups of the burst, all of its plane, one group after the other,
  /// and returns how many packets it took, counted from the first; the rest were not sent (port
  /// busy or down). It adds pad and iCRC, to which it adds TxPacket::check_seed.
  ///
  /// The payload of a packet with a TxPacket::copy belongs to the port until take_released()
  /// returns that number: it may read the payload in between, any number of times. A port that
  /// needs this sets Capabilities::holds_payload. Payload without a number must not be read after
  /// transmit(), nor must an SGE with region 0.
  virtual std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                                 std::span<const wire::TxGroup> groups) noexcept = 0;
  /// Numbers of copies that the port no longer reads, those since the last call; the order is the
  /// port's own. The view is valid until the next call. A port that is destroyed reads nothing.
  virtual std::span<const wire::CopyId> take_released() noexcept = 0;

  // --- Reception
  /// Appends what has arrived, up to rx.room(). The views stay valid until the next receive() on
  /// the same port.
  ///
  /// A port whose hardware writes payload to its place in memory sets Capabilities::places_payload.
  /// It says so in RxPacket::placed, and only does it in regions with relaxed_ordering. While a
  /// further copy of that packet may still be written, whether or not this one was placed, the
  /// packet is RxPacket::unsettled.
  virtual void receive(Time now, RxBurst& rx) noexcept = 0;
  /// Packets of which no copy can be written any more, those since the last call; the view is valid
  /// until the next call. With RxPacket::unsettled it is the promise that memory does not change
  /// behind a completion.
  virtual std::span<const wire::PacketName> take_settled() noexcept = 0;
  /// The part of its receive buffer that is in use after the last receive(), in 1/128; 0 if it is
  /// not known. The engine asks senders for less when it is high.
  [[nodiscard]] virtual std::uint32_t receive_fill() const noexcept { return 0; }

  // --- Memory and peers
  /// Called before a packet names the region or a peer may write to it.
  virtual void register_memory(const MemorySpan& memory) = 0;
  /// Called when no request uses the region and no copy of it is held any more.
  virtual void deregister_memory(std::uint32_t key) noexcept = 0;
  /// Enters how a peer is reached, or replaces it, and returns the tag that the peer's packets will
  /// carry in RxPacket::source. Does not wait.
  virtual std::uint64_t add_peer(PeerId peer, const PeerRoute& route) = 0;
  /// Empties the entry; unknown peers are ignored.
  virtual void remove_peer(PeerId peer) noexcept = 0;
  /// Waits until packets sent by that route are not lost for want of a next hop, and returns why
  /// they would be, or an empty text. Any thread, beside the one that uses the port.
  [[nodiscard]] virtual std::string await_route(const PeerRoute& route, Duration patience) const {
    (void)route, (void)patience;
    return {};
  }

  // --- Sleep
  /// Called before a thread sleeps on poll_fd(). False: something has arrived since the last
  /// receive(); the thread must not sleep.
  virtual bool arm() noexcept = 0;
  /// Becomes readable when something arrives, or is released or settled; -1: never.
  [[nodiscard]] virtual int poll_fd() const noexcept = 0;
  /// Becomes readable when link_up() may have changed, which a receive() soon after finds out; -1:
  /// never. A port with two descriptors of arrivals gives the second one here.
  [[nodiscard]] virtual int link_fd() const noexcept = 0;
  /// When receive() will return packets that poll_fd() does not announce: they had no room in `rx`,
  /// or an impairment holds them back. A past time: now; kNever: there are none.
  [[nodiscard]] virtual Time next_release() const noexcept = 0;

  // --- State
  /// Packets can be sent and received.
  [[nodiscard]] virtual bool link_up() const noexcept = 0;
  /// Counters since the port was opened.
  [[nodiscard]] virtual PortStats stats() const noexcept = 0;
  /// What the port can do; may change while it is open.
  [[nodiscard]] const Capabilities& capabilities() const noexcept { return capabilities_; }
  /// One line for each capability that was wanted and is missing, to be logged once. Set-up calls
  /// may append some.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

  // --- What peers need to know
  /// The port's own paths, in the order of their numbers.
  [[nodiscard]] virtual std::span<const PortPath> paths() const noexcept = 0;
  /// Where peers send to. Any thread.
  [[nodiscard]] virtual PeerAddress address() const noexcept = 0;
  /// The interface that a link-local address of this plane belongs to; "": it has none, or it is
  /// not known. Any thread.
  [[nodiscard]] virtual std::string zone() const { return {}; }
  /// What peers must know of the port beside its address: ConnectionInfo::port_data of its plane,
  /// which their PlaneKind gets. Empty: nothing.
  [[nodiscard]] virtual std::vector<std::uint8_t> connection_data() const { return {}; }

  // --- Administration
  /// An administrator takes the port out of use, or lets it be used again; initially it is. Its
  /// owner sees to transmit() and to what receive() brings. A port that sends by itself, or whose
  /// hardware places payload, stops both before this returns; others have nothing to do.
  virtual void set_enabled(bool enabled) noexcept { (void)enabled; }

  // --- What its driver has found out
  /// Bursts that the port hands over in one piece (Capabilities::segmentation) vanish behind it: it
  /// sends packets one by one from now on, but those of a TxGroup::one_piece, or no longer has to.
  virtual void send_singly(bool singly) noexcept { (void)singly; }

  // --- What its packets pass
  /// Puts it between the port and the wire. Not while packets that an earlier one has delivered are
  /// still used.
  void set_impairment(std::unique_ptr<Impairment> impairment) noexcept {
    impairment_ = std::move(impairment);
  }
  /// Null: there is none.
  [[nodiscard]] Impairment* impairment() const noexcept { return impairment_.get(); }

 protected:
  Port() = default;
  /// Takes the other port over; for ports that can be moved.
  Port(Port&&) noexcept = default;
  /// Closes this port and takes the other one over.
  Port& operator=(Port&&) noexcept = default;

  Capabilities capabilities_;       ///< see capabilities()
  std::vector<std::string> notes_;  ///< see notes()

  /// The impairment, if it acts on packets now.
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

/// A port that copies payload within transmit() and whose driver places nothing: sockets, say. It
/// has no use for the parts of the contract that are defined here.
class CopyingPort : public Port {
 public:
  /// Nothing is ever held.
  std::span<const wire::CopyId> take_released() noexcept override { return {}; }
  /// Nothing is ever placed.
  std::span<const wire::PacketName> take_settled() noexcept override { return {}; }
  /// No registration is needed.
  void register_memory(const MemorySpan&) override {}
  /// See register_memory().
  void deregister_memory(std::uint32_t) noexcept override {}
  /// poll_fd() is readable as long as something is there.
  bool arm() noexcept override { return true; }

 protected:
  CopyingPort() = default;
  /// See Port.
  CopyingPort(CopyingPort&&) noexcept = default;
  /// See Port.
  CopyingPort& operator=(CopyingPort&&) noexcept = default;
};

/// Settings common to all ports on sockets. A plain value.
struct PortOptions {
  Plane plane = 0;  ///< copied into RxPacket::plane
  /// Which of the processes that share a host this is: the top 8 bits of its QPNs.
  std::uint8_t slot = 0;

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
/// §2.13 steps 2 to 4), and appends them to a burst. Runs behind the port's impairment. A packet
/// that says that its iCRC covers its head alone (wire::Bth::head_check()) is taken at its word if
/// it comes from an address of take_heads(); the bit of others may have changed on the way and
/// means nothing. One thread at a time.
class ReceiveCheck {
 public:
  /// `local`: the destination address of the packets. If `icrc` is false, the iCRC is removed
  /// and passes for right.
  ReceiveCheck(const IpAddress& local, bool icrc) : local_(local), icrc_(icrc) {}

  /// Packets from that address may have an iCRC that covers their head alone, until forget_heads()
  /// has been called as often. Set-up; throws std::bad_alloc, and changes nothing then.
  void take_heads(const IpAddress& from);
  /// Undoes one take_heads().
  void forget_heads(const IpAddress& from) noexcept;

  /// Appends the packet to `rx`, which must have room, or counts in `stats` why it is dropped.
  void pass(const RawPacket& raw, RxBurst& rx, PortStats& stats) noexcept;

 private:
  /// The part of the iCRC that all packets of one sender share: a cache entry.
  struct Source {
    IpAddress ip{};
    std::uint64_t tag = 0;  ///< 0: empty
    std::uint16_t to_port = 0;
    bool heads = false;  ///< one of heads_: see take_heads()
    wire::IcrcPrefix prefix;
  };

  /// An address of take_heads().
  struct Heads {
    IpAddress ip{};
    std::uint32_t times = 0;
  };

  [[nodiscard]] Heads* find_heads(const IpAddress& from) noexcept;
  void forget_sources() noexcept;
  [[nodiscard]] std::uint32_t check_of(const RawPacket& raw, const wire::RxPacket& packet) noexcept;

  IpAddress local_;
  bool icrc_;
  std::array<Source, 64> sources_{};
  std::vector<Heads> heads_;
};

}  // namespace mrc::inline v0_1::port
