// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What modules bring to a device: the only place that names them. The compiled library holds them
/// all; in other programs the public header of a module enters it, in the unit that defines
/// MRC_IMPLEMENTATION.
#include <atomic>
#include <memory>

#include "mrc/host/control_service.hpp"
#include "mrc/host/plane_kinds.hpp"

#ifdef MRC_BUILDS_LIBRARY
#include "mrc/plane/packet/packet_kind.hpp"
#include "mrc/plane/packet/packet_link.hpp"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/plane/verbs/verbs_kind.hpp"
#define MRC_HAS_VERBS 1
#endif
#endif

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

}  // namespace mrc::inline v0_1::detail
