// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "mrc/port/packet_slot.hpp"
#include "mrc/port/udp_slot.hpp"

namespace mrc::inline v0_1::port {

MRC_SETUP Socket claim_name(const std::string& name) {
  Socket socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.open()) throw_errno("cannot open a socket to claim " + name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: starts with a zero
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), length) == 0) return socket;
  if (errno != EADDRINUSE) throw_errno("cannot claim " + name);
  return Socket();
}

MRC_SETUP PacketSlotClaim claim_packet_slot(std::optional<std::uint8_t> wanted) {
  const unsigned first = wanted.value_or(0), last = wanted.value_or(kSlots - 1);
  for (unsigned slot = first; slot <= last; ++slot) {
    Socket socket = claim_name("openmrc/packet/slot/" + std::to_string(slot));
    if (socket.open()) return {static_cast<std::uint8_t>(slot), std::move(socket)};
  }
  detail::throw_in_use(wanted ? "slot " + std::to_string(first) +
                                    " is in use by another process of this host; leave option slot "
                                    "at -1 to get a free one"
                              : "all " + std::to_string(kSlots) + " slots of this host are in use");
}

}  // namespace mrc::inline v0_1::port
