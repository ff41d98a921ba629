// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/plane/udp_kind.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "mrc/config.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/plane/udp_port.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

Socket open_receive_socket(const LocalAddress& local, std::uint16_t udp_port) {
  Socket socket = make_udp_socket(local);
  if (is_v4(local.ip)) {
    set_option(socket, IPPROTO_IP, IP_RECVTOS, 1, "IP_RECVTOS");
  } else {
    set_option(socket, IPPROTO_IPV6, IPV6_RECVTCLASS, 1, "IPV6_RECVTCLASS");
    constexpr int kReceiveFlowInfo = 11;  // IPV6_FLOWINFO, which <netinet/in.h> leaves out
    (void)try_option(socket, IPPROTO_IPV6, kReceiveFlowInfo, 1);
  }
  const std::uint32_t scope = if_nametoindex(local.interface.c_str());  // 0: none named
  if (try_bind(socket, SocketAddress(local.ip, udp_port, scope))) return socket;
  if (errno == EADDRINUSE) return {};
  const int error = errno;
  throw_errno("cannot receive at " + format_local(local, udp_port) +
                  (error == EADDRNOTAVAIL ? " (not an address of this host)" : ""),
              error);
}

void throw_in_use(const std::string& what) {
  throw Error(std::make_error_code(std::errc::address_in_use), what);
}

/// A UDP port that is in use.
struct Taken {
  LocalAddress local;
  std::uint16_t udp_port = 0;

  [[nodiscard]] std::string text() const { return format_local(local, udp_port); }
};

/// Opens all receiving sockets of a slot. Returns none if an address is in use, which `taken`
/// names.
[[nodiscard]] std::vector<Socket> try_slot(std::span<const LocalAddress> addresses,
                                           std::span<const std::uint16_t> base_ports, unsigned slot,
                                           Taken& taken) {
  std::vector<Socket> sockets;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto udp_port = static_cast<std::uint16_t>(base_ports[i] + slot);
    sockets.push_back(open_receive_socket(addresses[i], udp_port));
    if (sockets.back().open()) continue;
    taken = {addresses[i], udp_port};
    return {};
  }
  return sockets;
}

/// This slot's port is the second one of slot 0.
[[nodiscard]] bool reserved_slot(std::uint16_t base_port, unsigned slot) noexcept {
  return base_port == wire::kUdpPort && base_port + slot == wire::kUdpPortAlternative;
}

/// Binds second_port() of each address that has one.
void open_second_sockets(std::span<const LocalAddress> addresses, SlotClaim& claim) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    Socket& socket = claim.second_sockets.emplace_back();
    const std::uint16_t port = second_port(claim.base_ports[i], claim.slot);
    if (port == 0) continue;
    socket = open_receive_socket(addresses[i], port);
    if (!socket.open())
      claim.notes.push_back("UDP port " + format_local(addresses[i], port) +
                            " is in use by another program: peers that send there do not reach "
                            "this device");
  }
}

/// Slot 0 was not free. An OpenMRC process that has it holds both standard ports of `taken`.
void note_stranger(const Taken& taken, SlotClaim& claim) {
  if (taken.udp_port != wire::kUdpPort || claim.slot == 0 ||
      !open_receive_socket(taken.local, wire::kUdpPortAlternative).open())
    return;
  claim.notes.push_back("UDP port " + taken.text() +
                        " is in use by another program or by the kernel (Soft-RoCE?): slot " +
                        std::to_string(claim.slot) +
                        " instead of 0; peers that know MRC's standard port only do not reach this "
                        "device");
}

}  // namespace detail

SlotClaim claim_slot(std::span<const LocalAddress> addresses, std::uint16_t base_port,
                     std::optional<std::uint8_t> wanted) {
  std::vector<LocalAddress> resolved;
  std::vector<std::uint16_t> base_ports;
  const unsigned first = wanted.value_or(0);
  const unsigned last = wanted.value_or(kSlots - 1);
  for (const LocalAddress& local : addresses) {
    resolved.push_back(resolve(local));
    await_address(resolved.back());
    const auto same = std::count(resolved.begin(), resolved.end() - 1, resolved.back());
    const auto base = base_port + kSlots * static_cast<unsigned>(same);
    if (base_port == 0 || base + last > 65535)
      throw Error(Errc::invalid_argument, "UDP port " + std::to_string(base) + " plus slot " +
                                              std::to_string(last) + " must be from 1 to 65535");
    base_ports.push_back(static_cast<std::uint16_t>(base));
  }
  if (resolved.empty()) throw Error(Errc::invalid_argument, "a slot needs at least one address");
  if (wanted && detail::reserved_slot(base_port, first))
    throw Error(Errc::invalid_argument,
                "slot " + std::to_string(first) + " would receive at UDP port " +
                    std::to_string(wire::kUdpPortAlternative) +
                    ", which is MRC's, too, and slot 0's: use another slot");
  detail::Taken taken, zero_taken;
  for (unsigned slot = first; slot <= last; ++slot) {
    if (detail::reserved_slot(base_port, slot)) continue;
    std::vector<Socket> sockets = detail::try_slot(resolved, base_ports, slot, taken);
    if (sockets.empty()) {
      if (slot == 0) zero_taken = taken;
      continue;
    }
    SlotClaim claim;
    claim.slot = static_cast<std::uint8_t>(slot);
    claim.sockets = std::move(sockets);
    claim.base_ports = std::move(base_ports);
    detail::open_second_sockets(resolved, claim);
    detail::note_stranger(zero_taken, claim);
    return claim;
  }
  if (wanted)
    detail::throw_in_use("slot " + std::to_string(first) + ": UDP port " + taken.text() +
                         " is in use by another socket");
  detail::throw_in_use("no slot from 0 to " + std::to_string(last) +
                       " is free: for the last one, UDP port " + taken.text() +
                       " is in use; every device of this host takes one: close others, or set "
                       "another udp_port");
}

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::detail {

/// Takes the bits up to `prefix` from `network`, the others from `host`.
[[nodiscard]] inline port::IpAddress joined(const port::IpAddress& network,
                                            const port::IpAddress& host, unsigned prefix) noexcept {
  port::IpAddress out = host;
  for (unsigned i = 0; i < out.size() && 8 * i < prefix; ++i) {
    const unsigned bits = std::min(8u, prefix - 8 * i);
    const auto mask = static_cast<std::uint8_t>(0xFF00u >> bits);
    out[i] = static_cast<std::uint8_t>((network[i] & mask) | (host[i] & ~mask));
  }
  return out;
}

bool in_subnet(const OwnAddress& own, const port::IpAddress& ip) noexcept {
  return port::is_v4(own.ip) == port::is_v4(ip) && joined(own.ip, ip, own.prefix) == ip;
}

std::vector<port::PeerAddress> likely_addresses(std::span<const OwnAddress> own,
                                                const port::IpAddress& gid) {
  std::vector<port::PeerAddress> likely;
  const auto add = [&](const port::IpAddress& ip, std::uint16_t port) {
    const port::PeerAddress address{ip, port};
    if (std::find(likely.begin(), likely.end(), address) == likely.end()) likely.push_back(address);
  };
  for (const OwnAddress& o : own)  // planes that share an address have ports of their own
    if (port::is_v4(o.ip) == port::is_v4(gid)) add(gid, o.port);
  if (std::any_of(own.begin(), own.end(), [&](const OwnAddress& o) { return o.ip == gid; })) {
    for (const OwnAddress& o : own) add(o.ip, o.port);
    return likely;
  }
  for (const OwnAddress& near : own) {
    if (!in_subnet(near, gid)) continue;
    for (const OwnAddress& other : own) {
      const bool alike = other.prefix == near.prefix && !in_subnet(near, other.ip) &&
                         joined(near.ip, other.ip, near.prefix) == near.ip;
      if (alike) add(joined(other.ip, gid, other.prefix), other.port);
    }
  }
  return likely;
}

std::vector<Contact> pairs_to_ask(std::span<const OwnAddress> own, Plane first,
                                  const port::IpAddress& gid,
                                  std::span<const port::PeerAddress> addresses) {
  const auto rank = [&](std::size_t plane, const port::PeerAddress& to) {
    const OwnAddress& from = own[plane];
    return 8 * in_subnet(from, to.ip) + 4 * (from.port == to.udp_port) + 2 * (to.ip == gid) +
           (plane == first);
  };
  std::vector<Contact> pairs;
  for (int wanted = 15; wanted >= 0; --wanted)
    for (const port::PeerAddress& address : addresses)
      for (std::size_t i = 0; i < own.size(); ++i)
        if (port::is_v4(own[i].ip) == port::is_v4(address.ip) && rank(i, address) == wanted)
          pairs.push_back({static_cast<Plane>(i), address});
  return pairs;
}

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
