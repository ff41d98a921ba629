// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nccl_plugin/settings/settings.hpp"
#include "support/errors.hpp"

/// Environments and interfaces for the tests of the plugin's settings.
namespace mrc::test {

using NcclVariables = std::vector<std::pair<std::string, std::string>>;

/// An interface that is up and running.
inline mrc_nccl::InterfaceFacts net_interface(std::string name,
                                              std::vector<std::string> addresses) {
  mrc_nccl::InterfaceFacts facts;
  facts.loopback = name == "lo";
  facts.name = std::move(name);
  for (const auto& text : addresses) facts.addresses.push_back(port::parse_ip(text));
  return facts;
}

/// A GPU node: four fast ports, a slow one for management, bridges of containers.
inline std::vector<mrc_nccl::InterfaceFacts> gpu_node() {
  std::vector<mrc_nccl::InterfaceFacts> all{
      net_interface("lo", {"127.0.0.1", "::1"}),
      net_interface("eth10", {"10.0.10.1", "fe80::10", "2001:db8:10::1"}),
      net_interface("eth2", {"10.0.2.1", "fe80::2", "2001:db8:2::1"}),
      net_interface("eth1", {"fe80::1", "2001:db8:1::1", "10.0.1.1"}),
      net_interface("docker0", {"172.17.0.1"}),
      net_interface("br-0123456789ab", {"172.18.0.1"}),
      net_interface("ib0", {"fe80::b0", "2001:db8:b::1"}),
      net_interface("eth3", {}),
  };
  for (auto& facts : all) {
    if (!facts.name.starts_with("eth")) continue;
    facts.speed_mbps = 100000;
    facts.pci_path = "/sys/devices/pci0000:00/0000:00:0" + facts.name.substr(3, 1) + ".0";
    facts.numa_node = 1;
  }
  return all;
}

inline mrc_nccl::Settings settings_of(const NcclVariables& variables,
                                      const std::vector<mrc_nccl::InterfaceFacts>& interfaces) {
  return mrc_nccl::read_settings(mrc_nccl::Environment(variables), interfaces);
}
inline mrc_nccl::Settings settings_of(const NcclVariables& variables) {
  return settings_of(variables, gpu_node());
}

/// The SettingsError's text; "no error" if there is none.
inline std::string refusal(const NcclVariables& variables,
                           const std::vector<mrc_nccl::InterfaceFacts>& interfaces) {
  return error_of<mrc_nccl::SettingsError>([&] { (void)settings_of(variables, interfaces); });
}
inline std::string refusal(const NcclVariables& variables) {
  return refusal(variables, gpu_node());
}

/// Whether one of the lines has this part.
inline bool any_contains(const std::vector<std::string>& lines, std::string_view part) {
  for (const auto& line : lines)
    if (contains(line, part)) return true;
  return false;
}

/// Lines under each other, for messages of failed checks.
inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += (text.empty() ? "" : ",") + line;
  return text;
}

}  // namespace mrc::test
