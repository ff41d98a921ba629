// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc_fabric/system.hpp"

/// Interface between the tool and the wire (run_wire(), docs/fabric_tool.md): the process that
/// holds packets of delayed directions, in a network namespace of its own.
namespace mrc::tools {

/// "mrc-demo-wire": the wire's namespace in the fabric "mrc-demo".
[[nodiscard]] std::string wire_netns(const std::string& fabric);

/// "wire17": the interface on which packets sent by port 17 of the plan reach and leave the wire;
/// its end in the receiving node's namespace has the same name.
[[nodiscard]] std::string wire_interface(std::size_t port);
/// 17; empty if it is not the name of such an interface.
[[nodiscard]] std::optional<std::size_t> wire_port(std::string_view interface);

/// State of one direction in the wire.
struct WireDirection {
  std::size_t port = 0;  ///< sending port
  Duration delay{};
  std::uint64_t held = 0;     ///< frames in flight
  std::uint64_t passed = 0;   ///< frames delivered
  std::uint64_t dropped = 0;  ///< no memory, or link down
};

/// The wire's report.
struct WireReport {
  std::uint64_t missed = 0;  ///< frames lost because the wire read too slowly
  std::vector<WireDirection> directions;

  [[nodiscard]] const WireDirection* find(std::size_t port) const;
  /// Conversion to text and back; empty if the text is incomplete.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static std::optional<WireReport> parse(const std::string& text);
};

/// The listener on which the wire of this thread's namespace offers its report. Only one exists: a
/// second wire gets a descriptor of -1. Throws mrc::Error.
[[nodiscard]] UniqueFd listen_as_wire();
/// Sends the report to all waiting connections.
void tell_report(const UniqueFd& listener, const WireReport& report);

/// Requests the report of the wire in this thread's namespace; empty if there is no response. Sets
/// `process` to a pidfd of it.
[[nodiscard]] std::optional<WireReport> ask_wire(UniqueFd* process = nullptr);

}  // namespace mrc::tools
