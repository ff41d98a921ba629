// SPDX-License-Identifier: Apache-2.0
// Loaded in front of the C library by mrcrun. UCX leaves out verbs devices without a node in
// /dev/infiniband that it may read and write. Nobody opens it, so queries for
// nodes of mrc devices resolve to /dev/null. All other paths go through unchanged.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace {

constexpr char kNodes[] = "/dev/infiniband/mrc";

const char* shown(const char* path) noexcept {
  const bool ours = path != nullptr && std::strncmp(path, kNodes, sizeof kNodes - 1) == 0;
  return ours ? "/dev/null" : path;
}

/// The function of that name behind this one.
template <class Function>
Function next(const char* name) noexcept {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define MRC_IN_FRONT extern "C" __attribute__((visibility("default")))

// Declared by the headers with attributes that say that paths are not null; so the names differ
// here, and only the symbols are the C library's.
MRC_IN_FRONT int mrc_stat(const char* path, struct stat* out) __asm__("stat");
MRC_IN_FRONT int mrc_stat(const char* path, struct stat* out) {
  static const auto real = next<int (*)(const char*, struct stat*)>("stat");
  return real(shown(path), out);
}
MRC_IN_FRONT int mrc_stat64(const char* path, struct stat64* out) __asm__("stat64");
MRC_IN_FRONT int mrc_stat64(const char* path, struct stat64* out) {
  static const auto real = next<int (*)(const char*, struct stat64*)>("stat64");
  return real(shown(path), out);
}
MRC_IN_FRONT int mrc_access(const char* path, int mode) __asm__("access");
MRC_IN_FRONT int mrc_access(const char* path, int mode) {
  static const auto real = next<int (*)(const char*, int)>("access");
  return real(shown(path), mode);
}

// Programs built with glibc before 2.33 call these for stat().
MRC_IN_FRONT int mrc_xstat(int version, const char* path, struct stat* out) __asm__("__xstat");
MRC_IN_FRONT int mrc_xstat(int version, const char* path, struct stat* out) {
  static const auto real = next<int (*)(int, const char*, struct stat*)>("__xstat");
  return real(version, shown(path), out);
}
MRC_IN_FRONT int mrc_xstat64(int version, const char* path,
                             struct stat64* out) __asm__("__xstat64");
MRC_IN_FRONT int mrc_xstat64(int version, const char* path, struct stat64* out) {
  static const auto real = next<int (*)(int, const char*, struct stat64*)>("__xstat64");
  return real(version, shown(path), out);
}
