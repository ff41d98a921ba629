// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/stats.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::detail {

/// Planes on UDP sockets: one per local address of option planes. Every peer is reached over all
/// paths of the port, by its address alone.
[[nodiscard]] std::unique_ptr<PlaneKind> make_udp_kind();

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1::port {

/// Everything that a UdpPort is made from. A plain value. Without iCRC, UDP's checksum remains.
struct UdpPortOptions : PortOptions {
  LocalAddress local;  ///< address, interface or both: the plane

  /// The receiving socket is bound to UDP port base_port + slot.
  std::uint16_t base_port = wire::kUdpPort;

  /// Number of paths, 1 .. 4096: each is a socket bound to a source port of its own.
  std::uint16_t paths = 16;
  /// Source port of each path; empty: the kernel chooses. Otherwise one for each of `paths`.
  std::vector<std::uint16_t> source_ports;
  /// IPv6 flow label of each path; empty: derived from the source port. Else one for each path.
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

/// ToS of data that must not be trimmed, which the sockets have. Packets of other classes carry
/// theirs as control data.
[[nodiscard]] inline std::uint8_t usual_tos(const UdpPortOptions& options) noexcept {
  return wire::make_tos(options.dscp.no_trim, Ecn::ect0);
}

/// Opens the sockets of all paths. IPv6 flow labels are all or none: if one is refused, all paths
/// go without, and `notes` gets a line. Throws Error.
[[nodiscard]] std::vector<UdpPath> open_paths(const UdpPortOptions& options,
                                              const LocalAddress& local,
                                              std::uint32_t interface_index,
                                              std::vector<std::string>& notes);

/// Opens sockets for the same paths, whose packets leave by the interface of that name and index.
/// Throws Error.
[[nodiscard]] std::vector<UdpPath> open_paths(const UdpPortOptions& options,
                                              const LocalAddress& local,
                                              std::uint32_t interface_index,
                                              std::span<const UdpPath> like);

/// Opens UdpPath::bound of each path; packets of these sockets leave by that interface. If it
/// fails, the paths have none. Throws Error.
void open_bound(const UdpPortOptions& options, const LocalAddress& local,
                const Interface& interface, std::span<UdpPath> paths);

}  // namespace mrc::inline v0_1::port
