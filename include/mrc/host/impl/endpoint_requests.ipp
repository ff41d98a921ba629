// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/host/endpoint_requests.hpp"
#include "mrc/net/address.hpp"
#include "mrc/wire/data_headers.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::detail {

MRC_SETUP std::vector<EndpointResponse> EndpointRequests::run(
    EndpointOperation operation, std::span<const EndpointRequest> requests, Duration timeout,
    std::optional<unsigned> dscp) {
  constexpr std::size_t kMost = 32'768, kAtOnce = 32;
  if (requests.size() > kMost)
    throw Error(Errc::invalid_argument, "more than 32768 requests to endpoints in a batch");
  if (dscp.value_or(0) > 63) throw Error(Errc::invalid_argument, "a DSCP above 63");
  const std::vector<Routed> routed = route(requests);
  const auto op = operation == EndpointOperation::ev_probe ? wire::EndpointOp::ev_probe
                                                           : wire::EndpointOp::port_status;
  const auto class_of_packets =
      static_cast<std::uint8_t>(dscp.value_or(config_.expert.dscp_control));

  const std::lock_guard batch(one_batch_);
  const Time end = monotonic_now() + timeout;
  std::vector<engine::OutsideRequest> records(requests.size());
  for (std::size_t i = 0; i < records.size(); ++i) records[i].source = routed[i].source;
  const std::uint16_t first = lanes_[0].with_engine(
      [&](engine::Engine& engine, Time) { return engine.expect_answers(records); });
  std::size_t sent = 0;
  for (;;) {
    const std::size_t answered = lanes_[0].with_engine([&](engine::Engine&, Time now) {
      for (std::size_t n = 0; n < kAtOnce && sent < routed.size(); ++n, ++sent)
        send(now, routed[sent], op, static_cast<std::uint16_t>(first + sent), class_of_packets,
             records[sent]);
      return static_cast<std::size_t>(
          std::count_if(records.begin(), records.end(),
                        [](const engine::OutsideRequest& record) { return record.order != 0; }));
    });
    if (answered == records.size() || monotonic_now() >= end) break;
    if (!lanes_[0].progress().poll() && sent == routed.size())
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  lanes_[0].with_engine([](engine::Engine& engine, Time) { return engine.expect_answers({}); });

  std::vector<std::pair<std::uint32_t, EndpointResponse>> came;
  for (std::size_t i = 0; i < records.size(); ++i)
    if (records[i].order != 0)
      came.push_back({records[i].order, {requests[i].id, records[i].plane, records[i].rtt}});
  std::sort(came.begin(), came.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<EndpointResponse> out;
  for (const auto& [order, response] : came) out.push_back(response);
  return out;
}

MRC_SETUP std::vector<EndpointRequests::Routed> EndpointRequests::route(
    std::span<const EndpointRequest> requests) const {
  std::vector<Routed> out;
  std::unordered_set<std::uint16_t> ids;
  for (const EndpointRequest& request : requests) {
    if (!ids.insert(request.id).second)
      throw Error(Errc::invalid_argument,
                  "two requests to endpoints have id " + std::to_string(request.id));
    out.push_back(route(request));
  }
  return out;
}

MRC_SETUP EndpointRequests::Routed EndpointRequests::route(const EndpointRequest& request) const {
  const OpenedPlanes& planes = lanes_[0].planes();
  const PlaneKind& kind = *planes.kind;
  const std::string doing = "request " + std::to_string(request.id) + " to an endpoint: ";
  const auto own = std::find_if(planes.ports.begin(), planes.ports.end(), [&](const auto& port) {
    return port->address().ip == request.source;
  });
  if (own == planes.ports.end())
    throw Error(Errc::invalid_argument,
                doing + port::format_ip(request.source) + " is no address of this device");
  if (request.ev.port > planes.count())
    throw Error(Errc::invalid_argument,
                doing + "there is no port " + std::to_string(request.ev.port));
  Routed out;
  out.request = &request;
  out.plane = request.ev.port > 0 ? static_cast<Plane>(request.ev.port - 1)
                                  : static_cast<Plane>(own - planes.ports.begin());
  // The process with the host's first slot answers for it, if there is one.
  const std::vector<Contact> contacts = kind.contacts(planes, request.destination, Qpn{});
  const auto there = std::find_if(contacts.begin(), contacts.end(), [&](const Contact& contact) {
    return contact.plane == out.plane;
  });
  const port::PeerAddress& address =
      there != contacts.end() ? there->address : contacts.front().address;
  out.source = kind.source_tag(out.plane, address.ip);
  if (request.ev.value == path::EvValue{}) {
    PlanePaths paths = kind.paths_to(planes, out.plane, address, {});
    if (paths.specs.empty()) throw Error(Errc::unsupported, doing + kind.why_none());
    out.path = paths.specs[request.id % paths.specs.size()];
    out.route = std::move(paths.route);
    return out;
  }
  EvTable table;
  table.mode = EvProfileMode::explicit_;
  table.format = request.mode;
  table.ev_count = 1;
  ExpandedEv expanded;
  expanded.fields = request.ev.value;
  expanded.name = path::feedback_ev(request.mode, request.ev.value, request.ev.value);
  expanded.plane = out.plane;
  table.entries.push_back({request.ev, expanded, false});
  out.path = kind.path_of(planes, request.mode, expanded, 0);
  out.route = kind.route_with(planes, out.plane, address, {}, table);
  return out;
}

/// A packet that can't leave is lost, as any may be.
MRC_SETUP void EndpointRequests::send(Time now, const Routed& routed, wire::EndpointOp op,
                                      std::uint16_t number, std::uint8_t dscp,
                                      engine::OutsideRequest& record) {
  const OpenedPlanes& planes = lanes_[0].planes();
  record.sent = now;
  record.timestamp = wire::timestamp_of(now);
  if (!planes.up(routed.plane)) return;
  Port& port = *planes.ports[routed.plane];
  const PeerId scratch{config_.max_peers};  // under the lane's lock, and only here: as Connector's
  port.add_peer(scratch, routed.route);
  wire::EndpointRequestPacket header{
      wire::Bth::make(wire::Opcode::endpoint_request, kEndpointQpn, Psn{number}), {}};
  header.erth.set_op(op);
  header.erth.set_vendor_info(planes.slot);
  if (op == wire::EndpointOp::port_status)
    header.erth.set_port_status_mask(routed.request->port_status);
  header.erth.set_tx_timestamp(record.timestamp);
  burst_.clear();
  wire::TxPacket& packet = burst_.append();
  std::memcpy(packet.header.data(), &header, sizeof header);
  packet.header_length = sizeof header;
  packet.dscp = dscp;
  packet.ecn = Ecn::not_ect;  // mrc-1.0 [O-22]
  packet.peer = scratch;
  packet.plane = routed.plane;
  packet.entropy = routed.path.ev;
  packet.port_path = routed.path.port_path;
  burst_.commit();
  (void)port.transmit(now, burst_, burst_.groups());
  port.remove_peer(scratch);
}

}  // namespace mrc::inline v0_1::detail
