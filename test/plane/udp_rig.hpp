// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "mrc/faults/injector.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/udp_kind.hpp"
#include "mrc/plane/udp_port.hpp"
#include "mrc/wire/headers.hpp"
#include "plane/port_rig.hpp"

/// Two UdpPorts on the loopback interface, and packets between them.
namespace mrc::port::test {

/// The loopback address of a family, or nothing where the machine has none.
inline std::optional<LocalAddress> loopback(bool v4) {
  LocalAddress local{v4 ? make_v4(127, 0, 0, 1) : parse_ip("::1"), ""};
  Socket socket(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0));
  if (!socket.open() || !try_bind(socket, SocketAddress(local.ip, 0))) return std::nullopt;
  return local;
}

/// Options of a port on a slot that is free now. UDP ports away from the well-known one, so that
/// tests can run beside other programs.
inline UdpPortOptions options_for(const LocalAddress& local, std::uint16_t paths = 4) {
  UdpPortOptions options;
  options.local = local;
  options.base_port = 24791;
  options.paths = paths;
  return options;
}

/// A port on the first free slot.
inline UdpPort open_port(UdpPortOptions options) {
  SlotClaim claim = claim_slot(std::array{options.local}, options.base_port);
  options.slot = claim.slot;
  return UdpPort(options, std::move(claim.sockets[0]));
}

struct Rig : PortRig<UdpPort> {
  Rig(const UdpPortOptions& a, const UdpPortOptions& b) : Rig(open_port(a), open_port(b)) {}
  Rig(UdpPort a, UdpPort b) : PortRig(std::move(a), std::move(b)) {
    tag = receiver.add_peer(PeerId{0}, sender.address());
    sender.add_peer(PeerId{5}, receiver.address());
  }

  /// Puts one packet into the burst: a BTH with the number as PSN, and payload in two SGEs.
  void add(std::uint32_t number, std::size_t payload, std::uint16_t path, Ecn ecn = Ecn::ect0,
           std::uint8_t dscp = 4) {
    std::array<std::uint8_t, sizeof(wire::Bth)> header{};
    const auto bth = wire::Bth::make(wire::Opcode{0xCA}, Qpn{7}, Psn{number});
    std::memcpy(header.data(), &bth, sizeof bth);
    append(header, number, payload, path, ecn, dscp,
           path < sender.paths().size() ? sender.paths()[path].ev : Ev{});
  }
  std::uint32_t send() { return send_each(); }  // loopback delivers within the call
};

/// A rig on one family with the same options on both sides.
inline Rig make_rig(const LocalAddress& local, std::uint16_t paths = 4) {
  const UdpPortOptions options = options_for(local, paths);
  return Rig(options, options);
}

}  // namespace mrc::port::test

/// Runs the rest of the test case for one family, or skips it with a message.
#define MRC_LOOPBACK_OR_SKIP(local, v4)                                            \
  const auto local##_found = mrc::port::test::loopback(v4);                        \
  if (!local##_found) {                                                            \
    MESSAGE("skipped: this machine has no loopback address of IPv", (v4) ? 4 : 6); \
    return;                                                                        \
  }                                                                                \
  const mrc::port::LocalAddress& local = *local##_found
