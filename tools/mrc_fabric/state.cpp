// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/state.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mount.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "common/files.hpp"
#include "mrc_fabric/batch.hpp"
#include "mrc_fabric/netns.hpp"
#include "mrc_fabric/port.h"
#include "mrc_fabric/wire/wire_report.hpp"

namespace mrc::tools {
namespace fs = std::filesystem;
namespace {

/// A folder beside those of fabrics, which is about to become one; no fabric has such a name.
constexpr const char* kUnfinished = ".unfinished";

/// Everything that determines how the fabric is built: it differs for another description or
/// another version of this program.
std::string plan_text(const Plan& plan) {
  const fabric::Description& d = *plan.description;
  std::string text =
      fmt::format("dscp {} {} {} {} {} {}\n", d.dscp.no_trim, d.dscp.trimmable,
                  d.dscp.trimmable_retx, d.dscp.trimmed, d.dscp.trimmed_last_hop, d.dscp.control);
  text += fmt::format("switch port {} {}\n", sizeof(port_config), sizeof(port_state));
  std::vector<std::size_t> links;
  for (std::size_t port = 0; port < plan.ports.size(); port += 2) links.push_back(port);
  text += links_batch(plan, links);
  const std::vector<bool> all(plan.ports.size(), true);
  for (std::size_t node = 0; node < plan.nodes.size(); ++node)
    text += "\n" + plan.nodes[node].netns + "\n" + node_batch(plan, node, all);
  return text;
}

[[noreturn]] void refuse_other_plan(const Plan& plan) {
  throw Error(Errc::in_use,
              fmt::format("fabric '{}' was made from another description than {} is now: take it "
                          "down first (`mrc_fabric down {}`), or take another --prefix",
                          plan.name, plan.description->file, plan.description->name));
}

}  // namespace

bool State::exists() const {
  return fs::exists(folder_);
}

std::vector<std::string> State::namespaces() const {
  std::istringstream text(read_text(folder_ + "/namespaces"));
  std::vector<std::string> names;
  for (std::string name; std::getline(text, name);) names.push_back(name);
  return names;
}

bool State::same_plan(const Plan& plan) const {
  return read_text(folder_ + "/plan") == plan_text(plan);
}

void State::claim(const Plan& plan) const {
  if (exists()) {
    if (!same_plan(plan)) refuse_other_plan(plan);
    return;
  }
  std::vector<std::string> names{wire_netns(plan.name)};
  for (const FabricNode& node : plan.nodes) names.push_back(node.netns);
  std::string namespaces;
  for (const std::string& name : names) {
    if (netns_exists(name))
      throw Error(Errc::in_use,
                  fmt::format("network namespace '{0}' is there already, and not from mrc_fabric: "
                              "`ip netns del {0}`, or take another --prefix",
                              name));
    namespaces += name + "\n";
  }
  // Renamed when it is whole: who is killed before that has claimed nothing.
  const std::string unfinished = std::string(kRunFolder) + "/" + kUnfinished;
  fs::remove_all(unfinished);
  fs::create_directories(unfinished);
  write_file(unfinished + "/namespaces", namespaces);
  write_file(unfinished + "/plan", plan_text(plan));
  fs::rename(unfinished, folder_);
}

void State::need(const Plan& plan) const {
  if (!exists())
    throw Error(Errc::not_found, fmt::format("fabric '{}' is not up: `mrc_fabric up {}`", plan.name,
                                             plan.description->file));
  if (!same_plan(plan)) refuse_other_plan(plan);
}

void State::remove() const {
  (void)umount2(bpf_folder().c_str(), MNT_DETACH);
  fs::remove_all(folder_);
}

std::vector<std::string> known_fabrics() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(kRunFolder, none))
    if (entry.path().filename() != kUnfinished) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

UniqueFd lock_fabrics() {
  fs::create_directories(kRunFolder);
  // Inherited by the programs run here, which may outlive this one if it is killed.
  UniqueFd folder(open(kRunFolder, O_RDONLY | O_DIRECTORY));
  if (!folder.open()) throw_errno(std::string("can't open ") + kRunFolder);
  while (flock(folder.fd(), LOCK_EX) != 0)
    if (errno != EINTR) throw_errno(std::string("can't lock ") + kRunFolder);
  return folder;
}

}  // namespace mrc::tools
