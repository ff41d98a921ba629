// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "mrc/core/error.hpp"
#include "mrc/host/host_change.hpp"

namespace mrc::inline v0_1::detail {

MRC_SETUP control::Found devices_of_host(const std::vector<std::string>& folders,
                                         Duration patience) {
  control::Found found =
      control::find_devices(folders, patience, [](const control::SocketName&) { return true; });
  const std::string here = host_key();
  std::erase_if(found.devices, [&here](const auto& device) {
    return device->hello().value("network", nlohmann::json()) != here;
  });
  return found;
}

MRC_SETUP HostChange ask_devices(HostStoreWriter& store, control::Found& found,
                                 const HostState& wanted, Duration patience) {
  HostChange change;
  change.serial = store.propose(wanted);
  for (const auto& device : found.devices) {
    // Other users' devices can't keep root from anything.
    const ::uid_t user = device->hello().value("uid", ::uid_t{0});
    if (user != 0 && user != ::geteuid()) continue;
    // Who makes a profile is to use it: EVs that only others can send mean nothing there.
    const bool own = device->name().pid == ::getpid() &&
                     device->name().pid_namespace == control::make_socket_name().pid_namespace;
    const auto answer =
        device->request({{"request", "check_rules"}, {"proposed", true}, {"all", own}}, patience);
    if (answer.value("serial", std::uint64_t{0}) != change.serial)
      throw Error(Errc::bad_message, device->title() +
                                         ": it does not know what it was asked; it may be an "
                                         "older version: end it, or start it with control=off");
    if (answer.value("unknown", std::uint64_t{0}) > 0) change.unknowing.push_back(device.get());
  }
  return change;
}

MRC_SETUP HostChange change_host(HostStoreWriter& store, control::Found& found,
                                 const HostState& wanted, Duration patience) {
  HostChange change = ask_devices(store, found, wanted, patience);
  store.commit();
  for (const std::string& why : found.silent) change.unconfirmed.push_back(why);
  for (const auto& device : found.devices) try {
      nlohmann::json answer = device->request({{"request", "host_changed"}}, patience);
      if (answer.value("serial", std::uint64_t{0}) != change.serial)
        throw Error(
            Errc::bad_message,
            device->title() + ": it follows other rules (another folder of option control?)");
      change.confirmed.emplace_back(device.get(), std::move(answer));
    } catch (const std::exception& error) {
      change.unconfirmed.emplace_back(error.what());
    }
  return change;
}

MRC_SETUP void merge_states(ProfileId id, EvProfileInfo& info, control::Found& found,
                            Duration patience) {
  const auto of_digit = [](char digit) {
    return digit == '1'   ? EvState::good
           : digit == '2' ? EvState::assumed_bad
           : digit == '4' ? EvState::denied
                          : EvState::unknown;
  };
  std::optional<std::string> all;
  for (const auto& device : found.devices) try {
      const auto answer =
          device->request({{"request", "profile_states"}, {"profile", id}}, patience);
      const std::string states = answer.value("states", std::string());
      if (states.size() != info.entries.size()) continue;  // it does not have the profile
      if (!all) all = states;
      for (std::size_t i = 0; i < states.size(); ++i)
        if ((*all)[i] != states[i]) (*all)[i] = '0';
    } catch (const std::exception&) {  // gone, or stopped: the others count
    }
  for (std::size_t i = 0; all && i < all->size(); ++i) info.entries[i].state = of_digit((*all)[i]);
}

}  // namespace mrc::inline v0_1::detail
