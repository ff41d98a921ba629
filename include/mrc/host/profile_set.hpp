// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "mrc/api/profile_types.hpp"

namespace mrc::inline v0_1::detail {

/// Profiles as a controller has left them, by number and kind: what a device's registry keeps, and
/// what holds for all devices of a host (host/host_rules.hpp). Those in INIT are not there.
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

}  // namespace mrc::inline v0_1::detail
