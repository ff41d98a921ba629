// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/switch_routes.hpp"

#include "mrc/fabric/description.hpp"

namespace mrc::tools {
namespace {

using path::is_local;

Plane plane_of(const FabricNode& node) {
  return static_cast<Plane>(node.plane);
}

std::string address_prefix(const fabric::Host& host, Plane plane) {
  return fabric::format_ipv6(host.addresses[plane]) + "/128";
}

/// Own hosts by their downlinks, T1s by their uplinks, other addresses by all uplinks.
std::vector<SwitchRoute> t0_routes(const Plan& plan, const FabricNode& node) {
  const fabric::Description& d = *plan.description;
  const Plane p = plane_of(node);
  const std::vector<std::size_t> uplinks(node.ports.end() - d.t1, node.ports.end());
  std::vector<SwitchRoute> routes;
  for (unsigned j = 0; j < d.t1; ++j)
    routes.push_back({usid_prefix(d, p, d.usids.of_t1(p, j)), {uplinks[j]}, is_local(d.usids.t1)});
  auto downlink = node.ports.begin();
  for (const fabric::Host& h : d.hosts) {
    if (h.t0 != node.index) {
      routes.push_back({address_prefix(h, p), uplinks});
      continue;
    }
    routes.push_back({host_usid_prefix(d, p, h), {*downlink}, is_local(d.usids.host)});
    routes.push_back({address_prefix(h, p), {*downlink}});
    ++downlink;
  }
  return routes;
}

/// All hosts by their T0.
std::vector<SwitchRoute> t1_routes(const Plan& plan, const FabricNode& node) {
  const fabric::Description& d = *plan.description;
  const Plane p = plane_of(node);
  std::vector<SwitchRoute> routes;
  for (unsigned i = 0; i < d.t0; ++i)
    routes.push_back(
        {usid_prefix(d, p, d.usids.of_t0(p, i)), {node.ports[i]}, is_local(d.usids.t0)});
  for (const fabric::Host& h : d.hosts) {
    if (!is_local(d.usids.host)) routes.push_back({host_usid_prefix(d, p, h), {node.ports[h.t0]}});
    routes.push_back({address_prefix(h, p), {node.ports[h.t0]}});
  }
  return routes;
}

}  // namespace

std::string usid_prefix(const fabric::Description& d, Plane plane, fabric::Usid usid) {
  return fabric::format_ipv6(d.usid_prefix(plane, usid)) + "/48";
}

std::string host_usid_prefix(const fabric::Description& d, Plane plane, const fabric::Host& host) {
  return usid_prefix(d, plane, d.usids.of_host(plane, host.t0, host.downlink));
}

std::string own_prefix(const Plan& plan, const FabricNode& node) {
  const fabric::Description& d = *plan.description;
  const Plane p = plane_of(node);
  const bool is_t0 = node.kind == NodeKind::t0;
  const fabric::Usid usid = is_t0 ? d.usids.of_t0(p, node.index) : d.usids.of_t1(p, node.index);
  return is_local(usid) ? "" : usid_prefix(d, p, usid);
}

std::vector<SwitchRoute> switch_routes(const Plan& plan, const FabricNode& node) {
  return node.kind == NodeKind::t0 ? t0_routes(plan, node) : t1_routes(plan, node);
}

}  // namespace mrc::tools
