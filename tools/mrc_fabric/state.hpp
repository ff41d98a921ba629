// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/system.hpp"

namespace mrc::bench {

inline constexpr const char* kRunFolder = "/run/openmrc";

/// What the tool keeps about a fabric: a folder with the names of its namespaces, the plan by which
/// it was built, and the switch ports' BPF file system. Written before anything is made, so that
/// `down` finds all of it after a crash, too.
class State {
 public:
  /// Of the fabric "prefix-name"; it need not be there.
  explicit State(const std::string& fabric) : folder_(std::string(kRunFolder) + "/" + fabric) {}

  [[nodiscard]] bool exists() const;
  [[nodiscard]] std::vector<std::string> namespaces() const;
  [[nodiscard]] std::string bpf_folder() const { return folder_ + "/bpf"; }
  [[nodiscard]] std::string wire_log() const { return folder_ + "/wire.log"; }

  /// Remembers the plan. Throws mrc::Error if something else goes by its name: a fabric from
  /// another description, or namespaces that no fabric has made.
  void claim(const Plan& plan) const;
  /// Throws mrc::Error unless the plan's fabric was brought up, and from this description.
  void need(const Plan& plan) const;
  /// Forgets the fabric, and takes down the BPF file system.
  void remove() const;

 private:
  [[nodiscard]] bool same_plan(const Plan& plan) const;

  std::string folder_;
};

/// The names ("mrc-demo") of all fabrics that there are.
[[nodiscard]] std::vector<std::string> known_fabrics();

/// Commands that change fabrics run one after the other: held until the end of the scope.
[[nodiscard]] UniqueFd lock_fabrics();

}  // namespace mrc::bench
