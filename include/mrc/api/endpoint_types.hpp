// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/api/profile_types.hpp"
#include "mrc/core/time.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/path/format.hpp"

/// Requests to endpoints of other hosts: Device::request_endpoints() (mrc-1.0 §7.5).
namespace mrc::inline v0_1 {

/// What is asked.
enum class EndpointOperation : std::uint8_t {
  ev_probe,     ///< an answer, by a certain path
  port_status,  ///< an answer; says which ports are up
};

/// A request to the endpoint of a host, connected or not.
struct EndpointRequest {
  std::uint16_t id = 0;           ///< comes back with the response; each once in a batch
  port::IpAddress source{};       ///< an address of this device
  port::IpAddress destination{};  ///< one of the host's, its GID for example
  /// The path: packet fields of `mode`, and the port by which it leaves (1 is plane 0; 0 that of
  /// `source`). All bits 0: any path of that port.
  ProfileEv ev{};
  path::EvMode mode = path::EvMode::udp;  ///< how `ev` becomes packet fields
  std::uint32_t port_status = 0;          ///< port_status: bit N says that plane N is up
};

/// The answer to a request.
struct EndpointResponse {
  std::uint16_t id = 0;  ///< EndpointRequest::id
  Plane plane = 0;       ///< in which it came
  Duration rtt{};        ///< between request and response
};

}  // namespace mrc::inline v0_1
