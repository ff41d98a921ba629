// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/interrupt.hpp"
#include "mrc/core/error.hpp"

namespace mrc::ctl_tool {
namespace {

template <class T>
bool has(const Json& json, const char* name, T is) {
  const auto field = json.find(name);
  return field != json.end() && ((*field).*is)();
}

/// Of a list, all parts together.
constexpr std::size_t kMostElements = 10'000'000;

}  // namespace

Json object_of(const std::string& text, int deepest) {
  bool deep = false;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > deepest;
    return depth <= deepest;
  };
  Json json = Json::parse(text, look, false);
  return json.is_object() && !deep ? json : Json::object();
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

bool RemoteDevice::greet(Time until) {
  const auto fails = [this](const std::string& why) {
    problem_ = file_.path + ": " + why;
    return false;
  };
  try {
    const auto line = client_.receive(std::max(Duration(0), until - monotonic_now()));
    if (!line) return fails("the process does not answer; it may be stopped");
    hello_ = object_of(*line);
    if (has(hello_, "error", &Json::is_object))
      return fails(hello_["error"].value("text", "it refuses"));
    if (!has(hello_, "pid", &Json::is_number_integer) ||
        !has(hello_, "program", &Json::is_string) || !has(hello_, "host", &Json::is_string) ||
        !has(hello_, "protocol", &Json::is_number_integer))
      return fails("what listens is no OpenMRC device");
    hello_["uid"] = client_.server().uid;
    return true;
  } catch (const std::exception& error) {
    return fails(error.what());
  }
}

std::string RemoteDevice::id() const {
  return fmt::format("{:016x}", file_.name.id);
}

Json RemoteDevice::label() const {
  Json label = hello_;
  label.erase("event");
  label["device"] = id();
  return label;
}

std::string RemoteDevice::title() const {
  return fmt::format("{} (pid {})", hello_["program"].get<std::string>(),
                     hello_["pid"].get<std::int64_t>());
}

Json RemoteDevice::request(Json request, std::optional<Duration> patience) {
  request["id"] = ++requests_;
  const Duration longest = patience.value_or(patience_);
  client_.send(request.dump(), longest);
  const Time end = monotonic_now() + longest;
  while (true) {
    const Duration left = end - monotonic_now();
    const auto line = left > Duration(0) ? client_.receive(left) : std::nullopt;
    if (!line)
      throw Error(Errc::timed_out,
                  title() + (tools::g_interrupted ? " was not waited for any longer"
                                                  : " does not answer; it may be stopped"));
    Json answer = object_of(*line);
    if (answer.value("id", std::uint64_t{0}) != requests_) continue;  // an event
    if (has(answer, "ok", &Json::is_boolean) && answer["ok"] == true) return answer;
    std::string text = "it refuses, and does not say why";
    if (has(answer, "error", &Json::is_object)) text = answer["error"].value("text", text);
    throw Error(Errc::access_denied, fmt::format("{}: {}", title(), text));
  }
}

Json RemoteDevice::list(Json request_of, const std::string& name, std::size_t most) {
  Json all = Json::array();
  while (true) {
    Json answer = request(request_of);
    if (!has(answer, name.c_str(), &Json::is_array))
      throw Error(Errc::bad_message, fmt::format("{}: its answer has no {}", title(), name));
    for (Json& element : answer[name]) all.push_back(std::move(element));
    if (!answer.contains("next") || all.size() >= most) return all;
    const Json first = request_of.value("first", Json(0));
    if (!has(answer, "next", &Json::is_number_unsigned) || answer["next"] <= first ||
        all.size() > kMostElements)
      throw Error(Errc::bad_message, fmt::format("{}: its {} have no end", title(), name));
    request_of["first"] = answer["next"];
  }
}

std::optional<Json> RemoteDevice::event(Duration patience) {
  const auto line = client_.receive(patience);
  if (!line) return std::nullopt;
  return object_of(*line);
}

Found find_devices(const Options& o) {
  Found found;
  std::vector<std::unique_ptr<RemoteDevice>> connected;
  for (const std::string& folder : folders_of(o))
    for (control::SocketFile& file : control::sockets_in(folder)) try {
        if (!may_select(o, file.name)) continue;  // it may be stopped, which would cost time
        connected.push_back(std::make_unique<RemoteDevice>(file));
      } catch (const Error& error) {
        if (error.code() == std::errc::connection_refused)
          (void)control::remove_if_stale(file.path);
        else if (error.code() == std::errc::permission_denied)
          ++found.others;
        else if (error.code() == std::errc::resource_unavailable_try_again)
          found.silent.push_back(file.path + ": the process does not answer; it may be stopped");
        else if (error.code() != std::errc::no_such_file_or_directory)
          found.silent.push_back(error.what());
      }
  // All at a time: one that is stopped delays the others only once.
  const Time end = monotonic_now() + o.patience;
  for (auto& device : connected) {
    if (!device->greet(end)) {
      found.silent.push_back(device->problem());
    } else if (selects(o, *device)) {
      found.devices.push_back(std::move(device));
    }
  }
  std::sort(found.devices.begin(), found.devices.end(), [](const auto& a, const auto& b) {
    const auto key = [](const RemoteDevice& d) {
      return std::tuple(d.hello()["program"].template get<std::string>(),
                        d.hello()["pid"].template get<std::int64_t>(), d.name().id);
    };
    return key(*a) < key(*b);
  });
  return found;
}

}  // namespace mrc::ctl_tool
