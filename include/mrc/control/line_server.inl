// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/line_server.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::control {

/// Between two tries to wait, if that is refused.
inline constexpr Duration kRefusedNap = std::chrono::milliseconds(10);

LineServer::LineServer(std::string path, LineHandler& handler)
    : path_(std::move(path)), handler_(handler), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!stop_.open()) throw_errno("can't open an event descriptor");
  listener_ = listen_unix(path_);
  try {
    const BlockedSignals inherited;  // the program's handlers run in threads of the program
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    (void)::unlink(path_.c_str());
    throw_errno("can't start the thread of the control socket", error.code().value());
  }
  (void)::pthread_setname_np(thread_.native_handle(), "openmrc-control");
}

LineServer::~LineServer() {
  if (fork_.forked()) {  // and the file
    mrc::detail::leave_to_parent(std::move(thread_));
    return;
  }
  const std::uint64_t one = 1;
  (void)uncancelled::write(stop_.fd(), &one, sizeof one);
  thread_.join();
  (void)::unlink(path_.c_str());
}

void LineServer::run() noexcept {
  std::unique_lock working(working_);
  due_ = monotonic_now();
  while (true) {
    try {
      wait(due_, working);
      if (polled_[0].revents != 0) break;
      serve_all();
    } catch (...) {  // no memory: who needed it goes
      while (!clients_.empty()) (void)drop(clients_.begin());
    }
  }
  while (!clients_.empty()) (void)drop(clients_.begin());
}

/// Looks at what wait() has found.
void LineServer::serve_all() {
  const Time now = monotonic_now();
  if (now >= due_) {
    due_ = now + std::chrono::seconds(1);  // if it throws
    due_ = handler_.tick(now);
  }
  const auto watched = static_cast<long>(handler_.watched().size());
  const auto readable = [](const ::pollfd& entry) { return entry.revents != 0; };
  const auto first = polled_.begin() + 2 + watched;
  if (std::any_of(polled_.begin() + 2, first, readable))
    for (const std::string& line : handler_.news())
      for (Client& client : clients_)
        if (client.follows) tell(client, line);
  // Those that wait() listed, in its order; accept_clients() adds others behind them.
  auto entry = first;
  for (auto client = clients_.begin(); client != clients_.end() && entry != polled_.end();
       ++entry) {
    bool alive = entry->revents == 0 || receive(*client, now);
    if (alive && client->idle() && client->has_line()) serve(*client);
    alive = alive && send(*client) && !client->done();
    client = alive ? std::next(client) : drop(client);
  }
  if (polled_[1].revents != 0) accept_clients(now);
}

/// Forked children may have the connection open, too.
LineServer::Clients::iterator LineServer::drop(Clients::iterator client) noexcept {
  (void)::shutdown(client->socket.fd(), SHUT_RDWR);
  return clients_.erase(client);
}

/// Programs that shut themselves in set RLIMIT_NOFILE to 0, and then no descriptor can be polled.
/// Nobody is served any more, but the server still has to end.
void LineServer::wait(Time until, std::unique_lock<std::mutex>& working) {
  polled_.clear();
  polled_.push_back({stop_.fd(), POLLIN, 0});
  polled_.push_back({accepting_ ? listener_.fd() : -1, POLLIN, 0});
  for (const int fd : handler_.watched()) polled_.push_back({fd, POLLIN, 0});
  bool at_once = false;
  for (const Client& client : clients_) {  // what it sends waits until what it has sent is answered
    const bool line = client.has_line();
    const short events = !client.idle() ? POLLOUT : line ? 0 : POLLIN;
    polled_.push_back({client.socket.fd(), events, 0});
    at_once = at_once || (client.idle() && line);
  }
  const Duration left =
      std::clamp<Duration>(until - monotonic_now(), Duration(0), std::chrono::seconds(3600));
  const Duration nap = at_once      ? Duration(0)
                       : accepting_ ? left
                                    : std::min<Duration>(left, std::chrono::milliseconds(100));
  const ::timespec limit{nap.count() / 1'000'000'000, nap.count() % 1'000'000'000};
  accepting_ = true;
  working.unlock();
  const int found = ::ppoll(polled_.data(), polled_.size(), &limit, nullptr);
  const bool refused = found < 0 && errno != EINTR;
  if (refused) std::this_thread::sleep_for(kRefusedNap);
  working.lock();
  if (found >= 0) return;
  for (::pollfd& entry : polled_) entry.revents = 0;
  std::uint64_t asked = 0;
  if (refused && ::read(stop_.fd(), &asked, sizeof asked) > 0) polled_[0].revents = POLLIN;
}

void LineServer::accept_clients(Time now) {
  while (true) {
    UniqueFd socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.open()) {
      accepting_ = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
      return;
    }
    const ::uid_t uid = credentials_of(socket).uid;
    const int buffer = static_cast<int>(kMostNews);  // whatever the machine's default is
    (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    if (clients_.size() == kMostClients)
      (void)drop(
          std::min_element(clients_.begin(), clients_.end(),
                           [](const Client& a, const Client& b) { return a.heard < b.heard; }));
    Client& client = clients_.emplace_back();
    client.socket = std::move(socket);
    client.heard = now;
    client.ends = uid != 0 && uid != ::geteuid();
    say(client,
        client.ends ? handler_.refusal("this device is another user's") : handler_.greeting());
    if (!send(client)) (void)drop(std::prev(clients_.end()));
  }
}

void LineServer::say(Client& client, std::string_view line) {
  client.out.append(line).push_back('\n');
}

void LineServer::tell(Client& client, std::string_view line) {
  const bool behind = client.dropped > 0 && !client.idle();
  if (behind || client.out.size() - client.sent + line.size() > kMostNews) {
    ++client.dropped;
    return;
  }
  if (client.dropped > 0)
    say(client, "{\"event\":\"dropped\",\"count\":" + std::to_string(client.dropped) + "}");
  client.dropped = 0;
  say(client, line);
}

/// False if the client is gone.
bool LineServer::receive(Client& client, Time now) {
  if (!client.idle() || client.has_line()) return true;  // not yet
  client.heard = now;
  char buffer[4096];
  const ::ssize_t n = ::recv(client.socket.fd(), buffer, sizeof buffer, 0);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) {  // it may still read: a last line need not have an end
    client.ends = true;
    if (!client.in.empty()) client.in.push_back('\n');
    return true;
  }
  client.in.append(buffer, static_cast<std::size_t>(n));
  if (client.in.size() > kLongestLine && !client.has_line()) {
    client.in.clear();
    client.ends = true;
    say(client,
        handler_.refusal("a request of more than " + std::to_string(kLongestLine) + " bytes"));
  }
  return true;
}

/// False if the client is gone.
bool LineServer::send(Client& client) {
  while (!client.idle()) {
    const ::ssize_t n = ::send(client.socket.fd(), client.out.data() + client.sent,
                               client.out.size() - client.sent, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<std::size_t>(n);
    if (client.sent < client.out.size()) {
      if (client.sent < kMostNews) continue;
      client.out.erase(0, client.sent);  // also for one that never quite catches up
      client.sent = 0;
      continue;
    }
    client.out.clear();
    client.out.shrink_to_fit();
    client.sent = 0;
  }
  return true;
}

/// Answers the first line that is not blank, and drops those before it.
void LineServer::serve(Client& client) {
  const std::size_t text = client.in.find_first_not_of(" \t\r\n");
  const std::size_t blank = client.in.rfind('\n', text);  // the end of the last of them
  if (blank != client.in.npos) client.in.erase(0, blank + 1);
  const std::size_t end = client.in.find('\n');
  if (end == client.in.npos) return;
  const std::string line = client.in.substr(0, end);
  client.in.erase(0, end + 1);
  say(client, handler_.answer(line, client.follows));
}

namespace detail {

::sockaddr_un unix_address(const std::string& path) {
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error(Errc::invalid_argument, "a socket can't be named " + path + ": at most " +
                                            std::to_string(sizeof address.sun_path - 1) +
                                            " characters are possible");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd unix_socket(int flags) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!socket.open()) throw_errno("can't make a UNIX socket");
  return socket;
}

}  // namespace detail

UniqueFd listen_unix(const std::string& path) {
  constexpr int kBacklog = 64;
  const std::string early = path + "~";  // a name that tools don't try
  const ::sockaddr_un address = detail::unix_address(early);
  UniqueFd socket = detail::unix_socket(SOCK_NONBLOCK);
  const auto* name = reinterpret_cast<const ::sockaddr*>(&address);
  if (::bind(socket.fd(), name, sizeof address) != 0) throw_errno("can't make the socket " + path);
  if (::chmod(early.c_str(), 0600) != 0 || ::listen(socket.fd(), kBacklog) != 0 ||
      ::rename(early.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)::unlink(early.c_str());
    throw_errno("can't make the socket " + path, error);
  }
  return socket;
}

UniqueFd connect_unix(const std::string& path) {
  const ::sockaddr_un address = detail::unix_address(path);
  UniqueFd socket = detail::unix_socket(SOCK_NONBLOCK);
  const auto* name = reinterpret_cast<const ::sockaddr*>(&address);
  while (::connect(socket.fd(), name, sizeof address) != 0)
    if (errno != EINTR) throw_errno("can't connect to " + path);
  return socket;
}

PeerCredentials credentials_of(const UniqueFd& socket) {
  ::ucred peer{};
  ::socklen_t size = sizeof peer;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    throw_errno("can't tell who is at the other end of a UNIX socket");
  return {peer.pid, peer.uid};
}

}  // namespace mrc::inline v0_1::control
