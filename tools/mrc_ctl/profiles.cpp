// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "mrc/control/dumps.hpp"
#include "mrc/control/host_store.hpp"
#include "mrc/control/profiles.hpp"
#include "mrc/core/error.hpp"
#include "mrc/fabric/json.hpp"
#include "mrc_ctl/steer.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

using detail::ProfileSet;

/// The text of a file; "-" is standard input.
std::string text_of_file(const std::string& name) {
  constexpr std::size_t kMost = 32 << 20;
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(
      name == "-" ? stdin : std::fopen(name.c_str(), "r"), close);
  if (!file) throw_errno("cannot read " + name);
  std::string text;
  std::array<char, 65536> part;
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), file.get())) {
    text.append(part.data(), n);
    if (text.size() > kMost) throw Error(Errc::invalid_argument, name + " is no file of profiles");
  }
  if (std::ferror(file.get()) != 0) throw_errno("cannot read " + name);
  return text;
}

ProfileSet read_profiles(const std::string& name) {
  const std::string text = text_of_file(name);
  const Json json = object_of(text);
  if (json.empty()) {
    (void)json_file::File::parse(name, text);  // says in which line it is wrong
    if (!Json::accept(text) || Json::parse(text).size() > 0)
      throw Error(Errc::invalid_argument, name + ": it has comments, or is nested too deep");
  }
  try {
    return detail::profiles_from_json(json);
  } catch (const Error& error) {
    if (error.code() != Errc::invalid_argument) throw;
    throw Error(Errc::invalid_argument, name + ": " + mrc::detail::words_of(error));
  }
}

/// Checked as far as no device is needed, and with the EVs that GENERATED profiles leave out.
ProfileSet completed(const ProfileSet& wanted, const Found& found) {
  const bool generates = std::any_of(wanted.evs.begin(), wanted.evs.end(), [](const auto& one) {
    return one.second.mode == EvProfileMode::generated && one.second.entries.empty();
  });
  std::uint64_t planes = kMaxPlanes;
  for (const auto& device : found.devices)
    if (const std::uint64_t its = count_in(device->hello(), "planes"); generates && its > 0)
      planes = std::min(planes, its);
  if (generates && found.devices.empty())
    throw Error(Errc::not_found,
                "GENERATED profiles without a list evs are made for the planes of the devices of "
                "this host, and none is open");
  detail::ProfileSurroundings around;
  around.planes = static_cast<unsigned>(planes);
  around.check_ev = [](path::EvMode, const detail::ExpandedEv&) {};
  detail::ProfileRegistry registry(around);
  registry.follow(wanted, [](const auto& failure) { throw failure.error; });
  return registry.set();
}

/// What differs between two profiles, as their JSON has it, by field.
std::string changes_of(const Json& is, const Json& wanted) {
  std::vector<std::string> names;
  for (const Json* side : {&is, &wanted})
    for (const auto& [name, value] : side->items())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  std::string text;
  for (const std::string& name : names) {
    const Json before = is.value(name, Json()), after = wanted.value(name, Json());
    if (before == after) continue;
    const auto shown = [](const Json& value) {
      if (value.is_null()) return std::string("nothing");
      const std::string whole = value.dump();
      return whole.size() <= 60 ? whole : fmt::format("{} elements", value.size());
    };
    if (before.is_array() && after.is_array() && before.size() == after.size()) {
      std::size_t differ = 0;
      for (std::size_t i = 0; i < before.size(); ++i) differ += before[i] != after[i];
      text += fmt::format("    {}: {} of {} differ\n", name, differ, before.size());
    } else {
      text += fmt::format("    {}: {} -> {}\n", name, shown(before), shown(after));
    }
  }
  return text;
}

/// Lines for the profiles that differ, of all kinds.
std::string difference(const Json& is, const Json& wanted) {
  std::string text;
  for (const auto& [list, kind] :
       {std::pair("format_profiles", "format"), std::pair("ev_profiles", "EV"),
        std::pair("cc_profiles", "CC")}) {
    const auto find = [&, name = list](const Json& set, const Json& id) -> const Json* {
      for (const Json& profile : set[name])
        if (profile["id"] == id) return &profile;
      return nullptr;
    };
    for (const Json& profile : is[list])
      if (find(wanted, profile["id"]) == nullptr)
        text += fmt::format("  {} profile {} goes\n", kind, profile["id"].dump());
    for (const Json& profile : wanted[list]) {
      const Json* before = find(is, profile["id"]);
      if (before == nullptr)
        text += fmt::format("  {} profile {} is new\n", kind, profile["id"].dump());
      else if (*before != profile)
        text += fmt::format("  {} profile {} changes:\n{}", kind, profile["id"].dump(),
                            changes_of(*before, profile));
    }
  }
  return text;
}

}  // namespace

int run_profiles(const Options& o) {
  if (o.profiles == ProfilesCommand::get) {
    const detail::HostState state = detail::read_host_state(store_folder_of(o));
    fmt::print("{}\n", json_text(detail::to_json(*state.profiles), 1));
    return 0;
  }
  const ProfileSet read = read_profiles(o.value);
  std::vector<control::SocketName> seen;
  const Found found = detail::devices_of_host(host_search(o), seen);
  detail::HostStoreWriter store(store_folder_of(o), kPatience);
  detail::HostState wanted = store.rules();
  wanted.profiles = std::make_shared<const ProfileSet>(completed(read, found));
  const Json before = detail::to_json(*store.rules().profiles),
             after = detail::to_json(*wanted.profiles);
  const std::string changes = difference(before, after);
  const bool only_shows = o.profiles == ProfilesCommand::diff || o.dry_run;
  if (only_shows) {
    (void)detail::ask_devices(store, wanted, host_search(o));
    if (o.json)
      fmt::print("{}\n", json_text({{"before", before}, {"after", after}}, 1));
    else
      fmt::print("{}", changes.empty() ? "no difference\n" : changes);
    return status_of(o, found);
  }
  const detail::HostChange change = change_host(o, store, wanted);
  if (o.json)
    fmt::print("{}\n", json_text(after, 1));
  else
    fmt::print("{}{} devices confirmed\n", changes.empty() ? "no difference\n" : changes,
               change.confirmed.size());
  return change.unconfirmed.empty() ? 0 : 1;
}

}  // namespace mrc::ctl_tool
