// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "mrc/host/host_rules.hpp"

namespace mrc::inline v0_1::detail {

class DeviceCore;

/// Serves the clients of a device's control socket as long as it exists.
class ControlService {
 public:
  virtual ~ControlService() = default;
  /// Of the socket; empty if there is none.
  [[nodiscard]] virtual std::string path() const = 0;
  /// What is to hold in all devices of the host.
  [[nodiscard]] virtual std::shared_ptr<HostRules> host_rules() noexcept = 0;
  /// In a forked child: whether nothing was being changed, so that it can be destroyed.
  [[nodiscard]] virtual bool at_rest() noexcept = 0;
};

/// Opens the control socket that option control asks for, and leaves the dumps that option dump
/// asks for. `core` must outlive it. Throws mrc::Error.
[[nodiscard]] std::unique_ptr<ControlService> open_control_socket(DeviceCore& core);

/// open_control_socket() if the program has control sockets (host/modules.inl), else null.
using OpenControl = std::unique_ptr<ControlService> (*)(DeviceCore&);
extern std::atomic<OpenControl> control_opener;

}  // namespace mrc::inline v0_1::detail
