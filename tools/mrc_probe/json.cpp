// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc_probe/output.hpp"

namespace mrc::probe_tool {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(Duration d) {
  return static_cast<double>(d.count()) / 1000;
}

/// "2026-01-31T12:00:03.512Z".
std::string utc_text(WallTime time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time - whole).count();
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                     ms);
}

Json denial_json(const Description& d, const fabric::Denied& denied) {
  Json j{{"plane", denied.plane}};
  if (denied.t0 != fabric::Denied::kAny) j["t0"] = denied.t0;
  if (denied.t1 != fabric::Denied::kAny) j["t1"] = denied.t1;
  if (denied.host != fabric::Denied::kAny) j["host"] = d.hosts[denied.host].name;
  return j;
}

Json deny_json(const Description& d, const Verdict& verdict) {
  Json list = Json::array();
  for (const fabric::Denied& denied : d.denied) list.push_back(denial_json(d, denied));
  for (const Finding& f : verdict.dead)
    if (const auto denial = denial_of(f.part); denial && !is_denied(d, f.part))
      list.push_back(denial_json(d, *denial));
  return list;
}

Json finding_json(const Description& d, const Finding& f) {
  Json j{{"part", part_name(d, both_ways(f.part))}, {"direction", nullptr}, {"paths", f.paths}};
  if (f.part.direction != Direction::both) {
    const auto [from, to] = link_ends(d, f.part);
    j["direction"] = from + '>' + to;
  }
  if (f.tries > 0) j["lost_percent"] = 100.0 * f.lost / f.tries;
  j["alike"] = Json::array();
  for (const Part& part : f.alike) j["alike"].push_back(part_name(d, part));
  j["denied"] = f.denied;
  return j;
}

Json slow_json(const Description& d, const Report& r, const Finding& f) {
  Json j = finding_json(d, f);
  const CarriedRates rates = carried_rates(r.paths, r.loads, f.part);
  j["mbit_per_s"] = r.megabits(rates.here);
  j["usual_mbit_per_s"] = r.megabits(rates.usual);
  return j;
}

Json path_json(const Description& d, const Report& r, std::size_t i) {
  const ProbePath& path = r.paths[i];
  const PathResult& result = r.results[i];
  const PathResult full = i < r.full.size() ? r.full[i] : PathResult{};
  Json j{
      {"path", path_name(d, path)}, {"kind", to_string(path.kind)},   {"plane", path.plane},
      {"uplink", path.uplink},      {"ev", value(path.ev)},           {"to", d.hosts[path.to].name},
      {"denied", path.denied},      {"tries", result.tries},          {"answered", result.answered},
      {"full_tries", full.tries},   {"full_answered", full.answered}, {"rtt_us", nullptr},
      {"mbit_per_s", nullptr}};
  if (i < r.loads.size() && r.loads[i].best() > 0) j["mbit_per_s"] = r.megabits(r.loads[i].best());
  if (const auto span = span_of(result.rtts))
    j["rtt_us"] = {{"min", span->least}, {"median", span->median}, {"max", span->largest}};
  return j;
}

Json change_json(const Change& change) {
  Json j{{"time", utc_text(change.when)},
         {"change", change.is_back ? "back" : to_string(change.trouble.kind)},
         {"what", change.trouble.what}};
  if (change.is_back)
    j["lasted_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(change.lasted).count();
  return j;
}

}  // namespace

std::string json_report(const Description& d, const Report& r, const std::vector<Change>& changes) {
  Json j{{"fabric", d.name},
         {"file", d.file},
         {"host", d.hosts[r.self].name},
         {"time", utc_text(r.started)},
         {"took_ms", microseconds(r.took) / 1000},
         {"probes", r.probes},
         {"full_size", r.full_size},
         {"all_alive", r.all_alive()}};
  for (const char* list :
       {"dead", "narrow", "slow", "lossy", "silent", "narrow_hosts", "dead_paths", "narrow_paths",
        "slow_paths", "lossy_paths", "paths", "changes"})
    j[list] = Json::array();
  for (const Finding& f : r.verdict.dead) j["dead"].push_back(finding_json(d, f));
  for (const Finding& f : r.verdict.lossy) j["lossy"].push_back(finding_json(d, f));
  for (const Finding& f : r.narrow.dead) j["narrow"].push_back(finding_json(d, f));
  for (const Finding& f : r.slow.dead) j["slow"].push_back(slow_json(d, r, f));
  for (const std::size_t i : r.slow.dead_paths) j["slow_paths"].push_back(path_name(d, r.paths[i]));
  for (const unsigned host : r.verdict.silent) j["silent"].push_back(d.hosts[host].name);
  for (const unsigned host : r.narrow.silent) j["narrow_hosts"].push_back(d.hosts[host].name);
  for (const std::size_t i : r.narrow.dead_paths)
    j["narrow_paths"].push_back(path_name(d, r.paths[i]));
  for (const std::size_t i : r.verdict.dead_paths)
    j["dead_paths"].push_back(path_name(d, r.paths[i]));
  for (const std::size_t i : r.verdict.lossy_paths)
    j["lossy_paths"].push_back(path_name(d, r.paths[i]));
  j["deny"] = deny_json(d, r.verdict);
  for (std::size_t i = 0; i < r.paths.size(); ++i) j["paths"].push_back(path_json(d, r, i));
  for (const Change& change : changes) j["changes"].push_back(change_json(change));
  return j.dump(2) + "\n";
}

std::string deny_list(const Description& d, const Verdict& verdict) {
  return deny_json(d, verdict).dump(2) + "\n";
}

std::string denying_description(const Description& d, const Verdict& verdict) {
  std::ifstream file(d.file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file)
    throw Error(std::error_code(errno, std::generic_category()),
                fmt::format("can't read '{}' again", d.file));
  Json j = Json::parse(text, nullptr, false, true);
  if (!j.is_object())
    throw Error(
        Errc::invalid_state,
        fmt::format("{} has changed since the start and is no description any more", d.file));
  j["deny"] = deny_json(d, verdict);
  return j.dump(2) + "\n";
}

}  // namespace mrc::probe_tool
