// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/interrupt.hpp"
#include "common/program.hpp"
#include "mrc/core/error.hpp"
#include "mrc_ctl/check/check.hpp"
#include "mrc_ctl/devices.hpp"
#include "mrc_ctl/events.hpp"
#include "mrc_ctl/options.hpp"
#include "mrc_ctl/probe.hpp"
#include "mrc_ctl/profiles.hpp"
#include "mrc_ctl/rates.hpp"
#include "mrc_ctl/serve/serve.hpp"
#include "mrc_ctl/steer.hpp"
#include "mrc_ctl/top.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

constexpr int kNoDevice = 3;

bool changes(Command command) {
  return command == Command::plane || command == Command::deny || command == Command::allow ||
         command == Command::log || command == Command::faults;
}

/// What a command asks of a device, as JSON.
Json answer_of(const Options& o, RemoteDevice& device) {
  switch (o.command) {
    case Command::planes:
      return device.list({{"request", "planes"}}, "planes");
    case Command::queue_pairs:
      return device.list({{"request", "queue_pairs"}}, "queue_pairs");
    case Command::peers:
      return device.list({{"request", "peers"}}, "peers");
    case Command::paths:
      return all_paths(device, o);
    case Command::config:
      return device.request({{"request", "config"}})["options"];
    case Command::profiles:
      return device.list({{"request", "profiles"}}, "profiles");
    case Command::events: {
      Json events = Json::array();
      for (Json& event : device.list({{"request", "events"}}, "events"))
        if (wants_event(o, event, seconds_now())) events.push_back(std::move(event));
      return events;
    }
    case Command::plane:
      return device.request(
          {{"request", "plane"}, {"plane", o.plane}, {"enabled", o.up}})["planes"];
    case Command::deny:
    case Command::allow:
      return steer(o, device);
    case Command::denied:
      return device.request({{"request", "denied"}});
    case Command::log:
      return device.request({{"request", "log"}, {"level", o.value}})["level"];
    case Command::faults:
      (void)device.request({{"request", "faults"}, {"schedule", o.value}});
      return o.value;
    case Command::list:
    case Command::show:
    case Command::dump:
    case Command::top:
    case Command::serve:
    case Command::probe:
    case Command::check:
      break;
  }
  return dump_of(device);
}

std::string text_of(const Options& o, RemoteDevice& device) {
  switch (o.command) {
    case Command::planes:
      return planes_text(device);
    case Command::queue_pairs:
      return queue_pairs_text(device);
    case Command::peers:
      return peers_text(device);
    case Command::paths:
      return paths_text(device, o);
    case Command::config:
      return config_text(device);
    case Command::profiles:
      return profiles_text(device);
    case Command::show:
      return show_text(device);
    case Command::events: {
      std::string text;
      for (const Json& event : answer_of(o, device)) text += event_text(event) + "\n";
      if (!text.empty()) return text;
      const bool all = o.kinds.empty() && !o.in_plane && !o.since;
      return all ? "  no events yet\n" : "  no such events\n";
    }
    case Command::plane:
      return fmt::format("plane {} is {}\n", o.plane, enabled_text(answer_of(o, device), o.plane));
    case Command::deny:
    case Command::allow:
    case Command::denied:
      return denied_text(answer_of(o, device));
    case Command::log:
      return fmt::format("logs {}\n", value_text(answer_of(o, device)));
    case Command::faults:
      (void)answer_of(o, device);
      return o.value.empty() ? "no faults any more\n" : fmt::format("faults: {}\n", o.value);
    case Command::list:
    case Command::dump:
    case Command::top:
    case Command::serve:
    case Command::probe:
    case Command::check:
      break;
  }
  return json_text(dump_of(device), 2) + "\n";
}

void print_json(const Json& json) {
  fmt::print("{}\n", json_text(json, 2));
}

/// A line; empty if the options do not ask for the event.
std::string event_line(const Options& o, const RemoteDevice& device, const Json& event) {
  if (!wants_event(o, event, seconds_now())) return {};
  if (o.json) return json_text(event, -1) + "\n";
  return printable(device.title()) + "  " + event_text(event) + "\n";
}

/// Prints the events that there are, but not without end: others have some, too. False if the
/// device has gone.
bool print_events(const Options& o, RemoteDevice& device) {
  constexpr int kAtOnce = 1000;
  try {
    for (int i = 0; i < kAtOnce && !tools::g_interrupted; ++i) {
      const auto event = device.event(Duration(0));
      if (!event) break;
      fmt::print("{}", event_line(o, device, *event));
    }
    return true;
  } catch (const std::exception& error) {
    fmt::print(stderr, "mrc_ctl: {}\n", printable(control::problem_with(device, error)));
    return false;
  }
}

/// Events of all devices as they come.
int follow(const Options& o, Found& found) {
  std::vector<std::string> before(found.devices.size());
  const auto problems = ask_all(o, found, [&](RemoteDevice& device, std::size_t i) {
    const Json answer = device.request({{"request", "events"}, {"follow", true}});
    for (const Json& event : list_in(answer, "events")) before[i] += event_line(o, device, event);
  });
  const int status = print_problems(o, found, problems);
  std::size_t i = 0;
  std::erase_if(found.devices, [&](auto& device) {
    fmt::print("{}", before[i]);
    return !problems[i++].empty() || !print_events(o, *device);
  });
  std::fflush(stdout);
  const tools::HeldSignals signals;
  while (!tools::g_interrupted && !found.devices.empty()) {
    std::vector<::pollfd> fds;
    for (const auto& device : found.devices) fds.push_back({device->fd(), POLLIN, 0});
    signals.sleep(fds, nullptr);
    std::erase_if(found.devices, [&](auto& device) { return !print_events(o, *device); });
    std::fflush(stdout);
  }
  return tools::g_interrupted ? tools::kInterruptedStatus : status;
}

int run_list(const Options& o, const Found& found) {
  if (o.json) {
    Json all = Json::array();
    for (const auto& device : found.devices) all.push_back(device->label());
    print_json(all);
  } else {
    fmt::print("{}", list_text(found));
  }
  return status_of(o, found);
}

/// The command at all devices; goes on if one fails.
int run_each(const Options& o, const Found& found) {
  const bool json = o.json || o.command == Command::dump;
  const bool whole = o.command == Command::dump || o.command == Command::show;
  std::vector<Json> entries(found.devices.size());
  std::vector<std::string> texts(found.devices.size());
  const auto problems = ask_all(o, found, [&](RemoteDevice& device, std::size_t i) {
    if (!json) {
      texts[i] = text_of(o, device);
      return;
    }
    Json entry = whole ? dump_of(device) : device.label();
    if (!whole) entry["answer"] = answer_of(o, device);
    entries[i] = std::move(entry);
  });
  if (tools::g_interrupted) return tools::kInterruptedStatus;
  const int status = std::max(status_of(o, found), print_problems(o, found, problems));
  const bool titles = found.devices.size() > 1 && o.command != Command::show;
  Json all = Json::array();
  for (std::size_t i = 0; i < found.devices.size(); ++i) {
    if (!problems[i].empty()) continue;
    const RemoteDevice& device = *found.devices[i];
    if (json)
      all.push_back(std::move(entries[i]));
    else if (titles)
      fmt::print("{}, id {}:\n{}\n", printable(device.title()), device.id(), texts[i]);
    else
      fmt::print("{}", texts[i]);
  }
  if (json) print_json(all);
  return status;
}

/// Each device has a connection, and a host can have more of them than a shell lets programs open.
void allow_all_files() {
  ::rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

int run(const Options& o) {
  tools::catch_signals();
  allow_all_files();
  if (o.command == Command::top) return run_top(o);
  if (o.command == Command::serve) run_serve(o);
  if (o.command == Command::profiles && o.profiles != ProfilesCommand::list) return run_profiles(o);
  if (o.command == Command::check) return run_check(o);
  if ((o.command == Command::deny || o.command == Command::allow) && !o.everything)
    (void)named_paths(o);  // says what is wrong before devices are looked for
  if (is_for_host(o)) return steer_host(o);
  Found found = find_devices(o);
  for (const control::Silent& one : found.silent)
    fmt::print(stderr, "mrc_ctl: {}\n", printable(one.why));
  if (o.command == Command::list) return run_list(o, found);
  if (found.devices.empty()) {
    fmt::print(stderr, "mrc_ctl: no such device is open; `mrc_ctl list` shows those that are\n");
    return kNoDevice;
  }
  if (changes(o.command) && found.devices.size() > 1 && !o.all) {
    fmt::print(stderr,
               "mrc_ctl: {} devices are open; name one by --pid, --name or --device, or give "
               "--all:\n{}",
               found.devices.size(), list_text(found));
    return tools::kBadOptionStatus;
  }
  if (o.command == Command::probe) return run_probe(o, found);
  if (o.command == Command::paths && o.watch_for > Duration(0)) return run_rates(o, found);
  if (o.command == Command::events && o.follow) return follow(o, found);
  return run_each(o, found);
}

}  // namespace
}  // namespace mrc::ctl_tool

/// mrc_ctl: shows and steers the devices of running processes.
int main(int argc, char** argv) {
  return mrc::tools::run_main(
      "mrc_ctl", [&] { return mrc::ctl_tool::run(mrc::ctl_tool::parse_options(argc, argv)); });
}
