// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "mrc/api/device_stats_json.hpp"
#include "mrc/api/option_table.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/host/device_control.hpp"
#include "mrc/host/device_core.hpp"
#include "mrc/version.hpp"

namespace mrc::inline v0_1::detail {

namespace control_text {

using Json = nlohmann::json;

/// Version of the protocol (docs/control.md).
inline constexpr int kProtocol = 1;
inline constexpr std::size_t kKeptEvents = 1024;
/// Peers and paths that are copied while a lane is locked: some microseconds.
inline constexpr std::size_t kPart = 32;

/// A line. What is not UTF-8, as names may be, is replaced.
[[nodiscard]] MRC_SETUP std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

[[nodiscard]] MRC_SETUP double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// How an error is called; programs may compare it.
[[nodiscard]] MRC_SETUP std::string code_of(const std::error_code& error) {
  if (error.category() != error_category()) return "system";
  switch (static_cast<Errc>(error.value())) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::not_found:
      return "not_found";
    case Errc::unsupported:
      return "unsupported";
    case Errc::access_denied:
      return "access_denied";
    default:
      return "failed";
  }
}

[[nodiscard]] MRC_SETUP Json failure(std::string_view code, std::string_view text) {
  return {{"ok", false}, {"error", {{"code", code}, {"text", text}}}};
}

[[nodiscard]] MRC_SETUP const char* name_of(DeviceEvent::Kind kind) {
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

/// The peer of a queue pair, in a sentence.
[[nodiscard]] MRC_SETUP std::string peer_text(Lane& lane, const QpReport& qp) {
  for (std::size_t at = 0; qp.peer; at += kPart) {
    const std::vector<PeerReport> part = lane.peers(at, kPart);
    for (const PeerReport& report : part)
      if (report.number == *qp.peer) return "peer " + report.addresses;
    if (part.size() < kPart) break;
  }
  return "a peer that is not known yet";
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

  [[nodiscard]] Json process() const {
    char host[256] = "";
    (void)!::gethostname(host, sizeof host - 1);
    return {{"pid", ::getpid()},
            {"uid", ::geteuid()},
            {"program", ::program_invocation_short_name},
            {"host", host},
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

  /// Positions count the queue pairs of all lanes, one lane after the other.
  [[nodiscard]] Json queue_pairs() const {
    Json out = Json::array();
    std::uint64_t position = 0;
    const std::uint64_t from = first(), end = from + count();
    for (const auto& lane : core().lanes())
      for (const Qpn qpn : lane->queue_pairs()) {
        if (position >= end) return list("queue_pairs", std::move(out), position, true);
        if (position++ < from) continue;
        if (const auto report = lane->report(qpn)) out.push_back(*report);
      }
    return list("queue_pairs", std::move(out), position, false);
  }
  [[nodiscard]] Json peers() const {
    Json out = Json::array();
    const std::uint32_t from = first(), most = count();
    std::uint64_t position = 0;
    for (const auto& lane : core().lanes())
      for (std::size_t at = 0;; at += control_text::kPart) {
        const std::vector<PeerReport> part = lane->peers(at, control_text::kPart);
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

  [[nodiscard]] Json events() const {
    const std::uint64_t since = number("since", UINT64_MAX, 0);
    follows = yes_or_no("follow", follows);
    Json out = Json::array();
    const std::uint64_t oldest = control.next_event_ - control.recent_.size();
    for (std::size_t i = 0; i < control.recent_.size(); ++i)
      if (oldest + i > since) out.push_back(control.recent_[i]);
    return {{"events", std::move(out)}, {"newest", control.next_event_ - 1}};
  }

  [[nodiscard]] Json plane() const {
    const auto which = static_cast<unsigned>(number("plane", kMaxPlanes));
    const bool enabled = yes_or_no("enabled");
    core().set_plane_enabled(which, enabled);
    core().log().warn("plane " + std::to_string(which) + " was " +
                      (enabled ? "enabled" : "disabled") + " through the control socket");
    return planes();
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
    core().set_faults(text("schedule"));
    return Json::object();
  }

  struct Entry {
    std::string_view name;
    Json (Requests::*answer)() const;
  };
  static std::span<const Entry> table() {
    static constexpr Entry kEntries[] = {
        {"process", &Requests::process}, {"config", &Requests::config},
        {"planes", &Requests::planes},   {"counters", &Requests::counters},
        {"peers", &Requests::peers},     {"queue_pairs", &Requests::queue_pairs},
        {"paths", &Requests::paths},     {"events", &Requests::events},
        {"plane", &Requests::plane},     {"log", &Requests::log},
        {"faults", &Requests::faults},
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

MRC_SETUP std::unique_ptr<ControlService> open_control_socket(DeviceCore& core) {
  return std::make_unique<DeviceControl>(core);
}

MRC_SETUP DeviceControl::DeviceControl(DeviceCore& core)
    : core_(core),
      opened_(control_text::seconds_now()),
      events_(control_text::kKeptEvents),
      ev_events_(std::make_shared<EvEventQueue>(control_text::kKeptEvents)) {
  const std::string folder = control::device_folder(core.config().control);
  control::remove_stale(folder);
  core_.ev_events().add(ev_events_);
  core_.events().copy_to(&events_);
  try {
    server_ = std::make_unique<control::LineServer>(
        folder + "/" + control::to_string(control::make_socket_name()), *this);
  } catch (...) {
    core_.events().copy_to(nullptr);
    throw;
  }
}

MRC_SETUP DeviceControl::~DeviceControl() {
  if (!core_.forked()) core_.events().copy_to(nullptr);
  server_.reset();
}

MRC_SETUP std::string DeviceControl::greeting() {
  const control_text::Json nothing;
  bool follows = false;
  control_text::Json line = Requests{*this, nothing, follows}.process();
  line["event"] = "hello";
  return control_text::line_of(line);
}

MRC_SETUP std::string DeviceControl::refusal(std::string_view why) {
  return control_text::line_of(control_text::failure("access_denied", why));
}

MRC_SETUP std::string DeviceControl::answer(std::string_view line, bool& follows) {
  using control_text::Json;
  const Json request = Json::parse(line, nullptr, false);
  Json answer;
  try {
    if (request.is_discarded())
      answer = control_text::failure("invalid_argument", "the request is not JSON");
    else
      answer = Requests{*this, request, follows}.answer();
  } catch (const Error& error) {
    answer = control_text::failure(control_text::code_of(error.code()), error.what());
  } catch (const std::exception& error) {
    answer = control_text::failure("failed", error.what());
  }
  if (!answer.contains("ok")) answer["ok"] = true;
  // Nothing that is nested, which would be copied and written level by level.
  if (const auto id = request.is_object() ? request.find("id") : request.end();
      id != request.end() && (id->is_string() || id->is_number()))
    answer["id"] = *id;
  return control_text::line_of(answer);
}

MRC_SETUP std::vector<int> DeviceControl::watched() const {
  return {events_.fd(), ev_events_->fd()};
}

MRC_SETUP std::vector<std::string> DeviceControl::news() {
  using control_text::Json;
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
    if (path.profile) fields["profile"] = *path.profile;
    if (path.drop_count > 0) fields["lost_before"] = path.drop_count;
    keep(path.state == EvState::good ? "path_good" : "path_bad", std::move(fields), lines);
  }
  return lines;
}

/// Keeps an event with these fields, and adds its line.
MRC_SETUP void DeviceControl::keep(const char* kind, nlohmann::json line,
                                   std::vector<std::string>& lines) {
  line["event"] = kind;
  line["number"] = next_event_++;
  line["time"] = control_text::seconds_now();
  lines.push_back(control_text::line_of(line));
  if (recent_.size() == control_text::kKeptEvents) recent_.pop_front();
  recent_.push_back(std::move(line));
}

MRC_SETUP Time DeviceControl::tick(Time now) {
  const Duration limit = core_.config().stall_warning;
  if (limit == Duration(0)) return kNever;
  watch_progress(now);
  return now +
         std::clamp<Duration>(limit / 4, std::chrono::milliseconds(10), std::chrono::seconds(2));
}

/// Tells once of each queue pair that makes no progress, and when it goes on; of a few at a time,
/// since all of them may wait for the same.
MRC_SETUP void DeviceControl::watch_progress(Time now) {
  constexpr int kMostLines = 8;
  int lines = 0, more = 0;
  const Duration limit = core_.config().stall_warning;
  auto before = std::exchange(watched_, {});
  for (const auto& lane : core_.lanes())
    for (const Qpn qpn : lane->queue_pairs()) {
      const std::optional<QpReport> qp = lane->report(qpn);
      if (!qp || qp->waits_for == std::string_view("nothing")) continue;
      const std::pair key(lane->index(), value(qpn));
      Watched& entry = watched_[key];
      const std::uint64_t progress = control_text::progress_of(*qp);
      const auto known = before.find(key);
      const bool same = known != before.end() && known->second.progress == progress;
      entry = same ? known->second : Watched{progress, now, false};
      const std::string name = "queue pair " + std::to_string(value(qpn));
      if (known != before.end() && known->second.told && progress > known->second.progress)
        core_.log().warn(name + " makes progress again");
      if (entry.told || now - entry.since < limit) continue;
      if (lines++ >= kMostLines) {
        ++more;
        continue;
      }
      entry.told = true;
      core_.log().warn(name + " has made no progress for " + format_duration(now - entry.since) +
                       ": it waits for " + qp->waits_for + " (docs/control.md), " +
                       std::to_string(qp->stats.outstanding) + " packets in flight, " +
                       control_text::peer_text(*lane, *qp) +
                       (qp->silent_ns == 0
                            ? std::string()
                            : " silent for " + format_duration(Duration(qp->silent_ns))));
    }
  for (const auto& [key, entry] : before) {  // those that have finished
    if (!entry.told || watched_.contains(key)) continue;
    const auto qp = core_.lanes()[key.first].report(Qpn{key.second});
    if (qp && control_text::progress_of(*qp) > entry.progress)
      core_.log().warn("queue pair " + std::to_string(key.second) + " makes progress again");
  }
  if (more > 0) core_.log().warn(std::to_string(more) + " more queue pairs have made no progress");
}

}  // namespace mrc::inline v0_1::detail
