// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/line_socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "common/interrupt.hpp"
#include "mrc/net/interface.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::check_tool {
namespace {

/// False when the time is over.
bool wait_for(int fd, short events, Time end) {
  while (!tools::g_interrupted) {
    const Duration left = end - monotonic_now();
    if (left <= Duration(0)) return false;
    const auto part = std::min<Duration>(left, std::chrono::milliseconds(100));
    ::pollfd entry{fd, events, 0};
    if (::poll(&entry, 1, static_cast<int>(part.count() / 1'000'000 + 1)) > 0) return true;
  }
  return false;
}

std::string how_to_start(const ctl_tool::HostPort& at) {
  return fmt::format(
      "start `mrc_ctl check --listen{}` there",
      at.port == ctl_tool::kCheckPort ? "" : fmt::format(" --at 0.0.0.0:{}", at.port));
}

port::Socket connect_to(const ctl_tool::HostPort& at, Duration patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = ::getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &list);
  if (failed != 0)
    throw NoAnswer(fmt::format("{}: no such host ({})", at.host, ::gai_strerror(failed)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  int error = ETIMEDOUT;
  const Time end = monotonic_now() + patience;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    port::Socket socket = port::begin_connect(port::SocketAddress(each->ai_addr));
    if (!socket.open()) {
      error = errno;
      continue;
    }
    if (!wait_for(socket.fd(), POLLOUT, end)) continue;
    const auto result = port::connect_result(socket);
    if (result && *result == 0) return socket;
    error = result.value_or(ETIMEDOUT);
  }
  throw NoAnswer(
      fmt::format("{} does not answer at TCP port {} ({}): {}, and let firewalls pass it", at.host,
                  at.port, std::generic_category().message(error), how_to_start(at)));
}

}  // namespace

bool LineSocket::work() {
  char buffer[16 << 10];
  while (true) {
    const ::ssize_t n = ::recv(socket_.fd(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n < 0) break;
    in_.append(buffer, static_cast<std::size_t>(n));
    if (in_.size() > kLongest) break;  // the rest waits in the kernel
  }
  if (in_.size() > kLongest && in_.find('\n') > kLongest) return false;
  while (!out_.empty()) {
    const ::ssize_t n = ::send(socket_.fd(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return false;
    out_.erase(0, static_cast<std::size_t>(n));
  }
  return true;
}

std::optional<Json> LineSocket::take() {
  const std::size_t end = in_.find('\n', searched_);
  if (end == in_.npos) {
    searched_ = in_.size();
    return std::nullopt;
  }
  Json line = ctl_tool::object_of(in_.substr(0, end));
  in_.erase(0, end + 1);
  searched_ = 0;
  return line;
}

bool LineSocket::say(const Json& line) {
  const std::string text = ctl_tool::json_text(line, -1) + "\n";
  if (text.size() > kLongest || out_.size() + text.size() > 2 * kLongest) return false;
  out_ += text;
  return true;
}

CheckClient::CheckClient(const ctl_tool::HostPort& at, Duration patience)
    : name_(to_string(at)), patience_(patience), lines_(connect_to(at, patience)) {}

Json CheckClient::ask(const Json& request) {
  const auto fails = [&](const char* why) { throw NoAnswer(name_ + ": " + why); };
  if (!lines_.say(request)) fails("the request is too long");
  const Time end = monotonic_now() + patience_;
  while (true) {
    const bool open = lines_.work();
    if (const auto answer = lines_.take()) {
      if (answer->value("ok", Json()) == true) return *answer;
      if (!answer->contains("error")) fails("what listens there is no `mrc_ctl check --listen`");
      const Json& error = (*answer)["error"];
      throw NoAnswer(name_ + ": " +
                     ctl_tool::printable(error.is_string() ? error.get<std::string>() : "refused"));
    }
    if (!open)
      fails("the connection has ended; what listens is perhaps no `mrc_ctl check --listen`");
    const auto events = static_cast<short>(lines_.sends() ? POLLIN | POLLOUT : POLLIN);
    if (!wait_for(lines_.fd(), events, end))
      fails(tools::g_interrupted ? "interrupted" : "no answer in time; --wait gives it longer");
  }
}

}  // namespace mrc::check_tool
