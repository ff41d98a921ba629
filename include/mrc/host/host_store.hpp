// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "mrc/api/log.hpp"
#include "mrc/core/fork_mark.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/time.hpp"
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
///     KEY.number    8 bytes that all devices have mapped; odd from before the rules change until
///                   they have changed
namespace mrc::inline v0_1::detail {

/// What the names of the files begin with, in 16 hexadecimal digits: the network namespace of the
/// calling thread (port::network_namespace()).
[[nodiscard]] std::string host_key();

/// The folder of the store that the devices of a folder follow: "auto" stands for the host's.
[[nodiscard]] std::string store_folder(std::string_view control_setting);

/// What the store of a folder says; nothing if there is none. Throws mrc::Error if it can't be
/// read.
[[nodiscard]] HostState read_host_state(const std::string& folder);

/// The store as a device sees it.
class HostStore final : public HostRules {
 public:
  /// Reads it. A folder or file that is missing has no rules.
  HostStore(std::string folder, const Log& log);
  ~HostStore() override;
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  [[nodiscard]] Reading rules(Time now) noexcept override;
  /// What they are to be (HostStoreWriter::propose()). Throws mrc::Error if there is nothing, or it
  /// can't be read.
  [[nodiscard]] HostState proposal() const;
  /// Reads the rules anew, and begins to follow a store that did not exist before. Throws
  /// mrc::Error if they can't be read; those that were stay in force.
  void reread();
  /// In a forked child: no thread was at work with it.
  [[nodiscard]] bool at_rest() noexcept {
    return std::unique_lock(mutex_, std::try_to_lock).owns_lock();
  }

 private:
  void attach() noexcept;
  void read(std::uint64_t now);

  const std::string folder_;
  const std::string key_ = host_key();  ///< of the thread that opens the device
  const Log& log_;
  std::mutex mutex_;  ///< leaf; of what follows
  std::shared_ptr<const HostState> rules_;
  std::uint64_t read_at_ = ~std::uint64_t{0};  ///< number() before they were read; that: never
  std::uint64_t tried_at_ = 0;                 ///< and before it was last tried
  Time try_again_{};
  Duration pause_{};                                 ///< before that
  const std::atomic<std::uint64_t>* map_ = nullptr;  ///< the number, mapped
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
  /// What was proposed is in force, as a whole or not at all; devices that send see it before their
  /// next burst. Throws mrc::Error.
  void commit();
  /// Both.
  void write(const HostState& rules) {
    propose(rules);
    commit();
  }

 private:
  void set_number(std::uint64_t number) const;

  const std::string folder_;
  const std::string key_ = host_key();
  const ForkMark fork_;
  UniqueFd lock_, number_;
  HostState rules_, proposed_;
  bool open_ = false;  ///< proposed_ is there, and not in force
};

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/host/impl/host_store.ipp"
#endif
