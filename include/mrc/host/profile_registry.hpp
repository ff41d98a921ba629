// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mrc/api/profile_types.hpp"
#include "mrc/cc/controller.hpp"
#include "mrc/core/error.hpp"
#include "mrc/host/profile_set.hpp"
#include "mrc/plane/ev_table.hpp"

namespace mrc::inline v0_1::detail {

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

  // --- What holds for all devices of a host (profile_follow.inl)
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

  // profile_follow.inl
  [[nodiscard]] Evs followed(ProfileId id, const ProfileSet::Evs& wanted, const Evs* before,
                             bool same_format) const;
  void put_format(ProfileId id, const Format& wanted);
  [[nodiscard]] Evs kept(ProfileId id, const Evs& evs, const ProfileSet& set) const;
  [[nodiscard]] Cc followed(ProfileId id, const ProfileSet::Cc& wanted, const Cc* before) const;

  // ev_profile.inl
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

}  // namespace mrc::inline v0_1::detail
