// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc_ctl/devices.hpp"

namespace mrc::ctl_tool {

/// Whether option --kind may name it: an event (plane_down), or what it begins with (plane).
[[nodiscard]] bool is_event_kind(const std::string& kind);

/// What option --kind takes: "path (path_bad, path_good), plane (plane_down, plane_up), qp_error".
[[nodiscard]] std::string event_kinds_text();

/// Whether the options of `events` ask for it; `now` in seconds since 1970.
[[nodiscard]] bool wants_event(const Options& o, const Json& event, double now);

/// In a line. Neither throws, whatever a device has sent.
[[nodiscard]] std::string event_text(const Json& event);

}  // namespace mrc::ctl_tool
