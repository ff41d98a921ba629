// SPDX-License-Identifier: Apache-2.0
#include "mrc_probe/answer.hpp"

#include <unordered_map>
#include <utility>
#include <vector>

#include "common/interrupt.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/port/address.hpp"
#include "mrc/wire/endpoint_headers.hpp"

namespace mrc::probe {
namespace {

/// A host in one plane, as the sender of requests.
struct Asker {
  unsigned host = 0;
  std::vector<Ev> evs;  ///< [route]: of the paths back to it
};

class Answerer {
 public:
  Answerer(const Description& d, unsigned self, Network& network)
      : network_(network), askers_(d.planes) {
    for (unsigned k = 0; k < d.hosts.size(); ++k)
      if (k != self) add_host(d, d.hosts[self], k);
  }

  std::uint64_t run() {
    while (!bench::g_interrupted) {
      network_.wait(kNever);
      network_.receive([this](const wire::RxPacket& packet) { on_packet(packet); });
      network_.flush();
    }
    return answered_;
  }

 private:
  void add_host(const Description& d, const fabric::Host& self, unsigned k) {
    std::vector<std::vector<path::UsidRoute>> routes(d.planes);
    std::vector<Asker> askers(d.planes, Asker{k, {}});
    for (const fabric::Path& path : fabric::paths(d, self, d.hosts[k])) {
      routes[path.plane].push_back(path.route);
      askers[path.plane].evs.push_back(path.ev);
    }
    for (unsigned p = 0; p < d.planes; ++p) {
      const wire::IpAddress& ip = d.hosts[k].addresses[p];
      network_.add_peer(static_cast<Plane>(p), k, ip, std::move(routes[p]));
      askers_[p][port::source_tag(ip)] = std::move(askers[p]);
    }
  }

  void on_packet(const wire::RxPacket& packet) {
    if (wire::view_as<wire::Bth>(packet.bytes).opcode() != wire::Opcode::endpoint_request) return;
    const auto& request = wire::view_as<wire::EndpointRequestPacket>(packet.bytes);
    const auto asker = askers_[packet.plane].find(packet.source);
    if (request.erth.op() != wire::EndpointOp::ev_probe || asker == askers_[packet.plane].end())
      return;
    wire::EndpointResponsePacket p{
        wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, request.bth.psn()), {}};
    p.eeth.set_op(wire::EndpointOp::ev_probe);
    p.eeth.set_tx_timestamp(request.erth.tx_timestamp());
    network_.send(way_back(packet, asker->second), p);
    ++answered_;
  }

  /// The same plane and uplink, as far as the request's EV is one of this fabric's.
  [[nodiscard]] static Way way_back(const wire::RxPacket& packet, const Asker& asker) {
    std::size_t route = value(packet.entropy) % asker.evs.size();
    for (std::size_t i = 0; i < asker.evs.size(); ++i)
      if (asker.evs[i] == packet.entropy) route = i;
    return {packet.plane, asker.host, static_cast<std::uint16_t>(route), asker.evs[route]};
  }

  Network& network_;
  std::vector<std::unordered_map<std::uint64_t, Asker>> askers_;  ///< [plane], by source tag
  std::uint64_t answered_ = 0;
};

}  // namespace

std::uint64_t answer_probes(const Description& d, unsigned self, Network& network) {
  return Answerer(d, self, network).run();
}

}  // namespace mrc::probe
