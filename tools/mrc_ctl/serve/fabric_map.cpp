// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/fabric_map.hpp"

#include "mrc/core/error.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc_ctl/serve/host_port.hpp"

namespace mrc::ctl_tool {
namespace {

/// "fd00:1::2:18000, [fd00:2::2]:4791" one by one, in the order of planes.
std::vector<std::string> split(const std::string& addresses) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < addresses.size();) {
    const std::size_t end = std::min(addresses.find(", ", at), addresses.size());
    parts.push_back(addresses.substr(at, end - at));
    at = end + 2;
  }
  return parts;
}

}  // namespace

FabricMap::FabricMap(const std::string& file) : description_(fabric::read(file)) {}

const fabric::Host* FabricMap::host_with(unsigned plane, const std::string& address) const {
  if (plane >= description_.planes) return nullptr;
  const auto at = parse_host_port(address, 0);
  const auto parsed = fabric::parse_ipv6(at ? at->host : address);
  return parsed ? description_.find_host(static_cast<Plane>(plane), *parsed) : nullptr;
}

const FabricMap::Routes& FabricMap::routes(const fabric::Host& from, const fabric::Host& to) {
  const auto [entry, is_new] = known_.try_emplace({&from, &to});
  if (!is_new) return entry->second;
  const auto number = [this](const fabric::Host& host) {
    return static_cast<unsigned>(&host - description_.hosts.data());
  };
  const probe::PathMaker maker(description_, number(from));
  for (probe::ProbePath& path : maker.paths_to(number(to))) {
    std::vector<std::string> stops;
    for (const probe::Stop& stop : path.stops) {
      if (stop.kind == probe::Stop::Kind::unknown)
        stops.emplace_back("?");
      else if (stop.kind == probe::Stop::Kind::host)
        stops.push_back(description_.hosts[stop.number].name);
      else
        stops.push_back(fabric::switch_name(
            path.plane,
            stop.kind == probe::Stop::Kind::t0 ? fabric::NodeKind::t0 : fabric::NodeKind::t1,
            stop.number));
    }
    entry->second[{path.plane, path.uplink}] = {std::move(stops), std::move(path)};
  }
  return entry->second;
}

void FabricMap::add_routes(PeerSnapshot& peer, const fabric::Host& from, const fabric::Host& to) {
  const Routes* known = nullptr;
  try {
    known = &routes(from, to);
  } catch (const Error&) {  // the description gives none
    return;
  }
  std::map<const Route*, int> numbers;
  for (PathSnapshot& path : peer.paths) {
    const Route* route = find(*known, path);
    if (route == nullptr) continue;
    const auto [number, is_new] = numbers.try_emplace(route, static_cast<int>(peer.routes.size()));
    if (is_new) peer.routes.push_back(route->stops);
    path.route = number->second;
  }
}

const FabricMap::Route* FabricMap::find(const Routes& routes, const PathSnapshot& path) const {
  const bool source_routed = description_.forwarding == fabric::Forwarding::srv6;
  const auto route =
      routes.find({path.plane, source_routed ? fabric::uplink_of(description_, Ev{path.ev}) : 0});
  return route == routes.end() ? nullptr : &route->second;
}

std::vector<const probe::ProbePath*> FabricMap::paths_of(const PeerSnapshot& peer) {
  std::vector<const probe::ProbePath*> paths(peer.paths.size());
  const fabric::Host* from = description_.find_host(peer.from);
  const fabric::Host* to = description_.find_host(peer.to);
  if (from == nullptr || to == nullptr) return paths;
  const Routes* known = nullptr;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (peer.paths[i].route < 0) continue;  // of all, if the description gives no routes
    if (known == nullptr) known = &routes(*from, *to);
    if (const Route* route = find(*known, peer.paths[i])) paths[i] = &route->path;
  }
  return paths;
}

void FabricMap::add_routes(DeviceSnapshot& device) {
  const fabric::Host* from = nullptr;
  for (unsigned p = 0; p < device.planes.size() && from == nullptr; ++p)
    from = host_with(p, device.planes[p].address);
  if (from == nullptr) return;
  for (PeerSnapshot& peer : device.peers) {
    const std::vector<std::string> addresses = split(peer.addresses);
    const fabric::Host* to = nullptr;
    for (unsigned p = 0; p < addresses.size() && to == nullptr; ++p)
      to = host_with(p, addresses[p]);
    peer.from = from->name;
    if (to == nullptr) continue;
    peer.to = to->name;
    add_routes(peer, *from, *to);
  }
}

}  // namespace mrc::ctl_tool
