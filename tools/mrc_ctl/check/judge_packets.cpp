// SPDX-License-Identifier: Apache-2.0
// What probes have shown.
#include <fmt/format.h>

#include <algorithm>

#include "mrc/core/types.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc_ctl/check/judge.hpp"
#include "mrc_ctl/check/plane_sockets.hpp"

namespace mrc::check_tool {
namespace {

/// A way, and where it leads.
struct NamedWay {
  const Way& way;
  const HostFacts &from, &to;
  std::size_t plane;
  bool full;

  [[nodiscard]] std::string ends() const {
    return fmt::format("from {} of {} to {} of {}", address_text(from.planes[plane]), from.host,
                       address_text(to.planes[plane]), to.host);
  }
};

std::string way_text(const Way& way) {
  if (!way.tried) return "not tried";
  return fmt::format("{} of {} arrive", way.passed, way.paths);
}

/// Bytes with separators, as people read them.
std::string bytes_text(std::uint32_t bytes) {
  return bytes < 10'000 && bytes >= 1000 ? fmt::format("{},{:03}", bytes / 1000, bytes % 1000)
                                         : std::to_string(bytes);
}

std::string nothing_text(const NamedWay& named) {
  const Way& way = named.way;
  const PlaneFacts& to = named.to.planes[named.plane];
  if (way.error != 0)
    return fmt::format("plane {}: packets of {} bytes are not sent {}: {}", named.plane,
                       bytes_text(way.size), named.ends(), send_error_text(way.error));
  if (!named.full)
    return fmt::format(
        "plane {}: nothing arrives {} at UDP port {}: let firewalls on the way and at {} pass it, "
        "and look at routes and rp_filter there",
        named.plane, named.ends(), to.probe_port, named.to.host);
  const std::uint32_t headers = headers_of(to);
  const std::uint32_t mtu = fitting_mtu(kLargestMtu, way.fits > headers ? way.fits - headers : 0,
                                        mrc::detail::kPacketOverhead);
  if (way.fits == 0 || mtu == 0)
    return fmt::format(
        "plane {}: packets of {} bytes do not pass {}: set the MTU of all links on the way to {} "
        "or more",
        named.plane, bytes_text(way.size), named.ends(), bytes_text(way.size));
  return fmt::format(
      "plane {}: packets of {} bytes do not pass {}; of {} do: set the MTU of all links on the way "
      "to {} or more, or MRC_MTU={} at both hosts",
      named.plane, bytes_text(way.size), named.ends(), bytes_text(way.fits), bytes_text(way.size),
      mtu);
}

std::string problem_of(const NamedWay& named) {
  const Way& way = named.way;
  if (!way.tried || way.whole()) return {};
  if (way.passed == 0) return nothing_text(named);
  if (named.full)  // small ones have arrived by all of these
    return fmt::format(
        "plane {}: packets of {} bytes do not pass {} of {} paths {}, small ones do: a switch or "
        "link that only some source ports take has a smaller MTU",
        named.plane, bytes_text(way.size), way.paths - way.passed, way.paths, named.ends());
  return fmt::format(
      "plane {}: {} of {} paths lose packets of {} bytes {}: a switch or link that only some "
      "source ports take is dead or lossy; look at the counters of the switches",
      named.plane, way.paths - way.passed, way.paths, bytes_text(way.size), named.ends());
}

Row packets_row(const HostFacts& here, const HostFacts& there, std::size_t plane,
                const Way& to_here, const Way& to_there, bool full) {
  const std::string what =
      full ? fmt::format("plane {}: {} B packets", plane, bytes_text(to_there.size))
           : fmt::format("plane {}: small packets", plane);
  Row row{what, way_text(to_here), way_text(to_there), Verdict::ok, {}};
  for (const NamedWay& named : {NamedWay{to_there, here, there, plane, full},
                                NamedWay{to_here, there, here, plane, full}}) {
    const std::string problem = problem_of(named);
    if (problem.empty()) continue;
    row.verdict = Verdict::failed;
    row.remedy += (row.remedy.empty() ? "" : "\n") + problem;
  }
  if (row.remedy.empty() && !to_here.tried) {
    row.verdict = Verdict::warning;
    row.remedy = fmt::format(
        "plane {}: packets of {} bytes were not tried {}, since small ones do not arrive", plane,
        bytes_text(to_there.size), NamedWay{to_here, there, here, plane, full}.ends());
  }
  return row;
}

std::string lost_pieces_text(const NamedWay& named) {
  const Way& way = named.way;
  if (!way.tried || way.whole()) return {};
  if (way.error != 0)
    return fmt::format("plane {}: bursts are not sent {}: {}", named.plane, named.ends(),
                       send_error_text(way.error));
  return fmt::format(
      "plane {}: bursts that the kernel or the NIC of {} cuts into packets (GSO) do not arrive {}, "
      "single packets do, so devices will send one by one, which costs processor time: Linux 7.0 "
      "to 7.1.4 does this, there or in its hypervisor: update it; if it is the NIC, `ethtool -K {} "
      "tx-udp-segmentation off` there",
      named.plane, named.from.host, named.ends(), named.from.planes[named.plane].interface);
}

/// Devices notice it, and do without.
Row pieces_row(const HostFacts& here, const HostFacts& there, std::size_t plane, const Way& to_here,
               const Way& to_there) {
  Row row{fmt::format("plane {}: bursts", plane),
          way_text(to_here),
          way_text(to_there),
          Verdict::ok,
          {}};
  for (const NamedWay& named : {NamedWay{to_there, here, there, plane, false},
                                NamedWay{to_here, there, here, plane, false}}) {
    const std::string problem = lost_pieces_text(named);
    if (problem.empty()) continue;
    row.verdict = Verdict::warning;
    row.remedy += (row.remedy.empty() ? "" : "\n") + problem;
  }
  return row;
}

/// Hosts that TCP joins, and UDP in no plane.
void judge_protocol(const HostFacts& here, const HostFacts& there, const Results& results,
                    std::vector<Row>& rows) {
  const auto none = [&results](Way PlaneResult::*way) {
    return !results.planes.empty() &&
           std::all_of(results.planes.begin(), results.planes.end(), [way](const PlaneResult& p) {
             return (p.*way).tried && (p.*way).passed == 0 && (p.*way).error == 0;
           });
  };
  const bool none_here = none(&PlaneResult::small_here),
             none_there = none(&PlaneResult::small_there);
  if (!none_here && !none_there) return;
  const std::string direction = none_here && none_there ? "in either direction"
                                : none_there ? fmt::format("from {} to {}", here.host, there.host)
                                             : fmt::format("from {} to {}", there.host, here.host);
  rows.push_back({"UDP", none_here ? "none arrives" : "arrives",
                  none_there ? "none arrives" : "arrives", Verdict::failed,
                  fmt::format("TCP reaches {}, no UDP packet arrives {}: are UDP ports {} and up "
                              "open, in firewalls and security groups as well?",
                              there.host, direction, there.planes.front().udp_port)});
}

/// Paths by which packets of one size go to the other host and back.
Row path_row(const FabricResult& fabric, bool full) {
  const PathCount& count = full ? fabric.full : fabric.small;
  Row row{full ? fmt::format("{} B packets", bytes_text(fabric.full_size)) : "small packets",
          fmt::format("{} of {} paths", count.answered, count.tried),
          "-",
          Verdict::ok,
          {}};
  for (const FabricResult::Fault& fault : fabric.faults) {
    if (fault.full != full) continue;
    row.verdict = std::max(row.verdict, fault.serious ? Verdict::failed : Verdict::warning);
    row.remedy += (row.remedy.empty() ? "" : "\n") + fault.text;
    if (full)
      row.remedy += fmt::format(": set the MTU of all ports there to {} or more",
                                bytes_text(fabric.full_size));
  }
  if (row.verdict == Verdict::ok && (count.answered == 0 || count.answered < count.tried)) {
    row.verdict = count.answered == 0 ? Verdict::failed : Verdict::warning;
    row.remedy = count.tried == 0 ? "no path leads to it" : "the others gave no answer; ask again";
  }
  return row;
}

}  // namespace

void judge_fabric(const HostFacts& here, const HostFacts& there, const Results& results,
                  std::vector<Row>& rows) {
  const FabricResult& fabric = results.fabric;
  if (!fabric.tried) {
    std::string why = fabric.problem;
    for (const HostFacts* host : {&there, &here})
      if (host->fabric_host.empty())
        why = fmt::format("the description has no host with the addresses of {}", host->host);
    rows.push_back({"paths", "not checked", "not checked", Verdict::warning,
                    fmt::format("paths of the fabric were not probed{}{}; `mrc_probe` does it, too",
                                why.empty() ? "" : ": ", why)});
    return;
  }
  rows.push_back(path_row(fabric, false));
  if (fabric.full_size != 0) rows.push_back(path_row(fabric, true));
}

void judge_packets(const HostFacts& here, const HostFacts& there, const Results& results,
                   std::vector<Row>& rows) {
  judge_protocol(here, there, results, rows);
  for (std::size_t i = 0;
       i < results.planes.size() && i < here.planes.size() && i < there.planes.size(); ++i) {
    const PlaneResult& plane = results.planes[i];
    rows.push_back(packets_row(here, there, i, plane.small_here, plane.small_there, false));
    if (plane.full_there.tried)
      rows.push_back(packets_row(here, there, i, plane.full_here, plane.full_there, true));
    if (plane.pieces_there.tried || plane.pieces_here.tried)
      rows.push_back(pieces_row(here, there, i, plane.pieces_here, plane.pieces_there));
  }
}

}  // namespace mrc::check_tool
