// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/profiles.hpp"

namespace mrc::inline v0_1::detail {

ProfileRegistry::EvChanged Profiles::change_evs(ProfileId id, const EvProfileChange& change) {
  const std::lock_guard lock(mutex_);
  if (!own_->has_evs(id) && host_->evs(id).queue_pairs > 0)
    throw Error(Errc::in_use, "EV profile " + std::to_string(id) +
                                  ": queue pairs use the host's profile of this number");
  return own_->change_evs(id, change);
}

void Profiles::change_cc(ProfileId id, const CcProfileChange& change) {
  const std::lock_guard lock(mutex_);
  if (!own_->has_cc(id) && host_->cc(id).queue_pairs > 0)
    throw Error(Errc::in_use, "CC profile " + std::to_string(id) +
                                  ": queue pairs use the host's profile of this number");
  own_->change_cc(id, change);
}

std::vector<std::string> Profiles::follow(const HostState& host) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines, not_followed;
  if (followed_ == host.serial) return lines;
  if (set_ == host.profiles || (set_ && *set_ == *host.profiles)) {
    followed_ = host.serial;
    return lines;
  }
  host_->follow(*host.profiles, [&](const ProfileRegistry::Failure& failure) {
    lines.push_back(std::string("of the profiles for this host, this device can't have ") +
                    words_of(failure.error));
    if (failure.in_use) not_followed.emplace_back(words_of(failure.error));
  });
  followed_ = host.serial;
  set_ = host.profiles;
  not_followed_ = std::move(not_followed);
  for (const auto& [id, evs] : set_->evs)
    if (own_->has_evs(id))
      lines.push_back("EV profile " + std::to_string(id) +
                      ": the program's own counts, not that of the host");
  for (const auto& [id, cc] : set_->ccs)
    if (own_->has_cc(id))
      lines.push_back("CC profile " + std::to_string(id) +
                      ": the program's own counts, not that of the host");
  return lines;
}

std::vector<std::string> Profiles::not_followed() {
  const std::lock_guard lock(mutex_);
  return not_followed_;
}

unsigned Profiles::check(const ProfileSet& set, bool evs_are_own) {
  using Kind = ProfileRegistry::Failure::Kind;
  const std::lock_guard lock(mutex_);
  const ProfileSet none;
  const ProfileSet& now = set_ ? *set_ : none;
  const auto same = [](const auto& a, const auto& b, ProfileId id) {
    const auto one = a.find(id), other = b.find(id);
    return one != a.end() && other != b.end() ? one->second == other->second
                                              : one == a.end() && other == b.end();
  };
  const auto unchanged = [&](Kind kind, ProfileId id) {
    if (kind == Kind::format) return same(now.formats, set.formats, id);
    if (kind == Kind::cc) return same(now.ccs, set.ccs, id);
    const auto evs = set.evs.find(id);
    const bool format = evs == set.evs.end() || !evs->second.format ||
                        same(now.formats, set.formats, *evs->second.format);
    return format && same(now.evs, set.evs, id);
  };
  ProfileRegistry then = *host_;
  unsigned without = 0;
  then.follow(set, [&](const ProfileRegistry::Failure& failure) {
    const bool others = evs_are_own && !failure.in_use && failure.kind == Kind::evs &&
                        failure.error.code() == make_error_code(Errc::unsupported);
    if (!others && !unchanged(failure.kind, failure.id)) throw failure.error;
    ++without;
  });
  return without;
}

// ------------------------------------------------------------------------------- queue pairs

void Profiles::acquire(const QpProfiles& profiles) {
  const std::lock_guard lock(mutex_);
  const QpProfiles evs{profiles.ev, {}}, cc{{}, profiles.cc};
  if (profiles.ev) of_evs(*profiles.ev).acquire(evs);
  if (!profiles.cc) return;
  try {
    of_cc(*profiles.cc).acquire(cc);
  } catch (...) {
    if (profiles.ev) of_evs(*profiles.ev).release(evs);
    throw;
  }
}

void Profiles::release(const QpProfiles& profiles) noexcept {
  const std::lock_guard lock(mutex_);
  if (profiles.ev) of_evs(*profiles.ev).release({profiles.ev, {}});
  if (profiles.cc) of_cc(*profiles.cc).release({{}, profiles.cc});
}

EvTablePtr Profiles::table(ProfileId id) noexcept {
  const std::lock_guard lock(mutex_);
  return of_evs(id).table(id);
}

cc::Options Profiles::cc_options(ProfileId id) {
  const std::lock_guard lock(mutex_);
  return of_cc(id).cc_options(id);
}

/// Throws the error of a profile.
[[noreturn]] inline void bad_profile(const char* kind, ProfileId id, Errc code,
                                     const std::string& what) {
  throw Error(code, std::string(kind) + " profile " + std::to_string(id) + ": " + what);
}

/// The name of a state, as in the API.
[[nodiscard]] const char* to_string(ProfileState state) noexcept {
  constexpr const char* kNames[] = {"INIT", "OFFLINE", "ONLINE"};
  return state <= ProfileState::online ? kNames[static_cast<int>(state)] : "no state";
}

/// Throws unless profiles can go from `from` to `to` in one step.
void require_step(const char* kind, ProfileId id, ProfileState from, ProfileState to) {
  using enum ProfileState;
  const bool allowed = (from == init && to == offline) || (from == offline && to != offline) ||
                       (from == online && to == offline);
  if (!allowed || to > online)
    bad_profile(kind, id, Errc::invalid_argument,
                std::string("it can't go from ") + to_string(from) + " to " + to_string(to));
}

/// Throws unless `ok`, as something is missing on the way to a state.
void require_set(const char* kind, ProfileId id, bool ok, const std::string& what) {
  if (!ok) bad_profile(kind, id, Errc::invalid_argument, what);
}

/// A format profile that has mode and fields. SRv6 needs an SRH for more than 128 bits.
[[nodiscard]] path::EvFormatProfile packed(const ProfileSet::Format& profile) {
  path::EvFormatProfile format{*profile.mode, false, *profile.fields};
  unsigned width = 0;
  for (const path::FormatField& field : format.fields) width += field.width;
  format.srh = format.mode == path::EvMode::srv6 && width > 128;
  return format;
}

/// The entry of a map, or a fresh one outside of it.
template <class T>
[[nodiscard]] T copy_of(const std::map<ProfileId, T>& map, ProfileId id) {
  const auto at = map.find(id);
  return at == map.end() ? T{} : at->second;
}

/// Stores a profile, or removes one that has returned to INIT. Throws if there is no room.
template <class T>
void store(const char* kind, std::map<ProfileId, T>& map, ProfileId id, T profile,
           std::size_t most) {
  if (profile.state == ProfileState::init) {
    map.erase(id);
    return;
  }
  if (map.size() >= most && !map.contains(id))
    bad_profile(kind, id, Errc::no_resources, "there are " + std::to_string(most) + " already");
  map.insert_or_assign(id, std::move(profile));
}

/// What a format profile must have to be ONLINE.
void require_format(ProfileId id, const ProfileSet::Format& profile) {
  constexpr const char* kKind = "format";
  require_set(kKind, id, profile.fields.has_value(), "its fields are not set");
  const path::EvFormatProfile format = packed(profile);
  unsigned width = 0;
  for (const path::FormatField& field : format.fields) width += field.width;
  if (const Errc e = path::check(format); e != Errc::ok)
    bad_profile(kKind, id, e,
                "its fields have " + std::to_string(width) + " bits, its mode allows " +
                    std::to_string(path::ev_max_width(format.mode, format.srh)));
}

void ProfileRegistry::change_format(ProfileId id, const FormatProfileChange& change) {
  constexpr const char* kKind = "format";
  Format next = copy_of(formats_, id);
  if (next.state == ProfileState::online && (change.mode || change.fields))
    bad_profile(kKind, id, Errc::invalid_state, "it is ONLINE, take it OFFLINE first");
  if (change.mode) next.mode = change.mode;
  if (change.fields) next.fields = change.fields;
  if (!change.state && next.state == ProfileState::init)
    bad_profile(kKind, id, Errc::invalid_argument,
                "it is in INIT: set it OFFLINE in the same call");
  if (change.state) {
    require_step(kKind, id, next.state, *change.state);
    const bool used = std::any_of(evs_.begin(), evs_.end(), [&](const auto& entry) {
      const Evs& evs = entry.second;
      return evs.format == id &&
             (*change.state == ProfileState::init || evs.state == ProfileState::online);
    });
    if (used && *change.state != ProfileState::online)
      bad_profile(kKind, id, Errc::in_use, "an EV profile uses it");
    require_set(kKind, id, next.mode.has_value(), "its mode is not set");
    if (*change.state == ProfileState::online) require_format(id, next);
    next.state = *change.state;
  }
  store(kKind, formats_, id, std::move(next), limits_.max_format_profiles);
}

FormatProfileInfo ProfileRegistry::format(ProfileId id) const {
  const Format format = copy_of(formats_, id);
  return {format.state, format.mode, format.fields.value_or(std::vector<path::FormatField>())};
}

// ---------------------------------------------------------------------------------------- CC

/// The device's options with those of a profile in their place.
[[nodiscard]] cc::Options with_profile(cc::Options options, cc::Algorithm algorithm,
                                       const CcConfig& c) {
  options.algorithm = algorithm;
  cc::NsccOptions& n = options.nscc;
  const auto take = [](auto& option, const auto& value) {
    if (value) option = *value;
  };
  take(n.disable_qa, c.disable_qa);
  take(n.adjust_bytes, c.adjust_bytes_threshold);
  take(n.adjust_period, c.adjust_period_threshold);
  take(n.base_rtt, c.base_rtt);
  if (c.base_rtt) n.base_rtt_floor = std::min(n.base_rtt_floor, *c.base_rtt);
  take(n.eta, c.eta);
  take(n.fi, c.fi);
  take(n.fi_scale, c.fi_scale);
  take(n.gamma, c.gamma);
  take(n.max_md_jump, c.max_md_jump);
  take(n.max_cwnd, c.max_cwnd);
  take(options.fixed_window, c.max_cwnd);
  take(n.qa_gate, c.qa_gate);
  take(n.qa_threshold, c.qa_threshold);
  take(n.target_delay, c.target_delay);
  return options;
}

void ProfileRegistry::change_cc(ProfileId id, const CcProfileChange& change) {
  constexpr const char* kKind = "CC";
  Cc next = copy_of(ccs_, id);
  if (next.state == ProfileState::online && (change.algorithm || change.config))
    bad_profile(kKind, id, Errc::invalid_state, "it is ONLINE, take it OFFLINE first");
  if (change.algorithm) next.algorithm = change.algorithm;
  if (change.config) next.config = change.config;
  if (!change.state && next.state == ProfileState::init)
    bad_profile(kKind, id, Errc::invalid_argument,
                "it is in INIT: set it OFFLINE in the same call");
  if (next.algorithm && next.config)
    (void)cc::Controller(
        with_profile(around_.cc, *next.algorithm, *next.config));  // names what is wrong
  if (change.state) {
    require_step(kKind, id, next.state, *change.state);
    if (next.users > 0) bad_profile(kKind, id, Errc::in_use, "queue pairs use it");
    require_set(kKind, id, next.algorithm.has_value(), "its algorithm is not set");
    if (*change.state == ProfileState::online)
      require_set(kKind, id, next.config.has_value(), "its configuration is not set");
    next.state = *change.state;
  }
  store(kKind, ccs_, id, next, limits_.max_cc_profiles);
}

CcProfileInfo ProfileRegistry::cc(ProfileId id) const {
  const Cc cc = copy_of(ccs_, id);
  return {cc.state, cc.algorithm, cc.config, cc.users};
}

cc::Options ProfileRegistry::cc_options(ProfileId id) const {
  const Cc cc = copy_of(ccs_, id);
  return cc.state == ProfileState::online ? with_profile(around_.cc, *cc.algorithm, *cc.config)
                                          : around_.cc;
}

// ------------------------------------------------------------------------------------- users

void ProfileRegistry::acquire(const QpProfiles& profiles) {
  const auto usable = [](const char* kind, auto& map, const std::optional<ProfileId>& id) {
    if (!id) return map.end();
    const auto at = map.find(*id);
    if (at == map.end() || at->second.state != ProfileState::online)
      bad_profile(kind, *id, at == map.end() ? Errc::not_found : Errc::invalid_state,
                  "it is not ONLINE, so queue pairs can't use it");
    return at;
  };
  const auto evs = usable("EV", evs_, profiles.ev);
  const auto cc = usable("CC", ccs_, profiles.cc);
  if (evs != evs_.end()) ++evs->second.users;
  if (cc != ccs_.end()) ++cc->second.users;
}

void ProfileRegistry::release(const QpProfiles& profiles) noexcept {
  if (profiles.ev) --evs_.at(*profiles.ev).users;
  if (profiles.cc) --ccs_.at(*profiles.cc).users;
}

EvTablePtr ProfileRegistry::table(ProfileId id) const noexcept {
  const auto at = evs_.find(id);
  return at == evs_.end() ? nullptr : at->second.table;
}

std::size_t ProfileRegistry::evs_in_use() const noexcept {
  std::size_t n = 0;
  for (const auto& [id, evs] : evs_) n += evs.entries.size();
  return n;
}

ProfileLimits ProfileRegistry::limits() const noexcept {
  ProfileLimits limits = limits_;
  limits.free_evs = limits.max_evs - static_cast<std::uint32_t>(evs_in_use());
  limits.formats = around_.formats;
  return limits;
}

// ProfileRegistry: EV profiles.

[[noreturn]] inline void bad_evs(ProfileId id, Errc code, const std::string& what) {
  bad_profile("EV", id, code, what);
}

/// EVs of planes, or of ports, with a number each. One type for all uses: each more is another
/// tree to compile.
using EvNumbers = std::map<std::pair<path::EvValue, std::uint8_t>, std::uint64_t>;

[[nodiscard]] inline bool populated(const ProfileEv& ev) noexcept {
  return ev != ProfileEv{};
}

/// `count` different values that fields in their ranges make, in shuffled order. Fewer if there are
/// no more.
[[nodiscard]] inline std::vector<path::EvValue> generate(std::span<const path::EvField> fields,
                                                         std::size_t count, std::uint64_t seed) {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 62;
  std::uint64_t all = 1;
  for (const path::EvField& f : fields) {
    const std::uint64_t more = f.max_val - f.min_val;  // beside one
    all = more >= kMany / all ? kMany : all * (more + 1);
  }
  std::vector<path::EvValue> values;
  if (all < kMany) {
    path::SparseShuffle order(all, seed);
    while (values.size() < count && !order.empty())
      values.push_back(path::nth_value(order.next(), fields).value());
    return values;
  }
  Random random(seed);
  EvNumbers seen;
  std::vector<std::uint64_t> picked(fields.size());
  while (values.size() < count) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::uint64_t range = fields[i].max_val - fields[i].min_val + 1;  // 0: all 2^64
      picked[i] = fields[i].min_val + (range == 0 ? random.next() : random.next() % range);
    }
    const path::EvValue value = path::pack(picked, fields).value();
    if (seen.try_emplace({value, std::uint8_t{0}}).second) values.push_back(value);
  }
  return values;
}

ProfileRegistry::EvChanged ProfileRegistry::change_evs(ProfileId id,
                                                       const EvProfileChange& change) {
  if (change.fields && !change.operations.empty())
    bad_evs(id, Errc::invalid_argument, "fields and operations in one call");
  Evs next = copy_of(evs_, id);
  if (!change.state && next.state == ProfileState::init)
    bad_evs(id, Errc::invalid_argument, "it is in INIT: set it OFFLINE in the same call");
  set_attributes(id, next, change);
  EvChanged result;
  for (std::size_t i = 0; i < change.operations.size() && !result.error; ++i) try {
      operate(next, change.operations[i]);
    } catch (const Error& e) {
      result.error = std::make_exception_ptr(
          Error(e.code(), "EV profile " + std::to_string(id) + ", operation " + std::to_string(i) +
                              ": " + words_of(e)));
    }
  const bool moved = !result.error && change.state && to_state(id, next, *change.state);
  if (next.state == ProfileState::online) {
    const EvTablePtr before = next.table;
    next.table = make_table(id, next);
    if (before) result.update = changes(*before, next.table);
    result.update.table = next.table;
  } else if (moved) {
    next.table = nullptr;
  }
  if (next.state == ProfileState::init && !moved) {  // the first operation has failed, say
    if (result.error) std::rethrow_exception(result.error);
    return result;
  }
  store("EV", evs_, id, std::move(next), limits_.max_ev_profiles);
  return result;
}

/// Applies the attributes that the state allows to be changed. Throws for others.
void ProfileRegistry::set_attributes(ProfileId id, Evs& evs, const EvProfileChange& change) const {
  if (evs.state == ProfileState::online &&
      (change.mode || change.format || change.ev_count || change.min_active))
    bad_evs(id, Errc::invalid_state,
            "while it is ONLINE only event mask, fields and EVs can be changed");
  if (change.mode) evs.mode = change.mode;
  if (change.format) evs.format = change.format;
  if (change.min_active) evs.min_active = change.min_active;
  if (change.event_mask) {
    if ((*change.event_mask & ~std::uint32_t{path::kEventGood | path::kEventAssumedBad}) != 0)
      bad_evs(id, Errc::invalid_argument,
              "its event mask is " + std::to_string(*change.event_mask) + ", allowed are 0 to 3");
    evs.event_mask = change.event_mask;
  }
  if (change.fields) evs.fields = *change.fields;
  if (change.ev_count) {
    if (*change.ev_count == 0 || *change.ev_count > limits_.max_evs_per_profile)
      bad_evs(id, *change.ev_count == 0 ? Errc::invalid_argument : Errc::no_resources,
              "its number of EVs is " + std::to_string(*change.ev_count) + ", allowed are 1 to " +
                  std::to_string(limits_.max_evs_per_profile));
    evs.ev_count = change.ev_count;
  }
  if (change.mode || change.ev_count || change.fields) fill(id, evs);
  if (change.fields && evs.state == ProfileState::online) check_entries(id, evs);
}

/// Throws if the ports can't send one of the EVs.
void ProfileRegistry::check_entries(ProfileId id, const Evs& evs) const {
  if (evs.mode == EvProfileMode::automatic) return;
  const path::EvFormatProfile format = format_of(evs);
  try {
    for (const Entry& entry : evs.entries)
      around_.check_ev(format.mode, expanded(evs, format, entry.ev));
  } catch (const Error& error) {
    throw Error(error.code(), "EV profile " + std::to_string(id) + ": " + words_of(error));
  }
}

/// Gives the array its size and, in GENERATED mode, its EVs.
void ProfileRegistry::fill(ProfileId id, Evs& evs) const {
  if (!evs.mode || !evs.ev_count) return;
  const std::size_t size = evs.mode == EvProfileMode::automatic ? 0 : *evs.ev_count;
  const std::size_t others = evs_in_use() - (evs_.contains(id) ? evs_.at(id).entries.size() : 0);
  if (others + size > limits_.max_evs)
    bad_evs(id, Errc::no_resources,
            "the EVs of all profiles are more than " + std::to_string(limits_.max_evs));
  if (evs.mode != EvProfileMode::generated) return evs.entries.resize(size);
  if (evs.fields.empty()) return evs.entries.assign(size, Entry{});
  for (const path::EvField& field : evs.fields)
    if (!path::consistent(field))
      bad_evs(id, Errc::invalid_argument, "a field's values do not fit its mask or width");
  const auto values = generate(evs.fields, size, around_.seed ^ id);
  if (values.size() < size)
    bad_evs(id, Errc::no_resources,
            "its fields make only " + std::to_string(values.size()) + " different EVs, not " +
                std::to_string(size));
  evs.entries.assign(size, Entry{});
  for (std::size_t i = 0; i < size; ++i)
    evs.entries[i].ev = {values[i], static_cast<std::uint8_t>(1 + i % around_.planes)};
}

/// Throws Error without the profile's number, which the caller adds.
void ProfileRegistry::operate(Evs& evs, const EvOperation& op) const {
  if (evs.mode == EvProfileMode::automatic)
    throw Error(Errc::unsupported, "the EVs of an AUTO profile are the device's");
  if (op.state != EvState::good && op.state != EvState::denied)
    throw Error(Errc::invalid_argument, "a state can be set to GOOD or DENIED only");
  const bool replaces = op.kind == EvOperation::Kind::replace;
  if (replaces) {
    if (op.replacement.port > around_.planes ||
        (populated(op.replacement) && op.replacement.port == 0))
      throw Error(Errc::invalid_argument, "port " + std::to_string(op.replacement.port) +
                                              " does not exist, ports are 1 to " +
                                              std::to_string(around_.planes));
    if (evs.state == ProfileState::online) {
      if (!populated(op.replacement))
        throw Error(Errc::invalid_argument, "an EV of a profile that is ONLINE must have a value");
      const path::EvFormatProfile format = format_of(evs);
      around_.check_ev(format.mode, expanded(evs, format, op.replacement));
    }
  }
  bool found = false;
  for (std::size_t i = 0; i < evs.entries.size() && (!found || op.all_copies); ++i) {
    Entry& entry = evs.entries[i];
    if (entry.ev != op.ev) continue;
    found = true;
    entry.denied = op.state == EvState::denied;
    ++entry.writes;
    if (replaces) entry.ev = op.replacement;
  }
  if (!found) throw Error(Errc::not_found, "no entry has this EV");
}

/// Throws unless the profile may go there. True if it moved.
bool ProfileRegistry::to_state(ProfileId id, Evs& evs, ProfileState state) const {
  require_step("EV", id, evs.state, state);
  if (evs.users > 0) bad_evs(id, Errc::in_use, "queue pairs use it");
  require_complete(id, evs, state);
  evs.state = state;
  return true;
}

/// What a profile must have to be in that state.
void ProfileRegistry::require_complete(ProfileId id, const Evs& evs, ProfileState state) const {
  const bool automatic = evs.mode == EvProfileMode::automatic;
  if (state != ProfileState::init) {
    require_set("EV", id, evs.mode.has_value(), "its mode is not set");
    require_set("EV", id, evs.ev_count.has_value(), "its number of EVs is not set");
    require_set("EV", id, automatic || evs.format, "its format profile is not set");
    require_set("EV", id, evs.mode != EvProfileMode::generated || !evs.fields.empty(),
                "its fields are not set");
  }
  if (state == ProfileState::offline && evs.format && !formats_.contains(*evs.format))
    bad_evs(id, Errc::not_found, "there is no format profile " + std::to_string(*evs.format));
  if (state == ProfileState::online) {
    require_set("EV", id, evs.min_active.has_value(), "its smallest number of EVs is not set");
    require_set("EV", id, *evs.min_active <= *evs.ev_count,
                "its smallest number of EVs is " + std::to_string(*evs.min_active) + " of " +
                    std::to_string(*evs.ev_count));
    require_set("EV", id, evs.event_mask.has_value(), "its event mask is not set");
    const auto empty = std::find_if(evs.entries.begin(), evs.entries.end(),
                                    [](const Entry& entry) { return !populated(entry.ev); });
    require_set("EV", id, empty == evs.entries.end(),
                "entry " + std::to_string(empty - evs.entries.begin()) + " has no EV yet");
    check_entries(id, evs);
  }
}

/// The format profile, which must be ONLINE.
path::EvFormatProfile ProfileRegistry::format_of(const Evs& evs) const {
  const Format format = copy_of(formats_, *evs.format);
  if (format.state != ProfileState::online)
    bad_profile("format", *evs.format, Errc::invalid_state,
                "it is not ONLINE, so EV profiles can't use it");
  return packed(format);
}

/// Expands an EV; its name is not final. Without fields, the value is that of the packet fields.
ExpandedEv ProfileRegistry::expanded(const Evs& evs, const path::EvFormatProfile& format,
                                     const ProfileEv& ev) const {
  ExpandedEv out;
  if (evs.fields.empty()) {
    unsigned width = 0;
    for (const path::FormatField& field : format.fields) width += field.width;
    for (; width < path::kEvBits; ++width)
      if (path::get_bits(ev.value, width, 1) != 0)
        throw Error(Errc::invalid_argument, "an EV has bits that its format does not have");
    out.fields = ev.value;
  } else {
    const Result<path::EvValue> fields = path::expand(ev.value, evs.fields, format);
    if (!fields) throw Error(fields.error(), "the EV or the fields do not fit the format");
    out.fields = fields.value();
  }
  out.name = path::feedback_ev(format.mode, ev.value, out.fields);
  out.plane = static_cast<Plane>(ev.port - 1);
  return out;
}

/// SRv6 EVs may be longer than the 32 bits by which SACKs name them: those that would have the name
/// of another EV get the next one that is free. Entries whose EV stays keep their names.
EvTablePtr ProfileRegistry::make_table(ProfileId id, const Evs& evs) const {
  auto table = std::make_shared<EvTable>();
  table->profile = id;
  table->mode = *evs.mode;
  table->ev_count = *evs.ev_count;
  table->min_active = static_cast<std::uint16_t>(*evs.min_active);
  table->event_mask = static_cast<std::uint8_t>(*evs.event_mask);
  if (evs.mode == EvProfileMode::automatic) return table;
  const path::EvFormatProfile format = format_of(evs);
  table->format = format.mode;
  const std::size_t size = evs.entries.size();
  EvNumbers names;
  std::unordered_map<std::uint64_t, std::uint64_t> taken;
  std::vector<std::size_t> unnamed;
  for (std::size_t i = 0; i < size; ++i) {
    ExpandedEv ev = expanded(evs, format, evs.entries[i].ev);
    const EvTable::Entry* before = evs.table ? &evs.table->entries[i] : nullptr;
    if (before && before->expanded.fields == ev.fields && before->expanded.plane == ev.plane) {
      ev.name = before->expanded.name;
      names.try_emplace({ev.fields, ev.plane}, value(ev.name));
      ++taken[value(ev.name)];
    } else {
      unnamed.push_back(i);
    }
    table->entries.push_back({evs.entries[i].ev, ev, evs.entries[i].denied, evs.entries[i].writes});
  }
  for (const std::size_t i : unnamed) {
    ExpandedEv& ev = table->entries[i].expanded;
    const auto [known, fresh] = names.try_emplace({ev.fields, ev.plane}, value(ev.name));
    while (fresh && format.mode == path::EvMode::srv6 && taken.contains(known->second))
      known->second = static_cast<std::uint32_t>(known->second + 1);
    ev.name = Ev{static_cast<std::uint32_t>(known->second)};
    ++taken[value(ev.name)];
  }
  return table;
}

EvProfileInfo ProfileRegistry::evs(ProfileId id) const {
  const Evs evs = copy_of(evs_, id);
  EvProfileInfo info{evs.state,      evs.mode,       evs.format, evs.ev_count.value_or(0),
                     evs.min_active, evs.event_mask, evs.fields, {},
                     evs.users};
  for (const Entry& entry : evs.entries)
    info.entries.push_back({entry.ev, entry.denied ? EvState::denied : EvState::good, 0, 0});
  return info;
}

// ProfileRegistry: profiles that hold for all devices of a host.

/// Throws unless profiles of a set can be in that state: in INIT they are not in the set.
inline void require_state(const char* kind, ProfileId id, ProfileState state) {
  if (id == 0)
    bad_profile(kind, id, Errc::invalid_argument, "0 is the device's own, which does not change");
  if (state != ProfileState::offline && state != ProfileState::online)
    bad_profile(kind, id, Errc::invalid_argument, "its state is neither OFFLINE nor ONLINE");
}

ProfileSet ProfileRegistry::set() const {
  ProfileSet set;
  set.formats = formats_;
  for (const auto& [id, evs] : evs_) set.evs.emplace(id, evs);
  for (const auto& [id, cc] : ccs_) set.ccs.emplace(id, cc);
  return set;
}

void ProfileRegistry::put_format(ProfileId id, const Format& wanted) {
  require_state("format", id, wanted.state);
  require_set("format", id, wanted.mode.has_value(), "its mode is not set");
  if (wanted.state == ProfileState::online) require_format(id, wanted);
  store("format", formats_, id, wanted, limits_.max_format_profiles);
}

/// `before`: what it is now, if it exists. Its table stays if nothing changes.
ProfileRegistry::Evs ProfileRegistry::followed(ProfileId id, const ProfileSet::Evs& wanted,
                                               const Evs* before, bool same_format) const {
  require_state("EV", id, wanted.state);
  if (before != nullptr && same_format && wanted == *before) return *before;
  if (before != nullptr && before->users > 0 &&
      (wanted.state != ProfileState::online || !same_format || wanted.mode != before->mode ||
       wanted.format != before->format || wanted.ev_count != before->ev_count ||
       wanted.min_active != before->min_active))
    bad_evs(id, Errc::in_use, "queue pairs use it");
  Evs next{wanted, nullptr, before != nullptr ? before->users : 0};
  // The array has its size, and GENERATED ones their EVs, unless the set has them.
  EvProfileChange attributes;
  attributes.ev_count = wanted.ev_count;
  attributes.event_mask = wanted.event_mask;
  next.state = ProfileState::offline;
  const std::vector<Entry> entries = std::exchange(next.entries, {});
  set_attributes(id, next, attributes);
  if (!entries.empty()) {
    if (entries.size() != next.entries.size())
      bad_evs(id, Errc::invalid_argument,
              "it has " + std::to_string(entries.size()) + " EVs, not as many as it says");
    next.entries = entries;
    for (const Entry& entry : entries)
      if (entry.ev.port > around_.planes || (populated(entry.ev) && entry.ev.port == 0))
        bad_evs(id, Errc::invalid_argument,
                "port " + std::to_string(entry.ev.port) + " does not exist, ports are 1 to " +
                    std::to_string(around_.planes));
  }
  require_complete(id, next, ProfileState::offline);
  if (wanted.state == ProfileState::online) {
    require_complete(id, next, ProfileState::online);
    if (before != nullptr && before->entries.size() == next.entries.size())
      next.table = before->table;  // entries that stay keep their names
    next.table = make_table(id, next);
  }
  next.state = wanted.state;
  return next;
}

ProfileRegistry::Cc ProfileRegistry::followed(ProfileId id, const ProfileSet::Cc& wanted,
                                              const Cc* before) const {
  require_state("CC", id, wanted.state);
  if (before != nullptr && wanted == *before) return *before;
  if (before != nullptr && before->users > 0)
    bad_profile("CC", id, Errc::in_use, "queue pairs use it");
  require_set("CC", id, wanted.algorithm.has_value(), "its algorithm is not set");
  if (wanted.state == ProfileState::online)
    require_set("CC", id, wanted.config.has_value(), "its configuration is not set");
  if (wanted.config)
    (void)cc::Controller(with_profile(around_.cc, *wanted.algorithm, *wanted.config));
  return {wanted, 0};
}

/// A profile that stays as it is, but for the states that the set writes to its EVs.
ProfileRegistry::Evs ProfileRegistry::kept(ProfileId id, const Evs& evs,
                                           const ProfileSet& set) const {
  const auto wanted = set.evs.find(id);
  if (wanted == set.evs.end()) return evs;
  const std::vector<Entry>& entries = wanted->second.entries;
  EvNumbers written;  // places in `entries`
  for (std::size_t i = 0; i < entries.size(); ++i)
    written[{entries[i].ev.value, entries[i].ev.port}] = i;
  Evs next = evs;
  bool changed = false;
  for (Entry& entry : next.entries) {
    const auto at = written.find({entry.ev.value, entry.ev.port});
    if (at == written.end() || entries[at->second] == entry) continue;
    entry = entries[at->second];
    changed = true;
  }
  if (changed && next.state == ProfileState::online) next.table = make_table(id, next);
  return next;
}

void ProfileRegistry::follow(const ProfileSet& set,
                             const std::function<void(const Failure&)>& failed) {
  using Kind = Failure::Kind;
  ProfileRegistry next(around_);
  const auto keep_format = [&](ProfileId id) {
    if (const auto at = formats_.find(id); at != formats_.end()) next.formats_[id] = at->second;
  };
  const auto keep_evs = [&](ProfileId id, const Evs& evs) {
    if (evs.format) keep_format(*evs.format);
    next.evs_.insert_or_assign(id, kept(id, evs, set));
  };
  const auto in_use = [](const char* kind, ProfileId id) {
    return Error(Errc::in_use,
                 std::string(kind) + " profile " + std::to_string(id) + ": queue pairs use it");
  };

  for (const auto& [id, wanted] : set.formats) try {
      next.put_format(id, wanted);
    } catch (const Error& error) {
      failed({Kind::format, id, false, error});
      keep_format(id);
    }
  for (const auto& [id, wanted] : set.evs) {
    const auto at = evs_.find(id);
    const Evs* before = at == evs_.end() ? nullptr : &at->second;
    const auto format = [&wanted = wanted](const ProfileRegistry& of) {
      return wanted.format ? copy_of(of.formats_, *wanted.format) : Format{};
    };
    try {
      store("EV", next.evs_, id, next.followed(id, wanted, before, format(*this) == format(next)),
            limits_.max_ev_profiles);
    } catch (const Error& error) {
      failed({Kind::evs, id, before != nullptr && before->users > 0, error});
      if (before != nullptr) keep_evs(id, *before);
    }
  }
  for (const auto& [id, wanted] : set.ccs) {
    const auto at = ccs_.find(id);
    const Cc* before = at == ccs_.end() ? nullptr : &at->second;
    try {
      store("CC", next.ccs_, id, next.followed(id, wanted, before), limits_.max_cc_profiles);
    } catch (const Error& error) {
      failed({Kind::cc, id, before != nullptr && before->users > 0, error});
      if (before != nullptr) next.ccs_.insert_or_assign(id, *before);
    }
  }
  for (const auto& [id, evs] : evs_) {
    if (set.evs.contains(id) || evs.users == 0) continue;
    failed({Kind::evs, id, true, in_use("EV", id)});
    keep_evs(id, evs);
  }
  for (const auto& [id, cc] : ccs_) {
    if (set.ccs.contains(id) || cc.users == 0) continue;
    failed({Kind::cc, id, true, in_use("CC", id)});
    next.ccs_.insert_or_assign(id, cc);
  }
  formats_ = std::move(next.formats_);
  evs_ = std::move(next.evs_);
  ccs_ = std::move(next.ccs_);
}

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1::path {
namespace detail {

[[noreturn]] inline void bad_profile(const std::string& field, std::uint64_t value,
                                     const std::string& rule, Errc code = Errc::invalid_argument) {
  throw Error(code, "EV profile: " + field + " is " + std::to_string(value) + ", " + rule);
}

bool is_denied(const EvProfile& p, Ev ev) {
  return std::find(p.denied.begin(), p.denied.end(), ev) != p.denied.end();
}

/// Checks the rules common to all modes, once the counts are known.
void check_size(const EvProfile& p, unsigned active, unsigned backup) {
  if (active == 0) bad_profile("active", 0, "needed is at least one path");
  if (active > kMaxPaths || backup > kMaxPaths - active)
    bad_profile("active + backup", std::uint64_t{active} + backup,
                "the most is " + std::to_string(kMaxPaths), Errc::no_resources);
  if (p.min_active > active)
    bad_profile("min_active", p.min_active, "but active is " + std::to_string(active));
}

/// The same for modes in which every plane gets as many paths as any other.
void check_counts(const EvProfile& p, unsigned active, unsigned backup) {
  check_size(p, active, backup);
  const std::string share = "must be a multiple of planes (" + std::to_string(p.planes) + ")";
  if (active % p.planes != 0) bad_profile("active", active, share);
  if (backup % p.planes != 0) bad_profile("backup", backup, share);
}

EvPlan plan_with(const EvProfile& p, unsigned active) {
  EvPlan plan;
  plan.options.active = static_cast<std::uint16_t>(active);
  plan.options.min_active = p.min_active;
  plan.options.event_mask = p.event_mask;
  return plan;
}

EvPlan plan_explicit(const EvProfile& p) {
  std::vector<std::vector<PathSpec>> by_plane(p.planes);
  for (const PathSpec& spec : p.paths) {
    if (spec.plane >= p.planes)
      bad_profile("paths[].plane", spec.plane, "must be below " + std::to_string(p.planes));
    by_plane[spec.plane].push_back(spec);
  }
  const auto total = static_cast<unsigned>(p.paths.size());
  if (p.active > total || p.backup > total - p.active ||
      (p.active != 0 && p.backup != 0 && p.active + p.backup != total))
    bad_profile("active + backup", std::uint64_t{p.active} + p.backup,
                "but the list has " + std::to_string(total) + " paths");
  const unsigned active = p.active != 0 ? p.active : total - p.backup;
  check_size(p, active, total - active);
  EvPlan plan = plan_with(p, active);
  for (std::size_t row = 0; plan.universe.size() < total; ++row)
    for (const std::vector<PathSpec>& plane : by_plane)
      if (row < plane.size()) plan.universe.push_back(plane[row]);
  for (std::size_t i = 0; i < total; ++i)
    if (is_denied(p, plan.universe[i].ev)) plan.denied.push_back(static_cast<PathIndex>(i));
  return plan;
}

EvPlan plan_generated(const EvProfile& p) {
  if (const Errc e = check(p.fields, p.format); e != Errc::ok)
    throw Error(e, "EV profile: fields do not fit the format");
  unsigned bits = 0;
  for (const EvField& f : p.fields) bits += ev_bits(f);
  if (bits > 32)
    bad_profile("number of mask bits", bits, "feedback can carry 32", Errc::no_resources);
  check_counts(p, p.active, p.backup);
  EvPlan plan = plan_with(p, p.active);
  const std::size_t total = p.active + p.backup;
  SparseShuffle order(count_values(p.fields), p.seed);
  while (plan.universe.size() < total) {
    if (order.empty())
      bad_profile("active + backup", total,
                  "but the fields' ranges make only " + std::to_string(plan.universe.size()) +
                      " EVs that are not denied",
                  Errc::no_resources);
    const EvValue compact = nth_value(order.next(), p.fields).value();
    const EvValue expanded = expand(compact, p.fields, p.format).value();
    const Ev ev = feedback_ev(p.format.mode, compact, expanded);
    if (is_denied(p, ev)) continue;
    const std::size_t i = plan.universe.size();
    plan.universe.push_back(
        {ev, static_cast<Plane>(i % p.planes), static_cast<std::uint16_t>(i / p.planes)});
    plan.values.push_back(expanded);
  }
  return plan;
}

EvPlan plan_auto(const EvProfile& p) {
  const unsigned share = (kAutoPaths + p.planes - 1) / p.planes;
  const unsigned active = p.active != 0 ? p.active : (share - share / 8) * p.planes;
  const unsigned backup = p.active != 0 || p.backup != 0 ? p.backup : share / 8 * p.planes;
  check_counts(p, active, backup);
  EvPlan plan = plan_with(p, active);
  SparseShuffle order(kAutoPorts, p.seed);
  while (plan.universe.size() < std::size_t{active} + backup) {
    if (order.empty())
      bad_profile("active + backup", std::uint64_t{active} + backup,
                  "but there are only " + std::to_string(plan.universe.size()) +
                      " source ports that are not denied",
                  Errc::no_resources);
    const Ev ev{kAutoFirstPort + static_cast<std::uint32_t>(order.next())};
    if (is_denied(p, ev)) continue;
    const std::size_t i = plan.universe.size();
    plan.universe.push_back(
        {ev, static_cast<Plane>(i % p.planes), static_cast<std::uint16_t>(i / p.planes)});
  }
  return plan;
}

}  // namespace detail

EvPlan make_plan(const EvProfile& profile) {
  if (profile.planes == 0 || profile.planes > kMaxPlanes)
    detail::bad_profile("planes", profile.planes, "allowed are 1 to " + std::to_string(kMaxPlanes));
  if ((profile.event_mask & ~(kEventGood | kEventAssumedBad)) != 0)
    detail::bad_profile("event_mask", profile.event_mask, "allowed are 0 to 3");
  switch (profile.mode) {
    case ProfileMode::explicit_:
      return detail::plan_explicit(profile);
    case ProfileMode::generated:
      return detail::plan_generated(profile);
    case ProfileMode::auto_:
      return detail::plan_auto(profile);
  }
  detail::bad_profile("mode", static_cast<std::uint64_t>(profile.mode), "no such mode");
}

PathSet make_path_set(const EvPlan& plan, std::uint64_t seed) {
  PathSet set(plan.universe, plan.options, seed);
  for (const PathIndex path : plan.denied) (void)set.set_health(path, Health::denied);
  return set;
}

}  // namespace mrc::inline v0_1::path
