// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc_ctl/devices.hpp"

namespace mrc::ctl_tool {

/// Whether option --kind may name it: an event (plane_down), or what it begins with (plane).
[[nodiscard]] bool is_event_kind(const std::string& kind);

/// Whether the options of `events` ask for it; `now` in seconds since 1970.
[[nodiscard]] bool wants_event(const Options& o, const Json& event, double now);

/// In a line.
[[nodiscard]] std::string event_text(const Json& event);

}  // namespace mrc::ctl_tool
