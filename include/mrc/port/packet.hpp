// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/if_packet.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "mrc/port/fault.hpp"
#include "mrc/port/netlink.hpp"
#include "mrc/port/packet_filter.hpp"
#include "mrc/port/packet_options.hpp"
#include "mrc/port/packet_receive.hpp"
#include "mrc/port/packet_slot.hpp"
#include "mrc/port/packet_socket.hpp"
#include "mrc/port/packet_transmit.hpp"
#include "mrc/port/peer_table.hpp"
#include "mrc/port/port.hpp"
#include "mrc/port/sendable.hpp"
#include "mrc/port/socket.hpp"

namespace mrc::inline v0_1::port {

/// One plane as MRC is meant to run: whole frames with every header our own, IPv6 inside IPv6 whose
/// outer destination address is a stack of uSIDs (mrc-1.0 §1.1, §4), or plain IPv6 with structured
/// EVs (§3.1). It sees the outer header of what arrives, so ECN marks and trimmed packets with
/// their full UDP length reach the engine as the switches made them.
///
/// Needs CAP_NET_RAW for its packet sockets, and nothing else. Where the frames go next is taken
/// from the kernel's routes and neighbours, unless PacketPortOptions::next_hop says it. The link's
/// state comes by netlink; an interface that was removed and made again is found again.
///
/// Set-up calls (constructor, add_peer(), faults) throw mrc::Error and may allocate; transmit() and
/// receive() do neither. One thread at a time. Movable; a moved-from port can only be destroyed.
class PacketPort {
 public:
  /// How often a port that is in use looks whether netlink has news.
  static constexpr Duration kLinkCheck = std::chrono::milliseconds{1};
  /// What an interface that is not there is taken to carry.
  static constexpr std::uint32_t kAbsentMtu = 65'535;
  /// How long add_peer() waits for the next hop to answer.
  static constexpr Duration kResolveTime = std::chrono::milliseconds{20};

  /// Throws Error: no CAP_NET_RAW, no such interface (unless that may be absent).
  explicit PacketPort(PacketPortOptions options)
      : options_((options.check(), std::move(options))),
        receive_(detail::open_packet_socket()),
        send_(detail::open_packet_socket()),
        faults_(options_.fault_seed, options_.fault_slots) {
    faults_.set(options_.faults);
    SlotFilter(options_.slot, options_.udp_port).attach(receive_);
    (void)try_option(receive_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    set_buffer(send_, SO_SNDBUF, SO_SNDBUFFORCE, options_.send_buffer);
    const std::uint64_t buffer =
        set_buffer(receive_, SO_RCVBUF, SO_RCVBUFFORCE, options_.receive_buffer);
    if (!attach_interface() && !options_.may_be_absent)
      throw Error(Errc::not_found, "there is no interface " + options_.interface + " for plane " +
                                       std::to_string(options_.plane) +
                                       "; `ip link` lists those that there are");
    note_surroundings();
    if (options_.encapsulation == wire::Encapsulation::none)
      silence_ = detail::silence_udp(options_.local, options_.udp_port, notes_);
    capabilities_.receive_buffer = buffer / kBufferShare;
    capabilities_.exact_icrc = capabilities_.outer_headers = true;
    capabilities_.max_burst = 1;
    transmitter_ = std::make_unique<PacketTransmitter>(options_.ev_format, options_.icrc);
    PacketReceiverOptions receiver;
    receiver.local = options_.local;
    receiver.plane = options_.plane;
    receiver.ev_format = options_.ev_format;
    receiver.parse.dscp = options_.dscp;
    receiver.parse.udp_ports[0] = options_.udp_port;
    receiver.icrc = options_.icrc;
    receiver.slots = options_.receive_slots;
    receiver_ = std::make_unique<PacketReceiver>(receiver);
  }

  /// Port concept: one frame per packet, up to PacketTransmitter::kBatch with one system call.
  /// Fewer taken than given: the socket or the device is full (try again soon), or the link is
  /// down. Packets that can't be sent at all (too long, no such peer or path, no next hop) count as
  /// taken and in PortStats::tx_errors: to the protocol they are lost.
  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept {
    check_link(now);
    std::uint32_t total = 0;
    for (const wire::TxGroup& group : groups) total += group.count;
    if (!link_up()) return refuse(total);
    Batch batch{*this};
    for (const wire::TxGroup& group : groups)
      for (const wire::TxPacket& packet : burst.packets(group))
        if (!batch.take(burst, packet)) return batch.give_up(total);
    return batch.flush() ? total : batch.give_up(total);
  }

  /// Port concept: appends what has arrived, up to rx.room(). Views are valid until the next call.
  void receive(Time now, RxBurst& rx) noexcept {
    check_link(now);
    receiver_->receive(receive_, own_, now, faults_, rx, stats_);
  }

  /// A peer that is reached by these outer headers, one for each port_path; an empty list: without
  /// encapsulation. Throws Error if it has no IPv6 address. A missing route or a next hop that does
  /// not answer within `patience` is noted (not without any), and asked for again whenever the
  /// network changes.
  std::uint64_t add_peer(PeerId id, const PeerAddress& address, std::vector<PacketRoute> routes,
                         Duration patience = kResolveTime) {
    if (is_v4(address.ip) || is_unspecified(address.ip))
      throw Error(Errc::unreachable,
                  "peer " + format_address(address) + " has no IPv6 address for packet ports");
    PacketPeer& peer = peers_.claim(id);
    peer.known = true;
    peer.ip = address.ip;
    peer.routes = std::move(routes);
    peer.envelope.source = peer.envelope.outer_source = options_.local;
    peer.envelope.destination = address.ip;
    peer.envelope.destination_port = address.udp_port;
    peer.prefix = wire::IcrcPrefix::make(options_.local, address.ip, address.udp_port);
    find_next_hop(peer, patience);
    return source_tag(address.ip);
  }
  /// Port concept: a peer without encapsulation.
  std::uint64_t add_peer(PeerId id, const PeerAddress& address) {
    return add_peer(id, address, {});
  }
  /// Port concept: empties the entry; unknown peers are ignored.
  void remove_peer(PeerId id) noexcept { peers_.remove(id); }

  /// Port concept: false while a `down` fault is set, or the interface is gone, administratively
  /// down or without a carrier.
  [[nodiscard]] bool link_up() const noexcept { return interface_up_ && !faults_.down(); }
  [[nodiscard]] int poll_fd() const noexcept { return receive_.fd(); }
  [[nodiscard]] int link_fd() const noexcept { return monitor_.fd(); }
  [[nodiscard]] Time next_release() const noexcept {
    return receiver_->leftover() ? Time::min() : faults_.next_release();
  }
  /// Port concept. max_burst is 1: each packet takes a path of its own, since none saves anything
  /// here by following another.
  [[nodiscard]] const Capabilities& capabilities() const noexcept { return capabilities_; }
  /// Port concept. Costs a system call.
  [[nodiscard]] PortStats stats() const noexcept {
    PortStats stats = stats_;
    stats.rx_overrun = overrun();
    return stats;
  }

  [[nodiscard]] std::span<const PortPath> paths() const noexcept { return options_.paths; }
  /// What peers are told to send to.
  [[nodiscard]] PeerAddress address() const noexcept { return {options_.local, options_.udp_port}; }
  /// One line for each thing that is missing and was wanted, to be logged once.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

  /// Fault injection, as UdpPort has it.
  void set_fault(const FaultSpec& spec) { faults_.set(spec); }
  void set_path_fault(std::uint16_t port_path, const FaultSpec& spec) {
    faults_.set_outbound(port_path, spec);
  }
  void clear_faults() { faults_.clear(); }
  [[nodiscard]] const FaultStats& fault_stats() const noexcept { return faults_.stats(); }

  /// Part of the kernel's receive buffer that is promised to peers, see UdpPort::kBufferShare.
  static constexpr std::uint64_t kBufferShare = 4;

 private:
  /// Neighbours of a busy network change often; each look costs some 20 us per peer.
  static constexpr Duration kRefreshInterval = std::chrono::milliseconds{20};
  /// How often it looks whether a neighbour that had grown old is in use.
  static constexpr Duration kCheckInterval = std::chrono::seconds{1};

  /// Packets on their way into the transmitter, and out of it when it is full.
  struct Batch {
    PacketPort& port;
    std::uint32_t before = 0;   ///< packets that are done with: sent, lost, or given up
    std::uint32_t waiting = 0;  ///< packets in the transmitter

    /// False: the port takes no more.
    [[nodiscard]] bool take(const wire::TxBurst& burst, const wire::TxPacket& packet) noexcept {
      PacketTransmitter& out = *port.transmitter_;
      if (out.full(packet) && !flush()) return false;
      PacketPeer* peer = port.find_peer(packet);
      if (peer == nullptr || !sendable(packet, port.capabilities_.max_packet)) {
        if (!flush()) return false;  // so that the count stays one from the front
        ++port.stats_.tx_errors;
        ++before;
        return true;
      }
      if (port.faults_.active() && port.faults_.vanishes(packet.port_path)) [[unlikely]] {
        if (!flush()) return false;
        ++port.stats_.tx_packets;  // nobody may notice
        port.stats_.tx_bytes += packet.transport_length();
        ++before;
        return true;
      }
      const PacketRoute* route = peer->routes.empty() ? nullptr : &peer->routes[packet.port_path];
      peer->used = true;
      out.add(burst, packet, *peer, route, port.own_);
      ++waiting;
      return true;
    }
    [[nodiscard]] bool flush() noexcept {
      const auto sent =
          static_cast<std::uint32_t>(port.transmitter_->flush(port.send_, port.stats_));
      before += sent;
      return sent == std::exchange(waiting, 0);
    }
    /// What was not taken, after a flush() that failed with errno.
    [[nodiscard]] std::uint32_t give_up(std::uint32_t total) noexcept {
      const std::uint32_t rest = total - before;
      if (errno == ENXIO || errno == ENODEV) port.index_ = 0;  // to be bound again
      if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) {
        port.stats_.tx_busy += rest;
        return before;
      }
      port.attach_interface();
      if (!port.interface_up_) {
        port.stats_.tx_errors += rest;
        return before;
      }
      // The link is fine, so the frame is not: it is lost, the rest may follow.
      ++port.stats_.tx_errors;
      return before + 1;
    }
  };

  [[nodiscard]] PacketPeer* find_peer(const wire::TxPacket& packet) noexcept {
    PacketPeer* peer = peers_.find(packet.peer);
    if (peer == nullptr || !peer->resolved) return nullptr;
    return peer->routes.empty() || packet.port_path < peer->routes.size() ? peer : nullptr;
  }
  [[nodiscard]] std::uint32_t refuse(std::uint32_t count) noexcept {
    if (faults_.down()) faults_.count_refused(count);
    stats_.tx_errors += count;
    return 0;
  }

  // --- interface and neighbours

  /// What does not keep the port from opening, but an operator should know.
  void note_surroundings() {
    if (index_ == 0) {
      notes_.push_back("there is no interface " + options_.interface +
                       ": this plane is down until "
                       "there is one");
      return;
    }
    const std::uint32_t mtu = capabilities_.max_packet + headers();
    if (options_.mtu > mtu)
      notes_.push_back("interface " + options_.interface + " has an MTU of " + std::to_string(mtu) +
                       ", the fabric one of " + std::to_string(options_.mtu) +
                       ": the smaller counts");
    if (options_.encapsulation != wire::Encapsulation::none &&
        detail::forwards_ipv6(options_.interface))
      notes_.push_back(
          "this host forwards IPv6: its kernel sends packets with its uSIDs back into "
          "the fabric, again and again; `sysctl -w net.ipv6.conf." +
          options_.interface + ".forwarding=0` stops that");
  }

  /// Binds to the interface of that name as it is now; false if there is none, or none to bind to.
  bool attach_interface() noexcept {
    const auto now = detail::look_up_interface(receive_, options_.interface);
    interface_up_ = now.index != 0 && now.up;
    own_ = now.mac;
    const std::uint32_t largest = now.index != 0 ? now.mtu : kAbsentMtu;
    const std::uint32_t mtu = options_.mtu == 0 ? largest : std::min(largest, options_.mtu);
    capabilities_.max_packet = mtu - std::min(mtu, headers());
    if (now.index == index_) return now.index != 0;
    const bool bound = now.index != 0 &&
                       detail::bind_packet_socket(receive_, now.index, ETH_P_IPV6) &&
                       detail::bind_packet_socket(send_, now.index, 0);
    index_ = bound ? now.index : 0;
    interface_up_ = interface_up_ && bound;
    return bound;
  }
  /// Bytes of an IP packet before BTH, at most.
  [[nodiscard]] std::uint32_t headers() const noexcept {
    wire::Envelope e;
    e.encapsulation = options_.encapsulation;
    return static_cast<std::uint32_t>(e.size());
  }

  void check_link(Time now) noexcept {
    if (now < next_link_check_) return;
    next_link_check_ = now + kLinkCheck;
    const NetlinkMonitor::News news = monitor_.read(index_);
    if (news.links) attach_interface();
    refresh_due_ = refresh_due_ || news.links || news.next_hops || (stale_ && now >= next_check_);
    if (!refresh_due_ || !interface_up_ || now < next_refresh_) return;
    refresh_due_ = stale_ = false;
    next_refresh_ = now + kRefreshInterval;
    next_check_ = now + kCheckInterval;
    for (PacketPeer& peer : peers_)
      if (peer.known && !options_.next_hop) (void)refresh_next_hop(peer);
  }

  /// Asks for gateway and Ethernet address as they are now. What was known before stays valid when
  /// the kernel has forgotten it. The kernel does not see what this port sends, so it has to be
  /// told to check on a neighbour that grows old in use. 0, or the errno of the route look-up.
  int refresh_next_hop(PacketPeer& peer) noexcept {
    const auto gateway = find_gateway(index_, target(peer));
    if (!gateway) return errno;
    peer.gateway = *gateway;
    const auto neighbour = find_neighbour(index_, peer.gateway);
    if (neighbour) {
      peer.next_hop = neighbour->mac;
      peer.resolved = true;
      stale_ = stale_ || neighbour->stale;
    }
    if (!neighbour || (neighbour->stale && peer.used))
      solicit_neighbour(index_, peer.gateway);  // its answer is news
    peer.used = false;
    return 0;
  }

  /// The next hop of a new peer. Whoever does not know it yet is told by netlink when the kernel
  /// does; a moment's patience here saves the first packets.
  void find_next_hop(PacketPeer& peer, Duration patience) {
    if (options_.next_hop) {
      peer.next_hop = *options_.next_hop;
      peer.resolved = true;
      return;
    }
    if (!interface_up_) return;  // when the link comes up, it is asked for again
    const int error = refresh_next_hop(peer);
    const bool asked =
        patience > Duration::zero() &&
        std::any_of(peers_.begin(), peers_.end(), [&](const PacketPeer& other) {
          return &other != &peer && other.known && !other.resolved && other.gateway == peer.gateway;
        });
    for (Duration waited{}; error == 0 && !asked && !peer.resolved && waited < patience;
         waited += kLinkCheck) {
      pollfd none{-1, 0, 0};
      (void)::poll(&none, 1, 1);
      (void)refresh_next_hop(peer);
    }
    if (!peer.resolved && !asked && patience > Duration::zero())
      notes_.push_back(lack_of_next_hop(peer, error));
  }
  [[nodiscard]] std::string lack_of_next_hop(const PacketPeer& peer, int error) const {
    const std::string lost = "; packets to " + format_ip(peer.ip) + " are lost until ";
    if (error == 0)
      return "next hop " + format_ip(peer.gateway) + " by interface " + options_.interface +
             " does not answer" + lost + "it does";
    return "no route to " + format_ip(target(peer)) + " by interface " + options_.interface + " (" +
           std::generic_category().message(error) + ")" + lost + "there is one (`ip -6 route add`)";
  }
  /// What the next hop is looked up by.
  [[nodiscard]] static const IpAddress& target(const PacketPeer& peer) noexcept {
    return peer.routes.empty() ? peer.ip : peer.routes.front().destination;
  }

  /// Frames that the kernel dropped because the receive buffer was full. Reading resets the
  /// kernel's count.
  [[nodiscard]] std::uint64_t overrun() const noexcept {
    tpacket_stats counts{};
    socklen_t size = sizeof counts;
    if (getsockopt(receive_.fd(), SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0)
      overrun_ += counts.tp_drops;
    return overrun_;
  }

  PacketPortOptions options_;
  Socket receive_, send_;
  Socket silence_;
  NetlinkMonitor monitor_;
  FaultInjector faults_;
  std::uint32_t index_ = 0;
  MacAddress own_{};
  bool interface_up_ = false;
  Time next_link_check_ = Time::min();
  bool refresh_due_ = false;         ///< the neighbours are to be asked for again ...
  Time next_refresh_ = Time::min();  ///< ... but not before that
  bool stale_ = false;               ///< one was, and may be in use by now: ask again, ...
  Time next_check_ = Time::min();    ///< ... but not before that
  PortStats stats_;
  mutable std::uint64_t overrun_ = 0;
  Capabilities capabilities_;
  PeerTable<PacketPeer> peers_;
  std::vector<std::string> notes_;
  std::unique_ptr<PacketTransmitter> transmitter_;
  std::unique_ptr<PacketReceiver> receiver_;
};

static_assert(Port<PacketPort>);

}  // namespace mrc::inline v0_1::port
