// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "fuzz/fuzz.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/fabric/routes.hpp"

// Fuzzes the reader of fabric descriptions. What is wrong has to be a FileError that begins with
// the file's name; of what is right, hosts have all they need, and the routes between the first and
// the last host hold uSIDs that end at the destination.

namespace {

using namespace mrc;
using namespace mrc::fabric;
using mrc::fuzz::require;

/// The last uSID that a packet shows when every node has done its step.
Usid last_usid(path::UsidRoute route) {
  while (path::step(route) != path::UsidStep::last) {
  }
  return path::usid_at(route.destination, 0);
}

void check_paths(const Description& d, const Host& from, const Host& to) {
  const auto all = paths(d, from, to);
  require(!all.empty() && all.size() % d.planes == 0);
  std::set<Ev> evs;
  for (const Path& p : all) {
    require(p.plane < d.planes && evs.insert(p.ev).second);
    if (d.forwarding == Forwarding::ecmp) continue;
    require(path::usid_block(p.route.destination) == d.blocks[p.plane]);
    require(last_usid(p.route) == d.usids.of_host(p.plane, to.t0, to.downlink));
  }
}

void check_description(const Description& d) {
  require(d.planes >= 1 && d.planes <= kMaxPlanes && d.blocks.size() == d.planes);
  require(!d.hosts.empty() && !d.patterns.empty() && d.dscp.valid());
  for (const Host& h : d.hosts) {
    require(h.t0 < d.t0 && d.find_host(h.name) == &h);
    require(h.addresses.size() == d.planes && h.interfaces.size() == d.planes);
  }
  check_paths(d, d.hosts.front(), d.hosts.back());
  require(&find_self(d, d.hosts.back().addresses) == &d.hosts.back());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    check_description(parse("f.json", fuzz::text_of({data, size})));
  } catch (const json_file::FileError& error) {
    require(std::string_view(error.what()).starts_with("f.json:"));
  }
  return 0;
}
