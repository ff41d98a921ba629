// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc_fabric/options.hpp"
#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/state.hpp"

namespace mrc::tools {

/// Inputs of most commands: the description, its plan for this machine, and the state of the
/// fabric.
struct Fabric {
  fabric::Description description;
  Plan plan;
  State state;

  /// Throws mrc::Error and json_file::FileError.
  explicit Fabric(const Options& o);
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
};

/// Each returns the program's exit status, and throws mrc::Error.
int run_up(const Options& o);
int run_down(const Options& o);
int run_show(const Options& o);
int run_exec(const Options& o);
int run_link(const Options& o);
int run_switch(const Options& o);
int run_set(const Options& o);
int run_export(const Options& o);

}  // namespace mrc::tools
