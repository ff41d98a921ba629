// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/route.hpp"

#include <net/if.h>

#include "mrc/net/interface.hpp"

namespace mrc::check_tool {

std::string way_interface(const port::LocalAddress& source, const port::IpAddress& destination) {
  if (port::is_v4(source.ip) != port::is_v4(destination)) return {};
  const port::Socket socket = port::make_udp_socket({source.ip, {}});
  const port::Interface own = port::find_interface(socket, source);
  const std::uint32_t index = port::find_way(own, source.ip, destination).interfaces[0];
  char name[IF_NAMESIZE] = "";
  return index != 0 && ::if_indextoname(index, name) != nullptr ? name : "";
}

}  // namespace mrc::check_tool
