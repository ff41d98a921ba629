// SPDX-License-Identifier: Apache-2.0
#include "mrc_probe/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "common/interrupt.hpp"
#include "mrc/core/error.hpp"
#include "mrc/fabric/routes.hpp"

namespace mrc::probe {
namespace {

port::PacketPortOptions port_options(const fabric::Description& d, const fabric::Host& self,
                                     Plane plane, const Config& config) {
  port::PacketPortOptions o;
  o.interface = self.interfaces[plane];
  o.local = self.addresses[plane];
  o.plane = plane;
  o.udp_port = config.udp_port;
  if (!self.next_hops.empty()) o.next_hop = self.next_hops[plane];
  o.paths = {{fabric::path_ev(d, plane, 0), 0}};
  o.icrc = config.icrc;
  o.dscp = d.dscp;
  return o;
}

}  // namespace

Network::Network(const fabric::Description& d, const fabric::Host& self, const Config& config)
    : dscp_(d.dscp.control),
      claim_(port::claim_packet_slot()),
      bursts_(d.planes, wire::TxBurst(64, 1)) {
  std::size_t missing = 0;
  for (unsigned p = 0; p < d.planes; ++p) {
    ports_.emplace_back();
    port::PacketPortOptions options = port_options(d, self, static_cast<Plane>(p), config);
    options.slot = slot();
    try {
      ports_.back().emplace(options);
    } catch (const Error& error) {
      if (error.code() != Errc::not_found || ++missing == d.planes) throw;
      tell(error.what());
      continue;
    }
    events_.push_back({ports_.back()->poll_fd(), POLLIN, 0});
    events_.push_back({ports_.back()->link_fd(), POLLIN, 0});
  }
}

void Network::add_peer(Plane plane, unsigned peer, const wire::IpAddress& ip,
                       std::vector<path::UsidRoute> routes) {
  if (!ports_[plane]) return;
  std::vector<port::PacketRoute> headers;
  for (const path::UsidRoute& r : routes) headers.push_back({r.destination, r.segment, r.has_srh});
  (void)ports_[plane]->add_peer(PeerId{peer}, {ip, ports_[plane]->address().udp_port},
                                std::move(headers));
  for (const std::string& note : ports_[plane]->notes())
    tell(fmt::format("plane {}: {}", plane, note));
}

void Network::tell(const std::string& what) {
  if (told_.insert(what).second) fmt::print(stderr, "mrc_probe: {}\n", what);
}

void Network::commit(const Way& way, wire::TxPacket& packet) {
  packet.dscp = dscp_;
  packet.ecn = Ecn::not_ect;  // mrc-1.0 [O-22]
  packet.peer = PeerId{way.peer};
  packet.plane = way.plane;
  packet.entropy = way.ev;
  packet.port_path = way.route;
  bursts_[way.plane].commit();
}

void Network::flush() {
  for (std::size_t p = 0; p < bursts_.size(); ++p) flush(static_cast<Plane>(p));
}

void Network::flush(Plane plane) {
  wire::TxBurst& burst = bursts_[plane];
  if (ports_[plane] && !burst.empty())
    (void)ports_[plane]->transmit(monotonic_now(), burst, burst.groups());
  burst.clear();
}

void Network::wait(Time until) noexcept {
  for (const auto& port : ports_)
    if (port) until = std::min(until, port->next_release());
  const Time now = monotonic_now();
  if (until <= now) return;
  const Duration rest = until - now;
  const timespec limit{static_cast<time_t>(rest.count() / 1'000'000'000),
                       static_cast<long>(rest.count() % 1'000'000'000)};
  bench::HeldSignals().sleep(events_, until == kNever ? nullptr : &limit);
}

}  // namespace mrc::probe
