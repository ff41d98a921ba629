// SPDX-License-Identifier: Apache-2.0
#include "mrc_probe/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "common/interrupt.hpp"
#include "mrc/core/error.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/plane/plane.hpp"

namespace mrc::probe_tool {
namespace {

port::PacketPortOptions port_options(const fabric::Description& d, const fabric::Host& self,
                                     Plane plane, const Config& config) {
  port::PacketPortOptions o;
  o.interface = self.interfaces[plane];
  o.local = self.addresses[plane];
  o.may_be_absent = true;
  o.plane = plane;
  o.udp_port = config.udp_port;
  if (!self.next_hops.empty()) o.next_hop = self.next_hops[plane];
  o.paths = {{fabric::path_ev(d, plane, 0), 0}};
  o.encapsulation = fabric::encapsulation_of(d);
  o.ev_format = d.entropy;
  o.icrc = config.icrc != port::Offload::off;
  o.dscp = d.dscp;
  return o;
}

}  // namespace

Network::Network(const fabric::Description& d, const fabric::Host& self, const Config& config,
                 const char* program)
    : program_(program),
      dscp_(d.dscp.control),
      mtu_(config.mtu != 0 ? config.mtu : kLargestMrcMtu),
      encapsulation_(fabric::encapsulation_of(d)),
      claim_(port::claim_packet_slot(config.lock_folder)),
      bursts_(d.planes, wire::TxBurst(64, 64)),
      patience_(d.planes, kResolveTime) {
  for (unsigned p = 0; p < d.planes; ++p) {
    port::PacketPortOptions options = port_options(d, self, static_cast<Plane>(p), config);
    options.slot = slot();
    const port::PacketPort& port = ports_.emplace_back(options);
    tell_notes(static_cast<Plane>(p));
    events_.push_back({port.poll_fd(), POLLIN, 0});
    events_.push_back({port.link_fd(), POLLIN, 0});
  }
}

void Network::add_peer(Plane plane, unsigned peer, const wire::IpAddress& ip,
                       std::vector<path::UsidRoute> routes) {
  std::vector<port::PacketRoute> headers;
  for (const path::UsidRoute& r : routes) headers.push_back({r.destination, r.segment, r.has_srh});
  port::PacketPort& port = ports_[plane];
  const port::PeerRoute route(
      port::PacketPort::Route{{ip, port.address().udp_port}, std::move(headers)});
  // Most peers have the same next hop: one that does not answer is waited for once.
  if (const std::string lost = port.await_route(route, patience_[plane]); !lost.empty()) {
    patience_[plane] = Duration{};
    tell(plane, lost);
  }
  (void)port.add_peer(PeerId{peer}, route);
}

std::uint32_t Network::full_size() const noexcept {
  std::uint32_t mtu = mtu_;
  for (const port::PacketPort& port : ports_)
    if (const std::uint32_t room = port.capabilities().max_packet; room != 0)  // it is there
      mtu = fitting_mtu(mtu, room, detail::kPacketOverhead);
  if (mtu == 0) return 0;
  return mtu + detail::kPacketOverhead +
         static_cast<std::uint32_t>(wire::envelope_size(false, encapsulation_));
}

void Network::tell_notes(Plane plane) {
  for (const std::string& note : ports_[plane].notes()) tell(plane, note);
}

void Network::tell(Plane plane, const std::string& note) {
  const std::string line = fmt::format("plane {}: {}", plane, note);
  if (told_.insert(line).second) fmt::print(stderr, "{}: {}\n", program_, line);
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
  if (!burst.empty()) (void)ports_[plane].transmit(monotonic_now(), burst, burst.groups());
  burst.clear();
}

void Network::wait(Time until) noexcept {
  for (const auto& port : ports_) until = std::min(until, port.next_release());
  const Time now = monotonic_now();
  if (until <= now) return;
  const Duration rest = until - now;
  const timespec limit{static_cast<time_t>(rest.count() / 1'000'000'000),
                       static_cast<long>(rest.count() % 1'000'000'000)};
  tools::HeldSignals().sleep(events_, until == kNever ? nullptr : &limit);
}

}  // namespace mrc::probe_tool
