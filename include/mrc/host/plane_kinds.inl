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

#ifdef MRC_SEPARATE_COMPILATION
[[nodiscard]] MRC_SETUP std::unique_ptr<PlaneKind> packet_kind_for(const Config& config) {
  return make_packet_kind(config);
}
[[nodiscard]] MRC_SETUP std::unique_ptr<PlaneKind> verbs_kind_for(const Config& config) {
#if __has_include(<infiniband/verbs.h>)
  return make_verbs_kind(config);
#else
  throw no_verbs_planes(config);
#endif
}
#else
[[nodiscard]] MRC_SETUP std::unique_ptr<PlaneKind> packet_kind_for(const Config& config) {
  if (const auto make = packet_kind.load()) return make(config);
  throw Error(
      Errc::unsupported,
      setting_name("fabric", config) +
          ": this program was built without fabrics; include <mrc/fabric.hpp> in one of its "
          "files, or link the compiled library (OpenMRC::static or OpenMRC::shared)");
}
[[nodiscard]] MRC_SETUP std::unique_ptr<PlaneKind> verbs_kind_for(const Config& config) {
  if (const auto make = verbs_kind.load()) return make(config);
  throw no_verbs_planes(config);
}
#endif

/// A kind of plane is a folder of plane/, and a line here.
MRC_SETUP std::unique_ptr<PlaneKind> make_plane_kind(const Config& config) {
  if (!config.fabric.empty()) return packet_kind_for(config);
  if (!config.verbs.empty()) return verbs_kind_for(config);
  return make_udp_kind();
}

}  // namespace mrc::inline v0_1::detail
