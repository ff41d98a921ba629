// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "mrc/api/endpoint_types.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/time.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/endpoint_service.hpp"
#include "mrc/host/lanes.hpp"
#include "mrc/plane/plane_kind.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::detail {

/// Requests of the application to endpoints of other hosts, which need not be connected
/// (Device::request_endpoints()). They leave by the device's first lane, whose engine gets the
/// answers. Any thread; one batch at a time.
class EndpointRequests {
 public:
  /// Both must outlive it; the lanes may still have to be opened.
  EndpointRequests(const Config& config, Lanes& lanes) : config_(config), lanes_(lanes) {}

  /// Sends a batch, and returns the answers that came before `timeout` was over, or until there are
  /// all, in the order in which they came. Throws mrc::Error, before anything is sent.
  [[nodiscard]] std::vector<EndpointResponse> run(EndpointOperation operation,
                                                  std::span<const EndpointRequest> requests,
                                                  Duration timeout, std::optional<unsigned> dscp);

 private:
  /// A request with the way that it takes.
  struct Routed {
    const EndpointRequest* request = nullptr;
    Plane plane = 0;
    PeerRoute route;
    path::PathSpec path;
    std::uint64_t source = 0;  ///< RxPacket::source of its answer
  };
  [[nodiscard]] std::vector<Routed> route(std::span<const EndpointRequest> requests) const;
  [[nodiscard]] Routed route(const EndpointRequest& request) const;
  void send(Time now, const Routed& routed, wire::EndpointOp op, std::uint16_t number,
            std::uint8_t dscp, engine::OutsideRequest& record);

  const Config& config_;
  Lanes& lanes_;
  std::mutex one_batch_;
  wire::TxBurst burst_{1, 1};
};

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/host/impl/endpoint_requests.ipp"
#endif
