// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "mrc_fabric/export.hpp"
#include "mrc_fabric/switch_routes.hpp"

namespace mrc::tools {
namespace {

constexpr const char* kSegmentRouting = R"(segment-routing
 srv6
  locators
   locator {0}
    prefix {1} block-len 32 node-len 16 func-bits 16
    behavior usid
   exit
   !
  exit
  !
  static-sids
   sid {1} locator {0} behavior uN
  exit
  !
 exit
 !
exit
!
)";

}  // namespace

std::string frr_config(const Plan& plan, const FabricNode& node) {
  const std::string& fabric = plan.description->name;
  std::string out = fmt::format(
      "! {} of the fabric {}, written by mrc_fabric.\n"
      "! For FRR 10.3 or newer with staticd. Not tried on one: docs/fabric_tool.md.\n"
      "hostname {}\n!\n",
      node.name, fabric, node.name);
  for (const std::size_t port : node.ports)
    out += fmt::format("interface {}\n description {}\n ipv6 address {}/64\nexit\n!\n",
                       plan.ports[port].interface, plan.node_of(Plan::peer(port)).name,
                       own_address(port));
  for (const SwitchRoute& route : switch_routes(plan, node))
    for (const std::size_t port : route.ports)
      out += fmt::format("ipv6 route {} {} {}\n", route.prefix, next_hop(port),
                         plan.ports[port].interface);
  return out + "!\n" + fmt::format(kSegmentRouting, kLocator, own_prefix(plan, node));
}

}  // namespace mrc::tools
