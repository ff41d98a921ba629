// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/libmrc/host_events.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "mrc/control/dumps.hpp"
#include "mrc/core/system.hpp"
#include "verbs_shim/libmrc/host_devices.hpp"
#include "verbs_shim/log.hpp"

namespace mrc_verbs {

namespace {

constexpr int kLookMs = 500;

/// The event of a line, if it is one of a path.
std::optional<mrc::EvEvent> ev_event_of(const nlohmann::json& line) {
  const std::string kind = line.value("event", std::string());
  if (kind != "path_bad" && kind != "path_good") return std::nullopt;
  mrc::EvEvent event;
  event.state = kind == "path_bad" ? mrc::EvState::assumed_bad : mrc::EvState::good;
  event.plane = line.value("plane", mrc::Plane{0});
  event.entropy = mrc::Ev{line.value("ev", std::uint32_t{0})};
  if (const auto profile = line.find("profile"); profile != line.end())
    event.profile = profile->get<mrc::ProfileId>();
  event.ev = {mrc::detail::ev_from_text(line.value("value", std::string("0"))),
              line.value("port", std::uint8_t{0})};
  event.destination = mrc::port::parse_ip(line.value("destination", std::string("::")));
  event.drop_count = line.value("lost_before", std::uint32_t{0});
  return event;
}

}  // namespace

HostEvents& HostEvents::all() {
  static HostEvents* instance = [] {
    // A child begins anew: the thread and the streams are the parent's.
    (void)::pthread_atfork(nullptr, nullptr, [] { instance = new HostEvents; });
    return new HostEvents;  // its thread may run when the process ends
  }();
  return *instance;
}

void HostEvents::add(const mrc::EvEventStream& stream, const mrc::Device& device) {
  const std::lock_guard starting(starting_);
  const std::lock_guard lock(mutex_);
  folders_ = device_folders(device);
  streams_.push_back(stream);
  if (thread_.joinable()) return;
  wake_ = mrc::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ends_ = false;
  const mrc::BlockedSignals blocked;  // signals are the program's
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    streams_.pop_back();
    throw;
  }
}

void HostEvents::remove(const mrc::EvEventStream& stream) noexcept {
  const std::lock_guard starting(starting_);
  std::thread done;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [&](const auto& known) { return known.fd() == stream.fd(); });
    if (!streams_.empty() || !thread_.joinable()) return;
    ends_ = true;
    wake();
    done = std::move(thread_);
  }
  done.join();
}

void HostEvents::wake() const noexcept {
  const std::uint64_t one = 1;
  (void)!::write(wake_.fd(), &one, sizeof one);
}

void HostEvents::run() noexcept {
  mrc::Time next_look{};
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (ends_) break;
    }
    if (mrc::monotonic_now() >= next_look) {
      try {
        find_more();
      } catch (const std::exception& error) {
        warn(std::string("EV events of other processes: ") + error.what());
      }
      next_look = mrc::monotonic_now() + std::chrono::milliseconds(kLookMs);
    }
    std::vector<::pollfd> fds{{wake_.fd(), POLLIN, 0}};
    for (const Heard& heard : heard_) fds.push_back({heard.device->fd(), POLLIN, 0});
    (void)::poll(fds.data(), fds.size(), kLookMs);
    std::size_t i = 1;
    std::erase_if(heard_, [&](Heard& heard) {
      if (fds[i++].revents == 0) return false;
      try {
        hear(heard);
        return false;
      } catch (const std::exception&) {  // it has gone
        return true;
      }
    });
  }
  heard_.clear();
  not_heard_.clear();
  newest_.clear();
  first_look_ = true;
}

/// Connects to devices that are new, and asks them for their events.
void HostEvents::find_more() {
  std::vector<std::string> folders;
  {
    const std::lock_guard lock(mutex_);
    folders = folders_;
  }
  const mrc::control::SocketName own = mrc::control::make_socket_name();
  const std::string here = mrc::detail::host_key();
  for (const std::string& folder : folders)
    for (mrc::control::SocketFile& file : mrc::control::sockets_in(folder)) {
      const std::string path = file.path;
      const auto known = [&path](const Heard& heard) { return heard.path == path; };
      if (std::any_of(heard_.begin(), heard_.end(), known) ||
          std::find(not_heard_.begin(), not_heard_.end(), path) != not_heard_.end())
        continue;
      if (file.name.pid == own.pid && file.name.pid_namespace == own.pid_namespace) {
        not_heard_.push_back(path);  // the streams have its events anyway
        continue;
      }
      const bool trusted = mrc::control::is_trusted_user(file.owner);
      try {
        auto device = std::make_unique<mrc::control::RemoteDevice>(std::move(file));
        if (!device->greet(mrc::monotonic_now() + std::chrono::milliseconds(500))) {
          if (!trusted) not_heard_.push_back(path);
          continue;
        }
        if (device->hello().value("network", nlohmann::json()) != here) {
          not_heard_.push_back(path);
          continue;
        }
        // Of devices that were there before: what happens from now on. Of others: everything.
        auto newest = newest_.find(path);
        if (newest == newest_.end()) {
          const auto now =
              device->request({{"request", "events"}, {"since", UINT64_MAX}}, kDevicePatience);
          const auto last = now.value("newest", std::uint64_t{0});
          newest = newest_.emplace(path, first_look_ ? last : 0).first;
        }
        const auto missed = device->request(
            {{"request", "events"}, {"since", newest->second}, {"follow", true}}, kDevicePatience);
        heard_.push_back({path, std::move(device), 0});
        for (const auto& line : missed.value("events", nlohmann::json::array()))
          hear(heard_.back(), line);
      } catch (const std::exception&) {  // gone, stopped, or another's: the next look tells
        if (trusted) continue;
        not_heard_.push_back(path);  // others could make as many as they like wait
      }
    }
  first_look_ = false;
}

void HostEvents::hear(Heard& heard) {
  while (const auto line = heard.device->event(mrc::Duration(0))) hear(heard, *line);
}

void HostEvents::hear(Heard& heard, const nlohmann::json& line) {
  try {
    if (line.value("event", std::string()) == "dropped")
      heard.dropped += line.value("count", std::uint32_t{0});
    else if (auto event = ev_event_of(line))
      push(heard, *event);
    newest_[heard.path] = line.value("number", newest_[heard.path]);
  } catch (const nlohmann::json::exception&) {  // not as documented: another version, or hostile
  } catch (const mrc::Error&) {                 // the same
  }
}

void HostEvents::push(Heard& heard, mrc::EvEvent& event) {
  event.drop_count += std::exchange(heard.dropped, 0);
  const std::lock_guard lock(mutex_);
  for (mrc::EvEventStream& stream : streams_) stream.push(event);
}

}  // namespace mrc_verbs
