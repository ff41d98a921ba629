// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "mrc/control/line_server.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"

namespace mrc::inline v0_1::control {

namespace detail {

/// The entries of a folder; none if it can't be read.
std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<::DIR, int (*)(::DIR*)> in(::opendir(folder.c_str()), &::closedir);
  if (!in) return names;
  while (const ::dirent* entry = ::readdir(in.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

/// What is wrong with a folder for sockets; empty: nothing. Folders of others could be theirs to
/// change, except root's sticky one.
std::string fault_of(const std::string& folder) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return "can't be looked at";
  if (!S_ISDIR(found.st_mode)) return "is no folder";
  if (found.st_uid != 0 && found.st_uid != ::geteuid()) return "belongs to another user";
  const bool shared = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (shared && (found.st_mode & S_ISVTX) == 0)
    return "is writable for others, and not sticky (chmod 1777)";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return "is not writable for this user";
  return {};
}

/// Folders of this user's own, the best first: programs of one user may see different environments.
std::vector<std::string> own_folders() {
  std::vector<std::string> folders;
  // Not from the environment of whoever started a program with special rights.
  const char* runtime = ::secure_getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/' && fault_of(runtime).empty())
    folders.push_back(std::string(runtime) + "/openmrc");
  folders.push_back("/tmp/openmrc-" + std::to_string(::geteuid()));
  return folders;
}

bool parse_part(std::string_view& text, char end, int base, auto& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || stop == text.data() + text.size() || *stop != end) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()) + 1);
  return true;
}

std::uint64_t pid_namespace() noexcept {
  struct stat found {};
  return ::stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

}  // namespace detail

std::string to_string(const SocketName& name) {
  char text[64];
  std::snprintf(text, sizeof text, "%d-%" PRIu64 "-%016" PRIx64 ".sock", name.pid,
                name.pid_namespace, name.id);
  return text;
}

std::optional<SocketName> parse_socket_name(std::string_view file) {
  SocketName name;
  std::string_view rest = file;
  if (!detail::parse_part(rest, '-', 10, name.pid) ||
      !detail::parse_part(rest, '-', 10, name.pid_namespace) ||
      !detail::parse_part(rest, '.', 16, name.id) || rest != "sock" || to_string(name) != file)
    return std::nullopt;
  return name;
}

SocketName make_socket_name() {
  return {::getpid(), detail::pid_namespace(), mrc::detail::random_seed()};
}

std::string device_folder(std::string_view setting) {
  if (setting != "auto") {
    std::string folder(setting);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      throw_errno("the folder " + folder + " of option control can't be made");
    if (const std::string fault = detail::fault_of(folder); !fault.empty())
      throw Error(Errc::invalid_argument, "the folder " + folder + " of option control " + fault);
    return folder;
  }
  if (::geteuid() == 0 && ::mkdir(kRunFolder, 0700) == 0)
    (void)!::chmod(kRunFolder, 01777);  // whatever the umask is
  if (detail::fault_of(kRunFolder).empty()) return kRunFolder;
  std::string own = detail::own_folders().front();
  if (::mkdir(own.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno("neither " + std::string(kRunFolder) + " nor " + own + " can be used");
  if (const std::string fault = detail::fault_of(own); !fault.empty())
    throw Error(Errc::access_denied, own + " " + fault);
  return own;
}

std::vector<std::string> searched_folders() {
  std::vector<std::string> folders = detail::own_folders();
  folders.insert(folders.begin(), kRunFolder);
  if (::geteuid() != 0) {
    folders.push_back("/run/user/" + std::to_string(::geteuid()) + "/openmrc");
  } else {
    for (const std::string& user : detail::entries_of("/run/user"))
      if (user[0] != '.') folders.push_back("/run/user/" + user + "/openmrc");
    for (const std::string& name : detail::entries_of("/tmp")) {
      struct stat is {};  // one for each user, whatever they make
      const std::string folder = "/tmp/" + name;
      if (name.starts_with("openmrc-") && ::lstat(folder.c_str(), &is) == 0 &&
          name == "openmrc-" + std::to_string(is.st_uid))
        folders.push_back(folder);
    }
  }
  std::vector<std::string> found;
  for (std::string& folder : folders) {
    struct stat is {};  // a link could lead root anywhere
    const bool there = ::lstat(folder.c_str(), &is) == 0 && S_ISDIR(is.st_mode);
    const bool trusted = is.st_uid == 0 || is.st_uid == ::geteuid() || ::geteuid() == 0;
    if (there && trusted && std::find(found.begin(), found.end(), folder) == found.end())
      found.push_back(std::move(folder));
  }
  return found;
}

bool is_trusted_user(::uid_t user) noexcept {
  return user == 0 || user == ::geteuid();
}

std::vector<SocketFile> sockets_in(const std::string& folder) {
  std::vector<SocketFile> sockets, others;
  std::map<::uid_t, std::size_t> of_user;
  for (const std::string& file : detail::entries_of(folder)) {
    const auto name = parse_socket_name(file);
    struct stat is {};
    std::string path = folder + "/" + file;
    if (!name || ::lstat(path.c_str(), &is) != 0 || S_ISLNK(is.st_mode)) continue;
    const bool trusted = is_trusted_user(is.st_uid);
    if (!trusted && ++of_user[is.st_uid] > kMostOfUser) continue;
    (trusted ? sockets : others).push_back({std::move(path), *name, is.st_uid});
  }
  std::move(others.begin(), others.end(), std::back_inserter(sockets));
  return sockets;
}

std::vector<SocketFile> sockets_in(const std::vector<std::string>& folders) {
  std::vector<SocketFile> sockets;
  for (const std::string& folder : folders) {
    auto some = sockets_in(folder);
    std::move(some.begin(), some.end(), std::back_inserter(sockets));
  }
  std::stable_partition(sockets.begin(), sockets.end(),
                        [](const SocketFile& file) { return is_trusted_user(file.owner); });
  return sockets;
}

/// By the folder's descriptor: whoever owns the folder could put another one in its place.
bool remove_if_stale(const std::string& path) noexcept try {
  const std::size_t slash = path.rfind('/');
  const std::string folder = path.substr(0, slash), name = path.substr(slash + 1);
  const UniqueFd in(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found {};
  if (!in.open() || ::fstatat(in.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISSOCK(found.st_mode))
    return false;
  try {
    (void)connect_unix("/proc/self/fd/" + std::to_string(in.fd()) + "/" + name);
    return false;
  } catch (const Error& error) {
    return error.code() == std::errc::connection_refused &&
           ::unlinkat(in.fd(), name.c_str(), 0) == 0;
  }
} catch (...) {  // no memory: another one will do it
  return false;
}

void remove_stale(const std::string& folder) noexcept {
  try {
    const std::uint64_t here = detail::pid_namespace();
    const auto own = [](const std::string& path) {
      struct stat found {};
      return ::lstat(path.c_str(), &found) == 0 && found.st_uid == ::geteuid();
    };
    for (const SocketFile& socket : sockets_in(folder))
      if (socket.name.pid_namespace == here && own(socket.path) &&
          ::kill(socket.name.pid, 0) != 0 && errno == ESRCH)
        (void)remove_if_stale(socket.path);
  } catch (...) {  // no memory: another device will do it
  }
}

}  // namespace mrc::inline v0_1::control
