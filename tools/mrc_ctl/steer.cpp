// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/steer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "common/interrupt.hpp"
#include "mrc/control/dumps.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

/// "p1t0-2": a switch, as mrc_fabric and mrc_probe call it.
struct SwitchName {
  unsigned plane = 0;
  bool t1 = false;
  unsigned number = 0;
};

std::optional<SwitchName> parse_switch(std::string_view text) {
  if (!text.starts_with('p')) return std::nullopt;
  const std::size_t kind = text.find('t'), dash = text.find('-');
  if (kind == std::string_view::npos || dash != kind + 2) return std::nullopt;
  const auto plane = parse_integer<std::uint8_t>(text.substr(1, kind - 1));
  const auto number = parse_integer<std::uint16_t>(text.substr(dash + 1));
  const char tier = text[kind + 1];
  if (!plane || !number || (tier != '0' && tier != '1')) return std::nullopt;
  return SwitchName{*plane, tier == '1', *number};
}

[[noreturn]] void bad(const std::string& text) {
  throw Error(Errc::invalid_argument, text);
}

/// The link between two switches, or between a host and a switch.
Json link_of(const std::string& a, const std::string& b) {
  const auto first = parse_switch(a), second = parse_switch(b);
  if (!first && !second) bad(fmt::format("neither {} nor {} is a switch, such as p0t1-2", a, b));
  if (!first || !second) {
    const SwitchName& at = first ? *first : *second;
    const std::string& host = first ? b : a;
    if (at.t1) bad(fmt::format("there is no link between {} and {}: hosts are at T0s", a, b));
    return {{"plane", at.plane}, {"host", host}, {"t0", at.number}};
  }
  if (first->plane != second->plane || first->t1 == second->t1)
    bad(fmt::format("there is no link between {} and {}: links join a T0 and a T1 of a plane", a,
                    b));
  const SwitchName& t0 = first->t1 ? *second : *first;
  const SwitchName& t1 = first->t1 ? *first : *second;
  return {{"plane", t0.plane}, {"t0", t0.number}, {"t1", t1.number}};
}

/// A switch, or a host's port in option --plane.
Json part_of(const Options& o, const std::string& name) {
  if (const auto found = parse_switch(name))
    return {{"plane", found->plane}, {found->t1 ? "t1" : "t0", found->number}};
  if (!o.in_plane)
    bad(fmt::format(
        "{}: a host's port is in a plane: give --plane N, or its switch, such as p0t0-1", name));
  return {{"plane", *o.in_plane}, {"host", name}};
}

/// What the command makes of the host's rules.
detail::SteeringRules changed(const Options& o, detail::SteeringRules rules) {
  if (o.command == Command::plane) {
    const PlaneMask bit = plane_bit(static_cast<Plane>(o.plane));
    rules.planes_down = o.up ? rules.planes_down & ~bit : rules.planes_down | bit;
  } else if (o.command == Command::allow && o.everything) {
    rules.denied.clear();
  } else {
    const Json request{{"paths", named_paths(o)}};
    const auto paths = detail::denied_list(request, "paths");
    if (o.command == Command::deny) detail::add_denied(rules, paths);
    if (o.command == Command::allow)
      std::erase_if(rules.denied, [&](const DeniedPaths& one) { return one == paths[0]; });
  }
  return rules;
}

/// What is allowed for the host, or up, is so in each device, whatever its own rules were: `answer`
/// is the device's to the host's rules, and is replaced. True if it had one of these. Throws
/// mrc::Error, or what the JSON library throws, if it does not confirm.
bool drop_own(const Options& o, RemoteDevice& device, Duration patience, Json& answer) {
  if (o.command == Command::plane && o.up && count_in(device.hello(), "planes") > o.plane)
    (void)device.request({{"request", "plane"}, {"plane", o.plane}, {"enabled", true}}, patience);
  if (o.command != Command::allow) return false;
  const Json& own = list_in(answer, "denied");
  const bool has = o.everything ? !own.empty()
                                : std::find(own.begin(), own.end(), named_paths(o)[0]) != own.end();
  if (has) answer = steer(o, device);
  return has;
}

std::string path_name(const Json& denied) {
  const auto number = [&](const char* field) { return count_in(denied, field); };
  const std::uint64_t plane = number("plane");
  if (denied.contains("ev")) return fmt::format("plane {} EV {}", plane, number("ev"));
  if (denied.contains("host"))
    return fmt::format("plane {} port of host {}", plane, printable(text_in(denied, "host")));
  const auto name = [&](fabric::NodeKind kind, const char* field) {
    return fabric::switch_name(static_cast<Plane>(plane), kind,
                               static_cast<unsigned>(number(field)));
  };
  const std::string t0 = name(fabric::NodeKind::t0, "t0"), t1 = name(fabric::NodeKind::t1, "t1");
  if (denied.contains("t0") && denied.contains("t1")) return fmt::format("link {} - {}", t0, t1);
  if (denied.contains("t0")) return "switch " + t0;
  if (denied.contains("t1")) return "switch " + t1;
  return fmt::format("plane {}", plane);
}

std::string rules_text(const Json& denied, const Json& planes_down) {
  std::string text;
  for (const Json& plane : planes_down)
    if (plane.is_number_unsigned())
      text += fmt::format("  plane {} is down\n", plane.get<std::uint64_t>());
  for (const Json& one : denied)
    if (one.is_object()) text += fmt::format("  {} is denied\n", path_name(one));
  return text;
}

/// "mrc_perf (pid 4711), mrc_perf (pid 4712) and 3 more".
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() <= kNamed ? text : fmt::format("{} and {} more", text, names.size() - kNamed);
}

/// Throws mrc::Error if rules that are to be added would have no effect, now or soon.
void require_effect(const detail::HostChange& change, const detail::SteeringRules& added) {
  const std::string there =
      change.elsewhere.empty()
          ? std::string()
          : "; open in other network namespaces: " + list_of(change.elsewhere) +
                "; `nsenter -t PID -n mrc_ctl` asks "
                "beside the process PID";
  if (change.without_effect != detail::SteeringRules{}) {
    std::vector<std::string> here;
    for (const auto& device : change.devices) here.push_back(device->title());
    const Json rules = detail::to_json(change.without_effect);
    std::string what = rules_text(rules["denied"], rules["planes_down"]);
    what = what.substr(2, what.find('\n') - 2);
    throw Error(Errc::not_found,
                fmt::format("nothing has changed: '{}' means nothing to the devices that are open "
                            "here: {}{}",
                            what, list_of(here), there));
  }
  if (change.devices.empty() && change.unconfirmed.empty() && !change.elsewhere.empty() &&
      added != detail::SteeringRules{})
    throw Error(Errc::not_found,
                "nothing has changed: no device is open in this network namespace" + there);
}

std::string confirmed_text(const RemoteDevice& device, const Json& answer) {
  return fmt::format("{}: {} paths carry nothing for that reason{}\n", printable(device.title()),
                     count_in(answer, "paths"),
                     count_in(answer, "peers_cut_off") > 0 ? ", NO PATH IS LEFT TO A PEER" : "");
}

void print_unconfirmed(const std::string& why) {
  fmt::print(stderr, "mrc_ctl: not confirmed: {}; it reads the rules once it runs again\n",
             printable(why));
}

}  // namespace

std::string store_folder_of(const Options& o) {
  if (o.folder.empty() && ::geteuid() == 0) (void)control::device_folder("auto");  // makes it
  return o.folder.empty() ? detail::store_folder("auto") : o.folder;
}

bool is_for_host(const Options& o) {
  if (names_devices(o)) return false;
  if (o.command == Command::plane) return o.all;
  return o.command == Command::deny || o.command == Command::allow;
}

Json named_paths(const Options& o) {
  Json path;
  if (o.ev && o.in_plane && o.parts.empty())
    path = {{"plane", *o.in_plane}, {"ev", *o.ev}};
  else if (o.ev)
    bad("--ev needs --plane, and no names beside them");
  else if (o.parts.size() == 1)
    path = part_of(o, o.parts[0]);
  else if (o.parts.size() == 2)
    path = link_of(o.parts[0], o.parts[1]);
  else
    bad("name a switch (p0t1-2), the two ends of a link (p0t0-1 p0t1-2, or h3 p0t0-1), or --plane "
        "and --ev");
  return Json::array({path});
}

Json steer(const Options& o, RemoteDevice& device) {
  Json request{{"request", o.command == Command::deny ? "deny" : "allow"}};
  if (o.everything)
    request["all"] = true;
  else
    request["paths"] = named_paths(o);
  return device.request(std::move(request));
}

std::string denied_text(const Json& answer) {
  const auto rules_in = [](const Json& rules) {
    return rules_text(list_in(rules, "denied"), list_in(rules, "planes_down"));
  };
  std::string text = rules_in(answer);
  if (const std::string all = rules_in(object_in(answer, "host")); !all.empty())
    text += " for all devices of the host:\n" + all;
  text += fmt::format("  {} paths carry nothing for that reason\n", count_in(answer, "paths"));
  if (const std::uint64_t peers = count_in(answer, "peers_cut_off"); peers > 0)
    text += fmt::format("  NO PATH is left to {} peers\n", peers);
  return text;
}

detail::HostSearch host_search(const Options& o) {
  return {folders_of(o), o.patience, answer_patience(o)};
}

detail::HostChange change_host(const Options& o, detail::HostStoreWriter& store,
                               const detail::HostState& wanted) {
  const detail::HostSearch search = host_search(o);
  detail::HostChange change = detail::ask_devices(store, wanted, search);
  require_effect(change, detail::without(wanted.steering, store.rules().steering));
  detail::put_in_force(store, change, search);
  for (const RemoteDevice* device : change.unknowing)
    fmt::print(stderr, "mrc_ctl: {}: its planes do not know all of what the rules name\n",
               printable(device->title()));
  for (const auto* list : {&change.unconfirmed, &change.others_unconfirmed})
    for (const std::string& why : *list) print_unconfirmed(why);
  return change;
}

int steer_host(const Options& o) {
  detail::HostStoreWriter store(store_folder_of(o), kPatience,
                                o.command == Command::allow && o.everything);
  detail::HostState wanted = store.rules();
  wanted.steering = changed(o, store.rules().steering);
  bool found_rule = wanted.steering != store.rules().steering || o.everything ||
                    (o.command != Command::allow && !o.up);
  const detail::HostChange change = change_host(o, store, wanted);
  int status = change.unconfirmed.empty() ? 0 : 1;
  if (o.command == Command::plane && o.up && !found_rule) {
    const auto has_plane = [&](const auto& device) {
      return count_in(device->hello(), "planes") > o.plane;
    };
    if (!change.devices.empty() &&
        std::none_of(change.devices.begin(), change.devices.end(), has_plane))
      throw Error(Errc::not_found,
                  fmt::format("no device that is open here has a plane {}", o.plane));
    found_rule = true;
  }
  std::vector<Json> entries(change.confirmed.size());
  std::vector<char> had(change.confirmed.size());  // a rule of its own
  const Duration patience = answer_patience(o);
  const auto& confirmed = change.confirmed;
  const Time end = monotonic_now() + patience;
  std::vector<std::string> lines(confirmed.size());
  const auto thrown = control::all_at_once(confirmed.size(), [&](std::size_t i) {
    RemoteDevice& device = *confirmed[i].first;
    // Those of other users have the end that they were told with.
    if (control::is_trusted_user(device.user())) device.set_patience(patience, end);
    entries[i] = device.label();
    entries[i]["answer"] = confirmed[i].second;
    had[i] = drop_own(o, device, patience, entries[i]["answer"]);
    lines[i] = confirmed_text(device, entries[i]["answer"]);
  });
  if (tools::g_interrupted) return tools::kInterruptedStatus;
  Json answers = Json::array();
  for (std::size_t i = 0; i < confirmed.size(); ++i) {
    found_rule = found_rule || had[i] != 0;
    if (!thrown[i]) {
      answers.push_back(std::move(entries[i]));
      continue;
    }
    print_unconfirmed(control::problem_with(*confirmed[i].first, thrown[i]));
    if (control::is_trusted_user(confirmed[i].first->user())) status = 1;
  }
  const Json rules = detail::to_json(wanted.steering);
  if (!found_rule)
    throw Error(Errc::not_found,
                "no rule denies exactly these paths; `mrc_ctl denied` shows those in force");
  if (o.json) {
    fmt::print("{}\n", json_text({{"rules", rules}, {"devices", answers}}, 2));
    return status;
  }
  const std::string text = rules_text(rules["denied"], rules["planes_down"]);
  fmt::print("{}",
             text.empty() ? "no rules for this host any more\n" : "rules for this host:\n" + text);
  if (change.devices.empty() && change.unconfirmed.empty() && !text.empty())
    fmt::print("no device is open here; those that open later follow the rules\n");
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (!thrown[i]) fmt::print("{}", lines[i]);
  return status;
}

}  // namespace mrc::ctl_tool
