// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/plane/udp/udp_options.hpp"

namespace mrc::inline v0_1::port {

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
