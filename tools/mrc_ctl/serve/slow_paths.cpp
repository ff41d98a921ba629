// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/slow_paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace mrc::ctl_tool {
namespace {

constexpr std::size_t index_of(const char* field) {
  for (std::size_t i = 0; i < std::size(kPathFields); ++i)
    if (std::string_view(kPathFields[i].field) == field) return i;
  return 0;
}
constexpr std::size_t kDeliveredColumn = index_of("delivered"), kMarksColumn = index_of("marks");

/// A path of which nothing is known but its plane; `to` tells the peers apart.
probe::ProbePath path_in(std::uint32_t plane, unsigned to) {
  probe::ProbePath path;
  path.plane = static_cast<Plane>(plane);
  path.to = to;
  path.parts = {{probe::PartKind::plane, path.plane, 0}};
  path.there = path.parts;
  return path;
}

/// "delivers 8 % of what others do; round trip 34.0 ms, of others 6.2 ms; marked 60 %, others 3 %".
std::string compared(const std::vector<const probe::PathPace*>& slow,
                     const std::vector<const probe::PathPace*>& fine) {
  const auto of = [](const std::vector<const probe::PathPace*>& paces, auto&& value) {
    std::vector<double> values;
    for (const probe::PathPace* pace : paces)
      if (pace->delivered > 0) values.push_back(value(*pace));
    return probe::upper_median(std::move(values));
  };
  const auto delivered = [](const probe::PathPace& p) { return static_cast<double>(p.delivered); };
  const auto rtt = [](const probe::PathPace& p) { return static_cast<double>(p.rtt_ns) / 1e6; };
  const auto marked = [](const probe::PathPace& p) {
    return std::min(100.0, 100 * static_cast<double>(p.marks) / static_cast<double>(p.delivered));
  };
  const double usual = of(fine, delivered);
  return fmt::format(
      "delivers {:.0f} % of what others do; round trip {:.1f} ms, of others {:.1f} ms; {:.0f} % "
      "marked, of others {:.0f} %",
      usual > 0 ? 100 * of(slow, delivered) / usual : 0, of(slow, rtt), of(fine, rtt),
      of(slow, marked), of(fine, marked));
}

}  // namespace

std::vector<SlowPaths::Group> SlowPaths::groups_of(const DeviceSnapshot& device,
                                                   const PeerSnapshot& peer, unsigned number) {
  std::map<std::string, Group> groups;
  std::map<std::string, std::uint64_t> busiest;  ///< packets of the EV that the round trip is of
  std::vector<const probe::ProbePath*> routes(peer.paths.size());
  if (map_ != nullptr) routes = map_->paths_of(peer);
  for (std::size_t i = 0; i < peer.paths.size(); ++i) {
    const PathSnapshot& path = peer.paths[i];
    const std::string key =
        fmt::format("{}/{}/{}/{}/{}", device.id, peer.lane, peer.number, path.plane, path.ev);
    const Counts now{path.counters[kDeliveredColumn], path.counters[kMarksColumn]};
    counts_[key] = now;
    const auto before = counts_before_.find(key);
    const probe::ProbePath* route = routes[i];
    const std::string name = route != nullptr
                                 ? fmt::format("{}/{}/{}/{}/T1 {}", device.id, peer.lane,
                                               peer.number, path.plane, route->uplink)
                                 : key;
    Group& group = groups[name];
    if (group.peer == nullptr) {
      group = {&peer, path.plane, {},
               name,  {},         route != nullptr ? *route : path_in(path.plane, number)};
    }
    group.evs.push_back(path.ev);
    // An EV that took the place of another one began anew.
    if (before == counts_before_.end() || now[0] < before->second[0] || now[1] < before->second[1])
      continue;
    const std::uint64_t delivered = now[0] - before->second[0];
    if (delivered > busiest[name]) {
      busiest[name] = delivered;
      group.pace.rtt_ns = path.rtt_ns;
    }
    group.pace.delivered += delivered;
    group.pace.marks += now[1] - before->second[1];
  }
  std::vector<Group> list;
  for (auto& [name, group] : groups) list.push_back(std::move(group));
  return list;
}

void SlowPaths::take(double time, std::span<const DeviceSnapshot> devices) {
  if (last_ >= 0 && time >= last_ && time < last_ + 0.9 * interval_) return;
  const bool first = last_ < 0;
  last_ = time;
  counts_before_ = std::exchange(counts_, {});
  std::vector<Group> all;
  std::map<std::string, probe::StandingRecord> records;
  unsigned number = 1u << 20;  // beyond the hosts of a description
  for (const DeviceSnapshot& device : devices)
    for (const PeerSnapshot& peer : device.peers) {
      std::vector<Group> groups = groups_of(device, peer, number++);
      std::vector<probe::PathPace> paces;
      for (const Group& group : groups) paces.push_back(group.pace);
      const std::vector<probe::Standing> standings = probe::compare_paces(paces);
      for (std::size_t i = 0; i < groups.size(); ++i) {
        probe::StandingRecord& record = records[groups[i].key];
        if (const auto known = records_.find(groups[i].key); known != records_.end())
          record = known->second;
        if (!first) record.add(device.up ? standings[i] : probe::Standing::unknown);
      }
      std::move(groups.begin(), groups.end(), std::back_inserter(all));
    }
  records_ = std::move(records);
  judge(all);
}

void SlowPaths::judge(const std::vector<Group>& groups) {
  found_.clear();
  std::vector<probe::ProbePath> paths;
  std::vector<probe::Standing> standings;
  std::vector<const probe::PathPace*> fine;
  for (const Group& group : groups) {
    paths.push_back(group.path);
    standings.push_back(records_[group.key].standing());
    if (standings.back() == probe::Standing::fine) fine.push_back(&group.pace);
  }
  const probe::Verdict verdict =
      probe::judge(paths, probe::results_of(standings), probe::Extent::there);
  for (const probe::Finding& f : verdict.dead) {
    std::vector<const probe::PathPace*> slow;
    for (std::size_t i = 0; i < paths.size(); ++i)
      if (standings[i] == probe::Standing::slow &&
          std::binary_search(paths[i].there.begin(), paths[i].there.end(), f.part))
        slow.push_back(&groups[i].pace);
    SlowPart part{name_of(probe::both_ways(f.part)), {}, {}};
    if (map_ != nullptr) part.detail = probe::direction_text(map_->description(), f.part);
    part.detail += compared(slow, fine);
    for (const probe::Part& other : f.alike) part.alike.push_back(name_of(other));
    found_.push_back(std::move(part));
  }
  // Paths that have no part in common: by plane and peer.
  std::map<std::pair<const PeerSnapshot*, std::uint32_t>, std::vector<std::size_t>> single;
  for (const std::size_t i : verdict.dead_paths)
    single[{groups[i].peer, groups[i].plane}].push_back(i);
  for (const auto& [where, which] : single) {
    std::vector<const probe::PathPace*> slow;
    std::string evs;
    for (const std::size_t i : which) {
      slow.push_back(&groups[i].pace);
      for (const std::uint32_t ev : groups[i].evs)
        evs += fmt::format("{}0x{:x}", evs.empty() ? "" : ", ", ev);
    }
    const std::string to = !where.first->to.empty() ? where.first->to : where.first->addresses;
    found_.push_back({fmt::format("{} of plane {} to {}", which.size() == 1 ? "path" : "paths",
                                  where.second, to),
                      "EV " + evs + "; " + compared(slow, fine),
                      {}});
  }
}

std::string SlowPaths::name_of(const probe::Part& part) const {
  if (part.kind == probe::PartKind::plane || map_ == nullptr)
    return fmt::format("plane {}", part.plane);
  return probe::part_name(map_->description(), part);
}

}  // namespace mrc::ctl_tool
