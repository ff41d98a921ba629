// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/stats_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "nccl_plugin/settings/environment.hpp"

namespace mrc_nccl {

namespace {

// 0, or an errno value.
int try_to_open(const std::string& name) noexcept {
  constexpr int kHow = O_WRONLY | O_CLOEXEC | O_NONBLOCK;
  int fd = ::open(name.c_str(), kHow | O_CREAT | O_EXCL, 0666);
  const bool made = fd >= 0;
  if (!made && errno == EEXIST) fd = ::open(name.c_str(), kHow);
  // ENXIO: a pipe without a reader, which may come before the end.
  if (fd < 0) return errno == ENXIO ? 0 : errno;
  ::close(fd);
  if (made) ::unlink(name.c_str());
  return 0;
}

}  // namespace

std::string stats_file_name(const std::string& pattern) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() && pattern[i] == '%' ? pattern[i + 1] : '\0';
    if (next == 'h')
      name += host.data();
    else if (next == 'p')
      name += std::to_string(::getpid());
    else
      name += pattern[i];
    if (next == 'h' || next == 'p') ++i;
  }
  return name;
}

void require_writable_stats(const std::string& pattern) {
  if (pattern.empty()) return;
  const std::string name = stats_file_name(pattern);
  const int error = try_to_open(name);
  if (error == 0) return;
  throw SettingsError("environment variable NCCL_MRC_STATS: value '" + pattern +
                      "': cannot write statistics to " + name + ": " +
                      std::system_category().message(error) +
                      "; name a file in a folder that exists and that this process may write to");
}

}  // namespace mrc_nccl
