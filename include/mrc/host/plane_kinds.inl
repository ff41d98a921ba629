// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/host/plane_kinds.hpp"

#include <atomic>
#include <memory>

#include "mrc/api/option_table.hpp"
#include "mrc/core/error.hpp"
#include "mrc/host/device_control.hpp"
#include "mrc/plane/udp/udp_kind.hpp"

#ifdef MRC_BUILDS_LIBRARY
#include "mrc/plane/packet/packet_kind.hpp"
#include "mrc/plane/packet/packet_link.hpp"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/plane/verbs/verbs_kind.hpp"
#define MRC_HAS_VERBS 1
#endif
#endif

/// What modules bring to a device: the only place that names them. The compiled library holds them
/// all; in other programs the public header of a module enters it, in the unit that defines
/// MRC_IMPLEMENTATION.
namespace mrc::inline v0_1::port {

class FrameChannel;
struct VerbsFramesOptions;
using OpenVerbsFrames = std::unique_ptr<FrameChannel> (*)(const VerbsFramesOptions&);
#ifdef MRC_HAS_VERBS
constinit std::atomic<OpenVerbsFrames> verbs_frames{&open_verbs_frames};
#else
constinit std::atomic<OpenVerbsFrames> verbs_frames{nullptr};
#endif

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::detail {

#ifdef MRC_HAS_VERBS
constinit std::atomic<MakePlaneKind> verbs_kind{&make_verbs_kind};
#else
constinit std::atomic<MakePlaneKind> verbs_kind{nullptr};
#endif
#ifdef MRC_BUILDS_LIBRARY
constinit std::atomic<MakePlaneKind> packet_kind{&make_packet_kind};
constinit std::atomic<OpenControl> control_opener{&open_control_socket};
#else
constinit std::atomic<MakePlaneKind> packet_kind{nullptr};
constinit std::atomic<OpenControl> control_opener{nullptr};
#endif

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
