// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "mrc_fabric/plan.hpp"
#include "mrc_fabric/state.hpp"
#include "mrc_fabric/switch_port.hpp"
#include "mrc_fabric/wire_report.hpp"

namespace mrc::bench {

/// The links by which packets of delayed directions get to the wire and back, and the wire itself.
/// Directions are named by the port that sends; the link starts where that port's packets arrive.
/// All throw mrc::Error.
class WireLinks {
 public:
  WireLinks(const Plan& plan, const State& state, const SwitchPorts& switch_ports);

  /// Makes what the delayed ones of these directions need, tells the wire the delays of all, and
  /// starts it if it does not run. Those that are not delayed any more may go on to it.
  void prepare(const std::vector<std::size_t>& ports) const;
  /// Removes what those of these directions had that are not delayed, when the wire is done with
  /// them; no packets may go there any more.
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

/// What a fabric's wire says; nothing if it does not run.
[[nodiscard]] std::optional<WireReport> ask_wire_of(const std::string& fabric);

/// Removes all links of the wire, and waits until it has ended.
void end_wire_of(const std::string& fabric);

}  // namespace mrc::bench
