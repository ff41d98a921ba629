// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/core/error.hpp"
#include "mrc/device/openers.hpp"
#include "mrc/device/udp_planes.hpp"

#ifdef MRC_SEPARATE_COMPILATION
#include "mrc/device/fabric_planes.hpp"
#else
#include "mrc/config/setting_source.hpp"
#endif

namespace mrc::inline v0_1::detail {

MRC_SETUP std::unique_ptr<PlaneOpener> make_opener(const Config& config) {
  if (config.fabric.empty()) return make_udp_opener();
#ifdef MRC_SEPARATE_COMPILATION
  return make_fabric_opener(config);
#else
  if (const auto make = fabric_opener.load()) return make(config);
  throw Error(
      Errc::unsupported,
      setting_name("fabric", config) +
          ": this program was built without fabrics; include <mrc/fabric.hpp> in one of its "
          "files, or link the compiled library (OpenMRC::static or OpenMRC::shared)");
#endif
}

}  // namespace mrc::inline v0_1::detail
