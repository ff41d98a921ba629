// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/host/steering.hpp"

namespace mrc::inline v0_1::detail {

KeyLog::KeyLog(const std::string& path) {
  if (path.empty()) return;
  file_ = open_own_file(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
  struct stat status {};
  if (!file_.open() || ::fstat(file_.fd(), &status) != 0)
    throw_errno("option keylog: cannot append to " + path + kOwnFileRemedy);
  if (!S_ISREG(status.st_mode) || (status.st_mode & 077) != 0)
    throw Error(Errc::invalid_argument,
                "option keylog: " + path +
                    " must be a file that only this user can read and write: remove it, or `chmod "
                    "600` it");
}

void KeyLog::add(std::span<const port::PeerAddress> planes, Qpn qpn, std::uint64_t tag) noexcept
    try {
  if (!open() || tag == 0) return;
  std::vector<std::string> addresses;  // in order; planes may share one
  for (const port::PeerAddress& plane : planes) {
    std::string address = port::format_ip(plane.ip);
    const auto at = std::lower_bound(addresses.begin(), addresses.end(), address);
    if (at == addresses.end() || *at != address) addresses.insert(at, std::move(address));
  }
  std::string lines;
  for (const std::string& address : addresses) {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, " 0x%06x 0x%016llx\n", value(qpn),
                  static_cast<unsigned long long>(tag));
    lines += "MRC_TAG " + address + numbers;
  }
  (void)uncancelled::write(file_.fd(), lines.data(), lines.size());  // at once: others append, too
} catch (const std::exception&) {  // out of memory: a diagnosis is not worth a connection
}

}  // namespace mrc::inline v0_1::detail
