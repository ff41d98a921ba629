// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/resolve/endpoint_requests.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::detail {

/// How long a call waits for next hops, in each plane.
inline constexpr Duration kRequestRouteTime = std::chrono::milliseconds(20);

EndpointRequests::Batch EndpointRequests::prepare(EndpointOperation operation,
                                                  std::span<const EndpointRequest> requests,
                                                  std::uint8_t dscp) const {
  if (!planes_.kind->knows_strangers())
    throw Error(Errc::unsupported,
                "endpoint requests: planes of this kind reach connected peers only; UDP planes and "
                "those of a fabric reach other hosts, too");
  Batch batch;
  batch.op = operation == EndpointOperation::ev_probe ? wire::EndpointOp::ev_probe
                                                      : wire::EndpointOp::port_status;
  batch.dscp = dscp;
  std::vector<bool> ids(std::size_t{1} << 16);
  std::map<port::IpAddress, std::size_t> hosts;
  PlaneMask awaited = 0;
  for (const EndpointRequest& request : requests) {
    const std::string doing = "endpoint request " + std::to_string(request.id) + ": ";
    if (ids[request.id])
      throw Error(Errc::invalid_argument, doing + "its ID is in the batch twice");
    ids[request.id] = true;
    try {
      batch.requests.push_back(make_ready(request));
    } catch (const Error& error) {
      throw Error(error.code(), doing + words_of(error));
    }
    const Ready& ready = batch.requests.back();
    if ((awaited & plane_bit(ready.plane)) == 0)
      (void)planes_.ports[ready.plane]->await_route(ready.route, kRequestRouteTime);
    awaited |= plane_bit(ready.plane);
    const auto host = hosts.try_emplace(request.destination, batch.hosts.size());
    if (host.second) batch.hosts.emplace_back();
    batch.hosts[host.first->second].requests.push_back(batch.requests.size() - 1);
  }
  batch.unsent = batch.requests.size();
  batch.responses.reserve(batch.requests.size());
  return batch;
}

/// By which it leaves.
Plane EndpointRequests::plane_of(const EndpointRequest& request) const {
  unsigned own = 0;
  while (own < planes_.count() && planes_.ports[own]->address().ip != request.source) ++own;
  if (own == planes_.count())
    throw Error(Errc::invalid_argument, "its source, " + port::format_ip(request.source) +
                                            ", is no address of this device");
  if (request.ev.port > planes_.count())
    throw Error(Errc::invalid_argument, "its EV leaves by port " + std::to_string(request.ev.port) +
                                            ", and the device has ports 1 .. " +
                                            std::to_string(planes_.count()));
  if (request.ev.port != 0) return static_cast<Plane>(request.ev.port - 1);
  if (request.ev != ProfileEv{})
    throw Error(Errc::invalid_argument, "its EV says no port that it leaves by");
  return static_cast<Plane>(own);
}

EndpointRequests::Ready EndpointRequests::make_ready(const EndpointRequest& request) const {
  const PlaneKind& kind = *planes_.kind;
  Ready out;
  out.id = request.id;
  out.plane = plane_of(request);
  out.port_status = request.port_status;
  filter_.check(request.destination);
  const std::vector<Contact> contacts = kind.contacts(planes_, request.destination, Qpn{});
  const auto contact = std::find_if(contacts.begin(), contacts.end(),
                                    [&](const Contact& c) { return c.plane == out.plane; });
  if (contact == contacts.end())
    throw Error(Errc::unreachable, "plane " + std::to_string(out.plane) + " does not lead to " +
                                       port::format_ip(request.destination));
  out.source = kind.source_tag(out.plane, contact->address.ip);
  if (request.ev.value == path::EvValue{}) {
    PlanePaths paths = kind.paths_to(planes_, out.plane, contact->address, {});
    if (paths.specs.empty()) throw Error(Errc::unreachable, kind.why_none());
    out.path = paths.specs.front();
    out.route = std::move(paths.route);
  } else {
    const bool srv6 = request.mode == path::EvMode::srv6;
    for (unsigned bit = path::ev_max_width(request.mode, srv6); bit < path::kEvBits; ++bit)
      if (path::get_bits(request.ev.value, bit, 1) != 0)
        throw Error(Errc::invalid_argument, "its EV has more bits than its mode");
    ExpandedEv ev;
    ev.fields = request.ev.value;
    ev.name = path::feedback_ev(request.mode, ev.fields, ev.fields);
    ev.plane = out.plane;
    out.path = kind.path_of(planes_, request.mode, ev, 0);
    EvTable table;
    table.format = request.mode;
    table.entries.push_back({request.ev, ev});
    out.route = kind.route_with(planes_, out.plane, contact->address, {}, table);
  }
  (void)kind.keep_real_header(planes_, out.plane, out.route);
  return out;
}

void EndpointRequests::open(const Batch&) {
  if (batches_ == 0) engine_.endpoint().expect_responses(kResponses);
  ++batches_;
}

void EndpointRequests::close(const Batch& batch) noexcept {
  std::erase_if(open_, [&](const auto& entry) { return entry.second.batch == &batch; });
  if (--batches_ == 0) engine_.endpoint().expect_responses(0);
}

void EndpointRequests::work(Time now, Batch& batch) {
  take_responses();
  for (Batch::Host& host : batch.hosts)
    while (host.next < host.requests.size() && open_.size() < kMostOpen && host.pace.take(now)) {
      if (!send(now, batch, host.requests[host.next])) return;  // soon again
      ++host.next;
      --batch.unsent;
    }
}

/// A response names its request by number and time stamp, and comes from where that went.
void EndpointRequests::take_responses() {
  engine::ResponseInput input;
  while (engine_.endpoint().poll_response(input)) {
    const auto at = open_.find(input.id);
    if (at == open_.end()) continue;
    Batch& batch = *at->second.batch;
    const Ready& request = batch.requests[at->second.request];
    if (input.timestamp != request.timestamp ||
        (input.source != 0 && input.source != request.source))
      continue;
    batch.responses.push_back(
        {request.id, input.plane, std::max(input.when - request.sent, Duration{})});
    --batch.open;
    open_.erase(at);
  }
}

/// False: the port is busy. A request in a plane that is down is lost.
bool EndpointRequests::send(Time now, Batch& batch, std::size_t index) {
  Ready& request = batch.requests[index];
  if (!planes_.up(request.plane)) return true;
  std::uint16_t number = engine_.endpoint().take_request_id();
  while (open_.contains(number)) number = engine_.endpoint().take_request_id();
  request.sent = monotonic_now();
  request.timestamp = wire::timestamp_of(request.sent);
  write(batch, request, number);
  // The number is free between two calls: nothing else sends meanwhile.
  const PeerId peer{config_.max_peers};
  Port& port = *planes_.ports[request.plane];
  port.add_peer(peer, request.route);
  const bool taken = port.transmit(now, burst_, burst_.groups()) > 0;
  port.remove_peer(peer);
  if (!taken) return !planes_.up(request.plane);
  open_.emplace(number, Open{&batch, index});
  ++batch.open;
  return true;
}

void EndpointRequests::write(const Batch& batch, const Ready& request,
                             std::uint16_t number) noexcept {
  wire::EndpointRequestPacket p{
      wire::Bth::make(wire::Opcode::endpoint_request, kEndpointQpn, Psn{number}), {}};
  p.erth.set_op(batch.op);
  p.erth.vendor_info = planes_.slot;  // of the process that the answer goes to
  if (batch.op == wire::EndpointOp::port_status) p.erth.port_status_mask = request.port_status;
  p.erth.set_tx_timestamp(request.timestamp);
  burst_.clear();
  wire::TxPacket& packet = burst_.append();
  std::memcpy(packet.header.data(), &p, sizeof p);
  packet.header_length = sizeof p;
  packet.dscp = batch.dscp;
  packet.ecn = Ecn::not_ect;  // mrc-1.0 [O-22]
  packet.peer = PeerId{config_.max_peers};
  packet.plane = request.plane;
  packet.entropy = request.path.ev;
  packet.port_path = request.path.port_path;
  burst_.commit();
}

}  // namespace mrc::inline v0_1::detail
