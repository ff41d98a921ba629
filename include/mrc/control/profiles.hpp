// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mrc/cc/controller.hpp"
#include "mrc/control/expand.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/profile_types.hpp"

namespace mrc::inline v0_1::detail {

/// What a change of an EV profile means for the peers that use it.
struct EvUpdate {
  /// An entry whose state the controller has written.
  struct Written {
    path::PathIndex path = 0;
    bool denied = false;
  };
  EvTablePtr table;                       ///< null: the profile is not ONLINE
  std::vector<path::PathIndex> replaced;  ///< entries with another EV
  std::vector<Written> written;           ///< what they are after all operations
};

/// What has changed in a profile, whose array keeps its size.
[[nodiscard]] inline EvUpdate changes(const EvTable& before, EvTablePtr is) {
  EvUpdate update;
  for (std::size_t i = 0; i < std::min(before.entries.size(), is->entries.size()); ++i) {
    const EvTable::Entry &old = before.entries[i], &now = is->entries[i];
    const auto path = static_cast<path::PathIndex>(i);
    if (old.expanded != now.expanded)
      update.replaced.push_back(path);
    else if (old.denied != now.denied || old.writes != now.writes)
      update.written.push_back({path, now.denied});
  }
  update.table = std::move(is);
  return update;
}

/// Profiles as a controller has left them, by number and kind: what a device's registry keeps, and
/// what holds for all devices of a host (HostState). Those in INIT are not there.
struct ProfileSet {
  /// A format profile.
  struct Format {
    ProfileState state = ProfileState::init;
    std::optional<path::EvMode> mode{};
    std::optional<std::vector<path::FormatField>> fields{};

    friend bool operator==(const Format&, const Format&) = default;
  };
  /// An entry of an EV profile's array.
  struct Entry {
    ProfileEv ev{};
    bool denied = false;
    std::uint32_t writes = 0;  ///< how often its state was written, be it to what it was

    friend bool operator==(const Entry&, const Entry&) = default;
  };
  /// An EV profile.
  struct Evs {
    ProfileState state = ProfileState::init;
    std::optional<EvProfileMode> mode{};
    std::optional<ProfileId> format{};
    std::optional<std::uint32_t> ev_count{}, min_active{}, event_mask{};
    std::vector<path::EvField> fields{};
    std::vector<Entry> entries{};

    friend bool operator==(const Evs&, const Evs&) = default;
  };
  /// A CC profile.
  struct Cc {
    ProfileState state = ProfileState::init;
    std::optional<cc::Algorithm> algorithm{};
    std::optional<CcConfig> config{};

    friend bool operator==(const Cc&, const Cc&) = default;
  };

  std::map<ProfileId, Format> formats{};
  std::map<ProfileId, Evs> evs{};
  std::map<ProfileId, Cc> ccs{};

  friend bool operator==(const ProfileSet&, const ProfileSet&) = default;
};

/// What administrators have said of planes and paths.
struct SteeringRules {
  PlaneMask planes_down = 0;        ///< planes that are out of use
  std::vector<DeniedPaths> denied;  ///< paths that are out of use

  friend bool operator==(const SteeringRules&, const SteeringRules&) = default;
};

/// Rules that a host or a device can have: each path is compared with each of them, under a lane's
/// lock.
inline constexpr std::size_t kMostDenied = 256;
/// Throws mrc::Error (no_resources) if there are more.
inline void check_size(const SteeringRules& rules) {
  if (rules.denied.size() > kMostDenied)
    throw Error(Errc::no_resources, "more than " + std::to_string(kMostDenied) +
                                        " rules deny paths; deny whole switches, or allow some");
}

/// Adds those that are not there yet.
inline void add_denied(SteeringRules& rules, std::span<const DeniedPaths> denied) {
  for (const DeniedPaths& one : denied)
    if (std::find(rules.denied.begin(), rules.denied.end(), one) == rules.denied.end())
      rules.denied.push_back(one);
}
/// Those of `rules` that `others` does not have.
[[nodiscard]] inline SteeringRules without(SteeringRules rules, const SteeringRules& others) {
  rules.planes_down &= ~others.planes_down;
  std::erase_if(rules.denied, [&others](const DeniedPaths& one) {
    return std::find(others.denied.begin(), others.denied.end(), one) != others.denied.end();
  });
  return rules;
}
/// Removes them. Throws mrc::Error (not_found), and changes nothing, if one is not there.
inline void remove_denied(SteeringRules& rules, std::span<const DeniedPaths> denied) {
  SteeringRules left = rules;
  for (const DeniedPaths& one : denied)
    if (std::erase(left.denied, one) == 0)
      throw Error(Errc::not_found, "no rule denies exactly these paths: see the rules in force");
  rules = std::move(left);
}

/// What holds for all devices of a host (control/host_store.hpp).
struct HostState {
  SteeringRules steering{};  ///< planes and paths
  /// Never null.
  std::shared_ptr<const ProfileSet> profiles = std::make_shared<const ProfileSet>();
  std::uint64_t serial = 0;  ///< random; another one whenever something was changed. 0: never
};

/// That, as a device sees it: HostStore sets it, lanes read it.
///
/// Thread contract: any thread. number() is data path, and reads memory of this process alone.
class HostRules {
 public:
  HostRules() = default;
  HostRules(const HostRules&) = delete;
  HostRules& operator=(const HostRules&) = delete;

  /// Another one whenever the rules have been set.
  [[nodiscard]] std::uint64_t number() const noexcept {
    return number_.load(std::memory_order_acquire);
  }
  /// The rules in force, and number() of these.
  struct Reading {
    std::shared_ptr<const HostState> rules;  ///< never null
    std::uint64_t number = 0;
  };
  [[nodiscard]] Reading rules() const noexcept {
    const std::lock_guard lock(mutex_);
    return {rules_, number()};
  }
  /// In a forked child: no thread was at work with it.
  [[nodiscard]] bool at_rest() const noexcept {
    return std::unique_lock(mutex_, std::try_to_lock).owns_lock();
  }

 protected:
  /// `rules` is not null.
  void set(std::shared_ptr<const HostState> rules) noexcept {
    const std::lock_guard lock(mutex_);
    rules_.swap(rules);
    number_.fetch_add(1, std::memory_order_release);
  }

 private:
  mutable std::mutex mutex_;  ///< leaf; of rules_
  std::shared_ptr<const HostState> rules_ = std::make_shared<const HostState>();
  std::atomic<std::uint64_t> number_{0};
};

/// What a ProfileRegistry must know of its device.
struct ProfileSurroundings {
  unsigned planes = 1;        ///< EVs may name ports 1 .. planes
  std::uint64_t seed = 0;     ///< of the order of GENERATED EVs (mrc-1.0 [O-24])
  cc::Options cc;             ///< the device's own: what CC profiles leave open
  path::EvFormats formats{};  ///< ProfileLimits::formats
  /// Throws mrc::Error (unsupported) that says why the ports can't send such an EV.
  std::function<void(path::EvMode, const ExpandedEv&)> check_ev;
};

/// The profiles of a device, their states and who uses them (mrc-1.0 §3.2, §7.7). It knows nothing
/// of peers and ports: what a change means for these is in its result. Set-up only; one thread at a
/// time.
///
/// Errors are mrc::Error and stand for the API's: invalid_argument and invalid_state for EINVAL,
/// in_use for EBUSY, no_resources for E2BIG, not_found for ENOENT, unsupported for what these ports
/// can't do. A call that fails has changed nothing, except that when an EvOperation fails, the
/// attributes are changed and the operations before it are done.
class ProfileRegistry {
 public:
  explicit ProfileRegistry(ProfileSurroundings around) : around_(std::move(around)) {}

  void change_format(ProfileId id, const FormatProfileChange& change);
  [[nodiscard]] FormatProfileInfo format(ProfileId id) const;

  /// The change, and the error that ended it after some operations, if there was one.
  struct EvChanged {
    EvUpdate update;
    std::exception_ptr error;
  };
  [[nodiscard]] EvChanged change_evs(ProfileId id, const EvProfileChange& change);
  /// Entries say GOOD or DENIED: the states towards destinations are the caller's to add.
  [[nodiscard]] EvProfileInfo evs(ProfileId id) const;

  void change_cc(ProfileId id, const CcProfileChange& change);
  [[nodiscard]] CcProfileInfo cc(ProfileId id) const;

  [[nodiscard]] ProfileLimits limits() const noexcept;

  /// A queue pair begins to use these; they must be ONLINE, and stay so until release().
  void acquire(const QpProfiles& profiles);
  void release(const QpProfiles& profiles) noexcept;

  // --- What holds for all devices of a host
  /// All profiles.
  [[nodiscard]] ProfileSet set() const;
  /// A profile that can't be had, since queue pairs use what is to change, or the ports can't send
  /// an EV, say.
  struct Failure {
    enum class Kind : std::uint8_t { format, evs, cc };
    Kind kind = Kind::format;
    ProfileId id = 0;
    bool in_use = false;  ///< by queue pairs of this device
    Error error;
  };
  /// The profiles are those of the set from now on; queue pairs that use some of them go on, over
  /// other EVs perhaps. One that can't be had is given to failed(), and stays as it is, or away;
  /// but EVs that are denied are denied. What failed() throws ends the call, which has changed
  /// nothing then.
  void follow(const ProfileSet& set, const std::function<void(const Failure&)>& failed);
  /// Whether it exists, which in INIT it does not.
  [[nodiscard]] bool has_evs(ProfileId id) const noexcept { return evs_.contains(id); }
  [[nodiscard]] bool has_cc(ProfileId id) const noexcept { return ccs_.contains(id); }

  /// The table of a profile that is ONLINE; else null.
  [[nodiscard]] EvTablePtr table(ProfileId id) const noexcept;
  /// The options of a CC profile that is ONLINE; else those of the device.
  [[nodiscard]] cc::Options cc_options(ProfileId id) const;

 private:
  using Format = ProfileSet::Format;
  using Entry = ProfileSet::Entry;
  struct Evs : ProfileSet::Evs {
    EvTablePtr table;
    std::uint32_t users = 0;
  };
  struct Cc : ProfileSet::Cc {
    std::uint32_t users = 0;
  };

  // What holds for all devices of a host
  [[nodiscard]] Evs followed(ProfileId id, const ProfileSet::Evs& wanted, const Evs* before,
                             bool same_format) const;
  void put_format(ProfileId id, const Format& wanted);
  [[nodiscard]] Evs kept(ProfileId id, const Evs& evs, const ProfileSet& set) const;
  [[nodiscard]] Cc followed(ProfileId id, const ProfileSet::Cc& wanted, const Cc* before) const;

  // Single profiles
  void set_attributes(ProfileId id, Evs& evs, const EvProfileChange& change) const;
  void fill(ProfileId id, Evs& evs) const;
  void check_entries(ProfileId id, const Evs& evs) const;
  void operate(Evs& evs, const EvOperation& op) const;
  [[nodiscard]] bool to_state(ProfileId id, Evs& evs, ProfileState state) const;
  void require_complete(ProfileId id, const Evs& evs, ProfileState state) const;
  [[nodiscard]] path::EvFormatProfile format_of(const Evs& evs) const;
  [[nodiscard]] EvTablePtr make_table(ProfileId id, const Evs& evs) const;
  [[nodiscard]] ExpandedEv expanded(const Evs& evs, const path::EvFormatProfile& format,
                                    const ProfileEv& ev) const;
  [[nodiscard]] std::size_t evs_in_use() const noexcept;

  ProfileSurroundings around_;
  ProfileLimits limits_;
  std::map<ProfileId, Format> formats_;  ///< those not in INIT, as in the other two
  std::map<ProfileId, Evs> evs_;
  std::map<ProfileId, Cc> ccs_;
};

/// A device's profiles for several threads: those that its program makes, and those that hold for
/// all devices of the host. Of two with the same number the program's own counts, which can't be
/// made while queue pairs use the host's.
///
/// Thread contract: any thread. The lock may be taken under a lane's lock; under it nothing else is
/// taken.
class Profiles {
 public:
  /// To be called once, before queue pairs exist: what a registry must know of the ports is known
  /// when they are open.
  void open(const ProfileSurroundings& around) {
    own_.emplace(around);
    host_.emplace(around);
  }
  /// Runs f(registry) with those of the program, under the lock.
  template <class F>
  auto with(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(*own_);
  }
  /// The same for those of the host.
  template <class F>
  auto with_host(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(*host_);
  }

  // --- Changes by the program; as those of ProfileRegistry
  [[nodiscard]] ProfileRegistry::EvChanged change_evs(ProfileId id, const EvProfileChange& change);
  void change_cc(ProfileId id, const CcProfileChange& change);

  // --- The host's
  /// Its rules are others: so are its profiles here. Returns what is to be logged.
  std::vector<std::string> follow(const HostState& host);
  /// What the last follow() could not do, of profiles that queue pairs use: texts.
  [[nodiscard]] std::vector<std::string> not_followed();
  /// Throws mrc::Error if this device can't have profiles of the set that it has to have: all but
  /// those that are as in the set that it follows, and, with `evs_are_own`, those that nobody uses
  /// here and whose EVs its ports can't send, since each process has EVs of its own there. Returns
  /// how many it goes without.
  unsigned check(const ProfileSet& set, bool evs_are_own);

  // --- Queue pairs
  void acquire(const QpProfiles& profiles);
  void release(const QpProfiles& profiles) noexcept;
  /// The table of a profile that is ONLINE; else null.
  [[nodiscard]] EvTablePtr table(ProfileId id) noexcept;
  /// The options of a CC profile that is ONLINE; else those of the device.
  [[nodiscard]] cc::Options cc_options(ProfileId id);

  /// In a forked child: no thread of the parent held the lock.
  [[nodiscard]] bool at_rest() noexcept {
    return std::unique_lock(mutex_, std::try_to_lock).owns_lock();
  }

 private:
  [[nodiscard]] ProfileRegistry& of_evs(ProfileId id) noexcept {
    return own_->has_evs(id) ? *own_ : *host_;
  }
  [[nodiscard]] ProfileRegistry& of_cc(ProfileId id) noexcept {
    return own_->has_cc(id) ? *own_ : *host_;
  }

  std::mutex mutex_;
  std::optional<ProfileRegistry> own_, host_;
  std::uint64_t followed_ = 0;  ///< HostState::serial of what host_ follows
  std::shared_ptr<const ProfileSet> set_;
  std::vector<std::string> not_followed_;
};

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1::path {

/// EV profiles: the set of paths to a destination (mrc-1.0 §3.2). Set-up only.

/// Where a profile's EVs come from.
enum class ProfileMode : std::uint8_t {
  explicit_,  ///< listed by a controller
  generated,  ///< generated from fields
  auto_,      ///< chosen by the library: UDP source ports
};

/// Paths in AUTO mode unless the profile sets a number: about 128, one in eight a backup (more than
/// about a hundred active paths gain little).
inline constexpr unsigned kAutoPaths = 128;
/// First of AUTO's EVs, which are UDP source ports: start of the dynamic port range.
inline constexpr std::uint32_t kAutoFirstPort = 0xC000;
/// Number of ports in that range.
inline constexpr std::uint32_t kAutoPorts = 0x4000;

/// An EV profile. Counts are over all planes. Of GENERATED and AUTO paths each plane gets an equal
/// share; an EXPLICIT list says itself how many paths each has.
struct EvProfile {
  ProfileMode mode = ProfileMode::auto_;  ///< source of the EVs
  unsigned planes = 1;                    ///< planes (NIC ports) 0 .. planes-1
  /// Size of the active set. 0: EXPLICIT all paths except the backup, AUTO a default.
  unsigned active = 0;
  unsigned backup = 0;           ///< backup paths; EXPLICIT: 0 is the rest of the list
  std::uint16_t min_active = 1;  ///< see PathSetOptions
  std::uint8_t event_mask = kEventGood | kEventAssumedBad;  ///< see PathSetOptions
  std::uint64_t seed = 0;  ///< determines the order of GENERATED and AUTO values [O-24]
  /// EXPLICIT: the list. An EV that is in it several times has that weight: each copy is a path of
  /// its own in the spraying order (mrc-1.0 §7.7).
  std::vector<PathSpec> paths;
  EvFormatProfile format;       ///< GENERATED: the packet fields
  std::vector<EvField> fields;  ///< GENERATED: the contents of the packet fields
  /// EVs to deny. EXPLICIT: their entries exist and are DENIED; otherwise they are not generated.
  std::vector<Ev> denied;
};

/// The result of evaluating a profile.
struct EvPlan {
  /// Planes alternate as long as each has paths, so that any prefix is shared as evenly as
  /// possible.
  std::vector<PathSpec> universe;
  std::vector<EvValue> values;    ///< GENERATED: the expansion of each EV; else empty
  std::vector<PathIndex> denied;  ///< entries to be set DENIED
  PathSetOptions options;         ///< active, min_active and event_mask set
};

/// Evaluates a profile. Throws mrc::Error that names the field, its value and the rule:
/// invalid_argument, or no_resources when the profile needs more EVs or paths than possible.
[[nodiscard]] EvPlan make_plan(const EvProfile& profile);

/// The path set of a plan, with denied entries DENIED. `seed` sets the spraying order, not the EVs.
[[nodiscard]] PathSet make_path_set(const EvPlan& plan, std::uint64_t seed);

/// Generation of EVs from fields (mrc-1.0 §3.2 GENERATED, [O-24]). Set-up only.

/// The numbers 0 .. count-1 in shuffled order, one at a time, with memory only for those taken: a
/// Fisher-Yates shuffle over a sparse virtual table.
class SparseShuffle {
 public:
  /// count <= 2^63.
  SparseShuffle(std::uint64_t count, std::uint64_t seed) : count_(count), random_(seed) {}

  /// Whether all numbers are taken.
  [[nodiscard]] bool empty() const noexcept { return taken_ == count_; }
  /// The next number; needs !empty().
  [[nodiscard]] std::uint64_t next() {
    const std::uint64_t at = taken_ + random_.next() % (count_ - taken_);
    const std::uint64_t picked = cell(at);
    moved_[at] = cell(taken_);
    moved_.erase(taken_++);
    return picked;
  }

 private:
  [[nodiscard]] std::uint64_t cell(std::uint64_t i) const {
    const auto found = moved_.find(i);
    return found == moved_.end() ? i : found->second;
  }

  std::uint64_t count_;
  std::uint64_t taken_ = 0;
  Random random_;
  std::unordered_map<std::uint64_t, std::uint64_t> moved_;
};

/// Number of EVs that the fields' ranges allow. The fields must have passed check() and use at most
/// 32 bits of EV together, so the product stays below 2^33.
[[nodiscard]] inline std::uint64_t count_values(std::span<const EvField> fields) noexcept {
  std::uint64_t n = 1;
  for (const EvField& f : fields) n *= f.max_val - f.min_val + 1;
  return n;
}

/// The EV number `index` < count_values(fields) in lexicographic order: the last field varies
/// fastest.
[[nodiscard]] inline Result<EvValue> nth_value(std::uint64_t index,
                                               std::span<const EvField> fields) {
  std::vector<std::uint64_t> values(fields.size());
  for (std::size_t i = fields.size(); i > 0; --i) {
    const EvField& f = fields[i - 1];
    const std::uint64_t range = f.max_val - f.min_val + 1;
    values[i - 1] = f.min_val + index % range;
    index /= range;
  }
  return pack(values, fields);
}

}  // namespace mrc::inline v0_1::path
