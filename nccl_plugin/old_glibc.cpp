// SPDX-License-Identifier: Apache-2.0
// The C++ runtime is linked into the plugin, and that of the compiler's own system uses functions
// that glibc has since 2.35 and 2.36 only. With these the plugin loads on systems with glibc 2.34
// (RHEL 9) and 2.35 (Ubuntu 22.04). They are hidden: nobody else's calls come here.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

#define MRC_HIDDEN extern "C" __attribute__((visibility("hidden")))

/// Since 2.36; std::random_device calls it.
MRC_HIDDEN std::uint32_t arc4random() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) std::abort();
  return number;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

/// Is the address in this object? Then where its tables for unwinding are.
int look_in(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool here = false;
  const ElfW(Phdr)* tables = nullptr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && search.address >= begin &&
        search.address - begin < part.p_memsz) {
      here = true;
      search.found->dlfo_map_start = reinterpret_cast<void*>(begin);
      search.found->dlfo_map_end = reinterpret_cast<void*>(begin + part.p_memsz);
    }
    if (part.p_type == PT_GNU_EH_FRAME) tables = &part;
  }
  if (!here || tables == nullptr) return 0;
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + tables->p_vaddr);
  return 1;
}

}  // namespace

/// Since 2.35; what looks for the handler of an exception calls it.
MRC_HIDDEN int _dl_find_object(void* address, dl_find_object* found) noexcept {
  *found = {};
  Search search{reinterpret_cast<std::uintptr_t>(address), found};
  return ::dl_iterate_phdr(&look_in, &search) == 1 ? 0 : -1;
}
#endif
