// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/export.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "common/files.hpp"
#include "mrc_fabric/commands.hpp"

namespace mrc::tools {

std::string own_address(std::size_t port) {
  return is_upper(port) ? "fe80::1" : "fe80::2";
}
std::string next_hop(std::size_t port) {
  return own_address(Plan::peer(port));
}

int run_export(const Options& o) {
  namespace fs = std::filesystem;
  const Fabric f(o);
  const fabric::UsidPlan& usids = f.description.usids;
  for (const auto& [name, usid] :
       {std::pair("t0", usids.t0), {"t1", usids.t1}, {"host", usids.host}})
    if (path::is_local(usid))
      throw Error(Errc::unsupported,
                  fmt::format("{}: usids.{} is in the range of links (uA), and export writes "
                              "uSIDs of nodes (uN) only",
                              o.file, name));
  const bool sonic = o.format == "sonic";
  const char* const file = sonic ? "config_db.json" : "frr.conf";
  std::size_t written = 0;
  for (const FabricNode& node : f.plan.nodes) {
    if (node.kind == NodeKind::host) continue;
    const fs::path folder = fs::path(o.directory) / node.name;
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw Error(error, fmt::format("can't make the folder '{}'", folder.string()));
    write_file(folder / file, sonic ? sonic_config(f.plan, node) : frr_config(f.plan, node));
    ++written;
  }
  fmt::print("{} switches: {}/*/{}\ndocs/fabric_tool.md says what the site has to add.\n", written,
             o.directory, file);
  return 0;
}

}  // namespace mrc::tools
