// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "mrc_fabric/port.h"
#include "mrc_fabric/system.hpp"

namespace mrc::bench {

/// The switch ports' program and its tables in the kernel (port.bpf.c), pinned in a file system of
/// their own, so that they outlive this process. Ports are those of Plan::ports.
class SwitchPorts {
 public:
  /// Those pinned in `folder`; none if nobody has set conditions there yet. Throws mrc::Error.
  [[nodiscard]] static std::optional<SwitchPorts> open(const std::string& folder);
  /// Makes them for that many ports. Throws mrc::Error: the kernel refuses, or this program was
  /// built without libbpf.
  [[nodiscard]] static SwitchPorts make(const std::string& folder, std::size_t ports);

  [[nodiscard]] port_config config(std::size_t port) const;
  void set_config(std::size_t port, const port_config& config) const;
  [[nodiscard]] port_state state(std::size_t port) const;
  void clear_state(std::size_t port) const;

  /// Where `tc` finds the programs: the port's own, and those to the wire and from it.
  [[nodiscard]] std::string program_file() const { return folder_ + "/port"; }
  [[nodiscard]] std::string to_wire_file() const { return folder_ + "/to_wire"; }
  [[nodiscard]] std::string from_wire_file() const { return folder_ + "/from_wire"; }
  /// Numbers of filters' classes have 16 bits, and 0 is none.
  static constexpr unsigned kMaxClass = 0xFFFF;
  /// The class by which a filter tells the program its port.
  [[nodiscard]] static unsigned class_of(std::size_t port) noexcept {
    return static_cast<unsigned>(port) + 1;
  }

 private:
  UniqueFd configs_, states_;
  std::string folder_;
};

}  // namespace mrc::bench
