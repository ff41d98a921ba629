// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc_fabric/system.hpp"

/// Network namespaces as `ip netns` names them.
namespace mrc::bench {

/// This thread is in the namespace of that name, until the end of the scope. Throws mrc::Error.
class InNetns {
 public:
  explicit InNetns(const std::string& name);
  ~InNetns();
  InNetns(const InNetns&) = delete;
  InNetns& operator=(const InNetns&) = delete;

 private:
  UniqueFd before_;
};

/// Moves this process there for good, with a /sys that shows it, as `ip netns exec` does.
void move_to_netns(const std::string& name);

/// A file of that name is there. It may be the rest of a namespace that was half made: then
/// `is_netns` is false.
[[nodiscard]] bool netns_exists(const std::string& name);
[[nodiscard]] bool is_netns(const std::string& name);

/// An interface of the namespace that this thread is in.
struct InterfaceState {
  bool exists = false;
  bool up = false;       ///< as the administrator wants it
  bool carrier = false;  ///< up, and so is the other end
};
[[nodiscard]] InterfaceState interface_state(const std::string& interface);

/// Has the kernel do to packets that leave by the interface what cards do: checksums, and cutting
/// bursts into packets. Throws mrc::Error.
void switch_offloads_off(const std::string& interface);

/// Sets the interface up. Throws mrc::Error.
void set_up(const std::string& interface);

/// Sets "net/ipv6/conf/all/forwarding", say, of the namespace that this thread is in. Throws
/// mrc::Error.
void set_sysctl(const std::string& name, const std::string& value);

}  // namespace mrc::bench
