// SPDX-License-Identifier: Apache-2.0
// ProfileRegistry: EV profiles.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "mrc/core/random.hpp"
#include "mrc/host/profile_registry.hpp"
#include "mrc/host/profile_registry.inl"
#include "mrc/path/event_ring.hpp"
#include "mrc/path/profile.hpp"

namespace mrc::inline v0_1::detail {

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

}  // namespace mrc::inline v0_1::detail
