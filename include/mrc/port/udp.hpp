// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/sock_diag.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "mrc/port/fault.hpp"
#include "mrc/port/path.hpp"
#include "mrc/port/peer_table.hpp"
#include "mrc/port/port.hpp"
#include "mrc/port/socket.hpp"
#include "mrc/port/socket_interface.hpp"
#include "mrc/port/udp_options.hpp"
#include "mrc/port/udp_path.hpp"
#include "mrc/port/udp_receive.hpp"
#include "mrc/port/udp_slot.hpp"
#include "mrc/port/udp_transmit.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/entropy.hpp"

namespace mrc::inline v0_1::port {

/// One plane on plain UDP sockets, without privilege: a receiving socket at (address, base port +
/// slot), where all paths of all peers arrive, and one sending socket per path with a source port
/// (on IPv6 a flow label, too) of its own, by which ECMP fabrics tell the paths apart.
///
/// What sockets can't do: on IPv4 the identification field is invisible, so the iCRC covers a
/// canonical header with identification 0 and DF set. Linux sends single datagrams so; the later
/// segments of a GSO burst count it up, so toward NICs that check the real header on IPv4, switch
/// GSO off. On IPv6 the iCRC is exact. A trimmed packet that keeps its UDP length, as trimming
/// switches leave it (mrc-1.0 §1.12), is dropped by the kernel and so is a plain loss here; one
/// whose UDP length was adjusted is recognised by its DSCP.
///
/// Set-up calls (constructor, add_peer(), faults) throw mrc::Error and may allocate; transmit() and
/// receive() do neither. One thread at a time. Movable; a moved-from port can only be destroyed.
class UdpPort {
 public:
  /// How often the interface's state is looked at: when up, and when down.
  static constexpr Duration kLinkCheckUp = std::chrono::milliseconds{100};
  static constexpr Duration kLinkCheckDown = std::chrono::milliseconds{10};

  /// `receive_socket`: this plane's socket of a SlotClaim for options.slot; without it, the port
  /// binds its own and throws if that is in use.
  explicit UdpPort(UdpPortOptions options, Socket receive_socket = {})
      : options_(std::move(options)),
        local_((options_.check(), resolve(options_.local))),
        socket_(std::move(receive_socket)),
        faults_(options_.fault_seed, options_.fault_slots) {
    faults_.set(options_.faults);
    open_receiving();
    open_sending();
  }

  /// Port concept: sends the packets of `groups`, each on one path to one peer, and returns how
  /// many it took. Fewer than all: a socket is full (try again soon) or the link is down. Packets
  /// that can't be sent at all (too long, no such peer or path, no route, refused by a firewall)
  /// count as taken and in PortStats::tx_errors: to the protocol they are lost.
  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept {
    check_link(now);
    std::uint32_t taken = 0;
    for (const wire::TxGroup& group : groups) {
      const std::uint32_t n = transmit(burst, group);
      taken += n;
      if (n < group.count) break;
    }
    return taken;
  }

  /// Port concept: appends what has arrived, up to rx.room(). Views are valid until the next call.
  void receive(Time now, RxBurst& rx) noexcept {
    check_link(now);
    receiver_->receive(socket_, now, faults_, rx, stats_);
  }

  /// Port concept: where a peer is reached in this plane. Returns the tag of its packets. Throws
  /// Error if it is of the other address family.
  std::uint64_t add_peer(PeerId id, const PeerAddress& address) {
    if (is_v4(address.ip) != is_v4(local_.ip))
      throw Error(Errc::unreachable, "peer " + format_address(address) + " and local address " +
                                         format_ip(local_.ip) + " are of different IP versions");
    if (is_unspecified(address.ip) || address.udp_port == 0)
      throw Error(Errc::invalid_argument,
                  "peer " + format_address(address) + " needs an address and a UDP port");
    UdpPeer& peer = peers_.claim(id);
    peer.address = SocketAddress(address.ip, address.udp_port, interface_.index);
    peer.prefix = wire::IcrcPrefix::make(local_.ip, address.ip, address.udp_port);
    return source_tag(address.ip);
  }

  /// Port concept: empties the entry; unknown peers are ignored.
  void remove_peer(PeerId id) noexcept { peers_.remove(id); }

  /// Port concept: false while a `down` fault is set, or the interface is administratively down or
  /// without a carrier. The interface is looked at in transmit() and receive(), now and then and
  /// whenever the kernel says that the network is down.
  [[nodiscard]] bool link_up() const noexcept { return interface_up_ && !faults_.down(); }

  /// Port concept: the receiving socket. Not watched by an epoll instance of the port's own: while
  /// there is one, each packet that arrives costs its sender some 400 ns more (measured on
  /// loopback), whether anybody waits or not.
  [[nodiscard]] int poll_fd() const noexcept { return socket_.fd(); }
  /// Port concept: none, the link is looked at now and then.
  [[nodiscard]] int link_fd() const noexcept { return -1; }
  /// Port concept.
  [[nodiscard]] Time next_release() const noexcept {
    return receiver_->leftover() ? Time::min() : faults_.next_release();
  }

  /// Port concept. `segmentation` and `max_burst` shrink if a device refuses GSO later on.
  /// `receive_buffer` is safe for packets of 1 KiB payload and more on loopback, see kBufferShare.
  [[nodiscard]] const Capabilities& capabilities() const noexcept { return capabilities_; }

  /// Port concept. rx_calls counts calls that brought something. Costs a system call.
  [[nodiscard]] PortStats stats() const noexcept {
    PortStats stats = stats_;
    stats.rx_overrun = kernel_drops();
    return stats;
  }

  /// The port's own paths. What was asked for may not be what is there: see notes().
  [[nodiscard]] std::span<const PortPath> paths() const noexcept { return port_paths_; }
  /// How EVs travel: what both ends of a connection should agree on.
  [[nodiscard]] wire::EvFormat ev_format() const noexcept { return ev_format_; }
  /// What peers are told to send to: local address and receiving UDP port.
  [[nodiscard]] PeerAddress address() const noexcept { return {local_.ip, udp_port_}; }
  /// The interface behind the address, or "".
  [[nodiscard]] const std::string& interface_name() const noexcept { return interface_.name; }
  /// One line for each capability that is missing and was wanted, to be logged once.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

  /// Fault injection (design: part of the product): of the whole port, of received packets by
  /// their entropy, and of sent packets by path. See FaultInjector.
  void set_fault(const FaultSpec& spec) { faults_.set(spec); }
  void set_inbound_fault(Ev ev, const FaultSpec& spec) { faults_.set_inbound(ev, spec); }
  void set_path_fault(std::uint16_t port_path, const FaultSpec& spec) {
    faults_.set_outbound(port_path, spec);
  }
  void clear_faults() { faults_.clear(); }
  [[nodiscard]] const FaultStats& fault_stats() const noexcept { return faults_.stats(); }

  /// Part of the kernel's receive buffer that is promised as capabilities().receive_buffer: 1/4.
  /// The kernel charges whole allocations: measured on loopback (Linux 6.18) 2.0 to 2.6 bytes per
  /// byte of a single packet of 1 KiB and more, 1.02 to 1.8 in GSO bursts. And while a reader is
  /// at work, up to a quarter of the buffer is given back late. 1/4 leaves room for control
  /// packets, which are charged up to 13-fold.
  static constexpr std::uint64_t kBufferShare = 4;

 private:
  void open_receiving() {
    udp_port_ = static_cast<std::uint16_t>(options_.base_port + options_.slot);
    if (!socket_.open()) socket_ = detail::open_receive_socket(local_, udp_port_);
    if (!socket_.open())
      detail::throw_in_use("UDP port " + format_address({local_.ip, udp_port_}) +
                           " is in use by another socket");
    if (bound_port(socket_) != udp_port_)
      throw Error(Errc::invalid_argument, "the receive socket given is not bound to " +
                                              format_address({local_.ip, udp_port_}));
    interface_ = find_interface(socket_, local_);
    interface_up_ = interface_running(socket_, interface_.name);
    const bool gro = enable(options_.gro, UDP_GRO, 1, "UDP_GRO");
    const std::uint64_t buffer =
        set_buffer(socket_, SO_RCVBUF, SO_RCVBUFFORCE, options_.receive_buffer);
    const std::uint32_t headers = (is_v4(local_.ip) ? 20u : 40u) + 8u;
    capabilities_.max_packet =
        std::min(std::max(interface_.mtu, 576u) - headers, UdpTransmitter::kMaxMessage);
    capabilities_.receive_buffer = buffer / kBufferShare;
    capabilities_.coalescing = gro;
    capabilities_.exact_icrc = !is_v4(local_.ip);
    capabilities_.outer_headers = true;
    first_drops_ = static_cast<std::uint32_t>(kernel_drops());
  }

  void open_sending() {
    paths_ = open_paths(options_, local_, interface_.index, notes_);
    const bool labels = std::any_of(paths_.begin(), paths_.end(),
                                    [](const UdpPath& path) { return path.flow_label != 0; });
    ev_format_ = options_.ev_format.value_or(labels ? wire::EvFormat::stev : wire::EvFormat::udp);
    for (std::size_t i = 0; i < paths_.size(); ++i)
      port_paths_.push_back(
          {wire::from_wire({paths_[i].source_port, paths_[i].flow_label}, ev_format_),
           static_cast<std::uint16_t>(i)});
    const bool gso = enable(options_.gso, UDP_SEGMENT, 0, "UDP_SEGMENT");
    transmitter_ = std::make_unique<UdpTransmitter>(is_v4(local_.ip), gso, options_.icrc,
                                                    capabilities_.max_packet);
    note_gso();
    UdpReceiverOptions receiver;
    receiver.local = local_.ip;
    receiver.udp_port = udp_port_;
    receiver.plane = options_.plane;
    receiver.ev_format = ev_format_;
    receiver.dscp = options_.dscp;
    receiver.icrc = options_.icrc;
    receiver.slots = options_.receive_slots;
    receiver_ = std::make_unique<UdpReceiver>(receiver);
  }

  /// Probes and sets an option of the receiving socket according to an Offload setting.
  [[nodiscard]] bool enable(Offload wanted, int name, int value, const char* what) {
    if (wanted == Offload::off) return false;
    if (try_option(socket_, SOL_UDP, name, value)) return true;
    if (wanted == Offload::on) throw_errno(std::string("cannot set ") + what);
    notes_.push_back(std::string(what) + " refused (" + std::generic_category().message(errno) +
                     "): one system call per packet");
    return false;
  }

  [[nodiscard]] UdpPeer* find_peer(PeerId id) noexcept {
    UdpPeer* peer = peers_.find(id);
    return peer != nullptr && peer->address.length != 0 ? peer : nullptr;
  }

  [[nodiscard]] std::uint32_t transmit(const wire::TxBurst& burst,
                                       const wire::TxGroup& group) noexcept {
    if (!link_up()) return refuse(group.count);
    const auto packets = burst.packets(group);
    const std::size_t path = packets.front().port_path;
    UdpPeer* peer = find_peer(packets.front().peer);
    if (peer == nullptr || path >= paths_.size()) {
      stats_.tx_errors += group.count;
      return group.count;
    }
    return faults_.active() ? send_faulty(burst, packets, *peer, paths_[path])
                            : send(burst, packets, *peer, paths_[path]);
  }

  [[nodiscard]] std::uint32_t refuse(std::uint32_t count) noexcept {
    if (faults_.down()) faults_.count_refused(count);
    stats_.tx_errors += count;
    return 0;
  }

  [[nodiscard]] std::uint32_t send(const wire::TxBurst& burst,
                                   std::span<const wire::TxPacket> packets, UdpPeer& peer,
                                   const UdpPath& path) noexcept {
    const auto outcome = transmitter_->send(burst, packets, peer, path, stats_);
    if (capabilities_.segmentation != transmitter_->gso()) [[unlikely]]
      note_gso();
    if (!outcome.unreachable) return outcome.taken;
    const auto rest = static_cast<std::uint32_t>(packets.size()) - outcome.taken;
    look_at_link();
    if (!interface_up_) {
      next_link_check_ = Time::min();  // from now on at the shorter interval
      return outcome.taken + refuse(rest);
    }
    stats_.tx_errors += rest;  // the link is fine, this peer has no route: its packets are lost
    return outcome.taken + rest;
  }

  /// Sends what the faults let through, in order.
  [[nodiscard]] std::uint32_t send_faulty(const wire::TxBurst& burst,
                                          std::span<const wire::TxPacket> packets, UdpPeer& peer,
                                          const UdpPath& path) noexcept {
    const auto index = static_cast<std::uint16_t>(&path - paths_.data());
    std::size_t first = 0;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (!faults_.vanishes(index)) continue;
      const auto sent = send(burst, packets.subspan(first, i - first), peer, path);
      if (sent < i - first) return static_cast<std::uint32_t>(first + sent);
      ++stats_.tx_packets;  // nobody may notice
      stats_.tx_bytes += packets[i].transport_length();
      first = i + 1;
    }
    return static_cast<std::uint32_t>(first) + send(burst, packets.subspan(first), peer, path);
  }

  void check_link(Time now) noexcept {
    if (now < next_link_check_) return;
    look_at_link();
    next_link_check_ = now + (interface_up_ ? kLinkCheckUp : kLinkCheckDown);
  }
  void look_at_link() noexcept { interface_up_ = interface_running(socket_, interface_.name); }

  void note_gso() noexcept {
    capabilities_.segmentation = transmitter_->gso();
    capabilities_.max_burst = transmitter_->gso() ? UdpTransmitter::kMaxSegments : 1;
  }

  /// Datagrams that the kernel dropped at the receiving socket since it was opened.
  [[nodiscard]] std::uint64_t kernel_drops() const noexcept {
    std::uint32_t memory[SK_MEMINFO_VARS] = {};
    socklen_t size = sizeof memory;
    if (getsockopt(socket_.fd(), SOL_SOCKET, SO_MEMINFO, memory, &size) != 0) return 0;
    return memory[SK_MEMINFO_DROPS] - first_drops_;
  }

  UdpPortOptions options_;
  LocalAddress local_;
  Socket socket_;
  std::uint16_t udp_port_ = 0;
  wire::EvFormat ev_format_ = wire::EvFormat::udp;
  bool interface_up_ = true;
  std::uint32_t first_drops_ = 0;
  Time next_link_check_ = Time::min();
  Interface interface_;
  FaultInjector faults_;
  PortStats stats_;
  Capabilities capabilities_;
  std::vector<UdpPath> paths_;
  std::vector<PortPath> port_paths_;
  PeerTable<UdpPeer> peers_;
  std::vector<std::string> notes_;
  std::unique_ptr<UdpTransmitter> transmitter_;
  std::unique_ptr<UdpReceiver> receiver_;
};

static_assert(Port<UdpPort>);

}  // namespace mrc::inline v0_1::port
