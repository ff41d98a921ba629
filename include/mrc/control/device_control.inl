// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/device_control.hpp"

#include <errno.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <limits>
#include <optional>
#include <span>
#include <thread>

#include "mrc/config.hpp"
#include "mrc/control/client.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/host/device_core.hpp"
#include "mrc/host/lane.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/stats_json.hpp"
#include "mrc/version.hpp"

namespace mrc::inline v0_1::detail {

// DeviceControl: the requests of clients (docs/control.md).

namespace control_text {

using Json = nlohmann::json;

/// Version of the protocol (docs/control.md).
inline constexpr int kProtocol = 1;
/// Peers and paths that are copied while a lane is locked: some microseconds.
inline constexpr std::size_t kPart = 32;

[[nodiscard]] Json failure(std::string_view code, std::string_view text) {
  return {{"ok", false}, {"error", {{"code", code}, {"text", text}}}};
}

/// What became of the EV probes on a path.
struct PathProbe {
  PathReport path;              ///< as it was before
  path::PathIndex index{};      ///< among the peer's paths
  std::uint16_t number = 0;     ///< of its newest probe
  unsigned sent = 0;            ///< probes; 0: the path may not carry any now
  std::optional<Duration> rtt;  ///< round trip of the one that was answered
};

/// Probes of the paths to a peer.
struct PathProbes {
  /// Probes that are sent at once, most: some microseconds of the lane's time.
  static constexpr std::size_t kAtOnce = 16;

  PeerId peer{};
  std::vector<PathProbe> paths{};
  std::vector<std::uint16_t> firsts{};  ///< number of the first probe of each path
  std::size_t next = 0;                 ///< the path that is looked at next
  Time begin{};                         ///< when the first of the present series was due

  /// How many of the series may be sent by now: one after the other, so that each is timed alone.
  [[nodiscard]] std::size_t due(Time now) const noexcept {
    const auto looks = static_cast<std::size_t>((now - begin) / Lane::kLook);
    return std::min({paths.size(), next + kAtOnce, looks + 1});
  }
  [[nodiscard]] bool waits() const noexcept {
    return next < paths.size() ||
           std::any_of(paths.begin(), paths.end(),
                       [](const PathProbe& probe) { return probe.sent > 0 && !probe.rtt; });
  }
  /// Takes answers, and sends some of those that are due. Under the lane's lock.
  void work(Lane& lane) noexcept;
};

void PathProbes::work(Lane& lane) noexcept {
  engine::Engine& engine = lane.engine();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    PathProbe& probe = paths[i];
    if (probe.sent == 0 || probe.rtt) continue;
    probe.rtt = engine.endpoint().probe_rtt(peer, probe.number);
    if (!probe.rtt) probe.rtt = engine.endpoint().probe_rtt(peer, firsts[i]);
  }
  engine::Peer* to = engine.find_peer(peer);
  for (const std::size_t end = due(monotonic_now()); next < end;) {
    const std::size_t at = next++;
    PathProbe& probe = paths[at];
    const path::PathIndex index = probe.index;
    // Meanwhile another peer may have the number, or a profile other paths.
    if (probe.rtt || to == nullptr || index >= to->paths.size() ||
        to->paths[index].ev != probe.path.ev || to->paths.health(index) == path::Health::denied ||
        !lane.planes().up(probe.path.plane))
      continue;
    probe.number = engine.endpoint().probe_path(*to, index);
    if (++probe.sent == 1) firsts[at] = probe.number;
  }
}

/// Up to `most` peers of a lane, from the one at position `first` on.
[[nodiscard]] std::vector<PeerReport> peers_of(Lane& lane, std::size_t first, std::size_t most) {
  std::vector<PeerReport> reports;
  const std::lock_guard lock(lane.mutex());
  lane.peer_table().add_to(reports, first, most);
  return reports;
}

/// What denied paths, and planes out of use, mean.
struct DeniedCount {
  std::uint64_t paths = 0;          ///< that are denied, or in such a plane
  std::uint64_t peers_cut_off = 0;  ///< peers to which no path is left for that reason
};

/// Adds those of up to `most` peers, from the one at position `first` on. Returns how many these
/// were.
std::size_t count_denied(Lane& lane, std::size_t first, std::size_t most, DeniedCount& count) {
  const std::lock_guard lock(lane.mutex());
  const std::vector<Peers::Known>& peers = lane.peer_table().known();
  std::size_t n = 0;
  for (; n < most && first + n < peers.size(); ++n) {
    const Peers::Known& known = peers[first + n];
    const engine::Peer* peer = lane.engine().find_peer(known.id);
    if (peer == nullptr) continue;
    std::uint64_t denied = 0;
    for (std::size_t i = 0; i < peer->paths.size(); ++i) {
      const auto path = static_cast<path::PathIndex>(i);
      denied += !known.denies(i) && (!lane.planes().enabled(peer->paths[path].plane) ||
                                     peer->paths.health(path) == path::Health::denied);
    }
    count.paths += denied;
    count.peers_cut_off += denied > 0 && peer->paths.usable_planes() == 0;
  }
  return n;
}

/// Sends an EV probe on each of up to `most` paths to a peer, from the one with index `first` on,
/// and a second one where the first has no answer in half of the time. Ends when all are answered
/// or the time is over; holds the lock for moments only. Denied paths, and those in planes that are
/// down, are left alone.
[[nodiscard]] std::vector<PathProbe> probe_paths(Lane& lane, PeerId peer, std::size_t first,
                                                 std::size_t most, std::optional<Plane> plane,
                                                 Duration timeout) {
  PathProbes probes;
  probes.peer = peer;
  std::vector<PathReport> reports = lane.paths(peer, first, most);
  for (std::size_t i = 0; i < reports.size(); ++i)
    if (!plane || reports[i].plane == *plane)
      probes.paths.push_back(
          {std::move(reports[i]), static_cast<path::PathIndex>(first + i), 0, 0, {}});
  probes.firsts.resize(probes.paths.size());
  const Time begin = monotonic_now();
  probes.begin = begin;
  bool again = false;
  lane.round_until(begin + timeout, [&](Time now) {
    if (!again && probes.next == probes.paths.size() && now - begin >= timeout / 2) {
      again = true;
      probes.next = 0;
      probes.begin = now;
    }
    probes.work(lane);
    (void)lane.rounds().send(now);
    return probes.waits();
  });
  return std::move(probes.paths);
}

}  // namespace control_text

/// The requests, each a function from the fields of a request to those of its answer.
struct DeviceControl::Requests {
  using Json = control_text::Json;
  /// Elements of a list in one answer, at most.
  static constexpr std::uint32_t kMostElements = 1000;

  DeviceControl& control;
  const Json& request;
  bool& follows;

  [[nodiscard]] DeviceCore& core() const { return control.core_; }
  [[nodiscard]] DeviceAdministration& admin() const { return control.administration_; }

  [[noreturn]] static void bad(const std::string& text) {
    throw Error(Errc::invalid_argument, text);
  }
  /// A whole number.
  [[nodiscard]] std::uint64_t number(const char* name, std::uint64_t most,
                                     std::optional<std::uint64_t> otherwise = {}) const {
    const auto field = request.find(name);
    if (field == request.end()) {
      if (otherwise) return *otherwise;
      bad(std::string("field ") + name + " is missing");
    }
    if (!field->is_number_unsigned() || field->get<std::uint64_t>() > most)
      bad(std::string("field ") + name + " must be a whole number up to " + std::to_string(most));
    return field->get<std::uint64_t>();
  }
  [[nodiscard]] bool yes_or_no(const char* name, std::optional<bool> otherwise = {}) const {
    const auto field = request.find(name);
    if (field == request.end() && otherwise) return *otherwise;
    if (field == request.end() || !field->is_boolean())
      bad(std::string("field ") + name + " must be true or false");
    return field->get<bool>();
  }
  [[nodiscard]] std::string text(const char* name) const {
    const auto field = request.find(name);
    if (field == request.end() || !field->is_string())
      bad(std::string("field ") + name + " must be text");
    return field->get<std::string>();
  }
  [[nodiscard]] Lane& lane() const {
    const auto number_of = number("lane", std::numeric_limits<unsigned>::max());
    if (number_of >= core().lanes().count())
      throw Error(Errc::not_found, "there is no lane " + std::to_string(number_of));
    return core().lanes()[static_cast<unsigned>(number_of)];
  }
  [[nodiscard]] std::uint32_t first() const {
    return static_cast<std::uint32_t>(number("first", UINT32_MAX, 0));
  }
  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(number("count", UINT32_MAX, kMostElements), 1, kMostElements));
  }
  /// An answer with elements from `first` on; `more`: there are others behind them.
  [[nodiscard]] static Json list(const char* name, Json elements, std::uint64_t next, bool more) {
    Json answer{{name, std::move(elements)}};
    if (more) answer["next"] = next;
    return answer;
  }

  /// In the fabric; else as the kernel calls it.
  [[nodiscard]] std::string name_of_host() const {
    std::string name = core().kind().host_name();
    return name.empty() ? host_name() : name;
  }
  [[nodiscard]] Json process() const {
    return {{"pid", ::getpid()},
            {"uid", ::geteuid()},
            {"program", ::program_invocation_short_name},
            {"host", name_of_host()},
            {"network", control.network_},
            {"version", version_string()},
            {"protocol", control_text::kProtocol},
            {"opened", control.opened_},
            {"planes", core().plane_count()},
            {"lanes", core().lanes().count()}};
  }
  [[nodiscard]] Json config() const {
    Json answer;
    for (const Option& option : options())
      answer[std::string(option.name)] = value_text(option, core().config());
    return {{"options", std::move(answer)}};
  }
  [[nodiscard]] Json planes() const { return {{"planes", core().stats(false).planes}}; }
  [[nodiscard]] Json counters() const { return {{"counters", core().stats(false)}}; }

  /// Positions count the places for queue pairs of all lanes, one lane after the other.
  [[nodiscard]] Json queue_pairs() const {
    Json out = Json::array();
    std::uint64_t before = 0;  // places of former lanes
    const std::uint64_t from = first();
    const std::size_t most = count();
    for (const auto& lane : core().lanes()) {
      const std::size_t places = lane->qp_places();
      for (std::size_t at = from > before ? from - before : 0; at < places;) {
        if (out.size() == most) return list("queue_pairs", std::move(out), before + at, true);
        for (const QpReport& report : lane->queue_pairs(at, most - out.size()))
          out.push_back(report);
      }
      before += places;
    }
    return list("queue_pairs", std::move(out), before, false);
  }
  [[nodiscard]] Json peers() const {
    Json out = Json::array();
    const std::uint32_t from = first(), most = count();
    std::uint64_t position = 0;
    for (const auto& lane : core().lanes())
      for (std::size_t at = 0;; at += control_text::kPart) {
        const std::vector<PeerReport> part = control_text::peers_of(*lane, at, control_text::kPart);
        for (const PeerReport& peer : part) {
          if (out.size() == most) return list("peers", std::move(out), position, true);
          if (position++ >= from) out.push_back(peer);
        }
        if (part.size() < control_text::kPart) break;
      }
    return list("peers", std::move(out), position, false);
  }
  [[nodiscard]] Json paths() const {
    Lane& of = lane();
    const auto peer = PeerId{static_cast<std::uint32_t>(number("peer", UINT32_MAX))};
    Json out = Json::array();
    std::size_t at = first();
    const std::size_t end = at + count();
    while (at < end) {
      const std::size_t wanted = std::min(control_text::kPart, end - at);
      const std::vector<PathReport> part = of.paths(peer, at, wanted);
      for (const PathReport& path : part) out.push_back(path);
      at += part.size();
      if (part.size() < wanted) return list("paths", std::move(out), at, false);
    }
    return list("paths", std::move(out), at, !of.paths(peer, at, 1).empty());
  }

  /// Takes some time, in which no other client is answered: up to kLongestProbe.
  [[nodiscard]] Json probe() const {
    constexpr std::uint64_t kMostPaths = 128, kLongestProbe = 1000, kProbe = 500;  // ms
    Lane& of = lane();
    const auto peer = PeerId{static_cast<std::uint32_t>(number("peer", UINT32_MAX))};
    const std::uint64_t timeout =
        std::max<std::uint64_t>(number("timeout_ms", kLongestProbe, kProbe), 1);
    std::optional<Plane> plane;
    if (request.contains("plane")) plane = static_cast<Plane>(number("plane", kMaxPlanes - 1));
    const std::size_t from = first();
    const std::size_t most = std::min<std::size_t>(count(), kMostPaths);
    if (of.paths(peer, 0, 1).empty())
      throw Error(Errc::not_found, "lane " + std::to_string(of.index()) + " has no peer " +
                                       std::to_string(value(peer)) +
                                       "; request peers lists those that it has");
    Json out = Json::array();
    for (const control_text::PathProbe& probe : control_text::probe_paths(
             of, peer, from, most, plane, std::chrono::milliseconds(timeout))) {
      Json path{{"ev", value(probe.path.ev)}, {"plane", probe.path.plane},
                {"state", probe.path.state},  {"active", probe.path.active},
                {"sent", probe.sent},         {"rtt_ns", nullptr}};
      if (probe.rtt) path["rtt_ns"] = probe.rtt->count();
      out.push_back(std::move(path));
    }
    return list("probes", std::move(out), from + most, !of.paths(peer, from + most, 1).empty());
  }

  [[nodiscard]] Json events() const {
    const std::uint64_t since = number("since", UINT64_MAX, 0);
    follows = yes_or_no("follow", follows);
    const std::lock_guard lock(control.recent_mutex_);
    return {{"events", control.recent_.since(since)}, {"newest", control.recent_.newest()}};
  }

  /// A list as a whole: all parts of an answer to `request`.
  [[nodiscard]] Json whole(Json request_of, const char* name, Json (Requests::*ask)() const) const {
    Json all = Json::array();
    while (true) {
      bool nobody = false;
      Json part = (Requests{control, request_of, nobody}.*ask)();
      for (Json& element : part[name]) all.push_back(std::move(element));
      if (!part.contains("next")) return all;
      request_of["first"] = part["next"];
    }
  }
  /// What lanes, peers and queue pairs tell.
  [[nodiscard]] Json everything() const {
    Json all = counters();
    all["planes"] = planes()["planes"];
    all["queue_pairs"] = whole(Json::object(), "queue_pairs", &Requests::queue_pairs);
    all["peers"] = whole(Json::object(), "peers", &Requests::peers);
    Json paths_of = Json::array();
    for (const Json& peer : all["peers"]) {
      const Json request_of{{"lane", peer["lane"]}, {"peer", peer["number"]}};
      paths_of.push_back({{"lane", peer["lane"]},
                          {"peer", peer["number"]},
                          {"addresses", peer["addresses"]},
                          {"paths", whole(request_of, "paths", &Requests::paths)}});
    }
    all["paths"] = std::move(paths_of);
    all["denied"] = denied();
    all["profiles"] = whole(Json::object(), "profiles", &Requests::profiles);
    return all;
  }

  [[nodiscard]] Json plane() const {
    const auto which = static_cast<unsigned>(number("plane", kMaxPlanes));
    const bool enabled = yes_or_no("enabled");
    core().set_plane_enabled(which, enabled);
    core().log().warn("plane " + std::to_string(which) + " was " +
                      (enabled ? "enabled" : "disabled") + " through the control socket");
    return planes();
  }
  /// Rules of this device, or of the host.
  [[nodiscard]] static Json list_of(const std::vector<DeniedPaths>& denied) {
    Json list = Json::array();
    for (const DeniedPaths& one : denied) list.push_back(to_json(one));
    return list;
  }
  /// What is denied, and what that means: paths that carry nothing, and peers to which none is
  /// left.
  [[nodiscard]] Json denied() const {
    constexpr std::size_t kPeers = 8;  // at a time: some microseconds
    control_text::DeniedCount count;
    for (const auto& lane : core().lanes())
      for (std::size_t at = 0; control_text::count_denied(*lane, at, kPeers, count) == kPeers;)
        at += kPeers;
    return {{"planes_down", to_json(SteeringRules{core().planes_down(), {}})["planes_down"]},
            {"denied", list_of(admin().denied())},
            {"host", to_json(control.store_->rules().rules->steering)},
            {"paths", count.paths},
            {"peers_cut_off", count.peers_cut_off}};
  }
  /// Field `paths`, a list.
  [[nodiscard]] std::vector<DeniedPaths> named_paths() const {
    std::vector<DeniedPaths> paths = denied_list(request, "paths");
    if (paths.empty()) bad("field paths must be a list of paths, not empty");
    return paths;
  }
  [[nodiscard]] Json deny() const {
    SteeringRules rules{0, admin().denied()};
    const std::vector<DeniedPaths> paths = named_paths();
    add_denied(rules, paths);
    check_size(rules);
    admin().set_denied(std::move(rules.denied));
    core().log().warn(std::to_string(paths.size()) +
                      " rules deny paths, set through the control socket");
    return denied();
  }
  [[nodiscard]] Json allow() const {
    SteeringRules rules{0, admin().denied()};
    if (yes_or_no("all", false))
      rules.denied.clear();
    else
      remove_denied(rules, named_paths());
    admin().set_denied(std::move(rules.denied));
    core().log().warn("paths were allowed through the control socket");
    return denied();
  }
  /// Whether rules for the host would be taken; how many of them mean nothing to this device.
  [[nodiscard]] Json check_rules() const {
    const bool proposed = yes_or_no("proposed", false);
    const auto field = request.find("rules");
    const HostState state =
        proposed ? control.store_->proposal()
                 : HostState{rules_from_json(field == request.end() ? Json() : *field)};
    const SteeringRules& rules = state.steering;
    check_size(rules);
    std::uint64_t unknown = 0;
    if (proposed)
      unknown = admin().profiles().check(*state.profiles,
                                         !yes_or_no("all", false) && !admin().own_evs().empty());
    const unsigned last = core().plane_count() - 1;
    SteeringRules meaningless;
    meaningless.planes_down = rules.planes_down >> last >> 1 << last << 1;
    for (const DeniedPaths& one : rules.denied)
      if (one.plane > last || !admin().can_deny(one)) meaningless.denied.push_back(one);
    unknown +=
        static_cast<unsigned>(std::popcount(meaningless.planes_down)) + meaningless.denied.size();
    Json answer{{"unknown", unknown}, {"unknown_rules", to_json(meaningless)}};
    if (proposed) answer["serial"] = state.serial;
    return answer;
  }
  /// The rules for the host have changed: answers when they are in force.
  [[nodiscard]] Json host_changed() const {
    control.store_->reread();
    control.follow_store();
    Json answer = denied();
    answer["serial"] = control.store_->rules().rules->serial;
    if (Json failed = admin().profiles().not_followed(); !failed.empty())
      answer["failed"] = std::move(failed);
    return answer;
  }
  /// Profiles of the program and of the host, in short: without lists of EVs.
  [[nodiscard]] Json profiles() const {
    Json all = Json::array();
    const auto add = [&all](const char* of, const ProfileRegistry& registry) {
      const ProfileSet set = registry.set();
      const Json json = to_json(set);
      for (const auto& [list, kind] :
           {std::pair("format_profiles", "format"), std::pair("ev_profiles", "ev"),
            std::pair("cc_profiles", "cc")})
        for (Json profile : json[list]) {
          const auto id = profile["id"].get<ProfileId>();
          profile["of"] = of;
          profile["kind"] = kind;
          if (kind == std::string_view("ev")) {
            const auto& entries = set.evs.at(id).entries;
            profile["denied"] = std::count_if(entries.begin(), entries.end(),
                                              [](const auto& entry) { return entry.denied; });
            profile["queue_pairs"] = registry.evs(id).queue_pairs;
            profile.erase("evs");
          } else if (kind == std::string_view("cc")) {
            profile["queue_pairs"] = registry.cc(id).queue_pairs;
          }
          all.push_back(std::move(profile));
        }
    };
    const auto copy = [](const ProfileRegistry& registry) { return registry; };
    add("program", admin().profiles().with(copy));
    add("host", admin().profiles().with_host(copy));
    const std::size_t from = std::min<std::size_t>(first(), all.size());
    const std::size_t end = std::min<std::size_t>(from + count(), all.size());
    Json part = Json::array();
    for (std::size_t i = from; i < end; ++i) part.push_back(std::move(all[i]));
    return list("profiles", std::move(part), end, end < all.size());
  }
  /// An EV profile of the host: how its entries are here, a digit for each, in the order of the
  /// array.
  [[nodiscard]] Json profile_states() const {
    const std::uint64_t id = number("profile", UINT64_MAX);
    std::string states;
    if (admin().profiles().with([id](const ProfileRegistry& own) { return own.has_evs(id); }))
      return {{"states", states}};  // queue pairs here use that of the program
    for (const EvEntry& entry : admin().ev_profile(id, true).entries)
      states += entry.state == EvState::denied              ? '4'
                : entry.good == 0 && entry.assumed_bad == 0 ? '-'
                : entry.state == EvState::good              ? '1'
                : entry.state == EvState::assumed_bad       ? '2'
                                                            : '0';
    return {{"states", states}};
  }
  [[nodiscard]] Json log() const {
    Config changed = core().config();
    changed.log = core().log().level();
    if (request.contains("level")) {
      changed.set("log", text("level"));
      core().log().set_level(changed.log);
    }
    return {{"level", changed.get("log")}};
  }
  [[nodiscard]] Json faults() const {
    if (core().config().faults.empty())
      throw Error(Errc::access_denied,
                  "faults can be changed only in devices that were opened with option faults");
    fault_setter.load()(core(), text("schedule"), {});
    return Json::object();
  }

  struct Entry {
    std::string_view name;
    Json (Requests::*answer)() const;
  };
  static std::span<const Entry> table() {
    static constexpr Entry kEntries[] = {
        {"process", &Requests::process},
        {"config", &Requests::config},
        {"planes", &Requests::planes},
        {"counters", &Requests::counters},
        {"peers", &Requests::peers},
        {"queue_pairs", &Requests::queue_pairs},
        {"paths", &Requests::paths},
        {"probe", &Requests::probe},
        {"events", &Requests::events},
        {"plane", &Requests::plane},
        {"log", &Requests::log},
        {"faults", &Requests::faults},
        {"denied", &Requests::denied},
        {"deny", &Requests::deny},
        {"allow", &Requests::allow},
        {"check_rules", &Requests::check_rules},
        {"host_changed", &Requests::host_changed},
        {"profile_states", &Requests::profile_states},
        {"profiles", &Requests::profiles},
    };
    return kEntries;
  }

  [[nodiscard]] Json answer() const {
    if (!request.is_object()) bad("a request is a JSON object");
    if (const auto id = request.find("id");
        id != request.end() && !id->is_string() && !id->is_number())
      bad("field id must be text or a number");
    const std::string name = text("request");
    for (const Entry& entry : table())
      if (entry.name == name) return (this->*entry.answer)();
    std::string known;
    for (const Entry& entry : table())
      known += (known.empty() ? "" : ", ") + std::string(entry.name);
    return control_text::failure("unknown_request",
                                 "there is no request '" + name.substr(0, 64) + "', but " + known);
  }
};

namespace control_text {

inline constexpr std::size_t kKeptEvents = 1024;

/// A line. What is not UTF-8, as names may be, is replaced.
[[nodiscard]] std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

[[nodiscard]] double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// To a tenth: how long something has lasted so far.
[[nodiscard]] std::string seconds_text(Duration time) {
  const auto tenths = time / std::chrono::milliseconds(100);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

/// "3 refused meanwhile, "; empty if none was.
[[nodiscard]] std::string refusals_text(std::uint64_t refused) {
  return refused == 0 ? std::string() : std::to_string(refused) + " refused meanwhile, ";
}

/// How an error is called; programs may compare it.
[[nodiscard]] std::string code_of(const std::error_code& error) {
  if (error.category() != error_category()) return "system";
  return control::wire_name(static_cast<Errc>(error.value()));
}

[[nodiscard]] const char* name_of(DeviceEvent::Kind kind) {
  switch (kind) {
    case DeviceEvent::Kind::qp_error:
      return "qp_error";
    case DeviceEvent::Kind::cq_overrun:
      return "cq_overrun";
    case DeviceEvent::Kind::plane_down:
      return "plane_down";
    case DeviceEvent::Kind::plane_up:
      return "plane_up";
    case DeviceEvent::Kind::srq_limit:
      return "srq_limit";
    case DeviceEvent::Kind::last_wqe:
      return "last_wqe";
  }
  return "unknown";
}

/// Grows with each sign of progress.
[[nodiscard]] inline std::uint64_t progress_of(const QpReport& qp) noexcept {
  return qp.stats.acknowledged + qp.stats.writes_completed + qp.stats.receives_completed;
}

/// The queue pairs of a lane that wait for something.
[[nodiscard]] std::vector<QpReport> unfinished(Lane& lane) {
  std::vector<QpReport> all;
  for (std::size_t at = 0; at < lane.qp_places();)
    for (QpReport& qp : lane.queue_pairs(at))
      if (qp.waits_for != std::string_view("nothing")) all.push_back(std::move(qp));
  return all;
}

/// The peer of a queue pair, in a sentence.
[[nodiscard]] std::string peer_text(Lane& lane, const QpReport& qp) {
  for (std::size_t at = 0; qp.peer; at += kPart) {
    const std::vector<PeerReport> part = peers_of(lane, at, kPart);
    for (const PeerReport& report : part)
      if (report.number == *qp.peer) return "peer " + report.addresses;
    if (part.size() < kPart) break;
  }
  return "a peer that is not known yet";
}

}  // namespace control_text

DeviceControl::DeviceControl(DeviceCore& core, DeviceAdministration& administration)
    : core_(core),
      administration_(administration),
      store_(std::make_shared<HostStore>(store_folder(core.config().control), core.log())),
      opened_(control_text::seconds_now()),
      dump_file_(file_name_of(core.config().dump)),
      events_(control_text::kKeptEvents),
      ev_events_(std::make_shared<EvEventQueue>(control_text::kKeptEvents)),
      recent_(control_text::kKeptEvents) {
  if (!dump_file_.empty()) check_dump_file(dump_file_);
  administration_.ev_events().add(ev_events_);
  core_.events().copy_to(&events_);
  try {
    if (core.config().control != "off") open_socket(core.config().control);
    if (!dump_file_.empty()) add_dump_source(*this);
  } catch (...) {
    server_.reset();
    core_.events().copy_to(nullptr);
    throw;
  }
}

/// A full file system costs no job its life.
void DeviceControl::open_socket(const std::string& setting) try {
  const std::string folder = control::device_folder(setting);
  control::remove_stale(folder);
  server_ = std::make_unique<control::LineServer>(
      folder + "/" + control::to_string(control::make_socket_name()), *this);
} catch (const Error& error) {
  if (error.code() != std::errc::no_space_on_device) throw;
  const bool follows = !dump_file_.empty();  // look()
  core_.log().warn(std::string("no control socket: ") + error.what() +
                   (follows ? "" : "; rules for all devices of this host are not followed"));
}

DeviceControl::~DeviceControl() {
  if (!core_.forked()) {
    if (!dump_file_.empty() && remove_dump_source(*this)) leave_dump(*this, "closed");
    core_.events().copy_to(nullptr);
  }
  server_.reset();
}

std::string DeviceControl::greeting() {
  const control_text::Json nothing;
  bool follows = false;
  if (store_->look()) follow_store();  // whoever was stopped may have missed what it was told
  control_text::Json line = Requests{*this, nothing, follows}.process();
  line["event"] = "hello";
  return control_text::line_of(line);
}

std::string DeviceControl::refusal(std::string_view why) {
  return control_text::line_of(control_text::failure("access_denied", why));
}

std::string DeviceControl::answer(std::string_view line, bool& follows) {
  using control_text::Json;
  const Json request = Json::parse(line, nullptr, false);
  Json answer;
  try {
    if (request.is_discarded())
      answer = control_text::failure("invalid_argument", "the request is not JSON");
    else
      answer = Requests{*this, request, follows}.answer();
  } catch (const Error& error) {
    answer = control_text::failure(control_text::code_of(error.code()), words_of(error));
  } catch (const Json::exception&) {
    answer =
        control_text::failure("invalid_argument", "the request is not as docs/control.md has it");
  } catch (const std::exception&) {
    answer = control_text::failure("failed", "the process is out of memory");
  }
  if (!answer.contains("ok")) answer["ok"] = true;
  // Nothing that is nested, which would be copied and written level by level.
  if (const auto id = request.is_object() ? request.find("id") : request.end();
      id != request.end() && (id->is_string() || id->is_number()))
    answer["id"] = *id;
  return control_text::line_of(answer);
}

std::vector<int> DeviceControl::watched() const {
  return {events_.fd(), ev_events_->fd()};
}

std::vector<std::string> DeviceControl::news() {
  using control_text::Json;
  const std::lock_guard lock(recent_mutex_);
  std::vector<std::string> lines;
  DeviceEvent event;
  while (events_.poll(event)) {
    Json fields = Json::object();
    switch (event.kind) {
      case DeviceEvent::Kind::qp_error:
      case DeviceEvent::Kind::last_wqe:
        fields = {{"qpn", value(event.qpn)}, {"cause", to_string(event.cause)}};
        break;
      case DeviceEvent::Kind::plane_down:
      case DeviceEvent::Kind::plane_up:
        fields = {{"plane", event.plane}};
        break;
      case DeviceEvent::Kind::cq_overrun:
        fields = {{"cq", static_cast<std::uint32_t>(event.cq)}};
        break;
      case DeviceEvent::Kind::srq_limit:
        fields = {{"srq", static_cast<std::uint32_t>(event.srq)}};
        break;
    }
    if (const std::uint64_t lost = events_.dropped(); lost != lost_)
      fields["lost_before"] = lost - std::exchange(lost_, lost);
    keep(control_text::name_of(event.kind), std::move(fields), lines);
  }
  EvEvent path;
  while (ev_events_->poll({&path, 1}) == 1) {
    Json fields{{"plane", path.plane},
                {"ev", value(path.entropy)},
                {"destination", port::format_ip(path.destination)}};
    if (path.profile)
      fields["profile"] = *path.profile;
    else if (std::string name =
                 core_.kind().crossed_switch(path.plane, path.destination, path.entropy);
             !name.empty())
      fields["over"] = std::move(name);
    fields["value"] = to_text(path.ev.value);
    fields["port"] = path.ev.port;
    if (path.drop_count > 0) fields["lost_before"] = path.drop_count;
    keep(path.state == EvState::good ? "path_good" : "path_bad", std::move(fields), lines);
  }
  return lines;
}

/// Keeps an event with these fields, and adds its line.
void DeviceControl::keep(const char* kind, nlohmann::json line, std::vector<std::string>& lines) {
  line["event"] = kind;
  line["time"] = control_text::seconds_now();
  lines.push_back(control_text::line_of(recent_.add(std::move(line))));
}

/// Whether no lane's lock is held for long, as a thread that died may do.
bool DeviceControl::lanes_answer() const {
  const Time end = monotonic_now() + std::chrono::milliseconds(500);
  for (const auto& lane : core_.lanes())
    while (!std::unique_lock(lane->mutex(), std::try_to_lock).owns_lock()) {
      if (monotonic_now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  return true;
}

/// As `mrc_ctl dump` makes it.
std::string DeviceControl::dump(std::string_view why) {
  using control_text::Json;
  (void)news();
  const Json nothing = Json::object();
  bool follows = false;
  const Requests requests{*this, nothing, follows};
  Json dump = requests.process();
  dump["why"] = why;
  dump["time"] = control_text::seconds_now();
  dump["config"] = requests.config()["options"];
  dump["events"] = requests.events()["events"];
  if (lanes_answer())
    dump.update(requests.everything());
  else
    dump["busy"] = true;
  return control_text::line_of(dump);
}

/// The host's rules were read: answers when they are in force here.
void DeviceControl::follow_store() {
  administration_.follow(store_);
  const std::uint64_t serial = store_->rules().rules->serial;
  if (std::exchange(told_, serial) != serial)
    core_.log().warn("the rules for all devices of this host have changed");
}

/// Without a socket, nobody tells of the host's rules.
void DeviceControl::look() noexcept try {
  if (!server_ && store_->look()) follow_store();
} catch (const std::exception&) {  // out of memory for a line of the log
}

Time DeviceControl::tick(Time now) {
  constexpr Duration kLongest = std::chrono::seconds(2);
  if (store_->look()) follow_store();
  const Duration limit = core_.config().stall_warning;
  if (limit == Duration(0)) return now + kLongest;
  watch_progress(now);
  return now + std::clamp<Duration>(limit / 4, std::chrono::milliseconds(10), kLongest);
}

/// Tells once of each queue pair that makes no progress, and when it goes on; of a few at a time,
/// since all of them may wait for the same.
void DeviceControl::watch_progress(Time now) {
  constexpr int kMostLines = 8;
  int lines = 0, more = 0;
  const Duration limit = core_.config().stall_warning;
  auto before = std::exchange(watched_, {});
  for (const auto& lane : core_.lanes())
    for (const QpReport& qp : control_text::unfinished(*lane)) {
      const std::pair key(lane->index(), value(qp.qpn));
      Watched& entry = watched_[key];
      const std::uint64_t progress = control_text::progress_of(qp);
      const auto known = before.find(key);
      const bool same = known != before.end() && known->second.progress == progress;
      entry = same ? known->second : Watched{progress, now, qp.stats.refused, false};
      const std::string name = "queue pair " + std::to_string(value(qp.qpn));
      if (known != before.end() && known->second.told && progress > known->second.progress)
        core_.log().warn(name + " makes progress again");
      if (entry.told || now - entry.since < limit) continue;
      if (lines++ >= kMostLines) {
        ++more;
        continue;
      }
      entry.told = true;
      core_.log().warn(name + " has made no progress for " +
                       control_text::seconds_text(now - entry.since) + ": it waits for " +
                       qp.waits_for + " (docs/control.md), " +
                       std::to_string(qp.stats.outstanding) + " packets in flight, " +
                       control_text::refusals_text(qp.stats.refused - entry.refused) +
                       control_text::peer_text(*lane, qp) +
                       (qp.silent_ns == 0
                            ? std::string()
                            : " silent for " + control_text::seconds_text(Duration(qp.silent_ns))));
    }
  for (const auto& [key, entry] : before) {  // those that have finished
    if (!entry.told || watched_.contains(key)) continue;
    Lane& lane = core_.lanes()[key.first];
    const std::lock_guard lock(lane.mutex());
    const engine::QueuePairState* qp = lane.engine().find_qp(Qpn{key.second});
    if (qp != nullptr && control_text::progress_of(lane.report(*qp, now)) > entry.progress)
      core_.log().warn("queue pair " + std::to_string(key.second) + " makes progress again");
  }
  if (more > 0) core_.log().warn(std::to_string(more) + " more queue pairs have made no progress");
}

}  // namespace mrc::inline v0_1::detail
