// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/snapshot.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "mrc/control/client.hpp"

namespace mrc::ctl_tool {

using control::count_in;
using control::flag_in;
using control::has_field;
using control::list_in;
using control::object_in;
using control::text_in;

namespace {

std::uint32_t small_in(const Json& object, const char* name) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count_in(object, name), UINT32_MAX));
}

template <std::size_t N>
Values<N> values_in(const Json& object, const CounterField (&fields)[N]) {
  Values<N> values{};
  for (std::size_t i = 0; i < N; ++i) values[i] = count_in(object, fields[i].field);
  return values;
}

template <std::size_t N>
void put(Json& object, const CounterField (&fields)[N], const Values<N>& values) {
  for (std::size_t i = 0; i < N; ++i) object[fields[i].field] = values[i];
}

Json row_of(const PathSnapshot& path) {
  Json row = {path.ev,     path.plane,  path.port_path, path.state,
              path.active, path.rtt_ns, path.route};
  for (const std::uint64_t value : path.counters) row.push_back(value);
  return row;
}

Json path_fields() {
  Json names = {"ev", "plane", "port_path", "state", "active", "rtt_ns", "route"};
  for (const CounterField& field : kPathFields) names.push_back(field.field);
  return names;
}

Json json_of(const PeerSnapshot& peer) {
  Json paths = Json::array();
  for (const PathSnapshot& path : peer.paths) paths.push_back(row_of(path));
  return {{"lane", peer.lane},
          {"number", peer.number},
          {"addresses", peer.addresses},
          {"queue_pairs", peer.queue_pairs},
          {"path_count", peer.path_count},
          {"paths_up", peer.paths_up},
          {"rtt_ns", peer.rtt_ns},
          {"from", peer.from},
          {"to", peer.to},
          {"routes", peer.routes},
          {"paths", std::move(paths)}};
}

Json json_of(const DeviceSnapshot& device) {
  Json planes = Json::array(), peers = Json::array(), counters = Json::object();
  for (const PlaneSnapshot& plane : device.planes) {
    Json entry = {{"address", plane.address}, {"up", plane.up}, {"enabled", plane.enabled}};
    put(entry, kPlaneFields, plane.counters);
    planes.push_back(std::move(entry));
  }
  for (const PeerSnapshot& peer : device.peers) peers.push_back(json_of(peer));
  put(counters, kEngineFields, device.counters);
  return {{"device", device.id},
          {"pid", device.pid},
          {"uid", device.uid},
          {"program", device.program},
          {"host", device.host},
          {"version", device.version},
          {"opened", device.opened},
          {"up", device.up},
          {"problem", device.problem},
          {"seen", device.seen},
          {"queue_pairs", device.queue_pairs},
          {"counters", std::move(counters)},
          {"planes", std::move(planes)},
          {"peers", std::move(peers)}};
}

}  // namespace

PathSnapshot path_of(const Json& report) {
  PathSnapshot path;
  path.ev = small_in(report, "ev");
  path.plane = small_in(report, "plane");
  path.port_path = small_in(report, "port_path");
  path.state = text_in(report, "state");
  path.active = flag_in(report, "active", true);
  path.rtt_ns = count_in(report, "rtt_ns");
  path.counters = values_in(report, kPathFields);
  return path;
}

PeerSnapshot peer_of(const Json& report) {
  PeerSnapshot peer;
  peer.lane = small_in(report, "lane");
  peer.number = small_in(report, "number");
  peer.queue_pairs = small_in(report, "queue_pairs");
  peer.path_count = small_in(report, "paths");
  peer.paths_up = small_in(report, "paths_up");
  peer.addresses = text_in(report, "addresses");
  return peer;
}

PlaneSnapshot plane_of(const Json& report) {
  PlaneSnapshot plane;
  plane.address = text_in(report, "address");
  plane.up = flag_in(report, "up", false);
  plane.enabled = flag_in(report, "enabled", true);
  plane.counters = values_in(object_in(report, "port"), kPlaneFields);
  for (std::size_t i = 0; i < std::size(kPlaneFields); ++i)  // some are the plane's, not the port's
    if (report.is_object() && report.contains(kPlaneFields[i].field))
      plane.counters[i] = count_in(report, kPlaneFields[i].field);
  return plane;
}

void take_hello(DeviceSnapshot& device, const Json& hello) {
  device.pid = static_cast<std::int64_t>(count_in(hello, "pid"));
  device.uid = static_cast<std::int64_t>(count_in(hello, "uid"));
  device.program = text_in(hello, "program");
  device.host = text_in(hello, "host");
  device.version = text_in(hello, "version");
  if (has_field(hello, "opened", &Json::is_number))
    if (const auto opened = hello["opened"].get<double>(); std::isfinite(opened))
      device.opened = opened;
}

void take_counters(DeviceSnapshot& device, const Json& counters) {
  device.queue_pairs = count_in(counters, "qps");
  device.memory_regions = count_in(counters, "mrs");
  device.completion_queues = count_in(counters, "cqs");
  device.counters = values_in(object_in(counters, "engine"), kEngineFields);
  device.planes.clear();
  for (const Json& plane : list_in(counters, "planes")) device.planes.push_back(plane_of(plane));
}

Json event_of(const Json& event, const DeviceSnapshot& device, std::uint64_t number) {
  Json out = Json::object();
  if (event.is_object())
    for (const auto& [name, value] : event.items())
      if (value.is_primitive()) out[name] = value;
  out["number"] = number;
  out["device"] = device.id;
  out["pid"] = device.pid;
  out["program"] = device.program;
  return out;
}

Json to_json(const SlowPart& part) {
  return {{"what", part.what}, {"detail", part.detail}, {"alike", part.alike}};
}

Json to_json(const HostSnapshot& host) {
  Json devices = Json::array(), slow = Json::array();
  for (const SlowPart& part : host.slow) slow.push_back(to_json(part));
  for (const DeviceSnapshot& device : host.devices) devices.push_back(json_of(device));
  return {{"schema", 1},
          {"host", host.host},
          {"time", host.time},
          {"steer", host.steer},
          {"fabric", host.fabric},
          {"others", host.others},
          {"path_fields", path_fields()},
          {"slow", std::move(slow)},
          {"devices", std::move(devices)},
          {"events", host.events}};
}

}  // namespace mrc::ctl_tool
