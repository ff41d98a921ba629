// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/fabric/read_hosts.inl"
#include "mrc/fabric/read_templates.inl"
#include "mrc/fabric/read_usids.inl"
#include "mrc/json/json.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/wire/headers.hpp"

namespace mrc::inline v0_1::fabric {

namespace detail {

/// Largest numbers of switches. The paths between two hosts must fit a PathSet.
inline constexpr unsigned kMaxT0s = 1024, kMaxT1s = 1024;
static_assert(std::size_t{kMaxPlanes} * kMaxT1s <= path::kMaxPaths);

/// Every IPv6 link carries packets of 1280 bytes (RFC 8200 §5). These have room for 256 bytes of
/// payload after all headers: outer IPv6, SRH, inner IPv6, UDP, transport with iCRC.
inline constexpr std::uint32_t kMinMtu = 1280, kMaxMtu = 65'535;
static_assert(wire::kMaxEnvelope + wire::kMaxWriteOverhead + 256 <= kMinMtu);

inline constexpr Duration kMinRtt = std::chrono::microseconds(1), kMaxRtt = std::chrono::seconds(1);

using DscpField = std::pair<std::string_view, std::uint8_t wire::DscpMap::*>;
/// Classes that hosts send come first, so that an error names one of them.
inline constexpr DscpField kDscpFields[] = {{"no_trim", &wire::DscpMap::no_trim},
                                            {"trimmable", &wire::DscpMap::trimmable},
                                            {"trimmable_retx", &wire::DscpMap::trimmable_retx},
                                            {"control", &wire::DscpMap::control},
                                            {"trimmed", &wire::DscpMap::trimmed},
                                            {"trimmed_last_hop", &wire::DscpMap::trimmed_last_hop}};

/// Throws if there is an unknown field. Done before any value is read: the default used in place of
/// a misspelt field could cause an error about another field.
inline void check_names(const json_file::Object& root) {
  const auto know = [](const json_file::Object& o, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) (void)o.has(name);
  };
  know(root, {"$schema", "name", "forwarding", "entropy", "planes", "t0", "t1", "block", "blocks",
              "usids", "templates", "hosts", "mtu", "dscp", "link_speed", "base_rtt", "deny"});
  know(root.object("usids"),
       {"plane", "t0", "t0_number", "t1", "t1_number", "host", "host_t0", "downlink"});
  for (const DscpField& field : kDscpFields) (void)root.object("dscp").has(field.first);
  for (const json_file::Object& o : root.array("templates")) know(o, {"t0s", "remote", "local"});
  for (const json_file::Object& o : root.array("deny")) know(o, {"plane", "t0", "t1", "host"});
  if (root.is_list("hosts"))
    for (const json_file::Object& o : root.array("hosts"))
      know(o, {"name", "t0", "downlink", "addresses", "interfaces", "next_hops"});
  root.finish();
}

/// Name, kind and size. The other fields are checked against them.
inline void read_size(const json_file::Object& root, Description& d) {
  constexpr std::size_t kLongestName = 12;
  d.name = root.text("name", "fabric");
  if (!is_name(d.name, kLongestName))
    root.fail("name", "is \"" + json_file::printable(d.name) +
                          "\", must be 1 to 12 letters, digits, '-' or '_', no '-' in front");
  if (root.choice("forwarding", {"srv6", "ecmp"}, "srv6") == "ecmp")
    d.forwarding = Forwarding::ecmp;
  if (root.choice("entropy", {"stev", "udp"}, "stev") == "udp") d.entropy = wire::EvFormat::udp;
  if (d.entropy == wire::EvFormat::udp && d.forwarding == Forwarding::srv6)
    root.fail("entropy",
              "is \"udp\", which is for \"forwarding\": \"ecmp\" only: with source routes "
              "no switch looks at it, and EVs need more than 16 bits");
  d.planes = root.integer<unsigned>("planes", 1, kMaxPlanes, d.planes);
  d.t0 = root.integer<unsigned>("t0", 1, kMaxT0s, d.t0);
  d.t1 = root.integer<unsigned>("t1", 1, kMaxT1s, d.t1);
}

inline wire::DscpMap read_dscp(const json_file::Object& o) {
  wire::DscpMap map;
  for (const DscpField& f : kDscpFields)
    map.*f.second = o.integer<std::uint8_t>(f.first, 0, 63, map.*f.second);
  if (map.valid()) return map;
  for (const DscpField& f : kDscpFields) {
    const bool cut = map.*f.second == map.trimmed;
    if (cut || map.*f.second == map.trimmed_last_hop)
      o.fail(f.first, "is " + std::to_string(map.*f.second) + ", and so is " +
                          (cut ? "trimmed" : "trimmed_last_hop") +
                          ": what switches set to say that they trimmed must say nothing else");
  }
  return map;
}

/// A part of a plane that paths have to avoid.
inline Denied read_denied(const json_file::Object& o, const Description& d) {
  Denied denied;
  denied.plane = o.integer<Plane>("plane", 0, static_cast<Plane>(d.planes - 1));
  if (o.has("t0")) denied.t0 = o.integer<unsigned>("t0", 0, d.t0 - 1);
  if (o.has("t1")) denied.t1 = o.integer<unsigned>("t1", 0, d.t1 - 1);
  if (o.has("t1") && d.forwarding == Forwarding::ecmp)
    o.fail("t1", "can't be avoided with \"ecmp\", where switches choose: deny a T0, host or plane");
  if (!o.has("host")) return denied;
  if (o.has("t0") || o.has("t1"))
    o.fail("host", "must stand alone: its port in this plane is meant");
  const std::string name = o.text("host");
  const Host* host = d.find_host(name);
  if (host == nullptr) {
    json_file::Names names;
    for (const Host& h : d.hosts) names.insert(h.name);
    const std::string near = json_file::nearest_name(name, names);
    o.fail("host", "is \"" + json_file::printable(name) + "\", which is no host" +
                       (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
  }
  denied.host = static_cast<unsigned>(host - d.hosts.data());
  return denied;
}

inline Description read_file(const json_file::File& file, std::string name) {
  const json_file::Object root = file.root();
  check_names(root);
  Description d;
  d.file = std::move(name);
  read_size(root, d);
  read_blocks(root, d);
  const json_file::Object usids = root.object("usids");
  d.usids = read_usids(usids);
  check_sizes(root, d);
  d.hosts = HostReader(root, d).read();
  check_nodes(usids, d);
  d.patterns = read_templates(root, d);
  d.mtu = root.integer<std::uint32_t>("mtu", kMinMtu, kMaxMtu, d.mtu);
  d.dscp = read_dscp(root.object("dscp"));
  d.link_speed = root.number("link_speed", 0.001, 100'000, d.link_speed);
  d.base_rtt = root.duration("base_rtt", kMinRtt, kMaxRtt, d.base_rtt);
  for (const json_file::Object& o : root.array("deny")) d.denied.push_back(read_denied(o, d));
  return d;
}

}  // namespace detail

Description parse(const std::string& name, std::string_view text) {
  return detail::read_file(json_file::File::parse(name, text), name);
}

Description read(const std::string& path) {
  return detail::read_file(json_file::File::read(path, "fabric description"), path);
}

}  // namespace mrc::inline v0_1::fabric
