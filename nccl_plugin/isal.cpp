// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/isal.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "mrc/wire/crc32.hpp"

namespace mrc_nccl {

namespace {

using Crc32 = std::uint32_t (*)(std::uint32_t crc, const unsigned char* bytes, std::uint64_t size);

std::uint32_t portable(std::uint32_t crc, const unsigned char* bytes, std::uint64_t size) {
  return mrc::wire::crc32_portable(crc, {bytes, static_cast<std::size_t>(size)});
}

std::atomic<Crc32> implementation{&portable};

}  // namespace

bool load_isal() noexcept {
  if (implementation.load() != &portable) return true;
  for (const char* name : {"libisal.so.2", "libisal.so"}) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);  // for the life of the process
    if (library == nullptr) continue;
    if (void* found = ::dlsym(library, "crc32_gzip_refl"); found != nullptr) {
      implementation.store(reinterpret_cast<Crc32>(found));
      return true;
    }
    ::dlclose(library);
  }
  return false;
}

}  // namespace mrc_nccl

/// What the library calls where it was built with ISA-L; here it stands in for ISA-L's own.
extern "C" __attribute__((visibility("hidden"))) std::uint32_t crc32_gzip_refl(
    std::uint32_t crc, const unsigned char* bytes, std::uint64_t size) {
  return mrc_nccl::implementation.load(std::memory_order_relaxed)(crc, bytes, size);
}
