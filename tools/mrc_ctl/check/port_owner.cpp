// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/port_owner.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "mrc/core/value_text.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::check_tool {
namespace {

/// An address as these tables have it: 32-bit words in the byte order of the host.
std::string table_address(const port::IpAddress& address, bool v6) {
  std::string text;
  for (std::size_t at = v6 ? 0 : 12; at < 16; at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, address.data() + at, 4);
    text += fmt::format("{:08X}", word);
  }
  return text;
}

std::string file_text(const std::string& name) {
  std::ifstream in(name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

Folder open_folder(const std::string& name) {
  return {::opendir(name.c_str()), ::closedir};
}

bool has_socket(const std::string& process, const std::string& socket) {
  const std::string name = process + "/fd";
  const Folder folder = open_folder(name);
  if (!folder) return false;
  while (const dirent* entry = ::readdir(folder.get())) {
    char target[64];
    const auto n = ::readlink((name + "/" + entry->d_name).c_str(), target, sizeof target);
    if (n > 0 && std::string_view(target, static_cast<std::size_t>(n)) == socket) return true;
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> udp_inode(std::string_view table, const port::IpAddress& address,
                                       std::uint16_t port) {
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, word, inode;
    words >> number >> local;
    const std::size_t colon = local.find(':');
    if (colon == local.npos || local.substr(colon + 1) != fmt::format("{:04X}", port)) continue;
    const std::string ip = local.substr(0, colon);
    const bool any = ip.find_first_not_of('0') == ip.npos;
    if (!any && ip != table_address(address, ip.size() == 32)) continue;
    // remote, state, queues, timer, retransmits, uid, timeout, inode
    for (int i = 0; i < 7; ++i) words >> word;
    words >> inode;
    if (const auto found = parse_integer<std::uint64_t>(inode)) return found;
  }
  return std::nullopt;
}

std::string udp_owner(const port::IpAddress& address, std::uint16_t port) {
  std::optional<std::uint64_t> inode;
  for (const char* table : {"/proc/net/udp", "/proc/net/udp6"})
    if (!inode) inode = udp_inode(file_text(table), address, port);
  const Folder processes = open_folder("/proc");
  if (inode && processes) {
    const std::string socket = fmt::format("socket:[{}]", *inode);
    while (const dirent* entry = ::readdir(processes.get())) {
      if (!parse_integer<std::uint32_t>(entry->d_name)) continue;
      const std::string process = std::string("/proc/") + entry->d_name;
      if (!has_socket(process, socket)) continue;
      std::string name = file_text(process + "/comm");
      name = name.substr(0, name.find('\n'));
      return fmt::format("pid {} ({})", entry->d_name, ctl_tool::printable(name));
    }
  }
  return "another program";
}

}  // namespace mrc::check_tool
