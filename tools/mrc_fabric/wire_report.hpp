// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/time.hpp"
#include "mrc_fabric/system.hpp"

/// What the tool and the wire (run_wire(), docs/fabric_tool.md) know each other by. The wire is the
/// process that holds packets of delayed directions, in a network namespace of its own.
namespace mrc::bench {

/// "mrc-demo-wire": the wire's namespace in the fabric "mrc-demo".
[[nodiscard]] std::string wire_netns(const std::string& fabric);

/// "wire17": the interface by which packets that port 17 of the plan sends come to the wire and
/// leave it; its end in the receiving node's namespace has the same name.
[[nodiscard]] std::string wire_interface(std::size_t port);
/// 17; nothing if that is no name of such an interface.
[[nodiscard]] std::optional<std::size_t> wire_port(std::string_view interface);

/// One direction, as the wire sees it.
struct WireDirection {
  std::size_t port = 0;  ///< that sends
  Duration delay{};
  std::uint64_t held = 0;     ///< frames on their way now
  std::uint64_t passed = 0;   ///< frames that have arrived
  std::uint64_t dropped = 0;  ///< for want of memory, or because the link is down
};

/// What the wire says of itself.
struct WireReport {
  std::uint64_t missed = 0;  ///< frames that came faster than it could read them
  std::vector<WireDirection> directions;

  [[nodiscard]] const WireDirection* find(std::size_t port) const;
  /// Lines of numbers, and back; nothing if the text is not whole.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static std::optional<WireReport> parse(const std::string& text);
};

/// Where the wire of the namespace that this thread is in tells its report to whoever connects.
/// There is one: the second wire that asks gets a descriptor of -1. Throws mrc::Error.
[[nodiscard]] UniqueFd listen_as_wire();
/// Gives the report to those that wait at the listener.
void tell_report(const UniqueFd& listener, const WireReport& report);

/// Asks the wire of the namespace that this thread is in; nothing if none answers. `process`
/// becomes a pidfd of it.
[[nodiscard]] std::optional<WireReport> ask_wire(UniqueFd* process = nullptr);

}  // namespace mrc::bench
