// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/plane/packet/packet_slot.hpp"
#include "mrc/plane/slot.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Throws the Error of the last system call, with the remedy where rights are missing.
[[noreturn]] inline void throw_no_lock(const std::string& folder, const std::string& doing) {
  const int error = errno;
  const bool rights = error == EACCES || error == EPERM || error == EROFS || error == ENOENT;
  throw_errno("packet ports share a host by locks in " + folder + ", and " + doing +
                  (rights ? " fails: run as root, make the folder once for a group of users with "
                            "'install -d -m 2770 -g GROUP " +
                                folder +
                                "', or set option "
                                "lock_folder to one of your own"
                          : " fails"),
              error);
}

/// The folder with the locks, made if there is none. Throws Error if others could take locks there.
[[nodiscard]] inline UniqueFd open_lock_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) throw_no_lock(folder, "making it");
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.open()) throw_no_lock(folder, "opening it");
  struct stat s {};
  if (::fstat(fd.fd(), &s) != 0) throw_no_lock(folder, "looking at it");
  if ((s.st_uid != 0 && s.st_uid != ::geteuid()) || (s.st_mode & S_IWOTH) != 0)
    throw Error(Errc::access_denied,
                "packet ports share a host by locks in " + folder +
                    ", which other users could take: it must belong to root or to this user, and "
                    "not be writable for all; remove it, or set option lock_folder");
  return fd;
}

/// Opens a file of locks, made if there is none.
[[nodiscard]] inline UniqueFd open_locks(const std::string& folder, const std::string& name) {
  const UniqueFd in = open_lock_folder(folder);
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::openat(in.fd(), name.c_str(), kFlags | O_CREAT | O_EXCL, 0660));
  if (fd.open())
    (void)::fchmod(fd.fd(), 0660);  // for the folder's group, whatever the umask
  else if (errno == EEXIST)
    fd = UniqueFd(::openat(in.fd(), name.c_str(), kFlags));
  if (!fd.open()) throw_no_lock(folder, "opening " + name);
  struct stat s {};
  if (::fstat(fd.fd(), &s) != 0 || !S_ISREG(s.st_mode))
    throw Error(Errc::access_denied, folder + "/" + name + " is not a regular file; remove it");
  return fd;
}

/// Names this thread's network namespace on this host.
[[nodiscard]] inline std::string network_name() {
  struct stat s {};
  if (::stat("/proc/thread-self/ns/net", &s) != 0)
    throw_errno("cannot tell network namespaces apart by /proc/thread-self/ns/net");
  return "net-" + std::to_string(s.st_ino);
}

}  // namespace detail

UniqueFd claim_lock(const std::string& folder, const std::string& name, unsigned number) {
  UniqueFd file = detail::open_locks(folder, detail::network_name() + "." + name);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = number;
  lock.l_len = 1;
  // Of the open file, not of the process: two claims of one process are apart, too.
  if (::fcntl(file.fd(), F_OFD_SETLK, &lock) == 0) return file;
  if (errno != EAGAIN && errno != EACCES) detail::throw_no_lock(folder, "taking a lock");
  return {};
}

PacketSlotClaim claim_packet_slot(const std::string& folder, std::optional<std::uint8_t> wanted) {
  const unsigned first = wanted.value_or(0), last = wanted.value_or(kSlots - 1);
  for (unsigned slot = first; slot <= last; ++slot) {
    UniqueFd lock = claim_lock(folder, "slots", slot);
    if (lock.open()) return {static_cast<std::uint8_t>(slot), std::move(lock)};
  }
  detail::throw_in_use(wanted ? "slot " + std::to_string(first) +
                                    " is in use by another process of this host; leave option slot "
                                    "at -1 to get a free one"
                              : "all " + std::to_string(kSlots) +
                                    " slots of this host are in use: close other devices");
}

}  // namespace mrc::inline v0_1::port
