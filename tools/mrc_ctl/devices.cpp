// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common/interrupt.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool selects(const Options& o, const RemoteDevice& device) {
  const Json& hello = device.hello();
  return (!o.pid || hello["pid"] == *o.pid) && (o.name.empty() || hello["program"] == o.name) &&
         device.id().starts_with(o.device);
}

bool may_select(const Options& o, const control::SocketName& name) {
  return (!o.pid || name.pid == *o.pid) && fmt::format("{:016x}", name.id).starts_with(o.device);
}

std::vector<std::string> folders_of(const Options& o) {
  return o.folder.empty() ? control::searched_folders() : std::vector<std::string>{o.folder};
}

Found find_devices(const Options& o, const std::vector<control::SocketName>& without,
                   Duration for_others) {
  if (names_devices(o) || o.patience < for_others) for_others = o.patience;
  Found found = control::find_devices(
      folders_of(o), o.patience, for_others, [&](const control::SocketName& name) {
        return may_select(o, name) &&
               std::find(without.begin(), without.end(), name) == without.end();
      });
  std::erase_if(found.devices, [&o](const auto& device) { return !selects(o, *device); });
  return found;
}

bool names_devices(const Options& o) {
  return o.pid || !o.device.empty() || !o.name.empty();
}

bool counts(const Options& o, ::uid_t user) {
  return control::is_trusted_user(user) || names_devices(o);
}

int status_of(const Options& o, const Found& found) {
  const bool named = o.pid || !o.device.empty();
  return found.complete() && (found.silent.empty() || !named) ? 0 : 1;
}

Duration answer_patience(const Options& o) {
  return std::max(o.patience, detail::kAnswerPatience);
}

std::vector<std::string> ask_all(const Options& o, const Found& found,
                                 const std::function<void(RemoteDevice&, std::size_t)>& ask,
                                 Duration longer) {
  const auto& devices = found.devices;
  const Duration patience = answer_patience(o) + longer;
  const Time end =
      monotonic_now() + (names_devices(o) ? 5 * patience : detail::kAnswerPatience + longer);
  for (const auto& device : devices)
    device->set_patience(patience, control::is_trusted_user(device->user()) ? kNever : end);
  const auto thrown = control::all_at_once(
      devices.size(), [&](std::size_t i) { ask(*devices[i], i); },
      [&] {
        if (!tools::g_interrupted) return;
        for (const auto& device : devices) device->hang_up();
      });
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    devices[i]->set_patience(patience);
    problems.push_back(control::problem_with(*devices[i], thrown[i]));
  }
  return problems;
}

int print_problems(const Options& o, const Found& found, const std::vector<std::string>& problems) {
  int status = 0;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (problems[i].empty()) continue;
    const ::uid_t user = found.devices[i]->user();
    fmt::print(stderr, "mrc_ctl: {}{}\n", printable(problems[i]),
               control::is_trusted_user(user) ? std::string() : fmt::format(" (user {})", user));
    if (counts(o, user)) status = 1;
  }
  return status;
}

}  // namespace mrc::ctl_tool
