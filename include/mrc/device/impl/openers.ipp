// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/config/setting_source.hpp"
#include "mrc/core/error.hpp"
#include "mrc/device/openers.hpp"
#include "mrc/device/udp_planes.hpp"

#ifdef MRC_SEPARATE_COMPILATION
#include "mrc/device/fabric_planes.hpp"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/device/verbs_planes.hpp"
#endif
#endif

namespace mrc::inline v0_1::detail {

[[nodiscard]] inline std::unique_ptr<PlaneOpener> make_verbs_opener_if_there(const Config& config) {
  if (!config.fabric.empty())
    throw Error(Errc::invalid_argument,
                setting_name("verbs", config) + " and " + setting_name("fabric", config) +
                    " are both set: planes are either on RDMA devices or on packet ports");
#ifndef MRC_SEPARATE_COMPILATION
  if (const auto make = verbs_opener.load()) return make(config);
  throw Error(
      Errc::unsupported,
      setting_name("verbs", config) +
          ": this program was built without verbs planes; include <mrc/verbs.hpp> in one of its "
          "files, or link the compiled library (OpenMRC::static or OpenMRC::shared)");
#elif __has_include(<infiniband/verbs.h>)
  return make_verbs_opener(config);
#else
  throw Error(Errc::unsupported, setting_name("verbs", config) +
                                     ": OpenMRC was compiled without the headers of libibverbs "
                                     "(Debian: libibverbs-dev); install them and compile it anew");
#endif
}

MRC_SETUP std::unique_ptr<PlaneOpener> make_opener(const Config& config) {
  if (!config.verbs.empty()) return make_verbs_opener_if_there(config);
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
