// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/settings/planes.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <tuple>

#include "mrc/core/types.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/net/address.hpp"

namespace mrc_nccl {
namespace {

using mrc::port::IpAddress;

constexpr const char* kIfname = "NCCL_SOCKET_IFNAME";

/// What comes after real interfaces: of containers, virtual machines and tunnels. These names are
/// conventions; inside a container its own end of such a pair is called eth0.
constexpr std::string_view kSecondChoice[] = {"docker", "virbr", "vnet", "veth",      "br-",
                                              "cni",    "cali",  "lxc",  "flannel",   "podman",
                                              "tun",    "tap",   "wg",   "tailscale", "zt"};

bool is_second_choice(const InterfaceFacts& facts) {
  return std::any_of(std::begin(kSecondChoice), std::end(kSecondChoice),
                     [&](std::string_view prefix) { return facts.name.starts_with(prefix); });
}

/// 169.254.0.0/16: no router forwards it.
bool is_v4_link_local(const IpAddress& ip) {
  return mrc::port::is_v4(ip) && ip[12] == 169 && ip[13] == 254;
}

/// The address of an interface that becomes a plane: IPv4 if the family allows it.
std::optional<IpAddress> plane_address(const InterfaceFacts& facts, Family family, bool routable) {
  std::optional<IpAddress> best;
  for (const IpAddress& ip : facts.addresses) {
    const bool v4 = mrc::port::is_v4(ip);
    if (mrc::port::is_link_local(ip) || mrc::port::is_unspecified(ip)) continue;
    if ((v4 && family == Family::v6) || (!v4 && family == Family::v4)) continue;
    if (routable && is_v4_link_local(ip)) continue;
    if (!best || (v4 && !mrc::port::is_v4(*best))) best = ip;
  }
  return best;
}

/// Orders names with numbers by these: "eth2" before "eth10".
bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto take_number = [&](std::string_view& text) {
    std::size_t length = 0;
    while (length < text.size() && digit(text[length])) ++length;
    std::string_view number = text.substr(0, length);
    text.remove_prefix(length);
    while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
    return number;
  };
  std::string_view x = a, y = b;
  while (!x.empty() && !y.empty()) {
    if (digit(x.front()) && digit(y.front())) {
      const std::string_view m = take_number(x), n = take_number(y);
      if (m != n) return std::tuple(m.size(), m) < std::tuple(n.size(), n);
    } else {
      if (x.front() != y.front()) return x.front() < y.front();
      x.remove_prefix(1);
      y.remove_prefix(1);
    }
  }
  if (x.empty() != y.empty()) return x.empty();
  return a < b;
}

PlaneFacts plane_of(const InterfaceFacts& facts, std::string address) {
  return {std::move(address), facts.name, facts.speed_mbps, facts.pci_path, facts.numa_node};
}

const char* family_text(Family family) {
  switch (family) {
    case Family::v4:
      return "IPv4";
    case Family::v6:
      return "IPv6 (not link-local)";
    case Family::any:
      break;
  }
  return "IPv4 or IPv6 (not link-local)";
}

/// An interface that may become a plane. Lower ranks come first.
struct Candidate {
  std::size_t rank;
  const InterfaceFacts* facts;
  IpAddress address;
};

std::vector<Candidate> named(const InterfaceFilter& filter, Family family,
                             const std::vector<InterfaceFacts>& interfaces) {
  std::vector<Candidate> found;
  for (const InterfaceFacts& facts : interfaces) {
    const std::size_t rank = filter.match(facts.name);
    if (rank == filter.names.size() || !facts.up) continue;
    if (const auto ip = plane_address(facts, family, false)) found.push_back({rank, &facts, *ip});
  }
  return found;
}

std::vector<Candidate> automatic(const InterfaceFilter& filter, Family family,
                                 const std::vector<InterfaceFacts>& interfaces) {
  std::vector<Candidate> found;
  for (const InterfaceFacts& facts : interfaces) {
    if (!facts.running || filter.match(facts.name) != filter.names.size()) continue;
    const std::size_t rank = facts.loopback ? 2 : is_second_choice(facts) ? 1 : 0;
    if (const auto ip = plane_address(facts, family, true)) found.push_back({rank, &facts, *ip});
  }
  std::size_t best = 2;
  for (const Candidate& candidate : found) best = std::min(best, candidate.rank);
  std::erase_if(found, [&](const Candidate& candidate) { return candidate.rank != best; });
  return found;
}

/// Throws: nothing is left of the interfaces.
[[noreturn]] void fail_empty(const InterfaceFilter& filter, Family family,
                             const std::vector<InterfaceFacts>& interfaces) {
  const std::string there = "; there are: " + interfaces_text(interfaces);
  const std::string wanted = std::string("with an ") + family_text(family) + " address";
  if (filter.text.empty())
    throw SettingsError("no network interface that is up and running " + wanted + there +
                        "; set MRC_PLANES or NCCL_SOCKET_IFNAME");
  throw not_allowed(kIfname, filter.text,
                    (filter.selects() ? "a name that matches an interface that is up, "
                                      : "a list that leaves an interface that is running, ") +
                        wanted + there);
}

void warn_of_choice(const InterfaceFilter& filter, const std::vector<Candidate>& chosen,
                    std::vector<std::string>& warnings) {
  const auto loopbacks = std::count_if(chosen.begin(), chosen.end(),
                                       [](const Candidate& c) { return c.facts->loopback; });
  if (loopbacks != 0 && static_cast<std::size_t>(loopbacks) != chosen.size())
    warnings.push_back(std::string(kIfname) + "=" + filter.text +
                       ": loopback is one of several planes, and reaches no other host");
  for (const Candidate& c : chosen)
    if (!c.facts->running)
      warnings.push_back("plane on " + c.facts->name +
                         ": the interface has no carrier; the plane is used when it has");
  if (!filter.selects()) return;
  for (std::size_t i = 0; i < filter.names.size(); ++i)
    if (std::none_of(chosen.begin(), chosen.end(), [&](const auto& c) { return c.rank == i; }))
      warnings.push_back(std::string(kIfname) + "=" + filter.text + ": '" + filter.names[i] +
                         "' matches no further interface that is up and has an address");
}

}  // namespace

std::size_t InterfaceFilter::match(std::string_view interface) const {
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return exact ? interface == name : interface.starts_with(name);
  });
  return static_cast<std::size_t>(found - names.begin());
}

InterfaceFilter read_filter(const Environment& environment) {
  InterfaceFilter filter;
  filter.text = environment.find(kIfname).value_or("");
  if (filter.text.empty()) return filter;
  std::string_view rest = filter.text;
  if ((filter.exclude = rest.starts_with('^'))) rest.remove_prefix(1);
  if ((filter.exact = rest.starts_with('='))) rest.remove_prefix(1);
  const auto names = mrc::parse_list(rest);
  if (!names || std::any_of(names->begin(), names->end(), [](const std::string& name) {
        return name.find_first_of("^= \t") != std::string::npos;
      }))
    throw not_allowed(kIfname, filter.text,
                      "prefixes of interface names, separated by commas, such as 'eth,ib'; '=' in "
                      "front for whole names ('=eth0,eth1'), '^' to exclude ('^docker,lo' or "
                      "'^=docker0')");
  filter.names = *names;
  return filter;
}

Family read_family(const Environment& environment) {
  const auto family = environment.choice("NCCL_SOCKET_FAMILY", {"AF_INET", "AF_INET6"});
  if (!family) return Family::any;
  return *family == 0 ? Family::v4 : Family::v6;
}

std::vector<PlaneFacts> choose_planes(const InterfaceFilter& filter, Family family,
                                      const std::vector<InterfaceFacts>& interfaces,
                                      std::vector<std::string>& warnings) {
  auto chosen =
      filter.selects() ? named(filter, family, interfaces) : automatic(filter, family, interfaces);
  if (chosen.empty()) fail_empty(filter, family, interfaces);
  std::stable_sort(chosen.begin(), chosen.end(), [](const Candidate& a, const Candidate& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    return natural_less(a.facts->name, b.facts->name);
  });
  if (chosen.size() > mrc::kMaxPlanes) {
    const std::string allowed = "up to " + std::to_string(mrc::kMaxPlanes) +
                                " interfaces, these are " + std::to_string(chosen.size());
    throw not_allowed(kIfname, filter.text, allowed);
  }
  warn_of_choice(filter, chosen, warnings);
  std::vector<PlaneFacts> planes;
  for (const Candidate& c : chosen)
    planes.push_back(plane_of(*c.facts, mrc::port::format_ip(c.address)));
  return planes;
}

}  // namespace mrc_nccl
