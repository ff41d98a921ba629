// SPDX-License-Identifier: Apache-2.0
// Planes that a configuration or a fabric names, and net devices made of planes.
#include <algorithm>
#include <span>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/fabric/reader.hpp"
#include "mrc/fabric/self.hpp"
#include "mrc/port/address.hpp"
#include "nccl_plugin/settings/planes.hpp"

namespace mrc_nccl {
namespace {

using mrc::port::IpAddress;

/// The interface of that name, or with that address. Loopback addresses that none lists
/// (127.0.0.2) belong to the loopback interface.
const InterfaceFacts* find_interface(const std::string& plane,
                                     const std::vector<InterfaceFacts>& interfaces) {
  IpAddress ip{};
  try {
    ip = mrc::port::parse_ip(plane.substr(0, plane.find('%')));
  } catch (const mrc::Error&) {  // not an address
    for (const InterfaceFacts& facts : interfaces)
      if (facts.name == plane) return &facts;
    return nullptr;
  }
  for (const InterfaceFacts& facts : interfaces)
    if (std::count(facts.addresses.begin(), facts.addresses.end(), ip) != 0) return &facts;
  for (const InterfaceFacts& facts : interfaces)
    if (facts.loopback && mrc::port::is_loopback(ip)) return &facts;
  return nullptr;
}

PlaneFacts plane_facts(const std::string& plane, const std::vector<InterfaceFacts>& interfaces) {
  PlaneFacts out;
  out.address = plane;
  if (const InterfaceFacts* facts = find_interface(plane, interfaces)) {
    out.interface = facts->name;
    out.speed_mbps = facts->speed_mbps;
    out.pci_path = facts->pci_path;
    out.numa_node = facts->numa_node;
  }
  return out;
}

NicPlan make_nic(std::size_t number, int first_plane, std::span<const PlaneFacts> planes) {
  NicPlan nic;
  nic.name = "mrc" + std::to_string(number);
  nic.plane_count = planes.size();
  nic.first_plane = first_plane;
  nic.speed_known = true;
  for (const PlaneFacts& plane : planes) {
    if (!plane.address.empty()) nic.planes.push_back(plane.address);
    nic.interfaces.push_back(plane.interface);
    nic.speed_mbps += plane.speed_mbps > 0 ? plane.speed_mbps : kUnknownSpeed;
    // The speed of a virtual interface (veth: 10 Gb/s) says nothing.
    if (plane.speed_mbps <= 0 || plane.pci_path.empty()) nic.speed_known = false;
    if (!nic.pci_path.empty() || plane.pci_path.empty()) continue;
    nic.pci_path = plane.pci_path;
    nic.numa_node = plane.numa_node;
  }
  return nic;
}

}  // namespace

std::vector<PlaneFacts> find_planes(const std::vector<std::string>& list,
                                    const std::vector<InterfaceFacts>& interfaces) {
  std::vector<PlaneFacts> planes;
  for (const std::string& plane : list) planes.push_back(plane_facts(plane, interfaces));
  return planes;
}

std::vector<PlaneFacts> fabric_planes(const mrc::Config& config,
                                      const std::vector<InterfaceFacts>& interfaces) {
  std::vector<IpAddress> local;
  for (const InterfaceFacts& facts : interfaces)
    local.insert(local.end(), facts.addresses.begin(), facts.addresses.end());
  try {
    const mrc::fabric::Description fabric = mrc::fabric::read(config.fabric);
    const mrc::fabric::Host& self = mrc::fabric::find_self(fabric, local, config.host);
    std::vector<PlaneFacts> planes;
    for (const IpAddress& ip : self.addresses) {
      planes.push_back(plane_facts(mrc::port::format_ip(ip), interfaces));
      planes.back().address.clear();
      planes.back().speed_mbps = static_cast<int>(fabric.link_speed * 1000.0);
    }
    return planes;
  } catch (const std::exception& error) {  // of the file, or of the host
    throw SettingsError("environment variable MRC_FABRIC: value '" + config.fabric +
                        "': " + error.what());
  }
}

std::vector<NicPlan> make_nics(const std::vector<PlaneFacts>& planes, bool merge) {
  std::vector<NicPlan> nics;
  if (merge) {
    nics.push_back(make_nic(0, 0, planes));
    return nics;
  }
  for (std::size_t i = 0; i < planes.size(); ++i)
    nics.push_back(make_nic(i, static_cast<int>(i), std::span(planes).subspan(i, 1)));
  return nics;
}

std::string planes_text(const std::vector<PlaneFacts>& planes) {
  std::string text;
  for (const PlaneFacts& plane : planes) {
    if (!text.empty()) text += ", ";
    text += plane.interface;
    if (!plane.address.empty() && plane.address != plane.interface)
      text += (plane.interface.empty() ? "" : " ") + plane.address;
    if (plane.speed_mbps > 0) text += " (" + mrc::format_real(plane.speed_mbps / 1000.0) + " Gb/s)";
  }
  return text;
}

}  // namespace mrc_nccl
