// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "mrc/api/device_stats_json.hpp"
#include "mrc/control/client.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/host/device_control.hpp"
#include "mrc/host/device_core.hpp"
#include "mrc/host/device_requests.inl"
#include "mrc/host/profile_json.hpp"

namespace mrc::inline v0_1::detail {

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
    const std::vector<PeerReport> part = lane.peers(at, kPart);
    for (const PeerReport& report : part)
      if (report.number == *qp.peer) return "peer " + report.addresses;
    if (part.size() < kPart) break;
  }
  return "a peer that is not known yet";
}

}  // namespace control_text

std::unique_ptr<ControlService> open_control_socket(DeviceCore& core) {
  return std::make_unique<DeviceControl>(core);
}

DeviceControl::DeviceControl(DeviceCore& core)
    : core_(core),
      store_(std::make_shared<HostStore>(store_folder(core.config().control), core.log())),
      opened_(control_text::seconds_now()),
      dump_file_(file_name_of(core.config().dump)),
      events_(control_text::kKeptEvents),
      ev_events_(std::make_shared<EvEventQueue>(control_text::kKeptEvents)),
      recent_(control_text::kKeptEvents) {
  if (!dump_file_.empty()) check_dump_file(dump_file_);
  core_.ev_events().add(ev_events_);
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
  for (const auto& lane : core_.lanes()) lane->follow(store_);
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
    const auto qp = core_.lanes()[key.first].report(Qpn{key.second});
    if (qp && control_text::progress_of(*qp) > entry.progress)
      core_.log().warn("queue pair " + std::to_string(key.second) + " makes progress again");
  }
  if (more > 0) core_.log().warn(std::to_string(more) + " more queue pairs have made no progress");
}

}  // namespace mrc::inline v0_1::detail
