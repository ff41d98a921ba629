// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/host/host_change.hpp"
#include "mrc/host/steering_json.hpp"
#include "mrc/net/interface.hpp"

namespace mrc::inline v0_1::detail {

control::Found devices_of_host(const HostSearch& search, std::vector<control::SocketName>& seen,
                               std::vector<std::string>* elsewhere) {
  control::Found found = control::find_devices(
      search.folders, search.greeting, std::min(search.greeting, kAnswerPatience),
      [&seen](const control::SocketName& name) {
        const bool fresh = std::find(seen.begin(), seen.end(), name) == seen.end();
        if (fresh) seen.push_back(name);
        return fresh;
      });
  const std::string here = host_key();
  std::erase_if(found.devices, [&](const auto& device) {
    if (control::text_in(device->hello(), "network") == here) return false;
    if (elsewhere != nullptr && control::is_trusted_user(device->user()))
      elsewhere->push_back(device->title() + " on " +
                           device->hello()["host"].template get<std::string>());
    return true;
  });
  // Of one that says nothing, the kernel may know where it is.
  const std::uint64_t pids = control::make_socket_name().pid_namespace;
  std::erase_if(found.silent, [pids](const control::Silent& one) {
    return one.name.pid_namespace == pids && port::in_other_network(one.name.pid);
  });
  return found;
}

namespace host_change {

/// Devices that nobody has confirmed for.
void add_unconfirmed(HostChange& change, ::uid_t user, std::string why) {
  const bool counts = control::is_trusted_user(user);
  (counts ? change.unconfirmed : change.others_unconfirmed).push_back(std::move(why));
}

/// Asks devices something at once, and calls `then` for each, one after the other, with its answer,
/// or null and what it has thrown.
template <class Then>
void ask_all(const std::vector<std::unique_ptr<control::RemoteDevice>>& devices,
             const std::function<nlohmann::json(control::RemoteDevice&)>& ask, Then&& then) {
  std::vector<nlohmann::json> answers(devices.size());
  const auto thrown =
      control::all_at_once(devices.size(), [&](std::size_t i) { answers[i] = ask(*devices[i]); });
  for (std::size_t i = 0; i < devices.size(); ++i)
    then(*devices[i], std::move(answers[i]), thrown[i]);
}

/// Whether that says that the device has gone.
[[nodiscard]] bool is_gone(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& what) {
    return control::RemoteDevice::is_gone(what.code());
  } catch (...) {
    return false;
  }
}

/// What a device's answer has thrown, as mrc::Error.
[[noreturn]] void rethrow(const control::RemoteDevice& device, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& what) {  // a field is of another kind, say
    throw Error(Errc::bad_message, control::problem_with(device, what));
  }
}

/// Leaves those rules that mean nothing to a device either, by its answer to `check_rules`.
void keep_unknown(SteeringRules& rules, const nlohmann::json& answer) {
  const auto unknown = answer.find("unknown_rules");
  if (unknown == answer.end()) {  // an older version: they may mean something
    rules = {};
    return;
  }
  rules = without(rules, without(rules, rules_from_json(*unknown)));
}

}  // namespace host_change

HostChange ask_devices(HostStoreWriter& store, const HostState& wanted, const HostSearch& search) {
  HostChange change;
  change.serial = store.propose(wanted);
  SteeringRules without_effect = without(wanted.steering, store.rules().steering);
  bool answered = false;
  control::Found found = devices_of_host(search, change.seen, &change.elsewhere);
  for (control::Silent& one : found.silent)
    host_change::add_unconfirmed(change, one.user, std::move(one.why));
  change.devices = std::move(found.devices);
  const std::uint64_t here = control::make_socket_name().pid_namespace;
  const auto ask = [&](control::RemoteDevice& device) {
    // Other users' devices can't keep root from anything.
    if (!control::is_trusted_user(device.user())) return nlohmann::json();
    // Who makes a profile is to use it: EVs that only others can send mean nothing there.
    const bool own = device.name().pid == ::getpid() && device.name().pid_namespace == here;
    return device.request({{"request", "check_rules"}, {"proposed", true}, {"all", own}},
                          search.answer);
  };
  host_change::ask_all(
      change.devices, ask,
      [&](control::RemoteDevice& device, const nlohmann::json& answer, std::exception_ptr error) {
        if (error && host_change::is_gone(error)) return;
        if (error) host_change::rethrow(device, error);
        if (answer.is_null()) return;
        if (control::count_in(answer, "serial") != change.serial)
          throw Error(Errc::bad_message, device.title() +
                                             ": it does not know what it was asked; it may be an "
                                             "older version: end it, or start it with control=off");
        if (control::count_in(answer, "unknown") > 0) change.unknowing.push_back(&device);
        host_change::keep_unknown(without_effect, answer);
        answered = true;
      });
  if (answered && change.unconfirmed.empty()) change.without_effect = std::move(without_effect);
  return change;
}

/// Tells devices that the rules have changed, and notes what they say. Those of other users have
/// until `end` at most.
void tell_devices(const std::vector<std::unique_ptr<control::RemoteDevice>>& devices,
                  HostChange& change, Duration patience, Time end) {
  const auto tell = [&](control::RemoteDevice& device) {
    if (!control::is_trusted_user(device.user())) device.set_patience(patience, end);
    nlohmann::json answer = device.request({{"request", "host_changed"}}, patience);
    if (control::count_in(answer, "serial") != change.serial)
      throw Error(Errc::bad_message, device.title() +
                                         ": it follows other rules (another folder of option "
                                         "control?)");
    if (const auto failed = answer.find("failed"); failed != answer.end())
      throw Error(Errc::in_use,
                  device.title() + ": it stays with what its queue pairs use: " + failed->dump());
    return answer;
  };
  host_change::ask_all(
      devices, tell,
      [&](control::RemoteDevice& device, nlohmann::json answer, std::exception_ptr error) {
        if (!error) {
          change.confirmed.emplace_back(&device, std::move(answer));
          return;
        }
        if (!host_change::is_gone(error))
          host_change::add_unconfirmed(change, device.user(), control::problem_with(device, error));
      });
}

void put_in_force(HostStoreWriter& store, HostChange& change, const HostSearch& search) {
  store.commit();
  const Time end = monotonic_now() + std::min(search.answer, kAnswerPatience);
  tell_devices(change.devices, change, search.answer, end);
  // Those that have opened since have read the rules as they were, or nothing yet.
  for (int round = 0; round < 3; ++round) {
    control::Found found = devices_of_host(search, change.seen);
    if (found.devices.empty()) break;
    tell_devices(found.devices, change, search.answer, end);
    for (auto& device : found.devices) change.devices.push_back(std::move(device));
  }
}

HostChange change_host(HostStoreWriter& store, const HostState& wanted, const HostSearch& search) {
  HostChange change = ask_devices(store, wanted, search);
  put_in_force(store, change, search);
  return change;
}

void merge_states(ProfileId id, EvProfileInfo& info, const HostSearch& search) {
  std::vector<control::SocketName> seen;
  const control::Found found = devices_of_host(search, seen);
  std::string all(info.entries.size(), '-');
  host_change::ask_all(
      found.devices,
      [&](control::RemoteDevice& device) {
        return device.request({{"request", "profile_states"}, {"profile", id}}, search.answer);
      },
      [&](control::RemoteDevice&, const nlohmann::json& answer, std::exception_ptr error) {
        if (error) return;  // gone, or stopped: the others count
        if (!control::has_field(answer, "states", &nlohmann::json::is_string)) return;
        const std::string& states = answer["states"].get_ref<const std::string&>();
        if (states.size() != all.size()) return;  // it does not have the profile
        for (std::size_t i = 0; i < states.size(); ++i) {
          if (states[i] == '-') continue;  // no queue pair uses it there
          all[i] = all[i] == '-' || all[i] == states[i] ? states[i] : '0';
        }
      });
  for (std::size_t i = 0; i < all.size(); ++i) {
    EvState& state = info.entries[i].state;
    if (all[i] == '1') state = EvState::good;
    if (all[i] == '2') state = EvState::assumed_bad;
    if (all[i] == '4') state = EvState::denied;
    if (all[i] == '0') state = EvState::unknown;
  }
}

}  // namespace mrc::inline v0_1::detail
