// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/state.hpp"
#include "mrc_fabric/switch_port.hpp"
#include "mrc_fabric/wire/wire_report.hpp"

namespace mrc::tools {

/// The links that take packets of delayed directions to the wire and back, and the wire itself. A
/// direction is identified by its sending port; the link starts where that port's packets arrive.
/// All throw mrc::Error.
class WireLinks {
 public:
  WireLinks(const Plan& plan, const State& state, const SwitchPorts& switch_ports);

  /// Creates what the delayed ones of these directions need, sets all their delays at the wire, and
  /// starts it if it does not run. Directions without delay may still be redirected to it.
  void prepare(const std::vector<std::size_t>& ports) const;
  /// Removes the links of those directions that are not delayed any more, once the wire holds none
  /// of their packets; none may be sent there any more.
  void remove_unused(const std::vector<std::size_t>& ports) const;

 private:
  [[nodiscard]] Duration delay(std::size_t port) const;
  void make_namespace() const;
  [[nodiscard]] std::vector<bool> look_at_wire() const;
  void make_links(const std::vector<std::size_t>& ports, const std::vector<bool>& at_wire) const;
  void set_up_link(std::size_t port) const;
  void tell_delays(const std::vector<std::size_t>& ports) const;
  [[nodiscard]] bool agrees(const WireReport& report, const std::vector<std::size_t>& ports) const;
  void wait_for_wire(const std::vector<std::size_t>& ports, bool empty) const;

  const Plan& plan_;
  const State& state_;
  const SwitchPorts& switch_ports_;
  std::string netns_;
};

/// The report of a fabric's wire; empty if it does not run.
[[nodiscard]] std::optional<WireReport> ask_wire_of(const std::string& fabric);

/// Removes all links of the wire, and waits until it has ended.
void end_wire_of(const std::string& fabric);

}  // namespace mrc::tools
