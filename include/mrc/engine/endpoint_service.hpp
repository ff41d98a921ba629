// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// A resolution message (resolve/resolution.hpp) that a port has received.
struct ResolutionInput {
  Plane plane = 0;                                        ///< in which it arrived
  std::uint64_t source = 0;                               ///< RxPacket::source
  std::size_t size = 0;                                   ///< bytes used
  std::array<std::uint8_t, wire::kLongResolution> bytes;  ///< from BTH on
};

/// The response to an endpoint request that the driver has sent itself.
struct ResponseInput {
  Time when{};                  ///< when it arrived
  std::uint64_t source = 0;     ///< RxPacket::source
  std::uint16_t id = 0;         ///< number of the request
  std::uint16_t timestamp = 0;  ///< that of the request, as the response has copied it
  Plane plane = 0;              ///< in which it arrived
};

/// What is exchanged per peer and not per queue pair (mrc-1.0 §5): EV probes, which test paths, and
/// port status, which tells peers the ports that are up. A plane that is said to be up again, here
/// or there, is probed before it is used.
///
/// Between OpenMRC peers such packets go to one of the queue pairs that connect the two devices,
/// with its tag: nobody else can send them. Other peers address them to QPN 2, as mrc-1.0 says, and
/// so can anybody. Then a port status is a hint: the planes that it withdraws are probed, and
/// withheld if they stay silent.
///
/// Between OpenMRC peers probes that are to prove a path or a plane are as long as the longest data
/// packet; path::SizeTrials and path::PieceTrials say what smaller ones, and pieces, show.
///
/// Peers that no data is exchanged with share a rate of probes (EngineOptions::idle_probes): with
/// thousands of them, bad paths would otherwise cost more than data.
class EndpointService {
 public:
  explicit EndpointService(Context& context);

  // --- Of the driver, by Engine::endpoint()

  /// The oldest endpoint request of a host that is no peer, for the driver to answer. At most
  /// EngineOptions::unconnected_requests are kept; further ones are dropped.
  bool poll_unconnected_request(wire::UnconnectedRequest& request) noexcept {
    return unconnected_.pop(request);
  }

  /// Sends an EV probe on a path of a peer, whatever the path's health, as those that are to prove
  /// that it carries data. Returns its number.
  std::uint16_t probe_path(Peer& peer, path::PathIndex path) noexcept {
    return queue_probe(peer, path, peer.probes_full_size(peer.paths[path].plane));
  }
  /// How long the answer to that probe took. Nothing until it is there, and once a thousand further
  /// requests were made.
  [[nodiscard]] std::optional<Duration> probe_rtt(PeerId peer, std::uint16_t id) const noexcept {
    const Request& r = requests_[id % kOpenRequests];
    if (r.peer != peer || r.id != id || r.open || r.rtt == Duration{}) return std::nullopt;
    return r.rtt;
  }

  /// A number for an endpoint request that the driver sends to any host, to QPN 2: of 16 bits, and
  /// used again when all have been.
  [[nodiscard]] std::uint16_t take_request_id() noexcept { return next_request_++; }
  /// From now on up to `most` responses to such requests are kept; 0: none. Throws std::bad_alloc.
  void expect_responses(std::size_t most) { responses_ = Ring<ResponseInput>(most); }
  /// The oldest response without a tag that answers no request of this service; the driver checks
  /// number, time stamp and source.
  bool poll_response(ResponseInput& input) noexcept { return responses_.pop(input); }

  /// The oldest resolution message (resolve/resolution.hpp). At most
  /// EngineOptions::resolution_inputs are kept; further ones are dropped.
  bool poll_resolution(ResolutionInput& input) noexcept { return resolutions_.pop(input); }
  [[nodiscard]] bool has_resolution() const noexcept { return !resolutions_.empty(); }

  // --- Of the engine

  /// `via`: the queue pair of ours whose tag the packet carries, or null. A request without one is
  /// dropped as DropStats::foreign unless it comes from a peer without tags, or there is room for
  /// it in poll_unconnected_request().
  void on_request(Time now, const wire::RxPacket& packet, QueuePairState* via) noexcept;
  /// Without a matching open request it is kept for poll_response() if it carries no tag and there
  /// is room, else dropped (DropStats::stale).
  void on_response(Time now, const wire::RxPacket& packet, QueuePairState* via) noexcept;
  void on_resolution(const wire::RxPacket& packet) noexcept;
  /// A packet of a peer has arrived in a plane that is not among Peer::trusted.
  void on_traffic(Time now, Peer& peer, Plane plane) noexcept;
  void on_timer(Time now, Peer& peer) noexcept;

  /// As those of Engine. All peers with queue pairs are told.
  void set_plane_up(Time now, Plane plane, bool up) noexcept;
  void set_plane_narrow(Time now, Plane plane, bool narrow) noexcept;
  /// A queue pair was connected to `peer`. Port changes are announced to, and paths probed of, only
  /// peers with queue pairs: with the first one both begin.
  void on_connected(Time now, Peer& peer) noexcept;
  void update_planes(Peer& peer) noexcept;
  /// The usable planes towards a peer, or its paths, may have changed.
  void on_planes_changed(Time now, Peer& peer) noexcept;
  /// A peer is removed; its number will be used again.
  void forget(PeerId peer) noexcept;

  /// Writes the header for a control item of kind ev_probe, port_status or endpoint_answer.
  /// `via`: the queue pair that ControlItem::qpn names, or null.
  void write(Time now, const ControlItem& item, Peer& peer, const QueuePairState* via,
             wire::TxPacket& packet) noexcept;

 private:
  struct Request {
    PeerId peer{};
    std::uint16_t id = 0;
    std::uint16_t timestamp = 0;  ///< in the packet; the response copies it
    Time sent{};
    path::PathIndex path = path::kNoPath;
    wire::EndpointOp op{};
    bool full_size = false;                   ///< ControlItem::full_size
    path::Piece piece = path::Piece::single;  ///< ControlItem::piece
    bool open = false;
    Duration rtt{};  ///< once it was answered
  };
  static constexpr std::size_t kOpenRequests = 1024;

  void keep_unconnected(const wire::RxPacket& packet,
                        const wire::EndpointRequestPacket& p) noexcept;
  void on_port_status(Time now, Peer& peer, PlaneMask up, bool vouched) noexcept;
  void restore(Time now, Peer& peer, PlaneMask planes) noexcept;
  void queue_trial(Time now, Peer& peer) noexcept;
  void queue_size_trial(Time now, Peer& peer) noexcept;
  void queue_narrow_path_trial(Time now, Peer& peer, path::PathIndex path) noexcept;
  void queue_piece_trial(Time now, Peer& peer) noexcept;
  void on_probe_answered(Time now, Peer& peer, const Request& r) noexcept;
  void update_narrow(Time now, Peer& peer) noexcept;
  void announce(Time now, Peer& peer) noexcept;
  void queue_rtt_probe(Time now, Peer& peer) noexcept;
  [[nodiscard]] bool may_probe(Time now, Peer& peer, Time due) noexcept;
  static void heard_by(QueuePairState& qp) noexcept;
  [[nodiscard]] static Qpn next_tagged(Peer& peer) noexcept;
  std::uint16_t open_request(PeerId peer, wire::EndpointOp op, path::PathIndex path) noexcept;
  std::uint16_t queue_probe(Peer& peer, path::PathIndex path, bool full_size = false,
                            path::Piece piece = path::Piece::single) noexcept;
  void queue_port_status(Time now, Peer& peer) noexcept;
  void write_request(Time now, const ControlItem& item, Peer& peer, const QueuePairState* via,
                     wire::TxPacket& packet) noexcept;

  Context& ctx_;
  std::vector<Request> requests_;  // by request number modulo its size
  std::uint16_t next_request_;
  ProbePacer pacer_;
  Ring<wire::UnconnectedRequest> unconnected_;
  Ring<ResolutionInput> resolutions_;
  Ring<ResponseInput> responses_{0};
};

}  // namespace mrc::inline v0_1::engine
