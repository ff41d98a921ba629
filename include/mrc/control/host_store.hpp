// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/control/client.hpp"
#include "mrc/control/profiles.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/profile_types.hpp"

namespace mrc::inline v0_1::detail {

/// The store of a host: rules and profiles that hold in all of its devices, those that open later
/// included, until they are taken back or the host restarts. A host is a network namespace. Its
/// files are in folder `host` of a folder for control sockets (control/run_folder.hpp), which
/// belongs to whoever that folder belongs to, and in which nobody else can write; KEY being
/// host_key():
///
///     KEY.json      the rules and profiles (docs/control.md)
///     KEY.json.new  what they are to be, while devices are asked whether they would take them
///     KEY.lock      locked by whoever changes them
///
/// Devices only read it, and never map a file: one that is full or truncated costs nobody more than
/// the rules.

/// What the names of the files begin with, in 16 hexadecimal digits: the network namespace of the
/// calling thread (port::network_namespace()).
[[nodiscard]] std::string host_key();

/// The folder of the store that the devices of a folder follow: "auto" stands for the host's.
[[nodiscard]] std::string store_folder(std::string_view control_setting);

/// What the store of a folder says; nothing if there is none. Throws mrc::Error if it can't be
/// read.
[[nodiscard]] HostState read_host_state(const std::string& folder);

/// Which file the rules are in: another mark after each change. All zero: there is none.
struct StoreMark {
  std::uint64_t inode = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  ///< of the file's last change
  std::int64_t size = 0;

  /// Equal in every field.
  friend bool operator==(const StoreMark&, const StoreMark&) = default;
};

/// The store as a device sees it.
///
/// Thread contract: that of HostRules for what is inherited; the rest is one thread's.
class HostStore final : public HostRules {
 public:
  /// Reads it. A folder or file that is missing has no rules.
  HostStore(std::string folder, const Log& log);

  /// What they are to be (HostStoreWriter::propose()). Throws mrc::Error if there is nothing, or it
  /// can't be read.
  [[nodiscard]] HostState proposal() const;
  /// Reads the rules anew. Throws mrc::Error if they can't be read; those that were stay in force.
  void reread();
  /// Reads them if they are others than were read last, for devices that nobody has told. Rules
  /// that can't be read are logged once, leave those that were in force, and are tried again by the
  /// next call. True if they were read.
  bool look() noexcept;

 private:
  const std::string folder_;
  const std::string key_ = host_key();  ///< of the thread that opens the device
  const Log& log_;
  StoreMark read_, refused_;  ///< what was read last; what could not be, and was logged
};

/// The store, locked to be changed.
class HostStoreWriter {
 public:
  /// Waits for the lock for that long. `anew`: begins without rules and profiles if those that
  /// there are can't be read. Throws mrc::Error: access_denied if this user may not change the
  /// rules, which the folder's owner and root may.
  HostStoreWriter(const std::string& folder, Duration patience, bool anew = false);

  ~HostStoreWriter();
  HostStoreWriter(const HostStoreWriter&) = delete;
  HostStoreWriter& operator=(const HostStoreWriter&) = delete;

  [[nodiscard]] const HostState& rules() const noexcept { return rules_; }
  /// Leaves what rules and profiles are to be where devices can read it, with a serial of its own,
  /// which is returned. Throws mrc::Error.
  std::uint64_t propose(HostState wanted);
  /// What was proposed is in force, as a whole or not at all, in devices that read it from now on.
  /// Throws mrc::Error.
  void commit();
  /// Both.
  void write(const HostState& rules) {
    propose(rules);
    commit();
  }

 private:
  const std::string folder_;
  const std::string key_ = host_key();
  const ForkMark fork_;
  UniqueFd lock_;
  HostState rules_, proposed_;
  bool open_ = false;  ///< proposed_ is there, and not in force
};

/// How a controller, be it mrc_ctl or a program with mrc_ctl.h, changes what holds for all devices
/// of a host (docs/control.md).

/// How long devices have for an answer, unless something else is said; and those of other users at
/// most, for all that they say: anybody can make some.
inline constexpr Duration kAnswerPatience = std::chrono::seconds(2);

/// Where and how patiently devices are looked for.
struct HostSearch {
  std::vector<std::string> folders;             ///< of control sockets
  Duration greeting = std::chrono::seconds(1);  ///< for all of them to say who they are
  Duration answer = kAnswerPatience;            ///< for all of them to answer a question
};

/// The devices of the host, and those that do not say who they are in time; of sockets that are not
/// in `seen`, which has them afterwards. `elsewhere`: gets the names of this user's and root's
/// devices in other network namespaces.
[[nodiscard]] control::Found devices_of_host(const HostSearch& search,
                                             std::vector<control::SocketName>& seen,
                                             std::vector<std::string>* elsewhere = nullptr);

/// What has come of a change.
struct HostChange {
  std::vector<std::unique_ptr<control::RemoteDevice>> devices;  ///< those that the next ones name
  /// Devices that do what the host's rules say, and what they answered to `host_changed`.
  std::vector<std::pair<control::RemoteDevice*, nlohmann::json>> confirmed;
  /// What is to be said of those of this user and of root that have not confirmed.
  std::vector<std::string> unconfirmed;
  /// The same of other users': anybody can make some, so whether the change is whole does not
  /// depend on them.
  std::vector<std::string> others_unconfirmed;
  /// Devices to which a part of the rules means nothing.
  std::vector<control::RemoteDevice*> unknowing;
  /// Rules that are not in force yet and mean nothing to any device of the host. None if no device
  /// of this user or root has answered, or one is silent, to which they may mean something.
  SteeringRules without_effect;
  /// Devices of this user and of root in other network namespaces.
  std::vector<std::string> elsewhere;
  std::uint64_t serial = 0;               ///< of what was proposed
  std::vector<control::SocketName> seen;  ///< sockets that were found
};

/// Asks the devices of this user and of root whether they can do what `wanted` says, which is
/// proposed in the store. Those that end meanwhile are left out. Throws mrc::Error if a device
/// refuses (with its error: in_use, unsupported, …) or one that has greeted does not answer.
/// Nothing changes.
[[nodiscard]] HostChange ask_devices(HostStoreWriter& store, const HostState& wanted,
                                     const HostSearch& search);

/// What was proposed is in force in the store from now on, and all devices are told, at once,
/// those that have opened meanwhile included. What throws has changed nothing anywhere.
void put_in_force(HostStoreWriter& store, HostChange& change, const HostSearch& search);

/// ask_devices(), then put_in_force().
[[nodiscard]] HostChange change_host(HostStoreWriter& store, const HostState& wanted,
                                     const HostSearch& search);

/// The states of the entries of one of the host's EV profiles over all devices whose queue pairs
/// use it: what they agree on, or UNKNOWN. `info` has the entries as the controller wrote them.
void merge_states(ProfileId id, EvProfileInfo& info, const HostSearch& search);

}  // namespace mrc::inline v0_1::detail
