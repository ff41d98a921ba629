// SPDX-License-Identifier: Apache-2.0
// Number, order, ports and MTU of planes.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "mrc_ctl/check/judge.hpp"

namespace mrc::check_tool {
namespace {

std::string plane_text(const PlaneFacts& plane) {
  return fmt::format("{} ({}, MTU {})", address_text(plane),
                     plane.interface.empty() ? "?" : plane.interface, plane.interface_mtu);
}

void judge_count(const HostFacts& here, const HostFacts& there, std::vector<Row>& rows) {
  Row row{"planes",
          std::to_string(here.planes.size()),
          std::to_string(there.planes.size()),
          Verdict::ok,
          {}};
  if (here.planes.size() != there.planes.size()) {
    row.verdict = Verdict::failed;
    row.remedy = fmt::format(
        "{} has {} planes and {} {}: give MRC_PLANES as many at both, in the same order", here.host,
        here.planes.size(), there.host, there.planes.size());
  }
  rows.push_back(row);
}

std::string order_text(const HostFacts& own, const HostFacts& other, std::size_t plane, int k) {
  const PlaneFacts &mine = own.planes[plane], &its = other.planes[plane];
  return fmt::format(
      "plane {} of {} is {} {}, and that of {} is {}, which belongs with plane {} of {}: give "
      "MRC_PLANES in the same order at both",
      plane, own.host, mine.interface, address_text(mine), other.host, address_text(its), k,
      own.host);
}

/// What keeps packets to a plane from arriving by its own link.
std::string arrival_problem(const HostFacts& own, std::size_t plane) {
  const PlaneFacts& mine = own.planes[plane];
  std::string why;
  if (mine.strict_source)
    why = fmt::format(
        "{}: another plane is in the subnet of plane {}, and {} drops packets whose way back leads "
        "by that one's interface: `sysctl -w net.ipv4.conf.{}.rp_filter=2`",
        own.host, plane, mine.interface, mine.interface);
  if (mine.answers_for_all)
    why += fmt::format(
        "{}{}: another plane is in the subnet of plane {}, and {} answers ARP for both, so packets "
        "may arrive by the wrong link: `sysctl -w net.ipv4.conf.{}.arp_ignore=1`, or give each "
        "plane a subnet of its own",
        why.empty() ? "" : "\n", own.host, plane, mine.interface, mine.interface);
  return why;
}

/// Why plane N here and plane N there are no pair; empty if they are one.
std::string pair_problem(const HostFacts& here, const HostFacts& there, std::size_t plane,
                         Verdict& verdict) {
  const PlaneFacts &a = here.planes[plane], &b = there.planes[plane];
  verdict = Verdict::failed;
  if (port::is_v4(a.address) != port::is_v4(b.address))
    return fmt::format(
        "plane {} is of another IP version at each host: give MRC_PLANES addresses of one version",
        plane);
  for (const auto& [own, other] : {std::pair(&here, &there), std::pair(&there, &here)})
    if (const int k = belongs_to(*own, plane); k >= 0) return order_text(*own, *other, plane, k);
  for (const HostFacts* own : {&here, &there}) {
    const PlaneFacts& mine = own->planes[plane];
    if (!mine.running)
      return fmt::format(
          "{}: interface {} of plane {} is down or has no carrier: `ip link set {} "
          "up`, or look at its cable",
          own->host, mine.interface, plane, mine.interface);
  }
  for (const auto& [own, other] : {std::pair(&here, &there), std::pair(&there, &here)}) {
    const PlaneFacts& mine = own->planes[plane];
    if (mine.leaves.size() <= plane || mine.leaves[plane] == mine.interface ||
        mine.interface.empty() || (!mine.on_link && !mine.leaves[plane].empty()))
      continue;
    const std::string to = address_text(other->planes[plane]);
    if (mine.leaves[plane].empty())
      return fmt::format("{}: there is no route from {} to {}: `ip route add` one by interface {}",
                         own->host, address_text(mine), to, mine.interface);
    verdict = Verdict::warning;
    return fmt::format(
        "{}: packets of plane {} to {} leave by {}, not by {} that has its address: give each "
        "plane a subnet of its own, or a routing rule (`ip rule add from {} table ...`)",
        own->host, plane, to, mine.leaves[plane], mine.interface, address_text(mine));
  }
  verdict = Verdict::warning;
  for (const HostFacts* own : {&here, &there})
    if (std::string why = arrival_problem(*own, plane); !why.empty()) return why;
  return {};
}

void judge_ports(const HostFacts& here, const HostFacts& there, std::vector<Row>& rows) {
  const auto text = [](const HostFacts& facts) {
    std::set<std::string> ports;
    for (const PlaneFacts& plane : facts.planes)
      ports.insert(std::to_string(plane.udp_port) + (plane.in_use.empty() ? "" : " (in use)"));
    std::string all;
    for (const std::string& one : ports) all += (all.empty() ? "" : ", ") + one;
    return all;
  };
  Row row{"UDP port", text(here), text(there), Verdict::ok, {}};
  const auto add = [&](Verdict verdict, const std::string& why) {
    row.verdict = std::max(row.verdict, verdict);
    row.remedy += (row.remedy.empty() ? "" : "\n") + why;
  };
  std::size_t differ = 0;
  for (std::size_t i = 0; i < std::min(here.planes.size(), there.planes.size()); ++i)
    differ += here.planes[i].udp_port != there.planes[i].udp_port;
  if (differ > 0)
    add(Verdict::warning,
        "devices that connect by GID look for each other at their own UDP port: give both the same "
        "MRC_UDP_PORT, or name the other's in MRC_PEER_PORTS");
  for (const HostFacts* own : {&here, &there})
    for (const PlaneFacts& plane : own->planes) {
      if (plane.in_use.empty()) continue;
      add(Verdict::warning,
          fmt::format("{}: UDP port {} of {} is in use by {}; probes took {} instead, so that a "
                      "firewall in front of {} was not checked. A device takes the next free one",
                      own->host, plane.udp_port, address_text(plane), plane.in_use,
                      plane.probe_port, plane.udp_port));
      break;  // the other planes' are the same story
    }
  rows.push_back(row);
}

void judge_mtu(const HostFacts& here, const HostFacts& there, std::vector<Row>& rows) {
  Row row{"bytes per packet", std::to_string(here.mtu), std::to_string(there.mtu), Verdict::ok, {}};
  for (const HostFacts* own : {&here, &there}) {
    if (own->mtu != 0) continue;
    row.verdict = Verdict::failed;
    row.remedy = own->host +
                 ": the MTU of an interface is too small for any packet: raise it with "
                 "`ip link set`";
  }
  if (row.verdict == Verdict::ok && here.mtu != there.mtu) {
    const HostFacts& less = here.mtu < there.mtu ? here : there;
    const auto narrow = std::min_element(
        less.planes.begin(), less.planes.end(),
        [](const auto& a, const auto& b) { return a.interface_mtu < b.interface_mtu; });
    row.verdict = Verdict::warning;
    row.remedy = fmt::format(
        "packets carry {} bytes in all planes, since {} has no room for more: plane {} there is {} "
        "with an MTU of {}; `ip link set {} mtu ...`, or the same MRC_MTU at both",
        less.mtu, less.host, narrow - less.planes.begin(), narrow->interface, narrow->interface_mtu,
        narrow->interface);
  }
  rows.push_back(row);
}

}  // namespace

int belongs_to(const HostFacts& own, std::size_t plane) {
  const auto fits = [&](std::size_t k, std::size_t other) {
    if (k >= own.planes.size()) return false;
    const PlaneFacts& mine = own.planes[k];
    return other < mine.leaves.size() && !mine.interface.empty() &&
           mine.leaves[other] == mine.interface;
  };
  if (fits(plane, plane)) return -1;
  // A plane that fits its own counterpart, too, is only that by which the kernel reaches a subnet.
  for (std::size_t k = 0; k < own.planes.size(); ++k)
    if (fits(k, plane) && !fits(k, k)) return static_cast<int>(k);
  return -1;
}

void judge_planes(const HostFacts& here, const HostFacts& there, std::vector<Row>& rows) {
  if (here.kind != there.kind) {
    rows.push_back({"kind of planes", here.kind, there.kind, Verdict::failed,
                    "planes of different kinds do not reach each other: give both hosts the same "
                    "of MRC_PLANES, MRC_FABRIC and MRC_VERBS"});
    return;
  }
  if (here.kind == "fabric") {
    const bool same = here.fabric == there.fabric && here.fabric != "unreadable";
    rows.push_back({"fabric description", here.fabric, there.fabric,
                    same ? Verdict::ok : Verdict::failed,
                    same ? ""
                         : "the files of MRC_FABRIC differ, or can't be read: copy one to "
                           "both hosts"});
    return;
  }
  if (here.kind == "rdma") {
    rows.push_back({"paths", "not checked", "not checked", Verdict::warning,
                    "RDMA planes: `ibv_devinfo` shows their ports, `mrc_perf` between both hosts "
                    "shows whether packets pass"});
    return;
  }
  judge_count(here, there, rows);
  for (std::size_t i = 0; i < std::min(here.planes.size(), there.planes.size()); ++i) {
    Row row{fmt::format("plane {}", i),
            plane_text(here.planes[i]),
            plane_text(there.planes[i]),
            Verdict::ok,
            {}};
    Verdict verdict = Verdict::ok;
    row.remedy = pair_problem(here, there, i, verdict);
    if (!row.remedy.empty()) row.verdict = verdict;
    rows.push_back(row);
  }
  judge_ports(here, there, rows);
  judge_mtu(here, there, rows);
  Row paths{
      "paths per plane", std::to_string(here.paths), std::to_string(there.paths), Verdict::ok, {}};
  if (here.paths != there.paths) {
    paths.verdict = Verdict::warning;
    paths.remedy = "traffic takes more paths one way than the other: give both the same MRC_PATHS";
  }
  rows.push_back(paths);
}

}  // namespace mrc::check_tool
