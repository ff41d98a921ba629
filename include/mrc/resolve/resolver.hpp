// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/datagram.hpp"
#include "mrc/host/lane.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/net/address.hpp"
#include "mrc/resolve/connector.hpp"
#include "mrc/resolve/datagram_routes.hpp"
#include "mrc/resolve/datagrams.hpp"
#include "mrc/resolve/endpoint_requests.hpp"

namespace mrc::inline v0_1::detail {

/// What a lane does with hosts that are known by an address only: connecting by GID, datagrams,
/// endpoint requests.
///
/// Thread contract: as a Resolver under the lane's lock; the rest any thread, without it.
class MRC_LOCAL LaneResolver final : public Resolver {
 public:
  /// The lane must outlive it, and need not be complete yet.
  explicit LaneResolver(Lane& lane);

  void start(Time now, Qpn qpn, const Destination& destination) override {
    connector_.start(now, qpn, destination);
  }
  void stop(Qpn qpn) noexcept override { connector_.stop(qpn); }
  [[nodiscard]] std::optional<Destination> destination(Qpn qpn) const override {
    return connector_.destination(qpn);
  }
  [[nodiscard]] std::string failure(Qpn qpn) const override { return connector_.failure(qpn); }
  void deny_paths() noexcept override { datagram_routes_.deny_paths(); }
  void add_to(DeviceStats& stats) const override;
  void work(Time now) noexcept override;
  [[nodiscard]] Time next_deadline() const noexcept override { return connector_.next_deadline(); }
  [[nodiscard]] bool accepts(Time now, const wire::RxPacket& packet) noexcept override {
    return connector_.accepts(now, packet);
  }

  // --- Datagram queue pairs
  /// Overrides `init.mtu` with the largest MTU of RoCEv2 that the planes carry.
  [[nodiscard]] Result<Qpn> create_datagram_qp(engine::DatagramInit init);
  [[nodiscard]] DatagramInfo query_datagram_qp(Qpn qpn);
  void prepare_datagrams(const port::IpAddress& gid, Qpn remote, Duration patience);
  Errc post_datagrams(Qpn qpn, std::span<const DatagramRequest> requests,
                      std::size_t& posted) noexcept;
  Errc close_datagram_qp(Qpn qpn) noexcept;

  // --- Requests to any host
  /// See Device::request_endpoints(). Throws mrc::Error.
  [[nodiscard]] std::vector<EndpointResponse> request_endpoints(
      EndpointOperation operation, std::span<const EndpointRequest> requests, Duration timeout,
      std::uint8_t dscp);

 private:
  Lane& lane_;
  EndpointRequests endpoint_requests_;
  Connector connector_;
  DatagramRoutes datagram_routes_;
};

/// That of a lane. Throws mrc::Error (unsupported) if it was opened before the module joined.
[[nodiscard]] LaneResolver& resolver_of(Lane& lane);

/// For resolver_maker.
[[nodiscard]] std::unique_ptr<Resolver> make_resolver(Lane& lane);

}  // namespace mrc::inline v0_1::detail
