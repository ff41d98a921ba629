// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc_fabric/system.hpp"

/// Network namespaces as `ip netns` names them.
namespace mrc::tools {

/// Moves this thread to the namespace of that name until the end of the scope. Throws mrc::Error.
class InNetns {
 public:
  explicit InNetns(const std::string& name);
  ~InNetns();
  InNetns(const InNetns&) = delete;
  InNetns& operator=(const InNetns&) = delete;

 private:
  UniqueFd before_;
};

/// Moves this process there permanently, with a matching /sys, as `ip netns exec` does.
void move_to_netns(const std::string& name);

/// Whether a file of that name exists. If creating the namespace was interrupted, the file may
/// exist while `is_netns` is false.
[[nodiscard]] bool netns_exists(const std::string& name);
[[nodiscard]] bool is_netns(const std::string& name);

/// An interface of this thread's namespace.
struct InterfaceState {
  bool exists = false;
  bool up = false;       ///< administrative state
  bool carrier = false;  ///< up at both ends
};
[[nodiscard]] InterfaceState interface_state(const std::string& interface);

/// Makes the kernel do for packets sent by the interface what NICs do: checksums and segmentation.
/// Throws mrc::Error.
void switch_offloads_off(const std::string& interface);

/// Sets the interface up. Throws mrc::Error.
void set_up(const std::string& interface);

/// Sets, for instance, "net/ipv6/conf/all/forwarding" of this thread's namespace. Throws
/// mrc::Error.
void set_sysctl(const std::string& name, const std::string& value);

}  // namespace mrc::tools
