// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/api/setting_source.hpp"
#include "mrc/core/error.hpp"
#include "mrc/host/plane_kinds.hpp"
#include "mrc/plane/udp/udp_kind.hpp"

#ifdef MRC_SEPARATE_COMPILATION
#include "mrc/plane/packet/packet_kind.hpp"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/plane/verbs/verbs_kind.hpp"
#endif
#endif

namespace mrc::inline v0_1::detail {

/// Why this program cannot use RDMA devices.
[[nodiscard]] inline Error no_verbs_planes(const Config& config) {
#ifndef MRC_SEPARATE_COMPILATION
  return {Errc::unsupported,
          setting_name("verbs", config) +
              ": this program was built without verbs planes; include <mrc/verbs.hpp> in one of "
              "its files, or link the compiled library (OpenMRC::static or OpenMRC::shared)"};
#else
  return {Errc::unsupported, setting_name("verbs", config) +
                                 ": OpenMRC was compiled without the headers of libibverbs "
                                 "(Debian: libibverbs-dev); install them and compile it anew"};
#endif
}

[[nodiscard]] inline std::unique_ptr<PlaneOpener> make_verbs_opener_if_there(const Config& config) {
#ifndef MRC_SEPARATE_COMPILATION
  if (const auto make = verbs_opener.load()) return make(config);
#elif __has_include(<infiniband/verbs.h>)
  return make_verbs_opener(config);
#endif
  throw no_verbs_planes(config);
}

MRC_SETUP std::unique_ptr<port::FrameChannel> open_frames(const port::VerbsFramesOptions& options,
                                                          const Config& config) {
#ifndef MRC_SEPARATE_COMPILATION
  if (const auto open = frames_opener.load()) return open(options);
#elif __has_include(<infiniband/verbs.h>)
  return port::open_verbs_frames(options);
#endif
  (void)options;
  throw no_verbs_planes(config);
}

MRC_SETUP std::unique_ptr<PlaneOpener> make_opener(const Config& config) {
  if (config.fabric.empty())
    return config.verbs.empty() ? make_udp_opener() : make_verbs_opener_if_there(config);
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
