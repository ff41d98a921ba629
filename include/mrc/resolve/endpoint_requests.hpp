// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/datagram.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::detail {

/// Sends the endpoint requests of a program to any host, and finds their responses among those that
/// the engine did not ask for. A request is sent once. Who asks for many is answered no faster than
/// strangers are (StrangerLimits), so that requests to one host leave at that rate.
///
/// Thread contract: prepare() any thread; the rest under the lane's lock. What the constructor
/// takes must outlive it.
class EndpointRequests {
 public:
  /// Requests per second to one host, and how many at once.
  static constexpr std::uint32_t kPerHost = 10'000, kBurst = 64;
  /// Requests that wait for their responses, most: their numbers have 16 bits.
  static constexpr std::size_t kMostOpen = 32'768;
  /// Responses that wait for work(), most.
  static constexpr std::size_t kResponses = 4096;

  /// A request that is ready to be sent.
  struct Ready {
    std::uint16_t id = 0;         ///< the program's
    Plane plane = 0;              ///< by which it leaves
    std::uint64_t source = 0;     ///< RxPacket::source of its response
    PlaneMask port_status = 0;    ///< what it tells
    path::PathSpec path{};        ///< in that plane
    PeerRoute route{};            ///< in that plane
    std::uint16_t timestamp = 0;  ///< once it is sent: in the packet
    Time sent{};                  ///< likewise
  };
  /// The requests of one call, and the responses until now.
  struct Batch {
    /// Those to one host, in their order.
    struct Host {
      std::vector<std::size_t> requests{};  ///< indices of `requests`
      std::size_t next = 0;                 ///< the first that was not sent
      TokenBucket pace{kPerHost, kBurst};
    };
    wire::EndpointOp op = wire::EndpointOp::ev_probe;
    std::uint8_t dscp = 0;
    std::vector<Ready> requests{};
    std::vector<Host> hosts{};
    std::vector<EndpointResponse> responses{};
    std::size_t unsent = 0, open = 0;

    /// There is nothing to wait for any more.
    [[nodiscard]] bool done() const noexcept { return unsent == 0 && open == 0; }
  };

  EndpointRequests(const Config& config, const OpenedPlanes& planes, engine::Engine& engine,
                   const PeerFilter& filter)
      : config_(config), planes_(planes), engine_(engine), filter_(filter) {}

  /// Throws mrc::Error that names the request.
  [[nodiscard]] Batch prepare(EndpointOperation operation,
                              std::span<const EndpointRequest> requests, std::uint8_t dscp) const;
  /// From now on responses are kept. Throws std::bad_alloc.
  void open(const Batch& batch);
  /// No longer; the batch is about to go.
  void close(const Batch& batch) noexcept;
  /// Takes the responses, of all batches, and sends what may be sent of this one. Throws
  /// std::bad_alloc.
  void work(Time now, Batch& batch);

 private:
  struct Open {
    Batch* batch = nullptr;
    std::size_t request = 0;
  };
  [[nodiscard]] Plane plane_of(const EndpointRequest& request) const;
  [[nodiscard]] Ready make_ready(const EndpointRequest& request) const;
  void take_responses();
  [[nodiscard]] bool send(Time now, Batch& batch, std::size_t request);
  void write(const Batch& batch, const Ready& request, std::uint16_t number) noexcept;

  const Config& config_;
  const OpenedPlanes& planes_;
  engine::Engine& engine_;
  const PeerFilter& filter_;
  std::unordered_map<std::uint16_t, Open> open_;  ///< by number on the wire
  std::size_t batches_ = 0;
  wire::TxBurst burst_{1, 1};
};

}  // namespace mrc::inline v0_1::detail
