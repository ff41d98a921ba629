// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/fabric/fabric_address.hpp"
#include "mrc/fabric/self.hpp"

namespace mrc::inline v0_1::fabric {

namespace detail {

/// How many of a host's addresses are among `local`.
inline std::size_t count_present(const Host& h, std::span<const wire::IpAddress> local) {
  return static_cast<std::size_t>(
      std::count_if(h.addresses.begin(), h.addresses.end(), [&](const wire::IpAddress& address) {
        return std::find(local.begin(), local.end(), address) != local.end();
      }));
}

/// "h1 lacks fd00:2::2 (plane 1)".
inline std::string lack_text(const Host& h, std::size_t plane) {
  return h.name + " lacks " + format_ipv6(h.addresses[plane]) + " (plane " + std::to_string(plane) +
         ")";
}

/// "h0, h1"; after eight names "...".
inline std::string host_names(const std::vector<const Host*>& hosts) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(hosts.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + hosts[i]->name;
  return text + (hosts.size() > kMost ? ", ..." : "");
}

inline const Host& find_wanted(const Description& d, std::span<const wire::IpAddress> local,
                               const std::string& wanted) {
  const Host* host = d.find_host(wanted);
  if (host == nullptr) {
    std::vector<const Host*> all;
    for (const Host& h : d.hosts) all.push_back(&h);
    throw Error(Errc::not_found, d.file + ": has no host '" + wanted + "', only " +
                                     host_names(all) + "; set MRC_HOST to one of these");
  }
  if (count_present(*host, local) == 0)
    throw Error(Errc::not_found,
                d.file + ": this is not host " + wanted + ": " + lack_text(*host, 0) +
                    "; run inside the namespace of that host, or set MRC_HOST to another");
  return *host;
}

}  // namespace detail

const Host& find_self(const Description& d, std::span<const wire::IpAddress> local,
                      std::string_view wanted) {
  if (!wanted.empty()) return detail::find_wanted(d, local, std::string(wanted));
  std::vector<const Host*> some, all;
  for (const Host& h : d.hosts) {
    const std::size_t present = detail::count_present(h, local);
    if (present > 0) some.push_back(&h);
    if (present == h.addresses.size()) all.push_back(&h);
  }
  if (all.size() == 1) return *all.front();
  if (all.empty() && some.size() == 1) return *some.front();
  if (some.empty())
    throw Error(Errc::not_found,
                d.file + ": no host has an address on this machine (" +
                    detail::lack_text(d.hosts[0], 0) +
                    ", for one); run inside the namespace of a host, or set its addresses up here");
  throw Error(Errc::invalid_argument, d.file + ": several hosts have addresses on this machine: " +
                                          detail::host_names(all.empty() ? some : all) +
                                          "; set MRC_HOST to one of them");
}

}  // namespace mrc::inline v0_1::fabric
