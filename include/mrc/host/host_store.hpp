// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mrc/api/device_config.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/host/host_rules.hpp"

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
namespace mrc::inline v0_1::detail {

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

}  // namespace mrc::inline v0_1::detail
