// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/plane/slot.hpp"

#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/net/interface.hpp"

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

}  // namespace mrc::inline v0_1::detail
