// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <thread>
#include <tuple>

#include "mrc/core/system.hpp"

namespace mrc::inline v0_1::control {

namespace detail {

/// Whether the socket is ready before `end`. A signal that is not restarted ends the wait.
bool ready(const UniqueFd& socket, short events, Time end) {
  ::pollfd entry{socket.fd(), events, 0};
  const Duration left = std::max(Duration(0), end - monotonic_now());
  const ::timespec limit{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  return ::ppoll(&entry, 1, &limit, nullptr) > 0;
}

}  // namespace detail

void Client::send(std::string_view line, Duration patience) {
  const Time end = monotonic_now() + patience;
  const std::string text = std::string(line) + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    if (!detail::ready(socket_, POLLOUT, end))
      throw Error(Errc::timed_out, "the device does not take a request");
    const ::ssize_t n =
        ::send(socket_.fd(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) throw_errno("can't send a request");
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
}

void Client::hang_up() noexcept {
  (void)::shutdown(socket_.fd(), SHUT_RDWR);
}

std::optional<std::string> Client::receive(Duration patience, std::size_t longest) {
  const Time end = monotonic_now() + patience;
  while (true) {
    if (const std::size_t at = in_.find('\n', searched_); at != in_.npos) {
      std::string line = in_.substr(0, at);
      in_.erase(0, at + 1);
      searched_ = 0;
      return line;
    }
    searched_ = in_.size();
    if (in_.size() > longest)
      throw Error(Errc::bad_message, "an answer of more than " + std::to_string(longest) +
                                         " bytes: what listens is no OpenMRC device");
    if (!detail::ready(socket_, POLLIN, end)) return std::nullopt;
    char buffer[16 << 10];
    const ::ssize_t n = ::recv(socket_.fd(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n == 0)
      throw Error(std::make_error_code(std::errc::connection_reset), "the device has gone");
    if (n < 0 && errno != EAGAIN && errno != EINTR) throw_errno("can't receive an answer");
    if (n > 0) in_.append(buffer, static_cast<std::size_t>(n));
  }
}

/// Said of an answer whose fields are of other types.
inline constexpr const char* kOddAnswer =
    "its answer is not as docs/control.md has it; it may be another version";

bool RemoteDevice::greet(Time until) {
  const auto fails = [this](const std::string& why) {
    problem_ = file_.path + ": " + why;
    return false;
  };
  try {
    constexpr std::size_t kLongestHello = 64 << 10;
    const auto line =
        client_.receive(std::max(Duration(0), until - monotonic_now()), kLongestHello);
    if (!line) return fails("the process does not answer; it may be stopped");
    hello_ = object_of(*line);
    if (has_field(hello_, "error", &Json::is_object)) {
      const std::string text = text_in(hello_["error"], "text");
      return fails(text.empty() ? "it refuses" : text);
    }
    if (!has_field(hello_, "pid", &Json::is_number_integer) ||
        !has_field(hello_, "program", &Json::is_string) ||
        !has_field(hello_, "host", &Json::is_string) ||
        !has_field(hello_, "protocol", &Json::is_number_integer))
      return fails("what listens is no OpenMRC device");
    hello_["uid"] = user_;
    return true;
  } catch (const Error& error) {
    gone_ = is_gone(error.code());
    return fails(mrc::detail::words_of(error));
  } catch (const std::exception&) {
    return fails("what listens is no OpenMRC device");
  }
}

std::string RemoteDevice::id() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, file_.name.id);
  return text;
}

nlohmann::json RemoteDevice::label() const {
  Json label = hello_;
  label.erase("event");
  label["device"] = id();
  return label;
}

std::string RemoteDevice::title() const {
  return hello_["program"].get<std::string>() + " (pid " +
         std::to_string(hello_["pid"].get<std::int64_t>()) + ")";
}

nlohmann::json RemoteDevice::request(Json request, std::optional<Duration> patience) {
  request["id"] = ++requests_;
  const Time begin = monotonic_now();
  const Time end = std::min(begin + patience.value_or(patience_), end_);
  client_.send(request.dump(), end - begin);
  while (true) {
    const Duration left = end - monotonic_now();
    const auto line = left > Duration(0) ? client_.receive(left) : std::nullopt;
    if (!line) throw Error(Errc::timed_out, title() + " does not answer; it may be stopped");
    Json answer = object_of(*line);
    if (answer.contains("id") && !has_field(answer, "id", &Json::is_number_unsigned))
      throw Error(Errc::bad_message, title() + ": " + kOddAnswer);
    if (count_in(answer, "id") != requests_) continue;  // an event
    if (flag_in(answer, "ok", false)) return answer;
    const Json& error = object_in(answer, "error");
    const std::string code = text_in(error, "code");
    std::string text = text_in(error, "text");
    if (text.empty()) text = "it refuses, and does not say why";
    Errc errc = Errc::access_denied;
    for (const Errc known : {Errc::invalid_argument, Errc::not_found, Errc::unsupported,
                             Errc::in_use, Errc::no_resources})
      if (code == wire_name(known)) errc = known;
    throw Error(errc, title() + ": " + text);
  }
}

nlohmann::json RemoteDevice::list(Json request_of, const std::string& name, std::size_t most) {
  constexpr std::size_t kMostElements = 10'000'000;  // all parts together
  Json all = Json::array();
  while (true) {
    Json answer = request(request_of);
    if (!has_field(answer, name.c_str(), &Json::is_array))
      throw Error(Errc::bad_message, title() + ": its answer has no " + name);
    for (Json& element : answer[name]) all.push_back(std::move(element));
    if (!answer.contains("next") || all.size() >= most) return all;
    const Json first = request_of.value("first", Json(0));
    if (!has_field(answer, "next", &Json::is_number_unsigned) || answer["next"] <= first ||
        all.size() > kMostElements)
      throw Error(Errc::bad_message, title() + ": its " + name + " have no end");
    request_of["first"] = answer["next"];
  }
}

std::optional<nlohmann::json> RemoteDevice::event(Duration patience) {
  const auto line = client_.receive(patience);
  if (!line) return std::nullopt;
  return object_of(*line);
}

std::string problem_with(const RemoteDevice& device, const std::exception& error) {
  const std::string title = device.title();
  std::string words = error.what();
  if (const auto* own = dynamic_cast<const Error*>(&error)) words = mrc::detail::words_of(*own);
  if (dynamic_cast<const nlohmann::json::exception*>(&error) != nullptr) words = kOddAnswer;
  return words.starts_with(title) ? words : title + ": " + words;
}

std::string problem_with(const RemoteDevice& device, const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& what) {
    return problem_with(device, what);
  }
}

bool Found::complete() const noexcept {
  return std::none_of(silent.begin(), silent.end(),
                      [](const Silent& one) { return is_trusted_user(one.user); });
}

std::vector<std::exception_ptr> all_at_once(std::size_t count,
                                            const std::function<void(std::size_t)>& ask,
                                            const std::function<void()>& meanwhile) {
  std::vector<std::exception_ptr> thrown(count);
  std::atomic<std::size_t> left{count};
  const auto one = [&](std::size_t i) {
    try {
      ask(i);
    } catch (...) {
      thrown[i] = std::current_exception();
    }
    --left;
  };
  std::vector<std::thread> threads;
  std::size_t next = 0;
  try {
    const BlockedSignals inherited;  // the program's handlers run in threads of the program
    threads.reserve(count);
    for (; next + 1 < count; ++next) threads.emplace_back(one, next);
  } catch (const std::exception&) {  // no more threads: the others one after the other
  }
  for (; next < count; ++next) one(next);
  while (meanwhile && left > 0) {
    meanwhile();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

Found find_devices(const std::vector<std::string>& folders, Duration patience, Duration for_others,
                   const std::function<bool(const SocketName&)>& wanted) {
  Found found;
  std::vector<std::unique_ptr<RemoteDevice>> connected;
  for (const SocketFile& file : sockets_in(folders)) try {
      if (!wanted(file.name)) continue;  // it may be stopped, which would cost time
      connected.push_back(std::make_unique<RemoteDevice>(file));
    } catch (const Error& error) {
      if (error.code() == std::errc::connection_refused)
        (void)remove_if_stale(file.path);
      else if (error.code() == std::errc::permission_denied)
        ++found.others;
      else if (error.code() == std::errc::resource_unavailable_try_again)
        found.silent.push_back({file.path + ": the process does not answer; it may be stopped",
                                file.name, file.owner});
      else if (error.code() != std::errc::no_such_file_or_directory)
        found.silent.push_back({mrc::detail::words_of(error), file.name, file.owner});
    }
  // All at a time: one that is stopped delays the others only once.
  const Time begin = monotonic_now();
  for (auto& device : connected) {
    if (device->greet(begin + (is_trusted_user(device->user()) ? patience : for_others)))
      found.devices.push_back(std::move(device));
    else if (!device->gone())
      found.silent.push_back({device->problem(), device->name(), device->user()});
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

bool has_field(const nlohmann::json& json, const char* name,
               bool (nlohmann::json::*is)() const noexcept) {
  const auto field = json.find(name);
  return field != json.end() && ((*field).*is)();
}

nlohmann::json object_of(const std::string& text, int deepest) {
  using Json = nlohmann::json;
  bool deep = false;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > deepest;
    return depth <= deepest;
  };
  Json json = Json::parse(text, look, false);
  return json.is_object() && !deep ? json : Json::object();
}

std::uint64_t count_in(const nlohmann::json& object, const char* name) {
  if (has_field(object, name, &nlohmann::json::is_number_unsigned))
    return object[name].get<std::uint64_t>();
  const double value =
      has_field(object, name, &nlohmann::json::is_number) ? object[name].get<double>() : 0;
  return value > 0 && value < 1e19 ? static_cast<std::uint64_t>(value) : 0;
}

std::string text_in(const nlohmann::json& object, const char* name) {
  return has_field(object, name, &nlohmann::json::is_string) ? object[name].get<std::string>()
                                                             : std::string();
}

bool flag_in(const nlohmann::json& object, const char* name, bool otherwise) {
  return has_field(object, name, &nlohmann::json::is_boolean) ? object[name].get<bool>()
                                                              : otherwise;
}

const nlohmann::json& object_in(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  return has_field(object, name, &nlohmann::json::is_object) ? object[name] : kEmpty;
}

const nlohmann::json& list_in(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  return has_field(object, name, &nlohmann::json::is_array) ? object[name] : kEmpty;
}

}  // namespace mrc::inline v0_1::control
