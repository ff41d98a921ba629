// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/plane/udp_port.hpp"

#include <fcntl.h>
#include <linux/in6.h>  // after <netinet/in.h>, which udp_port.hpp brings
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

void UdpPortOptions::check() const {
  constexpr const char* kKind = "UDP port";
  PortOptions::check(kKind);
  if (paths < 1 || paths > 4096) reject(kKind, "paths", paths, "1 to 4096");
  if (!source_ports.empty() && source_ports.size() != paths)
    reject(kKind, "number of source_ports", source_ports.size(), "none or one for each path");
  if (!flow_labels.empty() && flow_labels.size() != paths)
    reject(kKind, "number of flow_labels", flow_labels.size(), "none or one for each path");
  if (base_port < 1 || base_port + slot > 65535)
    reject(kKind, "base_port", base_port, "1 to 65535 with the slot added");
}

namespace detail {

/// Linux lets a process send with an IPv6 flow label only after it has leased the label. The lease
/// is shared (other processes can have the same label), needs no privilege and ends with the
/// socket. False on refusal, with errno set.
[[nodiscard]] bool lease_flow_label(const Socket& socket, const IpAddress& any_unicast,
                                    std::uint16_t label) noexcept {
  in6_flowlabel_req request{};
  request.flr_label = htonl(label);
  request.flr_action = IPV6_FL_A_GET;
  request.flr_share = IPV6_FL_S_ANY;
  request.flr_flags = IPV6_FL_F_CREATE;
  std::memcpy(&request.flr_dst, any_unicast.data(), 16);
  return setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request, sizeof request) == 0 &&
         try_option(socket, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
}

/// The label of a path for which none is configured: spread over 1 .. 65535, the same at every
/// start.
[[nodiscard]] constexpr std::uint16_t default_flow_label(std::uint16_t source_port) noexcept {
  const std::uint32_t mixed = (source_port * 0x9E3779B1u) >> 16;
  return static_cast<std::uint16_t>(mixed == 0 ? 1 : mixed);
}

/// ToS of data that must not be trimmed, which the sockets have. Packets of other classes carry
/// theirs as control data.
[[nodiscard]] std::uint8_t usual_tos(const UdpPortOptions& options) noexcept {
  return wire::make_tos(options.dscp.no_trim, Ecn::ect0);
}

/// Makes the socket of a path, which is yet to be bound to its source port. Throws Error.
[[nodiscard]] Socket make_sender(const UdpPortOptions& options, const LocalAddress& local) {
  Socket socket = make_udp_socket(local);
  // Never fragment, and ignore path MTUs learnt from ICMP: MRC packets are sized by
  // configuration, and the canonical IPv4 header of the iCRC has DF set.
  if (is_v4(local.ip)) {
    set_option(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE, "IP_MTU_DISCOVER");
    set_option(socket, IPPROTO_IP, IP_TOS, usual_tos(options), "IP_TOS");
  } else {
    set_option(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE, "IPV6_MTU_DISCOVER");
    set_option(socket, IPPROTO_IPV6, IPV6_TCLASS, usual_tos(options), "IPV6_TCLASS");
    // No automatic flow labels: they would change the path that a packet takes.
    (void)try_option(socket, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
  }
  set_buffer(socket, SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer);
  // Never read: a minimal buffer bounds the memory that stray packets take.
  (void)try_option(socket, SOL_SOCKET, SO_RCVBUF, 0);
  return socket;
}

/// Opens the sockets of all paths. IPv6 flow labels are all or none: if one is refused, all paths
/// go without, and `notes` gets a line. Throws Error.
[[nodiscard]] std::vector<UdpPath> open_paths(const UdpPortOptions& options,
                                              const LocalAddress& local,
                                              std::uint32_t interface_index,
                                              std::vector<std::string>& notes) {
  std::vector<UdpPath> paths(options.paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::uint16_t wanted = options.source_ports.empty() ? std::uint16_t{0}  //
                                                              : options.source_ports[i];
    paths[i].socket = make_sender(options, local);
    if (!try_bind(paths[i].socket, SocketAddress(local.ip, wanted, interface_index)))
      throw_errno("cannot send from " + format_local(local, wanted));
    paths[i].source_port = bound_port(paths[i].socket);
  }
  const bool labels = !is_v4(local.ip) && options.ev_format != wire::EvFormat::udp;
  for (std::size_t i = 0; labels && i < paths.size(); ++i) {
    UdpPath& path = paths[i];
    const std::uint16_t label =
        options.flow_labels.empty() ? default_flow_label(path.source_port) : options.flow_labels[i];
    if (label == 0 || lease_flow_label(path.socket, local.ip, label)) {
      path.flow_label = label;
      continue;
    }
    notes.push_back("IPv6 flow label " + std::to_string(label) + " refused (" +
                    std::generic_category().message(errno) +
                    "): paths differ by UDP source port only");
    for (UdpPath& each : paths) each.flow_label = 0;
    break;
  }
  return paths;
}

}  // namespace detail

UdpPort::UdpPort(UdpPortOptions options, Socket receive_socket, Socket second_socket)
    : options_(std::move(options)),
      local_((options_.check(), resolve(options_.local))),
      socket_(std::move(receive_socket)),
      second_(std::move(second_socket)) {
  mrc::detail::require({mrc::detail::SystemCall::recvmmsg, mrc::detail::SystemCall::sendmmsg});
  open_receiving();
  open_sending();
}

UdpPort::UdpPort(UdpPort&&) noexcept = default;
UdpPort& UdpPort::operator=(UdpPort&&) noexcept = default;
UdpPort::~UdpPort() = default;

std::uint32_t UdpPort::transmit(Time now, const wire::TxBurst& burst,
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

void UdpPort::receive(Time now, RxBurst& rx) noexcept {
  check_link(now);
  receiver_->release(now, impaired(), rx, stats_);
  // One read in a call: the next one would overwrite what the first has brought.
  const bool second = second_.open() && now >= next_second_ && !receiver_->leftover();
  if (second && std::exchange(second_first_, !second_first_)) {
    if (!receive_second(now, rx))
      receiver_->receive(socket_, udp_port_, now, impaired(), rx, stats_);
  } else if (!receiver_->receive(socket_, udp_port_, now, impaired(), rx, stats_) && second) {
    (void)receive_second(now, rx);
  }
}

bool UdpPort::receive_second(Time now, RxBurst& rx) noexcept {
  const bool any =
      receiver_->receive(second_, wire::kUdpPortAlternative, now, impaired(), rx, stats_);
  if (any) second_quiet_ = now + kSecondStay;
  next_second_ = now < second_quiet_ ? now : now + kSecondPause;
  return any;
}

std::uint64_t UdpPort::add_peer(PeerId id, const UdpRoute& route) {
  const PeerAddress& address = route.address;
  if (is_v4(address.ip) != is_v4(local_.ip))
    throw Error(Errc::unreachable, "peer " + format_address(address) + " and local address " +
                                       format_local(local_) + " are of different IP versions");
  if (is_unspecified(address.ip) || address.udp_port == 0)
    throw Error(Errc::invalid_argument,
                "peer " + format_address(address) + " needs an address and a UDP port");
  forget_heads(id);
  UdpPeer& peer = peers_.claim(id);
  if (route.heads) receiver_->check.take_heads(address.ip);
  peer.heads = route.heads;
  peer.address = SocketAddress(address.ip, address.udp_port, interface_.index);
  peer.prefix = wire::IcrcPrefix::make(local_.ip, address.ip, address.udp_port);
  peer.segmented = !(route.real_header && is_v4(local_.ip) && options_.icrc);
  peer.passing = route.passing;
  if (peer.passing)
    recall_way(peer);
  else
    ask_way(peer);
  return source_tag(address.ip);
}

Time UdpPort::next_release() const noexcept {
  return receiver_->leftover() ? Time::min() : next_impaired();
}

std::uint32_t UdpPort::receive_fill() const noexcept {
  return receiver_->backlogged() ? receive_buffer_fill(socket_) : 0;
}

PortStats UdpPort::stats() const noexcept {
  PortStats stats = stats_;
  stats.rx_overrun = kernel_drops() - first_drops_;
  return stats;
}

void UdpPort::remove_peer(PeerId id) noexcept {
  forget_heads(id);
  peers_.remove(id);
}

void UdpPort::forget_heads(PeerId id) noexcept {
  UdpPeer* peer = peers_.find(id);
  if (peer != nullptr && std::exchange(peer->heads, false))
    receiver_->check.forget_heads(peer->address.peer().ip);
}

void UdpPort::open_receiving() {
  udp_port_ = static_cast<std::uint16_t>(options_.base_port + options_.slot);
  if (!socket_.open()) socket_ = detail::open_receive_socket(local_, udp_port_);
  if (!socket_.open())
    detail::throw_in_use("UDP port " + format_local(local_, udp_port_) +
                         " is in use by another socket");
  if (bound_port(socket_) != udp_port_)
    throw Error(Errc::invalid_argument,
                "the receive socket given is not bound to " + format_local(local_, udp_port_));
  interface_ = find_interface(socket_, local_);
  std::atomic_ref(zone_).store(interface_.index);
  interface_up_ = !on_link() || interface_.running;
  ask_mtu();
  outgoing_mtu_ = routers_mtu_;
  if (!fixed()) monitor_ = NetlinkMonitor::try_open(NetlinkMonitor::Watch::routes);
  const bool gro = enable(options_.gro, UDP_GRO, 1, "UDP_GRO");
  const std::uint64_t buffer =
      set_buffer(socket_, SO_RCVBUF, SO_RCVBUFFORCE, options_.receive_buffer);
  capabilities_.max_packet = room();
  capabilities_.receive_buffer = buffer / kBufferShare;
  capabilities_.coalescing = gro;
  capabilities_.exact_icrc = !is_v4(local_.ip);
  capabilities_.outer_headers = true;
  filter_size_ = on_link() ? capabilities_.max_packet : UdpTransmitter::kMaxMessage;
  attach_udp_filter(socket_, filter_size_);
  if (second_.open()) {
    if (bound_port(second_) != second_port(options_.base_port, options_.slot))
      throw Error(Errc::invalid_argument,
                  "the second receive socket given is not bound to UDP port " +
                      std::to_string(wire::kUdpPortAlternative));
    equip(second_);
  }
  first_drops_ = kernel_drops();
}

void UdpPort::equip(const Socket& socket) const {
  if (capabilities_.coalescing) set_option(socket, SOL_UDP, UDP_GRO, 1, "UDP_GRO");
  (void)set_buffer(socket, SO_RCVBUF, SO_RCVBUFFORCE, options_.receive_buffer);
  attach_udp_filter(socket, filter_size_);
}

void UdpPort::open_sending() {
  paths_ = detail::open_paths(options_, local_, interface_.index, notes_);
  const bool labels = std::any_of(paths_.begin(), paths_.end(),
                                  [](const UdpPath& path) { return path.flow_label != 0; });
  ev_format_ = options_.ev_format.value_or(labels ? wire::EvFormat::stev : wire::EvFormat::udp);
  for (std::size_t i = 0; i < paths_.size(); ++i)
    port_paths_.push_back(
        {wire::from_wire({paths_[i].source_port, paths_[i].flow_label}, ev_format_),
         static_cast<std::uint16_t>(i)});
  const bool gso = enable(options_.gso, UDP_SEGMENT, 0, "UDP_SEGMENT");
  transmitter_ = std::make_unique<UdpTransmitter>(
      is_v4(local_.ip), gso, options_.icrc, detail::usual_tos(options_), capabilities_.max_packet);
  note_gso();
  receiver_ = std::make_unique<UdpReceiver>(options_, local_.ip, ev_format_);
}

bool UdpPort::enable(Offload wanted, int name, int value, const char* what) {
  if (wanted == Offload::off) return false;
  if (try_option(socket_, SOL_UDP, name, value)) return true;
  if (wanted == Offload::on) throw_errno(std::string("cannot set ") + what);
  notes_.push_back(std::string(what) + " refused (" + std::generic_category().message(errno) +
                   "): one system call per packet");
  return false;
}

std::uint32_t UdpPort::transmit(const wire::TxBurst& burst, const wire::TxGroup& group) noexcept {
  if (!link_up()) return refuse(group.count);
  const auto packets = burst.packets(group);
  const std::size_t path = packets.front().port_path;
  UdpPeer* peer = peers_.find(packets.front().peer);
  if (peer == nullptr || peer->address.length == 0 || path >= paths_.size()) {
    stats_.tx_errors += group.count;
    return group.count;
  }
  const bool joined = !singly_ || group.one_piece;
  return impaired() ? send_impaired(burst, packets, joined, *peer, paths_[path])
                    : send(burst, packets, joined, *peer, paths_[path]);
}

std::uint32_t UdpPort::refuse(std::uint32_t count) noexcept {
  count_refused(count);
  stats_.tx_errors += count;
  return 0;
}

std::uint32_t UdpPort::send(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets,
                            bool joined, UdpPeer& peer, const UdpPath& path) noexcept {
  const auto outcome = transmitter_->send(burst, packets, joined, peer, path, stats_);
  if (capabilities_.segmentation != transmitter_->gso()) [[unlikely]]
    note_gso();
  if (outcome.too_long) [[unlikely]] {
    mtu_due_ = !on_link();
    if (!peer.passing) ask_way(peer);
    look_at_link();
  }
  if (!outcome.unreachable) return outcome.taken;
  const auto rest = static_cast<std::uint32_t>(packets.size()) - outcome.taken;
  look_at_link();
  if (!interface_up_) {
    next_link_check_ = Time::min();  // the next check uses the shorter interval
    return outcome.taken + refuse(rest);
  }
  stats_.tx_errors += rest;  // the link is up, but this peer has no route: its packets are lost
  return outcome.taken + rest;
}

std::uint32_t UdpPort::send_impaired(const wire::TxBurst& burst,
                                     std::span<const wire::TxPacket> packets, bool joined,
                                     UdpPeer& peer, const UdpPath& path) noexcept {
  const auto index = static_cast<std::uint16_t>(&path - paths_.data());
  std::size_t first = 0;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    if (!impairment()->vanishes(index)) continue;
    const auto sent = send(burst, packets.subspan(first, i - first), joined, peer, path);
    if (sent < i - first) return static_cast<std::uint32_t>(first + sent);
    ++stats_.tx_packets;  // counted as sent, like a loss in the network
    stats_.tx_bytes += packets[i].transport_length();
    first = i + 1;
  }
  return static_cast<std::uint32_t>(first) +
         send(burst, packets.subspan(first), joined, peer, path);
}

std::string UdpPort::zone() const {
  std::array<char, IF_NAMESIZE> name{};
  if (is_link_local(local_.ip)) (void)if_indextoname(std::atomic_ref(zone_).load(), name.data());
  return name.data();
}

void UdpPort::check_link(Time now) noexcept {
  if (now < next_link_check_) return;
  const Uncancelled checking;
  look_at_link();
  watch_routes();
  if ((interface_gone_ || mtu_due_) && now >= next_search_) {
    next_search_ = now + kSearchInterval;
    if (std::exchange(mtu_due_, false)) ask_mtu();
    if (interface_gone_) search_interface();
  }
  next_link_check_ = now + (interface_up_ ? kLinkCheckUp : kLinkCheckDown);
}

void UdpPort::note_gso() noexcept {
  capabilities_.segmentation = transmitter_->gso();
  capabilities_.max_burst = transmitter_->gso() ? UdpTransmitter::kMaxSegments : 1;
}

std::uint64_t UdpPort::kernel_drops() const noexcept {
  std::uint64_t drops = 0;
  for (const Socket* socket : {&socket_, &second_}) {
    std::uint32_t memory[SK_MEMINFO_VARS] = {};
    socklen_t size = sizeof memory;
    if (socket->open() && getsockopt(socket->fd(), SOL_SOCKET, SO_MEMINFO, memory, &size) == 0)
      drops += memory[SK_MEMINFO_DROPS];
  }
  return drops;
}

void UdpPort::look_at_link() noexcept {
  interface_gone_ = !refresh(socket_, interface_);
  interface_up_ = interface_.running;
  outgoing_mtu_ = on_link() ? interface_.mtu : routers_mtu_;
  if (!on_link()) {
    std::size_t unreached = 0, all = 0;
    for (const UdpPeer& peer : peers_) {
      if (peer.address.length == 0 || peer.passing) continue;
      ++all, unreached += !peer.reached;
      if (peer.mtu != 0) outgoing_mtu_ = std::min(outgoing_mtu_, peer.mtu);
    }
    interface_up_ = interface_up_ && (all == 0 || unreached < all);
  }
  if (capabilities_.max_packet == room()) return;
  capabilities_.max_packet = room();
  transmitter_->set_max_packet(capabilities_.max_packet);
}

void UdpPort::watch_routes() noexcept {
  const auto peers = static_cast<std::size_t>(peers_.end() - peers_.begin());
  const auto news = monitor_ != nullptr ? monitor_->read(0) : NetlinkMonitor::News{};
  passing_asked_ = 0;
  if (news.links || news.next_hops) {
    passing_ways_ = {};
    to_ask_ = peers;
    mtu_due_ = !on_link();
  }
  for (std::size_t asked = 0; to_ask_ > 0 && asked < kAskedPerCheck; --to_ask_) {
    next_asked_ = (next_asked_ + 1) % peers;
    UdpPeer& peer = peers_.begin()[static_cast<std::ptrdiff_t>(next_asked_)];
    if (peer.address.length == 0 || peer.passing) continue;
    ask_way(peer);
    ++asked;
  }
}

void UdpPort::ask_mtu() noexcept try {
  routers_mtu_ = outgoing_mtu(socket_, interface_, local_.ip);
} catch (const std::exception&) {  // memory is short: it stays as it is
}

void UdpPort::ask_way(UdpPeer& peer) noexcept {
  if (fixed()) return;
  const Way way = find_way(interface_, local_.ip, peer.address.peer().ip);
  peer.bound = way.bound && open_bound();
  if (on_link()) return;
  peer.reached = !way.none && way.interfaces[0] == 0;
  peer.mtu = 0;
  for (const std::uint32_t index : way.interfaces) {
    Interface interface;
    interface.index = index;
    if (index == 0 || !refresh(socket_, interface) || !interface.running) continue;
    peer.reached = true;
    peer.mtu = peer.mtu == 0 ? interface.mtu : std::min(peer.mtu, interface.mtu);
  }
}

void UdpPort::recall_way(UdpPeer& peer) noexcept {
  peer.bound = false;
  if (fixed() || !on_link()) return;
  const IpAddress ip = peer.address.peer().ip;
  KnownWay& known = passing_ways_[ip.back() % passing_ways_.size()];
  if (known.ip != ip) {
    if (passing_asked_ == kAskedPerCheck) return;
    ++passing_asked_;
    ask_way(peer);
    known = {ip, peer.bound};
  }
  peer.bound = known.bound;
}

bool UdpPort::open_bound() noexcept {
  if (paths_.front().bound.open()) return true;
  const auto open = [&](UdpPath& path) {
    path.bound = detail::make_sender(options_, local_);
    leave_by(path.bound, is_v4(local_.ip), interface_);
    // Both may have the same address and UDP port, but nobody else may, later.
    const auto share = [&](int on) {
      return try_option(path.socket, SOL_SOCKET, SO_REUSEADDR, on) &&
             try_option(path.bound, SOL_SOCKET, SO_REUSEADDR, on);
    };
    const bool bound = share(1) && try_bind(path.bound, SocketAddress(local_.ip, path.source_port,
                                                                      interface_.index));
    (void)share(0);
    return bound && (path.flow_label == 0 ||
                     detail::lease_flow_label(path.bound, local_.ip, path.flow_label));
  };
  try {
    if (std::all_of(paths_.begin(), paths_.end(), open)) return true;
  } catch (const std::exception&) {  // too many open files, say
  }
  for (UdpPath& path : paths_) path.bound = {};
  return false;
}

void UdpPort::search_interface() noexcept try {
  const Interface found = find_interface(socket_, local_);
  if (found.index == 0) return;
  if (!local_.interface.empty()) tie_to(found);
  for (UdpPath& path : paths_) path.bound = {};
  passing_ways_ = {};
  interface_ = found;
  std::atomic_ref(zone_).store(found.index);
  to_ask_ = static_cast<std::size_t>(peers_.end() - peers_.begin());
  look_at_link();
} catch (const std::exception&) {  // the address is not usable yet, or memory is short: next time
}

void UdpPort::tie_to(const Interface& interface) {
  const LocalAddress local{local_.ip, interface.name};
  UdpPortOptions same = options_;
  same.source_ports.clear();
  same.flow_labels.clear();
  for (const UdpPath& path : paths_) {
    same.source_ports.push_back(path.source_port);
    same.flow_labels.push_back(path.flow_label);
  }
  std::vector<std::string> refused;
  std::vector<UdpPath> paths = detail::open_paths(same, local, interface.index, refused);
  if (!refused.empty()) throw_errno("cannot lease an IPv6 flow label");
  const std::array<Socket*, 2> sockets{&socket_, &second_};
  std::array<Socket, 2> fresh;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if (!sockets[i]->open()) continue;
    const std::uint16_t port = i == 0 ? udp_port_ : wire::kUdpPortAlternative;
    fresh[i] = detail::open_receive_socket(local, port);
    if (!fresh[i].open()) detail::throw_in_use(format_local(local, port) + " is in use");
    equip(fresh[i]);
  }
  const std::uint64_t drops = kernel_drops();
  for (std::size_t i = 0; i < sockets.size(); ++i)  // threads that sleep know their descriptors
    if (fresh[i].open() && ::dup3(fresh[i].fd(), sockets[i]->fd(), O_CLOEXEC) < 0)
      throw_errno("cannot replace a socket");
  first_drops_ += kernel_drops() - drops;
  paths_ = std::move(paths);
  local_.interface = local.interface;
  for (UdpPeer& peer : peers_)
    if (peer.address.length != 0 && !is_v4(local_.ip)) {
      const PeerAddress address = peer.address.peer();
      peer.address = SocketAddress(address.ip, address.udp_port, interface.index);
    }
}

std::uint32_t UdpPort::room() const noexcept {
  const auto headers = static_cast<std::uint32_t>(wire::envelope_size(is_v4(local_.ip)));
  return std::min(std::max(outgoing_mtu_, 576u) - headers, UdpTransmitter::kMaxMessage);
}

namespace detail {

/// After so long without reading there may be many datagrams.
inline constexpr Duration kReadPause = std::chrono::microseconds(100);

template <class T>
[[nodiscard]] inline T read_as(const std::uint8_t* data) noexcept {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace detail

/// Receives the packets that the impairment lets through, for ReceiveCheck.
struct UdpReceiver::Sink final : PacketSink {
  Sink(UdpReceiver& r, RxBurst& burst, PortStats& s) noexcept : receiver(r), rx(burst), stats(s) {}
  UdpReceiver& receiver;
  RxBurst& rx;
  PortStats& stats;
  [[nodiscard]] bool full() const noexcept override { return rx.room() == 0; }
  void deliver(const RawPacket& packet) noexcept override {
    receiver.check.pass(packet, rx, stats);
  }
};

UdpReceiver::UdpReceiver(const UdpPortOptions& options, const IpAddress& local,
                         wire::EvFormat ev_format)
    : check(local, options.icrc),
      plane_(options.plane),
      ev_format_(ev_format),
      dscp_(options.dscp),
      v4_(is_v4(local)),
      pool_(std::make_unique_for_overwrite<std::uint8_t[]>(options.receive_slots * kSlotBytes)),
      slots_(options.receive_slots),
      messages_(options.receive_slots) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].vector = {pool_.get() + i * kSlotBytes, kSlotBytes};
    msghdr& m = messages_[i].msg_hdr;
    m.msg_name = &slots_[i].from.any;
    m.msg_iov = &slots_[i].vector;
    m.msg_iovlen = 1;
    m.msg_control = slots_[i].control.data();
    prepare(i);
  }
}

void UdpReceiver::prepare(std::size_t i) noexcept {
  msghdr& m = messages_[i].msg_hdr;
  m.msg_namelen = sizeof(sockaddr_in6);
  m.msg_controllen = slots_[i].control.size();
  m.msg_flags = 0;
}

void UdpReceiver::release(Time now, Impairment* impairment, RxBurst& rx,
                          PortStats& stats) noexcept {
  if (impairment == nullptr) [[likely]]
    return;
  Sink sink{*this, rx, stats};
  impairment->release(now, sink);
}

bool UdpReceiver::receive(const Socket& socket, std::uint16_t to_port, Time now,
                          Impairment* impairment, RxBurst& rx, PortStats& stats) noexcept {
  Sink sink{*this, rx, stats};
  if (sink.full()) return true;
  if (!leftover()) {
    if (!read(socket, now, rx.room(), stats)) return false;
    to_port_ = to_port;
  }
  split(now, impairment, sink);
  return true;
}

bool UdpReceiver::read(const Socket& socket, Time now, std::size_t room,
                       PortStats& stats) noexcept {
  // As many datagrams as should fit if they hold as many packets as those of the last call. But one
  // while packets come one by one: the kernel would look for a second in vain.
  const std::size_t most = std::clamp<std::size_t>(room / expected_, 1, slots_.size());
  if (now != last_read_) paused_ = now - std::exchange(last_read_, now) > detail::kReadPause;
  const std::size_t wanted = one_by_one_ && count_ == 0 && !paused_ ? 1 : most;
  for (std::size_t i = 0; i < count_; ++i) prepare(i);  // the kernel has written to these
  const int n = uncancelled::recvmmsg(socket.fd(), messages_.data(), static_cast<unsigned>(wanted),
                                      MSG_DONTWAIT);
  next_ = 0;
  count_ = n > 0 ? static_cast<std::size_t>(n) : 0;
  backlogged_ = count_ == most;
  opened_ = false;
  packets_ = 0;
  if (count_ > 0) ++stats.rx_calls;
  return count_ > 0;
}

void UdpReceiver::split(Time now, Impairment* impairment, Sink& sink) noexcept {
  for (; next_ < count_; ++next_, opened_ = false) {
    if (!opened_) open(sink.stats);
    opened_ = true;
    MutableBytes& rest = datagram_.packet.bytes;
    while (!rest.empty()) {
      if (sink.full()) return;
      RawPacket packet = datagram_.packet;
      packet.bytes = rest.first(std::min(rest.size(), datagram_.segment));
      packet.facts.udp_length = static_cast<std::uint32_t>(packet.bytes.size() + sizeof(wire::Udp));
      rest = rest.subspan(packet.bytes.size());
      ++packets_;
      if (impairment != nullptr) [[unlikely]]
        impairment->receive(now, packet, sink);
      else
        sink.deliver(packet);
    }
  }
  expected_ = std::max<std::size_t>(1, (packets_ + count_ - 1) / count_);
  one_by_one_ = packets_ == 1;
}

void UdpReceiver::open(PortStats& stats) noexcept {
  const mmsghdr& message = messages_[next_];
  Slot& slot = slots_[next_];
  datagram_ = {};
  RawPacket& packet = datagram_.packet;
  if (message.msg_len == 0 || (message.msg_hdr.msg_flags & MSG_TRUNC) != 0 || !sender(slot)) {
    ++stats.rx_malformed;
    return;
  }
  packet.bytes = {static_cast<std::uint8_t*>(slot.vector.iov_base), message.msg_len};
  datagram_.segment = message.msg_len;
  std::uint8_t tos = 0;
  std::uint32_t flow_label = 0;
  controls(messages_[next_].msg_hdr, tos, flow_label);
  packet.to_port = to_port_;
  packet.traffic_class = tos;
  packet.flow_label = flow_label;
  packet.facts.plane = plane_;
  packet.facts.source = source_tag(packet.from);
  packet.facts.entropy = wire::from_wire({packet.port, flow_label}, ev_format_);
  packet.facts.ecn = wire::ecn_of(tos);
  const std::uint8_t dscp = wire::dscp_of(tos);
  packet.facts.trim = dscp_.classify(dscp);
  packet.trimmable = dscp == dscp_.trimmable || dscp == dscp_.trimmable_retx;
}

bool UdpReceiver::sender(const Slot& slot) noexcept {
  RawPacket& packet = datagram_.packet;
  if (v4_) {
    if (slot.from.any.sa_family != AF_INET) return false;
    packet.from = make_v4(0, 0, 0, 0);
    std::memcpy(packet.from.data() + 12, &slot.from.v4.sin_addr, 4);
    packet.port = ntohs(slot.from.v4.sin_port);
  } else {
    if (slot.from.any.sa_family != AF_INET6) return false;
    std::memcpy(packet.from.data(), &slot.from.v6.sin6_addr, 16);
    packet.port = ntohs(slot.from.v6.sin6_port);
  }
  return true;
}

void UdpReceiver::controls(msghdr& m, std::uint8_t& tos, std::uint32_t& flow_label) noexcept {
  constexpr int kFlowInfo = 11;  // IPV6_FLOWINFO, which <netinet/in.h> leaves out
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    const std::uint8_t* data = CMSG_DATA(c);
    const std::size_t length = c->cmsg_len - CMSG_LEN(0);
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS && length >= 1) {
      tos = *data;
    } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO && length >= sizeof(int)) {
      const int size = detail::read_as<int>(data);
      if (size > 0) datagram_.segment = static_cast<std::size_t>(size);
    } else if (c->cmsg_level == IPPROTO_IPV6 && length >= sizeof(int)) {
      if (c->cmsg_type == IPV6_TCLASS) tos = static_cast<std::uint8_t>(detail::read_as<int>(data));
      if (c->cmsg_type == kFlowInfo)
        flow_label = ntohl(detail::read_as<std::uint32_t>(data)) & 0xFFFFF;
    }
  }
}

UdpTransmitter::UdpTransmitter(bool v4, bool gso, bool icrc, std::uint8_t usual_tos,
                               std::uint32_t max_packet) noexcept
    : v4_(v4), gso_(gso), icrc_(icrc), usual_tos_(usual_tos), max_packet_(max_packet) {
  for (std::size_t i = 0; i < kMessages; ++i) prepare(i);
}

UdpTransmitter::Outcome UdpTransmitter::send(const wire::TxBurst& burst,
                                             std::span<const wire::TxPacket> packets, bool joined,
                                             UdpPeer& peer, const UdpPath& path,
                                             PortStats& stats) noexcept {
  std::uint32_t done = 0;
  bool too_long = false;
  const Socket& socket = peer.bound && path.bound.open() ? path.bound : path.socket;
  const auto total = static_cast<std::uint32_t>(packets.size());
  while (done < total) {
    build(burst, packets.subspan(done), joined, peer, path);
    if (used_ == 0) {  // the first packet exceeds a limit, and would again
      ++stats.tx_errors;
      ++done;
      continue;
    }
    const std::size_t sent = flush(socket, stats);
    for (std::size_t i = 0; i < sent; ++i) done += runs_[i].packets;
    if (sent == used_) continue;
    switch (judge(errno, runs_[sent])) {
      case Verdict::retry:
        continue;
      case Verdict::busy:
        stats.tx_busy += total - done;
        return {done, false, too_long};
      case Verdict::unreachable:
        return {done, true, too_long};
      case Verdict::too_long:
        too_long = true;
        [[fallthrough]];
      case Verdict::refused:
        stats.tx_errors += runs_[sent].packets;
        done += runs_[sent].packets;
        continue;
    }
  }
  return {done, false, too_long};
}

void UdpTransmitter::prepare(std::size_t i) noexcept {
  controls_[i].bytes.fill(0);
  cmsghdr tos{};
  tos.cmsg_len = CMSG_LEN(sizeof(int));
  tos.cmsg_level = v4_ ? IPPROTO_IP : IPPROTO_IPV6;
  tos.cmsg_type = v4_ ? IP_TOS : IPV6_TCLASS;
  std::memcpy(controls_[i].bytes.data(), &tos, sizeof tos);
  cmsghdr segment{};
  segment.cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  segment.cmsg_level = SOL_UDP;
  segment.cmsg_type = UDP_SEGMENT;
  std::memcpy(controls_[i].bytes.data() + kTosSpace, &segment, sizeof segment);
}

void UdpTransmitter::build(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets,
                           bool joined, UdpPeer& peer, const UdpPath& path) noexcept {
  joined = joined && gso_ && peer.segmented;
  used_ = vectors_used_ = trailers_used_ = copied_ = 0;
  for (const wire::TxPacket& p : packets) {
    const std::size_t vectors = p.sge_count + std::size_t{2};
    if (!sendable(p, max_packet_) || vectors_used_ + vectors > kVectors ||
        trailers_used_ == kPackets)
      break;
    if (!(joined && used_ > 0 && joins(p, vectors)) && !open(p, peer, path)) break;
    append(p, burst.sges(p), peer, path);
  }
  for (std::size_t i = 0; i < used_; ++i) close(i);
}

bool UdpTransmitter::joins(const wire::TxPacket& p, std::size_t vectors) const noexcept {
  const Run& run = runs_[used_ - 1];
  const std::uint32_t length = p.transport_length();
  return !run.closed && run.packets < kMaxSegments && length <= run.segment &&
         run.bytes + length <= kMaxMessage && run.tos == wire::make_tos(p.dscp, p.ecn) &&
         messages_[used_ - 1].msg_hdr.msg_iovlen + vectors <= kMaxSges + 2;
}

bool UdpTransmitter::open(const wire::TxPacket& p, const UdpPeer& peer,
                          const UdpPath& path) noexcept {
  if (used_ == kMessages) return false;
  const std::size_t i = used_++;
  runs_[i] = {0, 0, p.transport_length(), wire::make_tos(p.dscp, p.ecn), false};
  addresses_[i] = peer.address;
  if (!v4_) addresses_[i].v6.sin6_flowinfo = htonl(path.flow_label);
  msghdr& m = messages_[i].msg_hdr;
  m = {};
  m.msg_name = &addresses_[i].any;
  m.msg_namelen = addresses_[i].length;
  m.msg_iov = vectors_.data() + vectors_used_;
  return true;
}

void UdpTransmitter::append(const wire::TxPacket& p, std::span<const wire::TxSge> sges,
                            UdpPeer& peer, const UdpPath& path) noexcept {
  const std::uint32_t length = p.transport_length();
  Trailer& trailer = trailers_[trailers_used_++];
  trailer = {};
  if (icrc_) {
    peer.prefix.patch(path.source_port, static_cast<std::uint16_t>(length + sizeof(wire::Udp)));
    const Bytes header(p.header.data(), p.header_length);
    const std::uint32_t icrc = wire::view_as<wire::Bth>(header).head_check()
                                   ? wire::icrc_of_head(peer.prefix, header, sges, p.pad)
                                   : wire::icrc(peer.prefix, header, sges, p.pad);
    wire::store_icrc(trailer.data() + p.pad, icrc + p.check_seed);
  }
  const std::size_t first = vectors_used_;
  if (length <= kSmall && copies_.size() - copied_ >= length) {
    std::uint8_t* const packet = copies_.data() + copied_;
    put({p.header.data(), p.header_length});
    for (const wire::TxSge& sge : sges) put({sge.data, sge.length});
    put({trailer.data(), p.pad + wire::kIcrcSize});
    push(packet, length);
  } else {
    push(p.header.data(), p.header_length);
    for (const wire::TxSge& sge : sges) push(sge.data, sge.length);
    push(trailer.data(), p.pad + wire::kIcrcSize);
  }
  Run& run = runs_[used_ - 1];
  ++run.packets;
  run.bytes += length;
  run.closed = length < run.segment;
  messages_[used_ - 1].msg_hdr.msg_iovlen += vectors_used_ - first;
}

void UdpTransmitter::close(std::size_t i) noexcept {
  const int tos = runs_[i].tos;
  const bool marked = tos != usual_tos_;
  if (marked) std::memcpy(controls_[i].bytes.data() + CMSG_LEN(0), &tos, sizeof tos);
  const bool segmented = runs_[i].packets > 1;
  if (segmented) {
    const auto segment = static_cast<std::uint16_t>(runs_[i].segment);
    std::memcpy(controls_[i].bytes.data() + kTosSpace + CMSG_LEN(0), &segment, sizeof segment);
  }
  msghdr& m = messages_[i].msg_hdr;
  m.msg_control = controls_[i].bytes.data() + (marked ? 0 : kTosSpace);
  m.msg_controllen = (marked ? kTosSpace : 0) + (segmented ? kSegmentSpace : 0);
}

std::size_t UdpTransmitter::flush(const Socket& socket, PortStats& stats) noexcept {
  std::size_t sent = 0;
  while (sent < used_) {
    // sendmmsg() reports an error for the first message only. If a later one fails, the next call,
    // which starts with it, returns the error.
    const int n =
        uncancelled::sendmmsg(socket.fd(), messages_.data() + sent,
                              static_cast<unsigned>(used_ - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
    ++stats.tx_calls;
    if (n <= 0) break;
    for (int i = 0; i < n; ++i, ++sent) {
      stats.tx_packets += runs_[sent].packets;
      stats.tx_bytes += runs_[sent].bytes;
      gso_proven_ = gso_proven_ || runs_[sent].packets > 1;
    }
  }
  return sent;
}

UdpTransmitter::Verdict UdpTransmitter::judge(int error, const Run& run) noexcept {
  switch (error) {
    case EINTR:
      return Verdict::retry;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
      return Verdict::busy;
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENODEV:
      return Verdict::unreachable;
    case EMSGSIZE:
      return Verdict::too_long;
    default:
      break;
  }
  // EIO: the outgoing device can't compute checksums, which GSO needs. EINVAL: the kernel has no
  // GSO, or a driver rejects it; only trusted before GSO has worked once.
  if (gso_ && run.packets > 1 && (error == EIO || (error == EINVAL && !gso_proven_))) {
    gso_ = false;
    return Verdict::retry;
  }
  // Kernels before 6.11 say EINVAL of segments that exceed the MTU.
  return error == EINVAL && run.packets > 1 ? Verdict::too_long : Verdict::refused;
}

namespace detail {

/// The program of attach_udp_filter(). A plain value.
class UdpFilter final : public FilterProgram {
 public:
  explicit UdpFilter(std::uint32_t largest) {
    constexpr std::uint32_t kBth = sizeof(wire::Udp), kRange = 0x1F;
    emit(BPF_LD | BPF_W | BPF_LEN, 0);
    const std::size_t joined =
        jump_if(static_cast<std::uint32_t>(sizeof(wire::Udp)) + largest, BPF_JGT);
    load_byte(kBth + sizeof(wire::Bth) - 1);  // rejects what is shorter
    load_byte(kBth + 1);
    emit(BPF_ALU | BPF_AND | BPF_K, 0x0F);
    require(0);  // transport version
    load_byte(kBth);
    const std::size_t datagram = jump_if(static_cast<std::uint8_t>(wire::Opcode::datagram));
    const std::size_t with_imm = jump_if(static_cast<std::uint8_t>(wire::Opcode::datagram_imm));
    emit(BPF_ALU | BPF_AND | BPF_K, 0xFF & ~kRange);
    require(kFirst);
    // A bit for each opcode of that range.
    load_byte(kBth);
    emit(BPF_ALU | BPF_AND | BPF_K, kRange);
    emit(BPF_MISC | BPF_TAX, 0);
    emit(BPF_LD | BPF_IMM, known());
    emit(BPF_ALU | BPF_RSH | BPF_X, 0);
    emit(BPF_ALU | BPF_AND | BPF_K, 1);
    require(1);
    land(joined);
    land(datagram);
    land(with_imm);
    finish();
  }

 private:
  static constexpr std::uint8_t kFirst = 0xC0;
  [[nodiscard]] static constexpr std::uint32_t known() {
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < 32; ++i)
      if (wire::is_known(static_cast<std::uint8_t>(kFirst + i))) bits |= 1u << i;
    return bits;
  }
};

}  // namespace detail

void attach_udp_filter(const Socket& socket, std::uint32_t largest) {
  detail::UdpFilter(largest).attach(socket);
}

}  // namespace mrc::inline v0_1::port
