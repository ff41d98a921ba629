// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Where the control sockets of a host's devices are: one folder for all users, or one of a user's
/// own. docs/control.md describes names and rights.
namespace mrc::inline v0_1::control {

/// The folder for all users. Root's first device makes it, writable for all and sticky.
inline constexpr const char* kRunFolder = "/run/openmrc";

/// What the file of a socket is called: "PID-PIDNS-ID.sock". Processes of several PID namespaces
/// may share the folder, and a process may have several devices.
struct SocketName {
  ::pid_t pid = 0;                  ///< of the process, in its own PID namespace
  std::uint64_t pid_namespace = 0;  ///< inode of that namespace
  std::uint64_t id = 0;             ///< random

  /// Equal in every field.
  friend bool operator==(const SocketName&, const SocketName&) = default;
};

/// As the file is called.
[[nodiscard]] std::string to_string(const SocketName& name);
/// Nothing if a file with that name is no control socket.
[[nodiscard]] std::optional<SocketName> parse_socket_name(std::string_view file);
/// A fresh name for a device of this process. Throws mrc::Error.
[[nodiscard]] SocketName make_socket_name();

/// The folder for the devices of this process, which exists afterwards. `setting` is option
/// control: "auto", or the folder itself. Throws mrc::Error that names what is wrong with it.
[[nodiscard]] std::string device_folder(std::string_view setting);

/// Where a tool of this user finds devices, the host's folder first; root's tools look into those
/// of all users. Folders that do not exist are not listed.
[[nodiscard]] std::vector<std::string> searched_folders();

/// Whether it is this user or root: only their devices have a say in what others do.
[[nodiscard]] bool is_trusted_user(::uid_t user) noexcept;

/// A socket in a folder.
struct SocketFile {
  std::string path;   ///< with the folder
  SocketName name;    ///< what its name says
  ::uid_t owner = 0;  ///< of the file
};
/// Sockets of each other user that are listed.
inline constexpr std::size_t kMostOfUser = 512;
/// The sockets in a folder, by name: those of this user and of root, then those of others, whom the
/// limit keeps from hiding each other's. Links are none. Empty if the folder can't be read.
[[nodiscard]] std::vector<SocketFile> sockets_in(const std::string& folder);
/// Those of several folders: first those of this user and of root, in all of them.
[[nodiscard]] std::vector<SocketFile> sockets_in(const std::vector<std::string>& folders);

/// Removes the sockets of processes that are gone: those of this PID namespace that have no process
/// any more and that nobody listens on. Others stay, for tools that try them.
void remove_stale(const std::string& folder) noexcept;
/// Removes a socket that nobody listens on. False if somebody does, or it can't be removed.
bool remove_if_stale(const std::string& path) noexcept;

}  // namespace mrc::inline v0_1::control
