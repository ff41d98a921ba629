// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/host/host_change.hpp"
#include "mrc/host/steering_json.hpp"
#include "mrc/net/network_namespace.hpp"

namespace mrc::inline v0_1::detail {

/// This user's device, or root's: others can't keep root from anything.
[[nodiscard]] MRC_SETUP bool has_a_say(const control::RemoteDevice& device) {
  const ::uid_t user = device.hello().value("uid", ::uid_t{0});
  return user == 0 || user == ::geteuid();
}

MRC_SETUP control::Found devices_of_host(const HostSearch& search,
                                         std::vector<control::SocketName>& seen,
                                         std::vector<std::string>* elsewhere) {
  control::Found found = control::find_devices(
      search.folders, search.greeting, [&seen](const control::SocketName& name) {
        const bool fresh = std::find(seen.begin(), seen.end(), name) == seen.end();
        if (fresh) seen.push_back(name);
        return fresh;
      });
  const std::string here = host_key();
  std::erase_if(found.devices, [&](const auto& device) {
    if (device->hello().value("network", nlohmann::json()) == here) return false;
    if (elsewhere != nullptr && has_a_say(*device))
      elsewhere->push_back(device->title() + " on " +
                           device->hello()["host"].template get<std::string>());
    return true;
  });
  // Of one that says nothing, the kernel may know where it is.
  const std::uint64_t pids = control::make_socket_name().pid_namespace;
  for (std::size_t i = found.silent.size(); i-- > 0;) {
    const control::SocketName& name = found.silent_names[i];
    if (name.pid_namespace != pids || !port::in_other_network(name.pid)) continue;
    found.silent.erase(found.silent.begin() + static_cast<std::ptrdiff_t>(i));
    found.silent_names.erase(found.silent_names.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return found;
}

/// Leaves those rules that mean nothing to a device either, by its answer to `check_rules`.
MRC_SETUP void keep_unknown(SteeringRules& rules, const nlohmann::json& answer) {
  const auto unknown = answer.find("unknown_rules");
  if (unknown == answer.end()) {  // an older version: they may mean something
    rules = {};
    return;
  }
  rules = without(rules, without(rules, rules_from_json(*unknown)));
}

MRC_SETUP HostChange ask_devices(HostStoreWriter& store, const HostState& wanted,
                                 const HostSearch& search) {
  HostChange change;
  change.serial = store.propose(wanted);
  SteeringRules without_effect = without(wanted.steering, store.rules().steering);
  bool answered = false;
  control::Found found = devices_of_host(search, change.seen, &change.elsewhere);
  change.unconfirmed = std::move(found.silent);
  change.devices = std::move(found.devices);
  const std::uint64_t here = control::make_socket_name().pid_namespace;
  for (const auto& device : change.devices) try {
      if (!has_a_say(*device)) continue;
      // Who makes a profile is to use it: EVs that only others can send mean nothing there.
      const bool own = device->name().pid == ::getpid() && device->name().pid_namespace == here;
      const auto answer = device->request(
          {{"request", "check_rules"}, {"proposed", true}, {"all", own}}, search.answer);
      if (answer.value("serial", std::uint64_t{0}) != change.serial)
        throw Error(Errc::bad_message, device->title() +
                                           ": it does not know what it was asked; it may be an "
                                           "older version: end it, or start it with control=off");
      if (answer.value("unknown", std::uint64_t{0}) > 0) change.unknowing.push_back(device.get());
      keep_unknown(without_effect, answer);
      answered = true;
    } catch (const Error& error) {
      if (!control::RemoteDevice::is_gone(error.code())) throw;
    }
  if (answered && change.unconfirmed.empty()) change.without_effect = std::move(without_effect);
  return change;
}

/// Tells a device that the rules have changed, and notes what it says.
MRC_SETUP void tell_device(control::RemoteDevice& device, HostChange& change, Duration patience) {
  try {
    nlohmann::json answer = device.request({{"request", "host_changed"}}, patience);
    if (answer.value("serial", std::uint64_t{0}) != change.serial)
      throw Error(Errc::bad_message, device.title() +
                                         ": it follows other rules (another folder of option "
                                         "control?)");
    if (const auto failed = answer.find("failed"); failed != answer.end())
      throw Error(Errc::in_use,
                  device.title() + ": it stays with what its queue pairs use: " + failed->dump());
    change.confirmed.emplace_back(&device, std::move(answer));
  } catch (const Error& error) {
    if (!control::RemoteDevice::is_gone(error.code()))
      change.unconfirmed.emplace_back(error.what());
  } catch (const std::exception& error) {
    change.unconfirmed.emplace_back(error.what());
  }
}

MRC_SETUP void put_in_force(HostStoreWriter& store, HostChange& change, const HostSearch& search) {
  store.commit();
  for (const auto& device : change.devices) tell_device(*device, change, search.answer);
  // Those that have opened since have read the rules as they were, or nothing yet.
  for (int round = 0; round < 3; ++round) {
    control::Found found = devices_of_host(search, change.seen);
    if (found.devices.empty()) break;
    for (auto& device : found.devices) {
      tell_device(*device, change, search.answer);
      change.devices.push_back(std::move(device));
    }
  }
}

MRC_SETUP HostChange change_host(HostStoreWriter& store, const HostState& wanted,
                                 const HostSearch& search) {
  HostChange change = ask_devices(store, wanted, search);
  put_in_force(store, change, search);
  return change;
}

MRC_SETUP void merge_states(ProfileId id, EvProfileInfo& info, const HostSearch& search) {
  std::vector<control::SocketName> seen;
  const control::Found found = devices_of_host(search, seen);
  std::string all(info.entries.size(), '-');
  for (const auto& device : found.devices) try {
      const auto answer =
          device->request({{"request", "profile_states"}, {"profile", id}}, search.answer);
      const std::string states = answer.value("states", std::string());
      if (states.size() != all.size()) continue;  // it does not have the profile
      for (std::size_t i = 0; i < states.size(); ++i) {
        if (states[i] == '-') continue;  // no queue pair uses it there
        all[i] = all[i] == '-' || all[i] == states[i] ? states[i] : '0';
      }
    } catch (const std::exception&) {  // gone, or stopped: the others count
    }
  for (std::size_t i = 0; i < all.size(); ++i) {
    EvState& state = info.entries[i].state;
    if (all[i] == '1') state = EvState::good;
    if (all[i] == '2') state = EvState::assumed_bad;
    if (all[i] == '4') state = EvState::denied;
    if (all[i] == '0') state = EvState::unknown;
  }
}

}  // namespace mrc::inline v0_1::detail
