// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "mrc/config.hpp"
#include "mrc_ctl/check/facts.hpp"
#include "mrc_ctl/check/plane_sockets.hpp"
#include "mrc_ctl/options.hpp"

namespace mrc::check_tool {

/// This host, with its planes opened for probes.
struct OwnHost {
  Config config;
  HostFacts facts;
  std::vector<PlaneSockets> planes;  ///< [plane]; none where planes are not UDP ports
};

/// The settings that a job's devices would have: MRC_* variables, changed by --option. Planes are
/// on the interface of the default route if nothing says so. Throws mrc::Error.
[[nodiscard]] Config job_config(const ctl_tool::CheckOptions& options);

/// Opens the planes, and looks around. Throws mrc::Error.
[[nodiscard]] OwnHost open_host(const Config& config, const ctl_tool::CheckOptions& options);

/// What may have changed meanwhile: state and MTU of interfaces.
void refresh(OwnHost& own);

/// Fills in PlaneFacts::leaves of `own`: by which interfaces packets to the other host's planes
/// leave.
void find_routes(HostFacts& own, const HostFacts& other);

}  // namespace mrc::check_tool
