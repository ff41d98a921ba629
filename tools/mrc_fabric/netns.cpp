// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/netns.hpp"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/magic.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstring>
#include <exception>

#include "common/files.hpp"

namespace mrc::tools {
namespace {

std::string file_of(const std::string& netns) {
  return "/run/netns/" + netns;
}

UniqueFd open_file(const std::string& file) {
  return UniqueFd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
}

void enter(const std::string& netns) {
  const UniqueFd file = open_file(file_of(netns));
  if (!file.open() || setns(file.fd(), CLONE_NEWNET) != 0)
    throw_errno("can't enter the network namespace '" + netns +
                "': `mrc_fabric up` repairs a fabric");
}

/// Argument of ioctl() for an interface.
ifreq request_for(const std::string& interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  return request;
}

UniqueFd any_socket() {
  return UniqueFd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

}  // namespace

InNetns::InNetns(const std::string& name) : before_(open_file("/proc/thread-self/ns/net")) {
  enter(name);
}

InNetns::~InNetns() {
  // In the wrong namespace, further calls would change the machine's own network.
  if (setns(before_.fd(), CLONE_NEWNET) != 0) std::terminate();
}

void move_to_netns(const std::string& name) {
  enter(name);
  if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0)
    throw_errno("can't make a mount namespace");
  (void)umount2("/sys", MNT_DETACH);
  if (mount("mrc_fabric", "/sys", "sysfs", 0, nullptr) != 0) throw_errno("can't mount /sys");
}

bool netns_exists(const std::string& name) {
  struct stat file;
  return lstat(file_of(name).c_str(), &file) == 0;
}

bool is_netns(const std::string& name) {
  struct statfs file;
  return statfs(file_of(name).c_str(), &file) == 0 && file.f_type == NSFS_MAGIC;
}

InterfaceState interface_state(const std::string& interface) {
  ifreq request = request_for(interface);
  const UniqueFd any = any_socket();
  // Querying the carrier makes the kernel process a change at once, which otherwise takes up to a
  // second.
  ethtool_value link{};
  link.cmd = ETHTOOL_GLINK;
  request.ifr_data = reinterpret_cast<char*>(&link);
  (void)ioctl(any.fd(), SIOCETHTOOL, &request);
  if (ioctl(any.fd(), SIOCGIFFLAGS, &request) != 0) return {};
  return {true, (request.ifr_flags & IFF_UP) != 0, (request.ifr_flags & IFF_RUNNING) != 0};
}

void switch_offloads_off(const std::string& interface) {
  ifreq request = request_for(interface);
  const UniqueFd any = any_socket();
  for (const __u32 command : {ETHTOOL_SGSO, ETHTOOL_STSO, ETHTOOL_STXCSUM, ETHTOOL_SSG}) {
    ethtool_value off{};
    off.cmd = command;
    request.ifr_data = reinterpret_cast<char*>(&off);
    if (ioctl(any.fd(), SIOCETHTOOL, &request) != 0)
      throw_errno("can't switch the offloads of " + interface + " off");
  }
}

void set_up(const std::string& interface) {
  ifreq request = request_for(interface);
  const UniqueFd any = any_socket();
  const bool is_there = ioctl(any.fd(), SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (!is_there || ioctl(any.fd(), SIOCSIFFLAGS, &request) != 0)
    throw_errno("can't set " + interface + " up");
}

void set_sysctl(const std::string& name, const std::string& value) {
  write_file("/proc/sys/" + name, value);
}

}  // namespace mrc::tools
