// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>

#include "mrc/core/unique_fd.hpp"

namespace mrc::inline v0_1::detail {

/// Why a range of this process's memory can't be used.
enum class MappingFault : std::uint8_t {
  none,
  unmapped,    ///< nothing is mapped
  unreadable,  ///< mapped without PROT_READ
  unwritable,  ///< mapped without PROT_WRITE, and it is to be written to
  past_file,   ///< behind the end of the file that is mapped: access would raise SIGBUS
};
/// The first address with a fault.
struct MappingCheck {
  MappingFault fault = MappingFault::none;
  std::uintptr_t address = 0;  ///< where; of past_file the last byte asked for
};

/// A mapping of this process.
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  bool readable = false, writable = false;
  bool of_file = false;  ///< shared memory, too
};

/// The mappings of this process in ascending order, from one address on. By PROCMAP_QUERY, which
/// takes about a microsecond for each; on kernels before 6.11 by reading /proc/self/maps up to
/// there. A snapshot: threads that map and unmap meanwhile may not change what is asked about.
class Mappings {
 public:
  enum class Way : std::uint8_t { best, text };
  /// Without /proc, or where it may not be read, ok() is false.
  explicit Mappings(Way way = Way::best) noexcept
      : maps_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {
    if (way == Way::text) read_text();
  }
  [[nodiscard]] bool ok() const noexcept { return maps_.open(); }

  /// The first mapping that ends behind `address`; none if there is none. Ascending calls only.
  [[nodiscard]] std::optional<Mapping> at_or_after(std::uintptr_t address) noexcept {
    if (!text_) {
      Query query;
      query.query_address = address;
      if (::ioctl(maps_.fd(), kQuery, &query) == 0)
        return Mapping{query.start, query.end, (query.flags & kReadable) != 0,
                       (query.flags & kWritable) != 0, query.inode != 0};
      if (errno == ENOENT) return std::nullopt;
      read_text();  // ENOTTY: an older kernel
    }
    while (text_ && last_.end <= address)
      if (!read_line()) return std::nullopt;
    return last_;
  }

 private:
  /// struct procmap_query of linux/fs.h, which older headers lack.
  struct Query {
    std::uint64_t size = sizeof(Query);
    std::uint64_t query_flags = 0x10;  ///< PROCMAP_QUERY_COVERING_OR_NEXT_VMA
    std::uint64_t query_address = 0;
    std::uint64_t start = 0, end = 0, flags = 0, page_size = 0, offset = 0, inode = 0;
    std::uint32_t device_major = 0, device_minor = 0;
    std::uint32_t name_size = 0, build_id_size = 0;
    std::uint64_t name_address = 0, build_id_address = 0;
  };
  static_assert(sizeof(Query) == 104);
  static constexpr unsigned long kQuery = _IOWR('f', 17, Query);
  static constexpr std::uint64_t kReadable = 1, kWritable = 2;
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  void read_text() noexcept { text_.reset(::fdopen(::dup(maps_.fd()), "r")); }
  /// Reads a line into `last_`; false at the end. "begin-end rwxp offset major:minor inode name".
  bool read_line() noexcept {
    char line[256], rights[5] = {};
    std::uint64_t inode = 0;
    if (std::fgets(line, sizeof line, text_.get()) == nullptr) return false;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*x:%*x %" SCNu64, &last_.begin,
                    &last_.end, rights, &inode) != 4)
      return true;  // the rest of a long name
    last_.readable = rights[0] == 'r';
    last_.writable = rights[1] == 'w';
    last_.of_file = inode != 0;
    return true;
  }

  UniqueFd maps_;
  std::unique_ptr<std::FILE, Close> text_;  ///< once the query is known not to work
  Mapping last_{};
};

/// Is the page at `address`, of a mapped file, behind the end of the file? Reads the page. Before
/// Linux 5.14 it can't be told: then it is not.
[[nodiscard]] inline bool past_file(std::uintptr_t address, std::uintptr_t page) noexcept {
#ifndef MADV_POPULATE_READ
  constexpr int MADV_POPULATE_READ = 22;
#endif
  return ::madvise(reinterpret_cast<void*>(address & ~(page - 1)), page, MADV_POPULATE_READ) != 0 &&
         errno == EFAULT;
}

/// Can this process read [address, address + length), and write to it if `written`? Pages are
/// neither touched nor pinned, but for the last one of a file that is mapped there. A range that
/// wraps around is not mapped. Without /proc rights are not known: it is only found out whether
/// something is mapped.
[[nodiscard]] inline MappingCheck check_mapping(const void* address, std::size_t length,
                                                bool written) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = begin + length;
  if (end < begin) return {MappingFault::unmapped, begin};
  Mappings mappings;
  if (!mappings.ok()) {
    const std::uintptr_t first = begin & ~(page - 1);
    const bool mapped =  // MS_ASYNC only looks the range up
        ::msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0 || errno != ENOMEM;
    return {mapped ? MappingFault::none : MappingFault::unmapped, begin};
  }
  for (std::uintptr_t at = begin; at < end;) {
    const auto found = mappings.at_or_after(at);
    if (!found || found->begin > at) return {MappingFault::unmapped, at};
    if (!found->readable) return {MappingFault::unreadable, at};
    if (written && !found->writable) return {MappingFault::unwritable, at};
    const std::uintptr_t last = std::min(found->end, end) - 1;
    if (found->of_file && past_file(last, page)) return {MappingFault::past_file, last};
    at = found->end;
  }
  return {};
}

}  // namespace mrc::inline v0_1::detail
