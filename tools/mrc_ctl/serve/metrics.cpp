// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/metrics.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace mrc::ctl_tool {
namespace {

/// `name="value"`, separated by commas.
using Labels = std::string;

Labels label(const char* name, std::string_view value) {
  return fmt::format("{}=\"{}\"", name, label_value(value));
}

/// Samples by metric, since all of one have to follow each other.
class Families {
 public:
  void add(const std::string& name, const char* help, const Labels& labels, const auto& value) {
    const auto [entry, is_new] = index_.try_emplace(name, families_.size());
    if (is_new) families_.push_back({name, help, {}});
    families_[entry->second].samples += fmt::format("openmrc_{}{{{}}} {}\n", name, labels, value);
  }
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const Family& f : families_)
      out += fmt::format("# HELP openmrc_{0} {1}\n# TYPE openmrc_{0} {2}\n{3}", f.name, f.help,
                         f.name.ends_with("_total") ? "counter" : "gauge", f.samples);
    return out;
  }

 private:
  struct Family {
    std::string name, help, samples;
  };
  std::vector<Family> families_;
  std::map<std::string, std::size_t> index_;
};

template <std::size_t N>
void add_all(Families& out, const std::string& prefix, const CounterField (&fields)[N],
             const Values<N>& values, const Labels& labels) {
  for (std::size_t i = 0; i < N; ++i)
    out.add(prefix + fields[i].metric, fields[i].help, labels, values[i]);
}

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

void add_planes(Families& out, const DeviceSnapshot& device, const Labels& of_device) {
  for (std::size_t p = 0; p < device.planes.size(); ++p) {
    const PlaneSnapshot& plane = device.planes[p];
    const Labels labels = of_device + "," + label("plane", std::to_string(p));
    out.add("plane_info", "Address of a plane.", labels + "," + label("address", plane.address), 1);
    out.add("plane_up", "Whether a plane can carry packets.", labels, plane.up ? 1 : 0);
    out.add("plane_enabled", "Whether a plane may be used; 0 after `mrc_ctl plane N down`.", labels,
            plane.enabled ? 1 : 0);
    add_all(out, "", kPlaneFields, plane.counters, labels);
  }
}

/// What the paths of a peer in a plane have done together.
struct PlaneSum {
  Values<std::size(kPathFields)> counters{};
  std::map<std::string, unsigned> states;
};

constexpr const char* kStates[] = {"good", "skip", "assumed_bad", "denied"};

void add_peer_planes(Families& out, const PeerSnapshot& peer, const Labels& of_peer) {
  std::map<unsigned, PlaneSum> planes;
  for (const PathSnapshot& path : peer.paths) {
    PlaneSum& sum = planes[path.plane];
    for (std::size_t i = 0; i < path.counters.size(); ++i) sum.counters[i] += path.counters[i];
    ++sum.states[path.state];
  }
  for (const auto& [plane, sum] : planes) {
    const Labels labels = of_peer + "," + label("plane", std::to_string(plane));
    for (const char* state : kStates) {
      const auto found = sum.states.find(state);
      out.add("peer_paths", "Paths to a peer by state, backups included.",
              labels + "," + label("state", state), found == sum.states.end() ? 0u : found->second);
    }
    add_all(out, "peer_", kPathFields, sum.counters, labels);
  }
}

void add_paths(Families& out, const PeerSnapshot& peer, const Labels& of_peer) {
  std::set<std::pair<unsigned, unsigned>> named;
  for (const PathSnapshot& path : peer.paths) {
    if (!named.insert({path.plane, path.ev}).second) continue;  // one series, one value
    const Labels labels = of_peer + "," + label("plane", std::to_string(path.plane)) + "," +
                          label("ev", fmt::format("{:#x}", path.ev));
    out.add("path_usable", "Whether a path is in use and not taken for bad.", labels,
            path.usable() ? 1 : 0);
    if (path.rtt_ns > 0)
      out.add("path_round_trip_seconds", "Smoothed round-trip time of a path.", labels,
              seconds(path.rtt_ns));
    add_all(out, "path_", kPathFields, path.counters, labels);
  }
}

void add_peers(Families& out, const DeviceSnapshot& device, const Labels& of_device, bool paths) {
  for (const PeerSnapshot& peer : device.peers) {
    const std::string first = peer.addresses.substr(0, peer.addresses.find(','));
    // Lane and number too: several peers may have the same address.
    const Labels labels = of_device + "," + label("peer", peer.to.empty() ? first : peer.to) + "," +
                          label("lane", std::to_string(peer.lane)) + "," +
                          label("peer_number", std::to_string(peer.number));
    out.add("peer_queue_pairs", "Queue pairs connected to a peer.", labels, peer.queue_pairs);
    out.add("peer_usable_paths", "Paths to a peer that can carry data.", labels, peer.paths_up);
    if (peer.rtt_ns > 0)
      out.add("peer_round_trip_seconds", "Smoothed round-trip time, mean of the queue pairs.",
              labels, seconds(peer.rtt_ns));
    add_peer_planes(out, peer, labels);
    if (paths) add_paths(out, peer, labels);
  }
}

void add_device(Families& out, const DeviceSnapshot& device, bool paths) {
  const Labels labels = label("pid", std::to_string(device.pid)) + "," +
                        label("program", device.program) + "," + label("device", device.id);
  out.add("device_up", "Whether the device has answered in time.", labels, device.up ? 1 : 0);
  if (device.seen > 0)
    out.add("device_answer_time_seconds", "When the device answered last, since 1970.", labels,
            fmt::format("{:.3f}", device.seen));
  if (!device.up) return;  // old values would look like new ones
  out.add("device_info", "Host name, user and version of a device.",
          labels + "," + label("host", device.host) + "," +
              label("uid", std::to_string(device.uid)) + "," + label("version", device.version),
          1);
  out.add("device_open_time_seconds", "When the device was opened, since 1970.", labels,
          device.opened);
  out.add("queue_pairs", "Queue pairs that exist.", labels, device.queue_pairs);
  out.add("memory_regions", "Registered memory regions.", labels, device.memory_regions);
  out.add("completion_queues", "Completion queues.", labels, device.completion_queues);
  add_all(out, "", kEngineFields, device.counters, labels);
  add_planes(out, device, labels);
  add_peers(out, device, labels, paths);
}

}  // namespace

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

std::string metrics_text(const HostSnapshot& host, bool paths) {
  Families out;
  std::string text = fmt::format(
      "# HELP openmrc_devices Open devices of this host that this user may see.\n"
      "# TYPE openmrc_devices gauge\nopenmrc_devices {}\n"
      "# HELP openmrc_devices_forbidden Open devices of other users, which are not shown.\n"
      "# TYPE openmrc_devices_forbidden gauge\nopenmrc_devices_forbidden {}\n",
      host.devices.size(), host.others);
  for (const DeviceSnapshot& device : host.devices) add_device(out, device, paths);
  return text + out.text();
}

}  // namespace mrc::ctl_tool
