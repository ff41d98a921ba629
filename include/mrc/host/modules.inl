// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/host/modules.hpp"

#include "mrc/plane/udp_kind.hpp"

#ifdef MRC_BUILDS_LIBRARY
#include "mrc/control/administration.hpp"
#include "mrc/fabric/packet_kind.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "mrc/faults/lane_faults.hpp"
#include "mrc/resolve/resolver.hpp"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/verbs/verbs_kind.hpp"
#define MRC_HAS_VERBS 1
#endif
#endif

/// Modules are named here and nowhere else in the transport. The compiled library holds them all;
/// in other programs the public header of a module enters it, in the unit that defines
/// MRC_IMPLEMENTATION.
#ifdef MRC_BUILDS_LIBRARY
#define MRC_MODULE(function) (function)
#else
#define MRC_MODULE(function) nullptr
#endif
#ifdef MRC_HAS_VERBS
#define MRC_VERBS(function) (function)
#else
#define MRC_VERBS(function) nullptr
#endif

namespace mrc::inline v0_1::port {

class FrameChannel;
struct VerbsFramesOptions;
using OpenVerbsFrames = std::unique_ptr<FrameChannel> (*)(const VerbsFramesOptions&);
constinit std::atomic<OpenVerbsFrames> verbs_frames{MRC_VERBS(&open_verbs_frames)};

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::detail {

constinit std::atomic<MistakeIn> mistake_in_faults{MRC_MODULE(&port::FaultSchedule::mistake_in)};
constinit std::atomic<MakePlaneKind> packet_kind{MRC_MODULE(&make_packet_kind)};
constinit std::atomic<MakePlaneKind> verbs_kind{MRC_VERBS(&make_verbs_kind)};
constinit std::atomic<MakeResolver> resolver_maker{MRC_MODULE(&make_resolver)};
constinit std::atomic<MakeAdministration> administration_maker{MRC_MODULE(&make_administration)};
constinit std::atomic<SetFaults> fault_setter{MRC_MODULE(&set_faults)};

#undef MRC_MODULE
#undef MRC_VERBS

std::unique_ptr<PlaneKind> make_plane_kind(const Config& config) {
  if (!config.fabric.empty()) {
    if (const auto make = packet_kind.load()) return make(config);
    throw lacking(setting_name("fabric", config), "fabrics", "fabric");
  }
  if (!config.verbs.empty()) {
    if (const auto make = verbs_kind.load()) return make(config);
    throw no_verbs_planes(config);
  }
  return make_udp_kind();
}

}  // namespace mrc::inline v0_1::detail
