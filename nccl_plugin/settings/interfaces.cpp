// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/settings/interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "mrc/net/interface.hpp"
#include "nccl_plugin/settings/environment.hpp"

namespace mrc_nccl {
namespace {

/// Of a netmask, out of 128; 0: not known.
std::uint8_t prefix_bits_of(const sockaddr* netmask) {
  const auto mask = mrc::port::ip_of(netmask);
  if (!mask) return 0;
  unsigned bits = netmask->sa_family == AF_INET ? 96 : 0;
  while (bits < 128 && ((*mask)[bits / 8] >> (7 - bits % 8) & 1) != 0) ++bits;
  return static_cast<std::uint8_t>(bits);
}

/// Not from /sys, which may show the interfaces of another network namespace.
std::uint32_t mtu_of(const std::string& interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  const bool known = ::ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0;
  ::close(fd);
  return known ? static_cast<std::uint32_t>(request.ifr_mtu) : 0;
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
      facts.link = mrc::port::is_link(entry->ifa_flags);
      facts.mtu = mtu_of(name);
      add_device_facts(facts);
      found = interfaces.insert(interfaces.end(), std::move(facts));
    }
    if (const auto ip = mrc::port::ip_of(entry->ifa_addr)) {
      found->addresses.push_back(*ip);
      found->prefix_bits.push_back(prefix_bits_of(entry->ifa_netmask));
    }
  }
  return interfaces;
}

std::string interfaces_text(const std::vector<InterfaceFacts>& interfaces) {
  std::string text;
  for (const InterfaceFacts& facts : interfaces) {
    std::string addresses;
    for (const auto& ip : facts.addresses)
      addresses += (addresses.empty() ? "" : " ") + mrc::port::format_local({ip, facts.name});
    text += (text.empty() ? "" : ", ") + facts.name + " (" +
            (addresses.empty() ? "no address" : addresses) + (facts.up ? ")" : ", down)");
  }
  return text.empty() ? "none" : text;
}

}  // namespace mrc_nccl
