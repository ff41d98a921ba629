// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/net/address.hpp"

/// Facts about network interfaces that decide which become planes.
namespace mrc_nccl {

/// A network interface of this host, or of this network namespace. A plain value.
struct InterfaceFacts {
  std::string name;                             ///< such as "eth2"
  std::vector<mrc::port::IpAddress> addresses;  ///< in the kernel's order
  std::vector<std::uint8_t> prefix_bits{};      ///< [i]: of the subnet of address i, out of 128
  std::uint32_t mtu = 0;                        ///< bytes; 0: not known
  bool up = true;                               ///< switched on
  bool running = true;                          ///< has a carrier
  bool loopback = false;                        ///< reaches this host only
  bool link = true;                             ///< see mrc::port::is_link()
  int speed_mbps = -1;                          ///< Mb/s; -1: not known
  /// Folder of its PCI function in /sys, such as "/sys/devices/pci0000:00/0000:00:03.0"; empty if
  /// it has none (virtual interfaces).
  std::string pci_path;
  int numa_node = -1;  ///< of the PCI function; -1: not known
};

/// All interfaces with their addresses, from getifaddrs() and /sys. Throws SettingsError when the
/// kernel refuses to list them.
[[nodiscard]] std::vector<InterfaceFacts> read_interfaces();

/// The folder of the innermost PCI function on a path below /sys/devices: a virtio device, say, is
/// a child of its function. Empty if there is none.
[[nodiscard]] std::string pci_function(std::string_view device_path);

/// One line per host: "eth0 (192.0.2.2), eth1 (no address), lo (127.0.0.1)"; "none" if empty.
[[nodiscard]] std::string interfaces_text(const std::vector<InterfaceFacts>& interfaces);

}  // namespace mrc_nccl
