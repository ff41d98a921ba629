// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/port.h"

/// Text form of the conditions of switch ports: "rate=1Gbit", "loss=0.01", "blackhole".
namespace mrc::tools {

/// The ports selected by a text: a direction "h0>p1t0-0", both of a link "h0-p1t0-0", all from one
/// kind of node to another "t0-host", or "all". Throws mrc::Error.
[[nodiscard]] std::vector<std::size_t> select_ports(const Plan& plan, const std::string& text);

/// Initial conditions of a port: no rate, no losses. DSCPs are the fabric's.
[[nodiscard]] port_config default_conditions(const Plan& plan, std::size_t port);

/// Applies the words. Throws mrc::Error that names the word: unknown, out of range, or without
/// effect.
void change_conditions(port_config& config, const std::vector<std::string>& words, const Plan& plan,
                       std::size_t port);

/// The words that produce these conditions; empty if there are none.
[[nodiscard]] std::string conditions_text(const port_config& config);

/// "1Gbit", "2.5Mbit".
[[nodiscard]] std::string rate_text(double bits_per_second);

}  // namespace mrc::tools
