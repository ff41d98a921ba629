// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/system.hpp"

namespace mrc::tools {

inline constexpr const char* kRunFolder = "/run/openmrc-fabrics";

/// Persistent state of a fabric: a folder with the names of its namespaces, its plan, and the
/// switch ports' BPF file system. Written before anything is created, so that `down` can clean up
/// after a crash.
class State {
 public:
  /// State of the fabric "prefix-name", which need not exist.
  explicit State(const std::string& fabric) : folder_(std::string(kRunFolder) + "/" + fabric) {}

  [[nodiscard]] bool exists() const;
  [[nodiscard]] std::vector<std::string> namespaces() const;
  [[nodiscard]] std::string bpf_folder() const { return folder_ + "/bpf"; }
  [[nodiscard]] std::string wire_log() const { return folder_ + "/wire.log"; }

  /// Stores the plan. Throws mrc::Error if its name is in use: by a fabric from another
  /// description, or by namespaces not created by this tool.
  void claim(const Plan& plan) const;
  /// Throws mrc::Error unless the plan's fabric is up and was built from this description.
  void need(const Plan& plan) const;
  /// Removes the state and unmounts the BPF file system.
  void remove() const;

 private:
  [[nodiscard]] bool same_plan(const Plan& plan) const;

  std::string folder_;
};

/// The names ("mrc-demo") of all existing fabrics.
[[nodiscard]] std::vector<std::string> known_fabrics();

/// Serializes commands that change fabrics: held until the end of the scope.
[[nodiscard]] UniqueFd lock_fabrics();

}  // namespace mrc::tools
