// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/socket_interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "mrc_perf/units.hpp"

namespace mrc::nccl_perf {
namespace {

bool is_usable(const ifaddrs& i) {
  if (i.ifa_addr == nullptr || (i.ifa_flags & IFF_UP) == 0) return false;
  if (i.ifa_addr->sa_family == AF_INET) return true;
  if (i.ifa_addr->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(i.ifa_addr)->sin6_addr);
}

bool is_allowed(const std::string& name, const std::string& list) {
  const bool except = list.starts_with('^');
  const bool exact = list.substr(except ? 1 : 0).starts_with('=');
  const auto parts = perf::split(list.substr((except ? 1 : 0) + (exact ? 1 : 0)), ',');
  const bool named = std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return exact ? name == part : name.starts_with(part);
  });
  return named != except;
}

std::vector<SocketInterface> usable_interfaces() {
  std::vector<SocketInterface> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (!is_usable(*i)) continue;
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const SocketInterface& f) { return f.name == i->ifa_name; });
    if (known) continue;
    SocketInterface next{i->ifa_name, {}};
    const bool is_v6 = i->ifa_addr->sa_family == AF_INET6;
    std::memcpy(&next.address, i->ifa_addr, is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    found.push_back(std::move(next));
  }
  return found;
}

}  // namespace

std::vector<SocketInterface> socket_interfaces(const std::string& allowed) {
  const auto all = usable_interfaces();
  std::vector<SocketInterface> chosen;
  for (const SocketInterface& i : all)
    if (is_allowed(i.name, allowed.empty() ? "^lo,docker" : allowed)) chosen.push_back(i);
  if (chosen.empty() && allowed.empty()) chosen = all;
  return chosen;
}

}  // namespace mrc::nccl_perf
