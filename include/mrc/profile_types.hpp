// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/cc/congestion_control.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/path/ev_format.hpp"

namespace mrc::inline v0_1 {

/// Profiles of a device (mrc-1.0 §3.2, §7.5, §7.7): by these a controller says over which paths,
/// and with which congestion control, queue pairs send. Objects, states and operations are those of
/// mrc_ctl.h; a member that is set here is a bit of the attribute mask there.

/// Number of a profile, chosen by whoever makes it. Format, EV and CC profiles count separately.
using ProfileId = std::uint64_t;

/// States of a profile, with the API's values. INIT to OFFLINE to ONLINE to OFFLINE to INIT, and no
/// other way. A profile in INIT does not exist.
enum class ProfileState : std::uint8_t { init = 0, offline = 1, online = 2 };

// ---------------------------------------------------------------------------- format profiles

/// A change of a format profile. In one call attributes come first, then the state.
struct FormatProfileChange {
  std::optional<ProfileState> state{};                     ///< to go to
  std::optional<path::EvMode> mode{};                      ///< needed to go OFFLINE
  std::optional<std::vector<path::FormatField>> fields{};  ///< needed to go ONLINE
};

/// What is known of a format profile.
struct FormatProfileInfo {
  ProfileState state = ProfileState::init;  ///< present state
  std::optional<path::EvMode> mode{};       ///< how EVs become packet fields
  std::vector<path::FormatField> fields{};  ///< most significant first
};

// -------------------------------------------------------------------------------- EV profiles

/// Where the EVs of a profile come from, with the API's values.
enum class EvProfileMode : std::uint8_t {
  automatic = 1,  ///< the device's own paths
  explicit_ = 2,  ///< each is written by the controller
  generated = 4,  ///< made by the device from fields
};

/// State of an EV, with the API's values. SKIP is reported as GOOD (mrc-1.0 [C-11]).
enum class EvState : std::uint32_t {
  good = 1,            ///< carries data
  assumed_bad = 2,     ///< carries none until probes succeed
  denied = 4,          ///< disabled by the controller
  unknown = 1u << 31,  ///< good towards one destination and bad towards another
};

/// An EV of a profile: bits before expansion by the profile's fields, and the port it leaves by.
/// All zero: not populated.
struct ProfileEv {
  path::EvValue value{};  ///< starts at the most significant bit of byte 0
  std::uint8_t port = 0;  ///< 1 is plane 0

  /// Equal in value and port.
  friend bool operator==(const ProfileEv&, const ProfileEv&) = default;
};

/// What to do with an entry of an EV profile's array.
struct EvOperation {
  /// The API's operations that change something.
  enum class Kind : std::uint8_t { replace, set_state };
  Kind kind = Kind::replace;      ///< what to do
  ProfileEv ev{};                 ///< the entry
  ProfileEv replacement{};        ///< replace: what takes its place
  EvState state = EvState::good;  ///< GOOD or DENIED: the state from now on
  bool all_copies = false;        ///< every entry of this EV, not only the first one
};

/// A change of an EV profile: attributes first, then operations in their order, then the state. An
/// operation that fails ends the call with an error that names it; those before it stay done.
struct EvProfileChange {
  std::optional<ProfileState> state{};        ///< to go to
  std::optional<EvProfileMode> mode{};        ///< needed to go OFFLINE
  std::optional<ProfileId> format{};          ///< needed to go OFFLINE, except in AUTO mode
  std::optional<std::uint32_t> ev_count{};    ///< needed to go OFFLINE: size of the array
  std::optional<std::uint32_t> min_active{};  ///< needed to go ONLINE; at most ev_count
  std::optional<std::uint32_t> event_mask{};  ///< needed to go ONLINE; EvState values, or 0
  std::optional<std::vector<path::EvField>> fields{};  ///< GENERATED: needed to go OFFLINE
  std::vector<EvOperation> operations{};               ///< not together with fields
};

/// An entry of an EV profile's array.
struct EvEntry {
  ProfileEv ev{};                 ///< what the controller wrote, or the device has generated
  EvState state = EvState::good;  ///< towards all destinations
  std::uint32_t good = 0;         ///< destinations towards which it can carry data
  std::uint32_t assumed_bad = 0;  ///< destinations towards which it is ASSUMED_BAD
};

/// What is known of an EV profile.
struct EvProfileInfo {
  ProfileState state = ProfileState::init;    ///< present state
  std::optional<EvProfileMode> mode{};        ///< where its EVs come from
  std::optional<ProfileId> format{};          ///< format profile
  std::uint32_t ev_count = 0;                 ///< size of the array
  std::optional<std::uint32_t> min_active{};  ///< see EvProfileChange
  std::optional<std::uint32_t> event_mask{};  ///< see EvProfileChange
  std::vector<path::EvField> fields{};        ///< see EvProfileChange
  std::vector<EvEntry> entries{};             ///< the array; empty in AUTO mode
  std::uint32_t queue_pairs = 0;              ///< in INIT or a later state
};

/// A change of the state of an EV towards a destination (mrc-1.0 §3.7).
struct EvEvent {
  std::optional<ProfileId> profile{};  ///< none: a path of a queue pair without EV profile
  ProfileEv ev{};                      ///< the entry; without profile, as Device::own_evs() has it,
                                       ///< or what its packets carry
  Ev entropy{};                        ///< the 32 bits by which SACKs name the path
  Plane plane = 0;                     ///< plane of the path
  port::IpAddress destination{};       ///< the peer's address there
  EvState state = EvState::good;       ///< GOOD or ASSUMED_BAD
  std::uint32_t drop_count = 0;        ///< events lost right before this one; exact
};

// -------------------------------------------------------------------------------- CC profiles

/// Parameters of congestion control, named as in the API's NSCC configuration (mrc-1.0 §7.5). What
/// is not set is derived or taken from the device's configuration.
struct CcConfig {
  std::optional<bool> disable_qa{};                       ///< no quick adapt
  std::optional<std::uint32_t> adjust_bytes_threshold{};  ///< bytes
  std::optional<Duration> adjust_period_threshold{};      ///< see cc::NsccOptions::adjust_period
  std::optional<Duration> base_rtt{};                     ///< round-trip time without queueing
  std::optional<double> eta{};                            ///< see cc::NsccOptions
  std::optional<double> fi{};                             ///< see cc::NsccOptions
  std::optional<double> fi_scale{};                       ///< see cc::NsccOptions
  std::optional<double> gamma{};                          ///< see cc::NsccOptions
  std::optional<double> max_md_jump{};                    ///< see cc::NsccOptions
  std::optional<std::uint64_t> max_cwnd{};                ///< bytes; the window of `fixed`, too
  std::optional<unsigned> qa_gate{};                      ///< see cc::NsccOptions
  std::optional<Duration> qa_threshold{};                 ///< see cc::NsccOptions
  std::optional<Duration> target_delay{};                 ///< queueing delay aimed at

  /// Equal in every member.
  friend bool operator==(const CcConfig&, const CcConfig&) = default;
};

/// A change of a CC profile. In one call attributes come first, then the state.
struct CcProfileChange {
  std::optional<ProfileState> state{};       ///< to go to
  std::optional<cc::Algorithm> algorithm{};  ///< needed to go OFFLINE; `none`: off
  std::optional<CcConfig> config{};          ///< needed to go ONLINE
};

/// What is known of a CC profile.
struct CcProfileInfo {
  ProfileState state = ProfileState::init;   ///< present state
  std::optional<cc::Algorithm> algorithm{};  ///< see CcProfileChange
  std::optional<CcConfig> config{};          ///< see CcProfileChange
  std::uint32_t queue_pairs = 0;             ///< in INIT or a later state
};

/// Which profiles a queue pair has. Without, it uses the device's own paths and congestion control.
struct QpProfiles {
  std::optional<ProfileId> ev{};  ///< EV profile
  std::optional<ProfileId> cc{};  ///< CC profile

  /// Equal in both.
  friend bool operator==(const QpProfiles&, const QpProfiles&) = default;
};

/// How many profiles and EVs a device has room for (mrc-1.0 §7.5, mrc_ctl_device_attr).
struct ProfileLimits {
  std::uint32_t max_format_profiles = 256;   ///< that are not in INIT
  std::uint32_t max_ev_profiles = 256;       ///< that are not in INIT
  std::uint32_t max_cc_profiles = 256;       ///< that are not in INIT
  std::uint32_t max_evs = 65'536;            ///< over all profiles
  std::uint32_t free_evs = 65'536;           ///< of these, not in use
  std::uint32_t max_evs_per_profile = 4096;  ///< size of an array
  std::uint32_t ev_count_align = 1;          ///< sizes of arrays are multiples of this
  path::EvFormats formats{};                 ///< EVs that the planes can send
};

class Device;
namespace detail {
class EvEventQueue;
}  // namespace detail

/// A stream of EV events (mrc-1.0 §3.7): paths that became ASSUMED_BAD, or GOOD again, as the event
/// masks of their EV profiles ask; queue pairs without one report both. Copies refer to the same
/// stream. Any thread.
class MRC_API EvEventStream {
 public:
  EvEventStream() = default;
  /// Readable while there are events; for poll(), not for reading.
  [[nodiscard]] int fd() const noexcept;
  /// Takes the oldest events, and returns how many. When the stream is full, events are dropped,
  /// and the next one says how many were: EvEvent::drop_count.
  std::size_t poll(std::span<EvEvent> out) noexcept;
  /// Adds an event, of another process's device, say; if the stream is full, as above.
  void push(const EvEvent& event) noexcept;

 private:
  friend class Device;
  explicit EvEventStream(std::shared_ptr<detail::EvEventQueue> events);

  std::shared_ptr<detail::EvEventQueue> events_;
};

/// Paths that an administrator takes out of use: all of a plane; those with that EV, towards every
/// peer; or those over a part of it, as in `deny` of a fabric description (docs/fabric.md).
struct DeniedPaths {
  Plane plane = 0;             ///< always named
  std::optional<Ev> ev{};      ///< stands alone
  std::optional<unsigned> t0;  ///< with t1: the link between the two; alone: the switch
  std::optional<unsigned> t1;  ///< alone: the switch
  std::string host{};          ///< alone, or with its t0: name of a host, its port in this plane

  /// Equal in every field.
  friend bool operator==(const DeniedPaths&, const DeniedPaths&) = default;
};

}  // namespace mrc::inline v0_1
