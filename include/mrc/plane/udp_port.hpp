// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <exception>
#include <utility>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

/// Everything that a UdpPort is made from. A plain value. Without iCRC, UDP's checksum remains.
struct UdpPortOptions : PortOptions {
  LocalAddress local;  ///< address, interface or both: the plane
  /// The receiving socket is bound to UDP port base_port + slot.
  std::uint16_t base_port = wire::kUdpPort;
  /// Number of paths, 1 .. 4096: each is a socket bound to a source port of its own.
  std::uint16_t paths = 16;
  /// Source port of each path; empty: the kernel chooses.
  std::vector<std::uint16_t> source_ports;
  /// IPv6 flow label of each path; empty: derived from the source port.
  std::vector<std::uint16_t> flow_labels;
  /// Without a value: udp on IPv4, stev on IPv6 if flow labels can be had, else udp.
  std::optional<wire::EvFormat> ev_format;
  Offload gso = Offload::automatic;  ///< one call sends a burst
  Offload gro = Offload::automatic;  ///< one datagram received can be a burst

  /// Throws Error that names the option, its value and what is allowed.
  void check() const;
};

/// One of the port's own paths: the socket and the header fields of the packets sent on it.
struct UdpPath {
  Socket socket;                  ///< bound to the source port; sends only
  Socket bound;                   ///< the same, and its packets leave by the plane's interface
  std::uint16_t source_port = 0;  ///< UDP source port, host byte order
  std::uint16_t flow_label = 0;   ///< 0 on IPv4, and where the kernel refuses labels
};

class UdpReceiver;
class UdpTransmitter;
struct UdpPeer;

/// How a peer is reached through a UdpPort.
struct UdpRoute {
  /// Implicit: an address alone is the route to an OpenMRC peer.
  UdpRoute(const PeerAddress& peer)  // NOLINT(google-explicit-constructor)
      : address(peer) {}

  PeerAddress address;  ///< where it receives in this plane
  /// It checks the iCRC over the IP header as it arrives, as other implementations of MRC do.
  bool real_header = false;
  /// Both sides have agreed on an iCRC that covers the head alone (wire::Bth::head_check()).
  bool heads = false;
  /// It gets one answer: the way to it is asked for at most kAskedPerCheck times between checks of
  /// the interface, and remembered; else the kernel's route decides.
  bool passing = false;
};

/// One plane on plain UDP sockets, without privilege: a receiving socket at (address, base port +
/// slot), a second one at second_port(), and a sending socket per path with a source port (on IPv6
/// a flow label, too) of its own, by which ECMP fabrics tell the paths apart.
///
/// Limits of sockets:
/// * On IPv4 the iCRC covers a canonical header with identification 0 and DF set, as Linux sends
///   single datagrams. It numbers the segments of a GSO burst: packets to peers with
///   UdpRoute::real_header go one by one. On IPv6 the iCRC is exact.
/// * The kernel drops trimmed packets whose UDP length is unchanged, as switches leave it (mrc-1.0
///   §1.12). Those whose length was adjusted are recognised by their DSCP.
///
/// Packets leave by the interface that has the plane's address if a route there leads to the peer,
/// else, and to peers on this host, as the kernel's routes say. An address on the loopback
/// interface or a dummy is that of a plane over all links to which routes lead.
///
/// In capabilities(), `segmentation` and `max_burst` change if a device refuses GSO later on, and
/// `max_packet` with the MTU of the interface. Data-path calls allocate after changes of interfaces
/// or routes. Movable; a moved-from port can only be destroyed.
class UdpPort final : public CopyingPort {
 public:
  using Route = UdpRoute;  ///< how a peer is reached
  /// Interval between checks of the interface's state while it is up.
  static constexpr Duration kLinkCheckUp = std::chrono::milliseconds{100};
  /// The same while it is down.
  static constexpr Duration kLinkCheckDown = std::chrono::milliseconds{10};
  /// The same for another interface with the plane's address, while the former one is gone.
  static constexpr Duration kSearchInterval = std::chrono::milliseconds{250};
  /// After changes of routes, so many peers' routes are asked for at each check of the interface:
  /// 10 to 20 us each.
  static constexpr std::size_t kAskedPerCheck = 32;
  /// How often receive() looks at the second socket while nothing comes there: one system call per
  /// receive() would double the cost of an idle poll. For kSecondStay after something has come, and
  /// after a sleep, it looks there as often as at the first one.
  static constexpr Duration kSecondPause = std::chrono::microseconds{50};
  /// See kSecondPause.
  static constexpr Duration kSecondStay = std::chrono::milliseconds{1};

  /// `receive_socket`: this plane's socket of a SlotClaim for options.slot; without it, the port
  /// binds its own. `second_socket`: the plane's one of SlotClaim::second_sockets. Throws Error,
  /// for instance if the UDP port is in use.
  explicit UdpPort(UdpPortOptions options, Socket receive_socket = {}, Socket second_socket = {});
  UdpPort(UdpPort&&) noexcept;             ///< takes the other port over
  UdpPort& operator=(UdpPort&&) noexcept;  ///< closes this one first
  ~UdpPort() override;

  /// Takes fewer while a socket is full or the link is down. Packets that can't be sent at all (too
  /// long, no such peer, path or route, refused by a firewall) count as taken and in tx_errors.
  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept override;
  void receive(Time now, RxBurst& rx) noexcept override;
  /// Costs a system call while the last receive() did not take all there was, else nothing.
  [[nodiscard]] std::uint32_t receive_fill() const noexcept override;
  /// `route` holds a UdpRoute. The kernel finds next hops and keeps packets meanwhile. Throws Error
  /// if the address is of the other IP version.
  std::uint64_t add_peer(PeerId id, const PeerRoute& route) override {
    return add_peer(id, route.as<Route>());
  }
  /// The same without a PeerRoute.
  std::uint64_t add_peer(PeerId id, const Route& route);
  void remove_peer(PeerId id) noexcept override;

  /// False while a `down` fault is set, the interface is not running or, if it is no link
  /// (Interface::link), no peer is reached. An interface that is renamed stays the plane's; if it
  /// is deleted, one that gets the address takes its place.
  [[nodiscard]] bool link_up() const noexcept override { return interface_up_ && !cut(); }

  void send_singly(bool singly) noexcept override { singly_ = singly; }

  /// The receiving socket itself: an epoll instance makes every arriving packet some 400 ns more
  /// expensive (measured on loopback, where the sender pays), even while no thread waits.
  [[nodiscard]] int poll_fd() const noexcept override { return socket_.fd(); }
  /// The second receiving socket, or -1.
  [[nodiscard]] int link_fd() const noexcept override { return second_.fd(); }
  /// The next receive() looks at both sockets.
  bool arm() noexcept override {
    next_second_ = Time::min();
    return true;
  }
  [[nodiscard]] Time next_release() const noexcept override;

  /// rx_calls counts calls that brought something. Costs a system call.
  [[nodiscard]] PortStats stats() const noexcept override;

  /// They can differ from the options, without flow labels: see notes().
  [[nodiscard]] std::span<const PortPath> paths() const noexcept override { return port_paths_; }
  /// How EVs are carried; both ends of a connection should agree on it.
  [[nodiscard]] wire::EvFormat ev_format() const noexcept { return ev_format_; }
  [[nodiscard]] PeerAddress address() const noexcept override { return {local_.ip, udp_port_}; }
  /// Asks the kernel: interfaces are renamed.
  [[nodiscard]] std::string zone() const override;
  /// The interface that has the address.
  [[nodiscard]] const Interface& interface() const noexcept { return interface_; }
  /// Packets leave by the interface that has the address, or stay on this host.
  [[nodiscard]] bool on_link() const noexcept { return fixed() || interface_.link; }

  /// capabilities().receive_buffer is the kernel's receive buffer divided by this, for packets with
  /// 1 KiB of payload or more. The kernel charges whole allocations: measured on loopback (Linux
  /// 6.18), 2.0 to 2.6 bytes per byte of a single packet of 1 KiB or more, and 1.02 to 1.8 in GSO
  /// bursts; control packets up to 13 times their size. It also returns up to a quarter of the
  /// buffer late while a reader is active.
  static constexpr std::uint64_t kBufferShare = 4;

 private:
  void open_receiving();
  void open_sending();
  /// Sets an option of the receiving socket as wanted; true if it is in force.
  [[nodiscard]] bool enable(Offload wanted, int name, int value, const char* what);
  /// Receives from the second socket; true if anything was there.
  bool receive_second(Time now, RxBurst& rx) noexcept;
  void forget_heads(PeerId id) noexcept;
  [[nodiscard]] std::uint32_t transmit(const wire::TxBurst& burst,
                                       const wire::TxGroup& group) noexcept;
  /// Counts packets that a link which is down does not accept. Returns 0.
  [[nodiscard]] std::uint32_t refuse(std::uint32_t count) noexcept;
  /// `joined`: they may leave in one piece.
  [[nodiscard]] std::uint32_t send(const wire::TxBurst& burst,
                                   std::span<const wire::TxPacket> packets, bool joined,
                                   UdpPeer& peer, const UdpPath& path) noexcept;
  /// send(), less the packets that its impairment drops.
  [[nodiscard]] std::uint32_t send_impaired(const wire::TxBurst& burst,
                                            std::span<const wire::TxPacket> packets, bool joined,
                                            UdpPeer& peer, const UdpPath& path) noexcept;
  /// Sets the options of a further receiving socket.
  void equip(const Socket& socket) const;

  void check_link(Time now) noexcept;
  /// Reads the interface's state, and what it means for the plane.
  void look_at_link() noexcept;
  /// The interface was deleted: looks for the one that has the address now.
  void search_interface() noexcept;
  /// Routes do not matter: packets stay on the loopback interface, or all sockets are tied to one.
  [[nodiscard]] bool fixed() const noexcept {
    return is_loopback(local_.ip) || !local_.interface.empty();
  }
  /// Notices changes of routes, and asks for those of some more peers after one.
  void watch_routes() noexcept;
  /// How long packets may be that leave by one of many links.
  void ask_mtu() noexcept;
  /// By which interface packets leave for that peer.
  void ask_way(UdpPeer& peer) noexcept;
  /// The same for a passing one.
  void recall_way(UdpPeer& peer) noexcept;
  /// Opens UdpPath::bound of all paths, if they are not; false if that fails.
  [[nodiscard]] bool open_bound() noexcept;
  /// Opens the sockets anew, which were tied to an interface that does not exist any more, and ties
  /// them to that one. Throws Error.
  void tie_to(const Interface& interface);
  /// Bytes of the largest packet, BTH .. iCRC, that the interface sends.
  [[nodiscard]] std::uint32_t room() const noexcept;
  void note_gso() noexcept;
  /// Datagrams that the kernel dropped at the receiving sockets since they were made.
  [[nodiscard]] std::uint64_t kernel_drops() const noexcept;

  UdpPortOptions options_;
  LocalAddress local_;
  Socket socket_;
  Socket second_;
  Time next_second_ = Time::min();   ///< when to look at it
  Time second_quiet_ = Time::min();  ///< until when to look at it each time
  bool second_first_ = false;        ///< the two take turns to be looked at first
  std::uint16_t udp_port_ = 0;
  wire::EvFormat ev_format_ = wire::EvFormat::udp;
  bool interface_up_ = true;
  std::uint32_t filter_size_ = 0;  ///< bytes of the largest packet that receiving sockets take
  bool singly_ = false;            ///< send_singly()
  std::uint64_t first_drops_ = 0;
  Time next_link_check_ = Time::min();
  Time next_search_ = Time::min();
  bool interface_gone_ = false;
  Interface interface_;
  mutable std::uint32_t zone_ = 0;           ///< interface_.index; by std::atomic_ref
  std::uint32_t outgoing_mtu_ = 0;           ///< bytes; of the links that carry the plane
  std::uint32_t routers_mtu_ = 0;            ///< bytes; outgoing_mtu(), which asks of no peer
  std::unique_ptr<NetlinkMonitor> monitor_;  ///< of routes; null where they don't matter
  bool mtu_due_ = false;                     ///< routers_mtu_ may have changed
  std::size_t to_ask_ = 0;                   ///< peers whose route may have changed
  std::size_t next_asked_ = 0;               ///< the first of these
  struct KnownWay {
    IpAddress ip{};      ///< all zero: none
    bool bound = false;  ///< UdpPeer::bound
  };
  std::array<KnownWay, 64> passing_ways_;  ///< of passing peers, by their addresses' last bytes
  std::size_t passing_asked_ = 0;          ///< since the last check of the interface
  PortStats stats_;
  std::vector<UdpPath> paths_;
  std::vector<PortPath> port_paths_;
  PeerTable<UdpPeer> peers_;
  std::unique_ptr<UdpTransmitter> transmitter_;
  std::unique_ptr<UdpReceiver> receiver_;
};

/// Receives datagrams into a fixed pool, splits those that the kernel has coalesced (GRO) into
/// packets, and returns what passes ReceiveCheck as views into the pool, valid until the next
/// release() or read. All input is untrusted. One thread at a time.
class UdpReceiver {
 public:
  /// Allocates options.receive_slots slots, each of which takes any datagram, a coalesced one too.
  /// `local`: destination of the packets.
  UdpReceiver(const UdpPortOptions& options, const IpAddress& local, wire::EvFormat ev_format);
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;

  /// Begins a round of up to two receive() calls into the same `rx`: Impairment::release().
  void release(Time now, Impairment* impairment, RxBurst& rx, PortStats& stats) noexcept;

  /// Appends what has arrived at the socket with that port (host byte order), up to rx.room(). What
  /// does not fit is returned by the next call, which reads no further datagrams then. True if
  /// there was anything to return, now or by the next call.
  bool receive(const Socket& socket, std::uint16_t to_port, Time now, Impairment* impairment,
               RxBurst& rx, PortStats& stats) noexcept;

  /// True if the last read took as many datagrams as it asked for: more may wait in the socket.
  [[nodiscard]] bool backlogged() const noexcept { return backlogged_; }
  /// True if packets that have been read wait for room.
  [[nodiscard]] bool leftover() const noexcept { return next_ < count_; }

  ReceiveCheck check;  ///< what packets pass

 private:
  static constexpr std::size_t kSlotBytes = 65536;

  struct Slot {
    SocketAddress from;
    iovec vector{};
    alignas(cmsghdr) std::array<std::uint8_t, 128> control{};
  };

  /// A datagram that is being split: the facts that all its packets share.
  struct Datagram {
    RawPacket packet;         ///< `bytes`: the rest of the datagram
    std::size_t segment = 0;  ///< bytes of each packet; the last may be shorter
  };

  struct Sink;

  void prepare(std::size_t i) noexcept;
  [[nodiscard]] bool read(const Socket& socket, Time now, std::size_t room,
                          PortStats& stats) noexcept;
  /// Splits what was read into packets, until the sink is full or all is done.
  void split(Time now, Impairment* impairment, Sink& sink) noexcept;
  /// Reads address and control data of the datagram at next_.
  void open(PortStats& stats) noexcept;
  /// Copies the sender's address; false if it is not of the socket's family.
  [[nodiscard]] bool sender(const Slot& slot) noexcept;
  /// Reads ToS, flow label and segment size from the control data.
  void controls(msghdr& m, std::uint8_t& tos, std::uint32_t& flow_label) noexcept;

  const Plane plane_;
  const wire::EvFormat ev_format_;
  const wire::DscpMap dscp_;
  const bool v4_;
  bool backlogged_ = false;
  bool paused_ = false;  ///< until last_read_ nobody had read for a while; a round may read twice
  bool one_by_one_ = false;  ///< the last read that brought anything brought one packet
  bool opened_ = false;      ///< datagram_ describes the message at next_
  std::unique_ptr<std::uint8_t[]> pool_;
  std::vector<Slot> slots_;
  std::vector<mmsghdr> messages_;
  std::uint16_t to_port_ = 0;  ///< of the messages
  Time last_read_{};           ///< when they were read
  std::size_t next_ = 0;       ///< message that is being split
  std::size_t count_ = 0;      ///< messages read
  std::size_t packets_ = 0;    ///< packets in them, so far
  std::size_t expected_ = 1;   ///< packets per datagram in the previous call, rounded up
  Datagram datagram_;
};

/// An entry of the port's address table.
struct UdpPeer {
  SocketAddress address;    ///< length 0: empty entry
  wire::IcrcPrefix prefix;  ///< from this port to the peer
  bool segmented = true;    ///< GSO may be used
  bool heads = false;       ///< UdpRoute::heads
  bool bound = false;       ///< packets leave from UdpPath::bound, if that is open
  bool reached = true;      ///< there is a route to it by an interface that is up, as far as known
  bool passing = false;     ///< UdpRoute::passing
  std::uint32_t mtu = 0;    ///< bytes; of the links that lead to it, if they are not the plane's
};

/// Sends the packets of one group, which share peer and path. Consecutive packets of one size
/// become one GSO message, and one system call sends several messages. Only small packets are
/// copied. Large: belongs on the heap. One thread at a time.
class UdpTransmitter {
 public:
  static constexpr std::uint32_t kMaxSegments = 64;    ///< per message (kernels before 6.9)
  static constexpr std::uint32_t kMaxMessage = 65507;  ///< bytes of one message, by UDP over IPv4

  /// What became of a group.
  struct Outcome {
    std::uint32_t taken = 0;   ///< packets sent, or dropped because they can never be sent
    bool unreachable = false;  ///< the kernel has no route, or the network is down
    bool too_long = false;     ///< packets exceeded the MTU of the interface, and were dropped
  };

  /// `usual_tos`: ToS that the paths' sockets send with. `max_packet`: bytes of the largest packet,
  /// BTH .. iCRC.
  UdpTransmitter(bool v4, bool gso, bool icrc, std::uint8_t usual_tos,
                 std::uint32_t max_packet) noexcept;
  UdpTransmitter(const UdpTransmitter&) = delete;
  UdpTransmitter& operator=(const UdpTransmitter&) = delete;

  /// Sets the constructor's `max_packet` anew.
  void set_max_packet(std::uint32_t max_packet) noexcept { max_packet_ = max_packet; }

  /// Becomes false when the kernel or the device turns out not to support GSO.
  [[nodiscard]] bool gso() const noexcept { return gso_; }

  /// Sends `packets` of `burst` to `peer` on `path`, as many as the socket takes. `joined`: by GSO,
  /// if that works.
  Outcome send(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets, bool joined,
               UdpPeer& peer, const UdpPath& path, PortStats& stats) noexcept;

 private:
  static constexpr std::size_t kMessages = 16;
  static constexpr std::size_t kPackets = 256;
  static constexpr std::size_t kVectors = 2048;
  /// Up to this size a packet is copied to one place: three pieces take the kernel longer.
  static constexpr std::uint32_t kSmall = 256;
  /// Control data of a message: ToS, and the segment size for GSO.
  static constexpr std::size_t kTosSpace = CMSG_SPACE(sizeof(int));
  static constexpr std::size_t kSegmentSpace = CMSG_SPACE(sizeof(std::uint16_t));

  enum class Verdict : std::uint8_t { retry, busy, unreachable, too_long, refused };

  /// The packets of one message.
  struct Run {
    std::uint32_t packets = 0;
    std::uint32_t bytes = 0;
    std::uint32_t segment = 0;  ///< bytes of each packet; the last may be shorter
    std::uint8_t tos = 0;
    bool closed = false;  ///< a shorter packet was last
  };
  struct alignas(cmsghdr) Control {
    std::array<std::uint8_t, kTosSpace + kSegmentSpace> bytes;
  };
  /// Pad and iCRC of one packet.
  using Trailer = std::array<std::uint8_t, 8>;

  /// Writes the constant parts of the control data of message i.
  void prepare(std::size_t i) noexcept;
  /// Lays out messages for as many of `packets` as there is room for. used_ is 0 if the first one
  /// exceeds a limit.
  void build(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets, bool joined,
             UdpPeer& peer, const UdpPath& path) noexcept;
  /// True if the packet can be a further segment of the last message.
  [[nodiscard]] bool joins(const wire::TxPacket& p, std::size_t vectors) const noexcept;
  /// Starts a message; false: no room.
  [[nodiscard]] bool open(const wire::TxPacket& p, const UdpPeer& peer,
                          const UdpPath& path) noexcept;
  void append(const wire::TxPacket& p, std::span<const wire::TxSge> sges, UdpPeer& peer,
              const UdpPath& path) noexcept;
  void push(const std::uint8_t* data, std::size_t length) noexcept {
    // The kernel only reads; the system call's structure has no const.
    vectors_[vectors_used_++] = {const_cast<std::uint8_t*>(data), length};
  }
  /// Copies a part of a small packet.
  void put(Bytes part) noexcept {
    std::copy(part.begin(), part.end(), copies_.begin() + static_cast<std::ptrdiff_t>(copied_));
    copied_ += part.size();
  }
  /// Completes the control data of message i. Every message that has not the socket's ToS carries
  /// its own: that costs some 50 ns, a setsockopt() at every change of class four times as much.
  void close(std::size_t i) noexcept;
  /// Returns how many messages the kernel took; if not all, errno is the error of the next one.
  [[nodiscard]] std::size_t flush(const Socket& socket, PortStats& stats) noexcept;
  [[nodiscard]] Verdict judge(int error, const Run& run) noexcept;

  bool v4_;
  bool gso_;
  bool icrc_;
  bool gso_proven_ = false;
  std::uint8_t usual_tos_;
  std::uint32_t max_packet_;
  std::size_t used_ = 0;  ///< messages laid out
  std::size_t vectors_used_ = 0;
  std::size_t trailers_used_ = 0;
  std::size_t copied_ = 0;  ///< bytes of copies_
  std::array<Run, kMessages> runs_{};
  std::array<mmsghdr, kMessages> messages_{};
  std::array<SocketAddress, kMessages> addresses_{};
  std::array<Control, kMessages> controls_{};
  std::array<Trailer, kPackets> trailers_{};
  std::array<iovec, kVectors> vectors_{};
  std::array<std::uint8_t, 16 * kSmall> copies_{};
};

/// Attaches a filter to a UDP socket, by which the kernel drops what can't be MRC before any thread
/// is woken: too short for a BTH, another opcode, another transport version. Throws Error.
///
/// Of datagrams that the kernel has joined (GRO) a filter sees only the first: those longer than
/// `largest`, which no packet is, pass, or one forged datagram would take genuine ones along.
void attach_udp_filter(const Socket& socket, std::uint32_t largest);

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::detail {

/// Answers endpoint requests of hosts to which no queue pair is connected (mrc-1.0 §5) over UDP
/// ports, within StrangerLimits. Addresses share 64 budgets of one host each by a keyed hash:
/// nobody can choose one that shares with another. One thread at a time.
class UdpResponder {
 public:
  /// `allowed`: who gets answers. `key`: random. `number`: of whom the answer goes to, in the port.
  UdpResponder(AllowedPeers allowed, const SipKey& key, PeerId number, std::uint8_t dscp) noexcept
      : allowed_(std::move(allowed)), key_(key), number_(number), dscp_(dscp) {}

  /// Answers by this port to UDP port `to_port`. False, and nothing sent, if that is not allowed or
  /// there were too many.
  bool answer(Time now, const wire::UnconnectedRequest& request, std::uint16_t to_port,
              port::Port& port) noexcept try {
    if (port::is_unspecified(request.from) || !allowed_.contains(request.from)) return false;
    if (!shares_[siphash(key_, request.from) % shares_.size()].take(now) || !all_.take(now))
      return false;
    const std::span<const port::PortPath> paths = port.paths();
    const port::PortPath& path = paths[value(request.entropy) % paths.size()];
    port::UdpPort::Route route(port::PeerAddress{request.from, to_port});
    route.real_header = true;  // it may be another implementation of MRC
    route.passing = true;
    (void)port.add_peer(number_, port::PeerRoute(route));
    burst_.clear();
    append_answer(burst_, request, number_, {path.ev, request.plane, path.port_path}, dscp_);
    (void)port.transmit(now, burst_, burst_.groups());
    port.remove_peer(number_);
    return true;
  } catch (const std::exception&) {  // out of memory, or no address to send to
    return false;
  }

 private:
  struct Share : TokenBucket {
    Share() noexcept
        : TokenBucket(StrangerLimits::kAnswersPerHost, StrangerLimits::kBurstPerHost) {}
  };

  const AllowedPeers allowed_;
  const SipKey key_;
  const PeerId number_;
  const std::uint8_t dscp_;
  std::array<Share, 64> shares_;
  TokenBucket all_{StrangerLimits::kAnswers, StrangerLimits::kBurst};
  wire::TxBurst burst_{1, 1};
};

}  // namespace mrc::inline v0_1::detail
