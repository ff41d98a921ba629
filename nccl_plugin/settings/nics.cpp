// SPDX-License-Identifier: Apache-2.0
// Planes that a configuration or a fabric names, and net devices made of planes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/net/address.hpp"
#include "nccl_plugin/settings/planes.hpp"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/verbs/verbs_device.hpp"
#endif

namespace mrc_nccl {
namespace {

using mrc::port::IpAddress;

/// The interface of that name, or with that address. Loopback addresses that none lists
/// (127.0.0.2) belong to the loopback interface.
const InterfaceFacts* find_interface(const std::string& plane,
                                     const std::vector<InterfaceFacts>& interfaces) {
  IpAddress ip{};
  try {
    if (plane.find('%') == plane.npos)
      ip = mrc::port::parse_ip(plane);
    else  // several interfaces may have the same link-local address
      return find_interface(mrc::port::parse_local_address(plane).interface, interfaces);
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

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The network interface of a plane on an RDMA device, as the kernel tells it of the first address
/// of its port; empty if it tells nothing.
std::string interface_of(const std::string& devices, const mrc::port::VerbsPlaneName& plane) {
  const std::string ports = devices + "/" + plane.device + "/ports/";
  unsigned port = plane.port != 0 ? plane.port : 1;
  if (plane.port == 0)  // the first active one, as when it is opened
    for (unsigned i = 1; std::filesystem::exists(ports + std::to_string(i)); ++i)
      if (first_line(ports + std::to_string(i) + "/state").starts_with("4:")) {
        port = i;
        break;
      }
  return first_line(ports + std::to_string(port) + "/gid_attrs/ndevs/0");
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

std::vector<mrc::port::VerbsPlaneName> all_verbs_planes() {
#if __has_include(<infiniband/verbs.h>)
  return mrc::port::all_verbs_planes();
#else
  throw mrc::Error(mrc::Errc::unsupported,
                   "the plugin was compiled without the headers of libibverbs");
#endif
}

std::vector<PlaneFacts> verbs_planes(const mrc::Config& config,
                                     const std::vector<InterfaceFacts>& interfaces,
                                     const VerbsDevices& devices) {
  std::vector<PlaneFacts> planes;
  try {
    for (const mrc::port::VerbsPlaneName& plane :
         config.verbs == "all" ? devices.all() : mrc::port::parse_verbs_planes(config.verbs)) {
      planes.push_back(plane_facts(interface_of(devices.folder, plane), interfaces));
      planes.back().address.clear();
    }
  } catch (const std::exception& error) {  // no libibverbs, or no device
    throw SettingsError("environment variable MRC_VERBS: value '" + config.verbs +
                        "': " + error.what());
  }
  return planes;
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
