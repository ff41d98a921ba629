// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "mrc_fabric/port.h"
#include "mrc_fabric/system.hpp"

namespace mrc::tools {

/// The switch ports' program and its tables in the kernel (port.bpf.c), pinned in a file system of
/// their own, so that they outlive this process. Ports are those of Plan::ports.
class SwitchPorts {
 public:
  /// Opens those pinned in `folder`; empty if no conditions were ever set.
  [[nodiscard]] static std::optional<SwitchPorts> open(const std::string& folder);
  /// Creates them for that many ports. Throws mrc::Error if the kernel rejects them or this program
  /// was built without libbpf.
  [[nodiscard]] static SwitchPorts make(const std::string& folder, std::size_t ports);

  [[nodiscard]] port_config config(std::size_t port) const;
  void set_config(std::size_t port, const port_config& config) const;
  [[nodiscard]] port_state state(std::size_t port) const;
  void clear_state(std::size_t port) const;

  /// Paths of the programs for `tc`: the port's own, and those to and from the wire.
  [[nodiscard]] std::string program_file() const { return folder_ + "/port"; }
  [[nodiscard]] std::string to_wire_file() const { return folder_ + "/to_wire"; }
  [[nodiscard]] std::string from_wire_file() const { return folder_ + "/from_wire"; }
  /// Filter classes have 16 bits, and 0 is reserved.
  static constexpr unsigned kMaxClass = 0xFFFF;
  /// The filter class that identifies the port to the program.
  [[nodiscard]] static unsigned class_of(std::size_t port) noexcept {
    return static_cast<unsigned>(port) + 1;
  }

 private:
  UniqueFd configs_, states_;
  std::string folder_;
};

}  // namespace mrc::tools
