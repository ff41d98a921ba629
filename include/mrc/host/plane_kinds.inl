// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/api/option_table.hpp"
#include "mrc/core/error.hpp"
#include "mrc/host/plane_kinds.hpp"
#include "mrc/plane/udp/udp_kind.hpp"

namespace mrc::inline v0_1::detail {

[[nodiscard]] std::unique_ptr<PlaneKind> packet_kind_for(const Config& config) {
  if (const auto make = packet_kind.load()) return make(config);
  throw Error(Errc::unsupported,
              setting_name("fabric", config) +
                  ": this program was built without fabrics; include <mrc/fabric.hpp> where it "
                  "defines MRC_IMPLEMENTATION, or link the compiled library (OpenMRC::static or "
                  "OpenMRC::shared)");
}

[[nodiscard]] std::unique_ptr<PlaneKind> verbs_kind_for(const Config& config) {
  if (const auto make = verbs_kind.load()) return make(config);
  throw no_verbs_planes(config);
}

std::unique_ptr<PlaneKind> make_plane_kind(const Config& config) {
  if (!config.fabric.empty()) return packet_kind_for(config);
  if (!config.verbs.empty()) return verbs_kind_for(config);
  return make_udp_kind();
}

}  // namespace mrc::inline v0_1::detail
