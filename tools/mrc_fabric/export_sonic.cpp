// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mrc_fabric/export.hpp"
#include "mrc_fabric/switch_routes.hpp"

namespace mrc::tools {
namespace {

using Json = nlohmann::ordered_json;

/// Port names by index among the node's ports, four lanes each.
std::string ethernet(std::size_t place) {
  return fmt::format("Ethernet{}", 4 * place);
}

std::string ethernet_of(const Plan& plan, std::size_t port) {
  const FabricNode& node = plan.node_of(port);
  const auto place = std::find(node.ports.begin(), node.ports.end(), port) - node.ports.begin();
  if (node.kind == NodeKind::host) return plan.ports[port].interface;
  return ethernet(static_cast<std::size_t>(place));
}

Json route_json(const Plan& plan, const SwitchRoute& route) {
  std::string hops, interfaces, distances, black_holes;
  for (const std::size_t port : route.ports) {
    const char* const comma = hops.empty() ? "" : ",";
    hops += comma + next_hop(port);
    interfaces += comma + ethernet_of(plan, port);
    distances += std::string(comma) + "0";
    black_holes += std::string(comma) + "false";
  }
  return {{"nexthop", hops},
          {"ifname", interfaces},
          {"distance", distances},
          {"blackhole", black_holes}};
}

}  // namespace

std::string sonic_config(const Plan& plan, const FabricNode& node) {
  Json config;
  config["DEVICE_METADATA"]["localhost"]["hostname"] = node.name;
  for (const std::size_t port : node.ports) {
    const std::string name = ethernet_of(plan, port);
    const std::size_t peer = Plan::peer(port);
    config["DEVICE_NEIGHBOR"][name] = {{"name", plan.node_of(peer).name},
                                       {"port", ethernet_of(plan, peer)}};
    config["INTERFACE"][name] = {{"ipv6_use_link_local_only", "enable"}};
    config["INTERFACE"][name + "|" + own_address(port) + "/64"] = Json::object();
  }
  const std::string own = own_prefix(plan, node);
  config["SRV6_MY_LOCATORS"][kLocator] = {{"prefix", own.substr(0, own.find('/'))},
                                          {"block_len", "32"},
                                          {"node_len", "16"},
                                          {"func_len", "0"},
                                          {"arg_len", "0"}};
  config["SRV6_MY_SIDS"][std::string(kLocator) + "|" + own] = {{"action", "uN"},
                                                               {"decap_dscp_mode", "pipe"}};
  for (const SwitchRoute& route : switch_routes(plan, node))
    config["STATIC_ROUTE"]["default|" + route.prefix] = route_json(plan, route);
  return config.dump(2) + "\n";
}

}  // namespace mrc::tools
