// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/fabric_paths.hpp"

#include <fmt/format.h>

#include "mrc/core/error.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/net/interface.hpp"
#include "mrc_probe/prober.hpp"

namespace mrc::check_tool {
namespace {

PathCount count_paths(const std::vector<probe::PathResult>& results) {
  PathCount count;
  for (const probe::PathResult& one : results) {
    count.tried += one.tries > 0;
    count.answered += one.answered > 0;
  }
  return count;
}

FabricResult sweep(const Config& config, const std::string& to, Duration patience) {
  const fabric::Description d = fabric::read(config.fabric);
  const fabric::Host& self = fabric::find_self(d, port::local_addresses(), config.host);
  const fabric::Host* other = d.find_host(to);
  if (other == nullptr || other == &self)
    throw Error(Errc::invalid_argument, fmt::format("{} has no other host {}", config.fabric, to));
  probe_tool::ProberOptions options;
  options.loops = d.forwarding == fabric::Forwarding::srv6;
  options.hosts = {static_cast<unsigned>(other - d.hosts.data())};
  options.evs = config.paths;
  options.sweep.timeout = std::max(options.sweep.timeout, patience / 50);
  probe_tool::Network network(d, self, config, "mrc_ctl");
  const auto number = static_cast<unsigned>(&self - d.hosts.data());
  const probe::Report report = probe_tool::Prober(d, number, network, options).sweep();
  FabricResult result;
  result.tried = true;
  result.small = count_paths(report.results);
  result.full_size = report.full_size;
  result.full = count_paths(report.full);
  for (const probe::Trouble& trouble : probe::troubles(d, report)) {
    using Kind = probe::Trouble::Kind;
    FabricResult::Fault& fault = result.faults.emplace_back();
    fault.full = trouble.kind == Kind::narrow;
    fault.serious = trouble.kind != Kind::lossy;
    fault.text = fmt::format("{}{}: {}", trouble.what, trouble.kind == Kind::dead ? " is dead" : "",
                             trouble.detail);
  }
  return result;
}

}  // namespace

std::string name_in_fabric(const Config& config) {
  try {
    const fabric::Description d = fabric::read(config.fabric);
    return fabric::find_self(d, port::local_addresses(), config.host).name;
  } catch (const std::exception&) {  // also of the file
    return {};
  }
}

FabricResult probe_fabric(const Config& config, const std::string& to, Duration patience) {
  try {
    return sweep(config, to, patience);
  } catch (const std::exception& error) {
    FabricResult result;
    result.problem = error.what();
    return result;
  }
}

}  // namespace mrc::check_tool
