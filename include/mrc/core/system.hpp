// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/unique_fd.hpp"

/// MRC_THREAD_SANITIZER is defined in programs that are built with the thread sanitizer.
#if defined(__SANITIZE_THREAD__)
#define MRC_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MRC_THREAD_SANITIZER 1
#endif
#endif

namespace mrc::inline v0_1::detail {

/// System calls whose failure a running device can't report: it would seem that no packets come, or
/// that there is always something to wake up for.
enum class SystemCall : unsigned char { poll, ppoll, read, write, recvfrom, recvmmsg, sendmmsg };

[[nodiscard]] constexpr const char* to_string(SystemCall call) noexcept {
  constexpr const char* kNames[] = {"poll",     "ppoll",    "read",    "write",
                                    "recvfrom", "recvmmsg", "sendmmsg"};
  return kNames[static_cast<unsigned>(call)];
}

/// errno of a call that does nothing: 0, or EBADF of descriptor -1, unless something refuses it.
[[nodiscard]] inline int try_system_call(SystemCall call) noexcept {
  char byte = 0;
  mmsghdr message{};
  const timespec none{};
  const auto error_of = [](long result) { return result < 0 ? errno : 0; };
  switch (call) {
    case SystemCall::poll:
      return error_of(::poll(nullptr, 0, 0));
    case SystemCall::ppoll:
      return error_of(::ppoll(nullptr, 0, &none, nullptr));
    case SystemCall::read:
      return error_of(::read(-1, &byte, 1));
    case SystemCall::write:
      return error_of(::write(-1, &byte, 1));
    case SystemCall::recvfrom:
      return error_of(::recv(-1, &byte, 1, MSG_DONTWAIT));
    case SystemCall::recvmmsg:
      return error_of(::recvmmsg(-1, &message, 1, MSG_DONTWAIT, nullptr));
    case SystemCall::sendmmsg:
      return error_of(::sendmmsg(-1, &message, 1, MSG_DONTWAIT));
  }
  return 0;
}

/// Throws mrc::Error, which names the call, if one of these is blocked, as seccomp filters do it:
/// with EPERM, EACCES or ENOSYS. One that kills the process does so here.
inline void require(std::initializer_list<SystemCall> calls) {
  for (const SystemCall call : calls) {
    const int error = try_system_call(call);
    if (error != EPERM && error != EACCES && error != ENOSYS) continue;
    throw_errno(std::string("system call ") + to_string(call) +
                    " is blocked, probably by a seccomp filter (of a container, or systemd's "
                    "SystemCallFilter=), which must allow what docs/system_calls.md lists",
                error);
  }
}

/// What to say of a file that open_own_file() could not open.
inline constexpr const char* kOwnFileRemedy =
    "; name a file of this user's, or a new one, in a folder that exists and that this process may "
    "write to; links are not followed";

/// Opens a file to be written to in a folder such as /tmp. No symbolic link is followed, and what
/// is there must be a device, or this user's pipe or file without other names. Adds O_NOFOLLOW,
/// O_CLOEXEC and O_NONBLOCK to `flags`; O_TRUNC would act before the checks. None: errno says why,
/// EPERM that it is somebody else's.
[[nodiscard]] inline UniqueFd open_own_file(const char* path, int flags, ::mode_t mode) noexcept {
  UniqueFd file(::open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mode));
  struct stat is {};
  if (!file.open()) return file;
  if (::fstat(file.fd(), &is) != 0) return UniqueFd();
  const bool own = is.st_uid == ::geteuid();
  if (S_ISCHR(is.st_mode) || (S_ISFIFO(is.st_mode) && own) ||
      (S_ISREG(is.st_mode) && own && is.st_nlink <= 1))
    return file;
  file.close();
  errno = EPERM;
  return file;
}

/// In a forked child: keeps what stands for a thread of the parent, which can neither be joined
/// here nor destroyed. Not thread-safe.
inline void leave_to_parent(std::thread&& thread) {
  static std::vector<std::thread>& others = *new std::vector<std::thread>;  // so it is no leak
  others.push_back(std::move(thread));
}

/// How many forks lie between the start of the program and this process.
inline std::atomic<std::uint32_t> fork_generation{0};

/// Tells an object whether this process is a fork of the one that made it, where locks may be held
/// by threads that do not exist. Sees fork(), not a bare clone() or _Fork(). Any thread.
class ForkMark {
 public:
  /// Throws mrc::Error if forks can't be watched.
  ForkMark() : made_((watch_forks(), fork_generation.load(std::memory_order_relaxed))) {}
  /// This process is a child of the one that made the mark.
  [[nodiscard]] bool forked() const noexcept {
    return fork_generation.load(std::memory_order_relaxed) != made_;
  }

 private:
  static void watch_forks() {
    static const int error = ::pthread_atfork(
        nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
    if (error != 0) throw_errno("cannot watch for forks of this process", error);
  }

  std::uint32_t made_;
};

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1 {

/// As the kernel calls this host; "?" if it does not say. Any thread.
[[nodiscard]] inline std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

/// A file's name from a pattern of the user's, in which %h and %p stand for host name and process
/// id. Any thread.
[[nodiscard]] inline std::string file_name_of(std::string_view pattern) {
  std::string name;
  while (!pattern.empty()) {
    const bool is_host = pattern.starts_with("%h"), is_pid = pattern.starts_with("%p");
    if (is_host) name += host_name();
    if (is_pid) name += std::to_string(::getpid());
    if (!is_host && !is_pid) name += pattern.front();
    pattern.remove_prefix(is_host || is_pid ? 2 : 1);
  }
  return name;
}

/// Blocks signals of the calling thread, and of those it starts, but for faults, so that the
/// program's handlers do not run there. One thread.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    ::sigset_t set;
    ::sigfillset(&set);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      ::sigdelset(&set, fault);
    (void)::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~BlockedSignals() { (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// The signal stays blocked when this object ends.
  void keep(int signal) noexcept { ::sigaddset(&before_, signal); }

 private:
  ::sigset_t before_;
};

namespace detail {

/// Descriptors that this process has open; 0 where that can't be found out.
[[nodiscard]] inline std::size_t open_files() noexcept {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  std::size_t n = 0;
  while (::readdir(directory) != nullptr) ++n;
  ::closedir(directory);
  return n - std::min<std::size_t>(n, 3);  // ".", "..", and the one that reads
}

/// How many files this process may open (`ulimit -n`).
[[nodiscard]] inline std::size_t allowed_files() noexcept {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? limit.rlim_cur : static_cast<std::size_t>(-1);
}

/// Whether a device may open so many more: it leaves an eighth of them to the application.
[[nodiscard]] inline bool may_open(std::size_t open, std::size_t more) noexcept {
  const std::size_t allowed = allowed_files();
  return open + more <= allowed - allowed / 8;
}

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

/// The mappings of this process in ascending order, from one address on: by PROCMAP_QUERY, about a
/// microsecond each; before Linux 6.11 from /proc/self/maps. A snapshot.
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

/// Is the page at `address`, of a mapped file, behind the end of the file? Reads the page. Not
/// known before Linux 5.14: no.
[[nodiscard]] inline bool past_file(std::uintptr_t address, std::uintptr_t page) noexcept {
#ifndef MADV_POPULATE_READ
  constexpr int MADV_POPULATE_READ = 22;
#endif
  return ::madvise(reinterpret_cast<void*>(address & ~(page - 1)), page, MADV_POPULATE_READ) != 0 &&
         errno == EFAULT;
}

/// Can this process read [address, address + length), and write to it if `written`? Touches no page
/// but the last one of a mapped file. A range that wraps around is not mapped. Without /proc only
/// tells whether something is mapped.
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

}  // namespace detail

}  // namespace mrc::inline v0_1
