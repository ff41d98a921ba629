// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/settings/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "nccl_plugin/settings/environment.hpp"

namespace mrc_nccl {
namespace {

std::optional<mrc::port::IpAddress> address_of(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr) return std::nullopt;
  if (entry.ifa_addr->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, entry.ifa_addr, sizeof v4);
    auto ip = mrc::port::make_v4(0, 0, 0, 0);
    std::memcpy(ip.data() + 12, &v4.sin_addr, 4);
    return ip;
  }
  if (entry.ifa_addr->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, entry.ifa_addr, sizeof v6);
    mrc::port::IpAddress ip;
    std::memcpy(ip.data(), &v6.sin6_addr, ip.size());
    return ip;
  }
  return std::nullopt;
}

/// The number in a file of /sys; `otherwise` where there is none. Virtual interfaces refuse to be
/// read.
int number_in(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int number = 0;
  return file >> number ? number : otherwise;
}

void add_device_facts(InterfaceFacts& facts) {
  const std::string folder = "/sys/class/net/" + facts.name;
  const int speed = number_in(folder + "/speed", -1);
  facts.speed_mbps = speed > 0 ? speed : -1;
  const std::unique_ptr<char, void (*)(void*)> device(
      ::realpath((folder + "/device").c_str(), nullptr), std::free);
  if (device == nullptr) return;
  facts.pci_path = pci_function(device.get());
  if (!facts.pci_path.empty()) facts.numa_node = number_in(facts.pci_path + "/numa_node", -1);
}

/// True for "0000:3b:00.1", the form of a PCI function's folder.
bool is_pci_function(std::string_view text) {
  constexpr std::string_view kForm = "xxxx:xx:xx.x";
  return text.size() == kForm.size() &&
         std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
           return form == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == form;
         });
}

}  // namespace

std::string pci_function(std::string_view path) {
  while (!path.empty()) {
    const auto slash = path.rfind('/');
    if (slash == std::string_view::npos) break;
    if (is_pci_function(path.substr(slash + 1))) return std::string(path);
    path = path.substr(0, slash);
  }
  return {};
}

std::vector<InterfaceFacts> read_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    throw SettingsError(std::string("cannot list the network interfaces: ") + std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<InterfaceFacts> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    std::string name = entry->ifa_name;
    name = name.substr(0, name.find(':'));  // "eth0:1" labels a second address of eth0
    auto found = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const InterfaceFacts& other) { return other.name == name; });
    if (found == interfaces.end()) {
      InterfaceFacts facts;
      facts.name = name;
      facts.up = (entry->ifa_flags & IFF_UP) != 0;
      facts.running = facts.up && (entry->ifa_flags & IFF_RUNNING) != 0;
      facts.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      add_device_facts(facts);
      found = interfaces.insert(interfaces.end(), std::move(facts));
    }
    if (const auto ip = address_of(*entry)) found->addresses.push_back(*ip);
  }
  return interfaces;
}

std::string interfaces_text(const std::vector<InterfaceFacts>& interfaces) {
  std::string text;
  for (const InterfaceFacts& facts : interfaces) {
    std::string addresses;
    for (const auto& ip : facts.addresses)
      addresses += (addresses.empty() ? "" : " ") + mrc::port::format_ip(ip);
    text += (text.empty() ? "" : ", ") + facts.name + " (" +
            (addresses.empty() ? "no address" : addresses) + (facts.up ? ")" : ", down)");
  }
  return text.empty() ? "none" : text;
}

}  // namespace mrc_nccl
