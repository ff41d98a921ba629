// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/wire/wire_report.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <sstream>

#include "mrc/core/value_text.hpp"

namespace mrc::tools {
namespace {

constexpr std::string_view kInterface = "wire";
constexpr std::string_view kEnd = "end";

/// An abstract socket name, local to each network namespace.
struct WireAddress {
  sockaddr_un address{};
  socklen_t length;

  WireAddress() {
    constexpr std::string_view kName = "mrc_fabric-wire";
    address.sun_family = AF_UNIX;
    kName.copy(address.sun_path + 1, kName.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kName.size());
  }
  [[nodiscard]] const sockaddr* any() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

UniqueFd unix_socket(int flags) {
  UniqueFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!made.open()) throw_errno("can't make a socket");
  return made;
}

std::string read_all(const UniqueFd& connection) {
  std::string text;
  char part[4096];
  for (ssize_t n = 1; n > 0; text.append(part, static_cast<std::size_t>(std::max<ssize_t>(n, 0))))
    n = recv(connection.fd(), part, sizeof part, 0);
  return text;
}

UniqueFd process_behind(const UniqueFd& connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(connection.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return UniqueFd();
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
}

}  // namespace

std::string wire_netns(const std::string& fabric) {
  return fabric + "-wire";
}

std::string wire_interface(std::size_t port) {
  return fmt::format("{}{}", kInterface, port);
}

std::optional<std::size_t> wire_port(std::string_view interface) {
  if (interface.substr(0, kInterface.size()) != kInterface) return std::nullopt;
  return parse_integer<std::size_t>(interface.substr(kInterface.size()));
}

const WireDirection* WireReport::find(std::size_t port) const {
  for (const WireDirection& d : directions)
    if (d.port == port) return &d;
  return nullptr;
}

std::string WireReport::text() const {
  std::string out = fmt::format("{}\n", missed);
  for (const WireDirection& d : directions)
    out += fmt::format("{} {} {} {} {}\n", d.port, d.delay.count(), d.held, d.passed, d.dropped);
  return out.append(kEnd);
}

std::optional<WireReport> WireReport::parse(const std::string& text) {
  if (!text.ends_with(kEnd)) return std::nullopt;
  std::istringstream in(text);
  WireReport report;
  in >> report.missed;
  Duration::rep delay = 0;
  for (WireDirection d; in >> d.port >> delay >> d.held >> d.passed >> d.dropped;) {
    d.delay = Duration{delay};
    report.directions.push_back(d);
  }
  return report;
}

UniqueFd listen_as_wire() {
  UniqueFd listener = unix_socket(SOCK_NONBLOCK);
  const WireAddress name;
  if (bind(listener.fd(), name.any(), name.length) != 0) {
    if (errno == EADDRINUSE) return UniqueFd();
    throw_errno("can't bind the wire's socket");
  }
  constexpr int kBacklog = 16;
  if (listen(listener.fd(), kBacklog) != 0) throw_errno("can't listen on the wire's socket");
  return listener;
}

void tell_report(const UniqueFd& listener, const WireReport& report) {
  const std::string text = report.text();
  while (true) {
    const UniqueFd connection(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.open()) return;
    const int room = static_cast<int>(2 * text.size());
    (void)setsockopt(connection.fd(), SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    // A partial report lacks its end, and the receiver asks again.
    (void)send(connection.fd(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

std::optional<WireReport> ask_wire(UniqueFd* process) {
  const UniqueFd connection = unix_socket(0);
  constexpr timeval kAnswerTime{1, 0};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    (void)setsockopt(connection.fd(), SOL_SOCKET, option, &kAnswerTime, sizeof kAnswerTime);
  const WireAddress name;
  if (connect(connection.fd(), name.any(), name.length) != 0) return std::nullopt;
  if (process != nullptr) *process = process_behind(connection);
  return WireReport::parse(read_all(connection));
}

}  // namespace mrc::tools
