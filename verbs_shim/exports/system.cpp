// SPDX-License-Identifier: Apache-2.0
// fork(), files of the kernel's drivers, and providers: things that a device without a kernel
// driver has no need of.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "mrc/core/unique_fd.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/log.hpp"
#include "verbs_shim/objects/host.hpp"

using namespace mrc_verbs;

extern "C" {

// Nothing is pinned, so nothing has to be kept from a child (docs/contracts.md, fork()).
int ibv_fork_init() {
  return 0;
}
ibv_fork_status ibv_is_fork_initialized() {
  return IBV_FORK_UNNEEDED;
}
__attribute__((visibility("default"))) int ibv_dontfork_range(void*, std::size_t) {
  return 0;
}
__attribute__((visibility("default"))) int ibv_dofork_range(void*, std::size_t) {
  return 0;
}

__attribute__((visibility("default"))) const char* ibv_get_sysfs_path() {
  const char* path = std::getenv("SYSFS_PATH");
  return path != nullptr && *path != '\0' ? path : "/sys";
}

/// The first line of a file, without its end. The length, or -1.
__attribute__((visibility("default"))) int ibv_read_sysfs_file(const char* folder, const char* file,
                                                               char* out, std::size_t size) {
  const mrc::Uncancelled here;
  if (std::strstr(file, "rdma_cm") != nullptr)  // librdmacm looks for its kernel module
    note("rdma_cm", "not supported: the program connects by librdmacm, which needs kernel drivers");
  const std::string path = std::string(folder) + "/" + file;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ::ssize_t length = ::read(fd, out, size);
  ::close(fd);
  if (length <= 0 || size == 0) return -1;
  auto end = static_cast<std::size_t>(length);
  if (out[end - 1] == '\n')
    --end;
  else if (end == size)
    return -1;  // no room for the end of the text
  out[end] = '\0';
  return static_cast<int>(end);
}

/// The folder in sysfs of the device under plane 0: a network card's, or that of a virtual
/// interface. Null if there is none. What mrcrun loads in front asks for it, for programs that look
/// where an RDMA device is.
__attribute__((visibility("default"))) const char* mrc_verbs_device_folder() {
  const mrc::Uncancelled here;
  static std::mutex& mutex = *new std::mutex;  // programs may still call while they exit
  static std::string& folder = *new std::string;
  const std::lock_guard lock(mutex);
  if (folder.empty()) {
    try {
      folder = Host::device_folder(Host::first_plane());
    } catch (const std::exception&) {  // without planes there is no folder
    }
  }
  return folder.empty() ? nullptr : folder.c_str();
}

/// Of old providers. They find no devices here.
__attribute__((visibility("default"))) void ibv_register_driver(const char*, void*) {}

}  // extern "C"
