// SPDX-License-Identifier: Apache-2.0
// Loaded in front of the C library by mrcrun: files that programs look for beside a verbs device,
// and that a kernel driver would have made. All other paths go through unchanged.
// - UCX leaves out devices without a node in /dev/infiniband that it may read and write. Nobody
// opens
//   it, so it is /dev/null.
// - Plugins of NCCL ask what PCI device an RDMA device is, and of what type its GIDs are, below
//   /sys/class/infiniband; one for MRC crashes if there is nothing.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace {

constexpr char kNodes[] = "/dev/infiniband/mrc";
constexpr char kDevice[] = "/sys/class/infiniband/mrc0";
constexpr char kFolder[] = "/device";
constexpr char kTypes[] = "/ports/1/gid_attrs/types/";
constexpr char kType[] = "RoCE v2\n";

/// Room for a path that is shown in place of another.
struct Room {
  char path[PATH_MAX];
};

/// What follows `prefix` in a text, or null.
const char* after(const char* text, const char* prefix) noexcept {
  const std::size_t length = std::strlen(prefix);
  return std::strncmp(text, prefix, length) == 0 ? text + length : nullptr;
}

/// The folder of the device under plane 0, as the verbs library knows it; or null.
const char* device_folder() noexcept {
  void* library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto ask = reinterpret_cast<const char* (*)()>(::dlsym(library, "mrc_verbs_device_folder"));
  const char* folder = ask != nullptr ? ask() : nullptr;
  (void)::dlclose(library);
  return folder;
}

/// A file with the type of a GID, as a path: a descriptor that stays open. Made anew if the program
/// has closed it. Null if it can't be made.
const char* type_file(Room& room) noexcept {
  static constexpr char kName[] = "mrc-gid-type";
  static int fd = -1;
  char link[64];
  (void)std::snprintf(room.path, sizeof room.path, "/proc/self/fd/%d", fd);
  const ::ssize_t length = fd < 0 ? -1 : ::readlink(room.path, link, sizeof link - 1);
  if (length > 0) {
    link[length] = '\0';
    if (std::strstr(link, kName) != nullptr) return room.path;
  }
  fd = ::memfd_create(kName, MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, kType, sizeof kType - 1) < 0) return nullptr;
  (void)std::snprintf(room.path, sizeof room.path, "/proc/self/fd/%d", fd);
  return room.path;
}

/// What is there in place of a path: itself, or one of the files above.
const char* shown(const char* path, Room& room) noexcept {
  if (path == nullptr) return path;
  if (after(path, kNodes) != nullptr) return "/dev/null";
  const char* rest = after(path, kDevice);
  if (rest == nullptr) return path;
  if (const char* index = after(rest, kTypes)) {
    // As many as the verbs library has indices.
    const bool known = index[0] >= '0' && index[0] <= '3' && index[1] == '\0';
    const char* file = known ? type_file(room) : nullptr;
    return file != nullptr ? file : path;
  }
  const char* below = after(rest, kFolder);
  if (below == nullptr || (*below != '\0' && *below != '/')) return path;
  const char* folder = device_folder();
  if (folder == nullptr) return path;
  const int length = std::snprintf(room.path, sizeof room.path, "%s%s", folder, below);
  return length > 0 && static_cast<std::size_t>(length) < sizeof room.path ? room.path : path;
}

/// The function of that name behind this one.
template <class Function>
Function next(const char* name) noexcept {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

/// The mode of open(), which is there if a file may be created.
bool has_mode(int flags) noexcept {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

}  // namespace

#define MRC_IN_FRONT extern "C" __attribute__((visibility("default")))

// Declared by the headers with attributes that say that paths are not null; so the names differ
// here, and only the symbols are the C library's.
MRC_IN_FRONT int mrc_stat(const char* path, struct stat* out) __asm__("stat");
MRC_IN_FRONT int mrc_stat(const char* path, struct stat* out) {
  static const auto real = next<int (*)(const char*, struct stat*)>("stat");
  Room room;
  return real(shown(path, room), out);
}
MRC_IN_FRONT int mrc_stat64(const char* path, struct stat64* out) __asm__("stat64");
MRC_IN_FRONT int mrc_stat64(const char* path, struct stat64* out) {
  static const auto real = next<int (*)(const char*, struct stat64*)>("stat64");
  Room room;
  return real(shown(path, room), out);
}
MRC_IN_FRONT int mrc_access(const char* path, int mode) __asm__("access");
MRC_IN_FRONT int mrc_access(const char* path, int mode) {
  static const auto real = next<int (*)(const char*, int)>("access");
  Room room;
  return real(shown(path, room), mode);
}
MRC_IN_FRONT char* mrc_realpath(const char* path, char* out) __asm__("realpath");
MRC_IN_FRONT char* mrc_realpath(const char* path, char* out) {
  static const auto real = next<char* (*)(const char*, char*)>("realpath");
  Room room;
  return real(shown(path, room), out);
}
MRC_IN_FRONT FILE* mrc_fopen(const char* path, const char* mode) __asm__("fopen");
MRC_IN_FRONT FILE* mrc_fopen(const char* path, const char* mode) {
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
  Room room;
  return real(shown(path, room), mode);
}
MRC_IN_FRONT FILE* mrc_fopen64(const char* path, const char* mode) __asm__("fopen64");
MRC_IN_FRONT FILE* mrc_fopen64(const char* path, const char* mode) {
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen64");
  Room room;
  return real(shown(path, room), mode);
}
MRC_IN_FRONT int mrc_open(const char* path, int flags, ...) __asm__("open");
MRC_IN_FRONT int mrc_open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  Room room;
  if (!has_mode(flags)) return real(shown(path, room), flags);
  std::va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, ::mode_t);
  va_end(arguments);
  return real(shown(path, room), flags, mode);
}
MRC_IN_FRONT int mrc_open64(const char* path, int flags, ...) __asm__("open64");
MRC_IN_FRONT int mrc_open64(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open64");
  Room room;
  if (!has_mode(flags)) return real(shown(path, room), flags);
  std::va_list arguments;
  va_start(arguments, flags);
  const auto mode = va_arg(arguments, ::mode_t);
  va_end(arguments);
  return real(shown(path, room), flags, mode);
}

// Programs built with -D_FORTIFY_SOURCE call these.
MRC_IN_FRONT char* mrc_realpath_chk(const char* path, char* out,
                                    std::size_t room) __asm__("__realpath_chk");
MRC_IN_FRONT char* mrc_realpath_chk(const char* path, char* out, std::size_t size) {
  static const auto real = next<char* (*)(const char*, char*, std::size_t)>("__realpath_chk");
  Room room;
  return real(shown(path, room), out, size);
}
MRC_IN_FRONT int mrc_open_2(const char* path, int flags) __asm__("__open_2");
MRC_IN_FRONT int mrc_open_2(const char* path, int flags) {
  static const auto real = next<int (*)(const char*, int)>("__open_2");
  Room room;
  return real(shown(path, room), flags);
}
MRC_IN_FRONT int mrc_open64_2(const char* path, int flags) __asm__("__open64_2");
MRC_IN_FRONT int mrc_open64_2(const char* path, int flags) {
  static const auto real = next<int (*)(const char*, int)>("__open64_2");
  Room room;
  return real(shown(path, room), flags);
}

// Programs built with glibc before 2.33 call these for stat().
MRC_IN_FRONT int mrc_xstat(int version, const char* path, struct stat* out) __asm__("__xstat");
MRC_IN_FRONT int mrc_xstat(int version, const char* path, struct stat* out) {
  static const auto real = next<int (*)(int, const char*, struct stat*)>("__xstat");
  Room room;
  return real(version, shown(path, room), out);
}
MRC_IN_FRONT int mrc_xstat64(int version, const char* path,
                             struct stat64* out) __asm__("__xstat64");
MRC_IN_FRONT int mrc_xstat64(int version, const char* path, struct stat64* out) {
  static const auto real = next<int (*)(int, const char*, struct stat64*)>("__xstat64");
  Room room;
  return real(version, shown(path, room), out);
}
