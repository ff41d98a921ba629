// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/profiles.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/path/expand.hpp"

/// Endpoint requests (mrc-1.0 §5, §7.4): what a device asks, or tells, any host that speaks MRC,
/// with or without a queue pair between them. Device::request_endpoints() sends them, each once, as
/// plain MRC packets to QPN 2, by lane 0. Without a helper, the calling thread makes its rounds.
///
/// Requests to one host leave at 10,000 per second, 64 at once, since no more are answered. Those
/// in a plane that is down are not sent. NICs answer, and OpenMRC devices on UDP and packet ports
/// within the limits of docs/security.md; over UDP the process in slot 0. A port status is a hint
/// to a peer without tags and nothing to others: connected OpenMRC devices tell each other of their
/// planes themselves.
///
/// Errors (mrc::Error) name the request, and nothing is sent then: invalid_argument for an ID that
/// is in the batch twice, a source that is no address of this device, a port that it does not have,
/// an EV wider than its mode, a DSCP above 63 or of trimmed packets; unsupported for EVs that the
/// ports can't send, and on RDMA devices; unreachable if no plane leads to the destination, or
/// option peers_allowed leaves it out.
namespace mrc::inline v0_1 {

/// What all requests of a batch are. The API numbers them alike.
enum class EndpointOperation : std::uint8_t {
  ev_probe = 0,     ///< does this path work?
  port_status = 1,  ///< these planes of this device are up
};

/// One request. A plain value.
struct EndpointRequest {
  std::uint16_t id = 0;                   ///< given back in the response; unique in the batch
  port::IpAddress source{};               ///< an address of a plane of this device; IPv4 mapped
  port::IpAddress destination{};          ///< the peer's address, its GID; IPv4 mapped
  path::EvMode mode = path::EvMode::udp;  ///< which packet fields the bits of `ev` are
  /// Path: packet fields as `mode` has them, and the plane that it leaves by (port 1 is plane 0).
  /// A value of 0: the device's first path to the peer; port 0: in the plane of `source`.
  ProfileEv ev{};
  /// port_status: bit N is plane N, 1 if it is up, counted as on the wire (mrc-1.0 §1.10).
  PlaneMask port_status = 0;
};

/// The response to a request.
struct EndpointResponse {
  std::uint16_t id = 0;  ///< of the request
  Plane plane = 0;       ///< in which it arrived
  Duration rtt{};        ///< from sending the request to its arrival
};

}  // namespace mrc::inline v0_1
