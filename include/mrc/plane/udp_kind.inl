// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/plane/udp_kind.hpp"

#include <linux/in6.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/plane/slot.hpp"
#include "mrc/plane/udp_port.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::detail {

/// May packets to processes of this host leave the payload out of the iCRC (option `icrc`)? Not
/// where MRC is to be kept to the letter, and not where faults may be injected, which the iCRC is
/// to find.
[[nodiscard]] inline bool may_leave_payload_out(const Config& config) noexcept {
  return config.icrc == port::Offload::automatic && !config.strict && config.faults.empty();
}

/// See make_udp_kind().
class UdpKind final : public PlaneKind {
 public:
  [[nodiscard]] port::IpAddress first_address(const Config& config) const override {
    return port::resolve(local_address(config.plane_list().front())).ip;
  }
  [[nodiscard]] OpenedPlanes open(const Config& config, std::optional<std::uint8_t> slot,
                                  const Log& log) override {
    OpenedPlanes planes;
    naming_variables(config, {"planes", "paths", "udp_port", "slot", "gso", "gro"},
                     [&] { open_ports(planes, config, slot, log); });
    if (!own_.empty()) return planes;  // the first lane's addresses are those of all
    note_shared_links(planes, log);
    log_.emplace(log);
    for (std::size_t i = 0; i < planes.ports.size(); ++i) {
      const auto& port = static_cast<const port::UdpPort&>(*planes.ports[i]);
      const bool tied = !local_address(config.plane_list()[i]).interface.empty();
      links_.push_back(tied || !port.on_link() ? port::Interface{} : port.interface());
    }
    icrc_ = config.icrc != port::Offload::off;
    peer_ports_ = PeerPorts(config.peer_ports);
    responder_.emplace(AllowedPeers(config.peers_allowed), random_key(),
                       PeerId{config.max_peers + 1}, config.expert.dscp_control);
    for (const auto& port : planes.ports) {
      if (port->capabilities().segmentation)
        segmenting_ |= plane_bit(static_cast<Plane>(own_.size()));
      own_.push_back({port->address().ip, port::prefix_length(port->address().ip), 0});
    }
    return planes;
  }
  /// Devices have the same base ports unless option peer_ports says otherwise, and each process
  /// adds its slot.
  [[nodiscard]] std::vector<Contact> contacts(const OpenedPlanes& own, const port::IpAddress& gid,
                                              Qpn qpn) const override {
    std::vector<Contact> contacts;
    for (std::size_t i = 0; i < own.ports.size(); ++i) {
      if (port::is_v4(own.ports[i]->address().ip) != port::is_v4(gid)) continue;
      const auto plane = static_cast<Plane>(i);
      contacts.push_back({plane, {gid, port_of(own, plane, gid, qpn)}});
    }
    if (contacts.empty())
      throw Error(Errc::unreachable,
                  "GID " + port::format_ip(gid) + ": no plane of this device has its IP version");
    return contacts;
  }
  [[nodiscard]] std::vector<Contact> ways(const OpenedPlanes& own, const port::IpAddress& gid,
                                          Qpn qpn, Plane first,
                                          std::span<const port::PeerAddress> told) const override {
    std::vector<OwnAddress> from = own_;
    for (std::size_t i = 0; i < from.size(); ++i)
      from[i].port = port_of(own, static_cast<Plane>(i), gid, qpn);
    std::vector<port::PeerAddress> addresses = likely_addresses(from, gid);
    for (port::PeerAddress& address : addresses)
      if (const auto base = peer_ports_.find(address.ip))
        address.udp_port = static_cast<std::uint16_t>(*base + slot_of(qpn));
    for (const port::PeerAddress& address : told)
      if (std::find(addresses.begin(), addresses.end(), address) == addresses.end())
        addresses.push_back(address);
    std::vector<Contact> ways = pairs_to_ask(from, first, gid, addresses);
    if (ways.empty()) return contacts(own, gid, qpn);  // which throws
    return ways;
  }
  /// All planes lead to all addresses as far as this device knows, so the kernel's routes decide:
  /// the plane whose address it would send from. An own address is reached from itself, by other
  /// processes of this host.
  [[nodiscard]] Plane nearest(const OpenedPlanes& own, const port::IpAddress& gid,
                              std::span<const Contact> contacts) const override {
    for (const port::IpAddress& ip : {gid, port::source_address(gid)})
      for (const Contact& contact : contacts)
        if (own.ports[contact.plane]->address().ip == ip) return contact.plane;
    return contacts.front().plane;
  }
  [[nodiscard]] PlanePaths paths_to(const OpenedPlanes& own, Plane plane,
                                    const port::PeerAddress& peer, Bytes) const override {
    note_way(own, plane, peer.ip);
    PlanePaths out;
    for (const port::PortPath& path : own.ports[plane]->paths())
      out.specs.push_back({path.ev, plane, path.port_path});
    out.active = out.specs.size();
    out.route = PeerRoute(port::UdpPort::Route(peer));
    return out;
  }
  /// EVs of STEV whose upper half is 0: there is no flow label.
  [[nodiscard]] path::EvFormats ev_formats() const noexcept override {
    using path::EvMode;
    return {bit_of(EvMode::udp) | bit_of(EvMode::stev), ev_max_width(EvMode::udp)};
  }
  [[nodiscard]] std::vector<ProfileEv> own_evs(const OpenedPlanes& own) const override {
    std::vector<ProfileEv> evs;
    for (std::size_t plane = 0; plane < own.ports.size(); ++plane)
      for (const port::PortPath& path : own.ports[plane]->paths())
        evs.push_back(own.profile_ev(static_cast<Plane>(plane), path.ev));
    return evs;
  }
  /// An EV of a profile must be that of a path of the port: a UDP socket sends from one source
  /// port, which was bound when the port opened.
  [[nodiscard]] path::PathSpec path_of(const OpenedPlanes& own, path::EvMode mode,
                                       const ExpandedEv& ev, std::uint16_t) const override {
    if (mode == path::EvMode::srv6)
      throw Error(Errc::unsupported, "UDP ports do not encapsulate packets, as SRv6 EVs need");
    for (const port::PortPath& path : own.ports[ev.plane]->paths()) {
      const std::uint32_t its = value(path.ev);
      if ((mode == path::EvMode::udp ? its & 0xFFFF : its) == value(ev.name))
        return {path.ev, ev.plane, path.port_path};
    }
    throw Error(Errc::unsupported, "EV " + std::to_string(value(ev.name)) +
                                       " is none of UDP plane " + std::to_string(ev.plane) +
                                       ", which can only send from the source ports that it has "
                                       "opened (Device::paths() shows their EVs)");
  }
  /// On IPv4 without GSO: see UdpRoute.
  [[nodiscard]] bool keep_real_header(const OpenedPlanes& own, Plane plane,
                                      PeerRoute& route) const override {
    route.as<port::UdpPort::Route>().real_header = true;
    return icrc_ && port::is_v4(own.ports[plane]->address().ip) &&
           (segmenting_ & plane_bit(plane)) != 0;
  }
  /// Looked at from both ends, so that both find the same.
  [[nodiscard]] bool take_heads(const OpenedPlanes& own, Plane plane, const port::PeerAddress& peer,
                                PeerRoute& route) const override {
    const port::IpAddress& here = own.ports[plane]->address().ip;
    const bool stays = port::is_v4(here) == port::is_v4(peer.ip) &&
                       port::stays_on_loopback(here, peer.ip) &&
                       port::stays_on_loopback(peer.ip, here);
    route.as<port::UdpPort::Route>().heads = stays;
    return stays;
  }
  [[nodiscard]] std::string why_none() const override { return "its planes have no paths"; }

  /// They come to the UDP port of one process, which answers.
  [[nodiscard]] bool knows_strangers() const noexcept override { return true; }
  bool answer_stranger(Time now, OpenedPlanes& own,
                       const wire::UnconnectedRequest& request) noexcept override {
    if (request.plane >= own.count()) return false;
    const Qpn asking{std::uint32_t{request.slot} << 16};
    return responder_->answer(now, request, port_of(own, request.plane, request.from, asking),
                              *own.ports[request.plane]);
  }

 private:
  [[nodiscard]] std::uint16_t port_of(const OpenedPlanes& own, Plane plane,
                                      const port::IpAddress& ip, Qpn qpn) const {
    const int base = peer_ports_.find(ip).value_or(own.ports[plane]->address().udp_port - own.slot);
    return static_cast<std::uint16_t>(base + slot_of(qpn));
  }

  /// What an entry of option planes means.
  [[nodiscard]] static port::LocalAddress local_address(const std::string& text) {
    if (text == Config::kDefaultRoute) return {port::default_route_address(), ""};
    return port::parse_local_address(text);
  }
  static void open_ports(OpenedPlanes& planes, const Config& config,
                         std::optional<std::uint8_t> slot, const Log& log) {
    std::vector<port::LocalAddress> addresses;
    for (const std::string& text : config.plane_list()) addresses.push_back(local_address(text));
    port::SlotClaim claim = port::claim_slot(addresses, config.udp_port, slot);
    planes.slot = claim.slot;
    if (config.mtu == 0) planes.wanted_mtu = kLargestUdpMtu;
    if (may_leave_payload_out(config)) planes.network_namespace = port::network_namespace();
    planes.own_peers = 1;  // who gets an answer
    planes.ev_bits = 16;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      port::UdpPortOptions o;
      set_shared_options(o, config, static_cast<Plane>(i), claim.slot);
      o.local = addresses[i];
      o.base_port = claim.base_ports[i];
      o.paths = config.paths;
      o.gso = config.gso;
      o.gro = config.gro;
      planes.adopt(std::make_unique<port::UdpPort>(o, std::move(claim.sockets[i]),
                                                   std::move(claim.second_sockets[i])),
                   config, log);
    }
    for (const std::string& note : claim.notes) log.warn(note);
  }

  /// Planes of one link gain nothing, and fail together.
  static void note_shared_links(const OpenedPlanes& planes, const Log& log) {
    for (std::size_t i = 1; i < planes.ports.size(); ++i)
      for (std::size_t k = 0; k < i; ++k) {
        const auto& a = static_cast<const port::UdpPort&>(*planes.ports[k]);
        const auto& b = static_cast<const port::UdpPort&>(*planes.ports[i]);
        if (port::is_loopback(a.address().ip) || port::is_loopback(b.address().ip)) continue;
        const bool spread = !a.on_link() && !b.on_link();
        if (!spread && (a.interface().index == 0 || a.interface().index != b.interface().index))
          continue;
        log.warn("planes " + std::to_string(k) + " and " + std::to_string(i) +
                 (spread ? " share all links: their addresses are on " + a.interface().name +
                               (b.interface().name == a.interface().name
                                    ? ""
                                    : " and " + b.interface().name) +
                               ", so the kernel's routes decide"
                         : " share a link: " + b.interface().name + " has both addresses"));
        return;
      }
  }

  /// One line if packets of a plane to a peer in its subnet leave by the link of another plane,
  /// since no route leads by their own. One peer of each plane is looked at.
  void note_way(const OpenedPlanes& own, Plane plane, const port::IpAddress& peer) const {
    const port::Interface& link = links_[plane];
    const port::IpAddress& from = own.ports[plane]->address().ip;
    // Peers elsewhere are asked by all planes, whose routes lead to some of them only.
    if (links_.size() < 2 || link.index == 0 || (looked_at_ & plane_bit(plane)) != 0 ||
        port::is_loopback(from) || !in_subnet(own_[plane], peer))
      return;
    const std::uint32_t by = port::find_way(link, from, peer).interfaces[0];
    if (by == 0 || by == port::Way::kLoopback ||
        (looked_at_.fetch_or(plane_bit(plane)) & plane_bit(plane)) != 0)
      return;
    if (by == link.index) return;
    for (std::size_t k = 0; k < links_.size(); ++k) {
      if (links_[k].index != by) continue;
      looked_at_ = ~PlaneMask{0};  // one line
      log_->warn("planes " + std::to_string(k) + " and " + std::to_string(plane) +
                 " share a link: packets from " + port::format_local({from, link.name}) + " to " +
                 port::format_local({peer, link.name}) + " leave by " + links_[k].name +
                 ", since no route leads by " + link.name);
      return;
    }
  }

  std::vector<OwnAddress> own_;  ///< [plane]; without ports
  /// [plane]; index 0: packets leave by no link in particular, or by none but theirs.
  std::vector<port::Interface> links_;
  std::optional<Log> log_;                        ///< from the first lane on
  mutable std::atomic<PlaneMask> looked_at_ = 0;  ///< by note_way()
  PlaneMask segmenting_ = 0;                      ///< planes with segmentation offload
  bool icrc_ = true;
  PeerPorts peer_ports_;
  std::optional<UdpResponder> responder_;  ///< from the first lane on
};

std::unique_ptr<PlaneKind> make_udp_kind() {
  return std::make_unique<UdpKind>();
}

}  // namespace mrc::inline v0_1::detail

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

// After <netinet/in.h>: then it does not define the same structures again.

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

/// While it lives, the socket may have its address and UDP port together with others that may.
class AddressShare {
 public:
  explicit AddressShare(const Socket& socket) : socket_(socket) {
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  }
  AddressShare(const AddressShare&) = delete;
  AddressShare& operator=(const AddressShare&) = delete;
  ~AddressShare() { (void)try_option(socket_, SOL_SOCKET, SO_REUSEADDR, 0); }

 private:
  const Socket& socket_;
};

/// The label of a path for which none is configured: spread over 1 .. 65535, the same at every
/// start.
[[nodiscard]] constexpr std::uint16_t default_flow_label(std::uint16_t source_port) noexcept {
  const std::uint32_t mixed = (source_port * 0x9E3779B1u) >> 16;
  return static_cast<std::uint16_t>(mixed == 0 ? 1 : mixed);
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

void bind_sender(const Socket& socket, const LocalAddress& local, std::uint32_t interface_index,
                 std::uint16_t source_port) {
  if (!try_bind(socket, SocketAddress(local.ip, source_port, interface_index)))
    throw_errno("cannot send from " + format_local(local, source_port));
}

/// Opens the socket of one path. Throws Error.
[[nodiscard]] UdpPath open_path(const UdpPortOptions& options, const LocalAddress& local,
                                std::uint32_t interface_index, std::uint16_t source_port) {
  UdpPath path;
  path.socket = make_sender(options, local);
  bind_sender(path.socket, local, interface_index, source_port);
  path.source_port = bound_port(path.socket);
  return path;
}

}  // namespace detail

std::vector<UdpPath> open_paths(const UdpPortOptions& options, const LocalAddress& local,
                                std::uint32_t interface_index, std::vector<std::string>& notes) {
  std::vector<UdpPath> paths;
  paths.reserve(options.paths);
  for (std::size_t i = 0; i < options.paths; ++i) {
    const std::uint16_t wanted = options.source_ports.empty() ? std::uint16_t{0}  //
                                                              : options.source_ports[i];
    paths.push_back(detail::open_path(options, local, interface_index, wanted));
  }
  const bool labels = !is_v4(local.ip) && options.ev_format != wire::EvFormat::udp;
  for (std::size_t i = 0; labels && i < paths.size(); ++i) {
    UdpPath& path = paths[i];
    const std::uint16_t label = options.flow_labels.empty()
                                    ? detail::default_flow_label(path.source_port)
                                    : options.flow_labels[i];
    if (label == 0 || detail::lease_flow_label(path.socket, local.ip, label)) {
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

std::vector<UdpPath> open_paths(const UdpPortOptions& options, const LocalAddress& local,
                                std::uint32_t interface_index, std::span<const UdpPath> like) {
  std::vector<UdpPath> paths;
  paths.reserve(like.size());
  for (const UdpPath& path : like) {
    paths.push_back(detail::open_path(options, local, interface_index, path.source_port));
    if (path.flow_label != 0 &&
        !detail::lease_flow_label(paths.back().socket, local.ip, path.flow_label))
      throw_errno("cannot lease an IPv6 flow label");
    paths.back().flow_label = path.flow_label;
  }
  return paths;
}

void open_bound(const UdpPortOptions& options, const LocalAddress& local,
                const Interface& interface, std::span<UdpPath> paths) try {
  for (UdpPath& path : paths) {
    path.bound = detail::make_sender(options, local);
    leave_by(path.bound, is_v4(local.ip), interface);
    const detail::AddressShare one(path.socket), other(path.bound);
    detail::bind_sender(path.bound, local, interface.index, path.source_port);
    if (path.flow_label != 0 && !detail::lease_flow_label(path.bound, local.ip, path.flow_label))
      throw_errno("cannot lease an IPv6 flow label");
  }
} catch (...) {
  for (UdpPath& path : paths) path.bound = {};
  throw;
}

}  // namespace mrc::inline v0_1::port
