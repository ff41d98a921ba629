// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "mrc/control/client.hpp"
#include "mrc/core/error.hpp"

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

}  // namespace mrc::inline v0_1::control
