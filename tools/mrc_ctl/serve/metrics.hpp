// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "mrc_ctl/serve/snapshot.hpp"

namespace mrc::ctl_tool {

/// A host's state in Prometheus' text format, version 0.0.4. `paths`: also each path by itself.
[[nodiscard]] std::string metrics_text(const HostSnapshot& host, bool paths);

/// The value of a label, with what has to be escaped.
[[nodiscard]] std::string label_value(std::string_view text);

}  // namespace mrc::ctl_tool
