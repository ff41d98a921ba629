// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"

namespace mrc::inline v0_1::control {

/// Stream sockets with a name in the file system.

/// Listens at `path`, which the caller's user and root alone may connect to. It appears there only
/// once connecting to it succeeds. Non-blocking. Throws mrc::Error.
[[nodiscard]] UniqueFd listen_unix(const std::string& path);
/// Connects to a socket that listens there. Non-blocking. Throws mrc::Error, at once:
/// std::errc::connection_refused: nobody listens any more;
/// std::errc::resource_unavailable_try_again: as many as are possible wait there already.
[[nodiscard]] UniqueFd connect_unix(const std::string& path);

/// Who is at the other end of a connection: the connecting process, or the one that listens.
struct PeerCredentials {
  ::pid_t pid = 0;  ///< 0: it is in another PID namespace
  ::uid_t uid = 0;  ///< as this user namespace sees it
};
/// Throws mrc::Error.
[[nodiscard]] PeerCredentials credentials_of(const UniqueFd& socket);

/// What a LineServer says. Called by its thread alone.
class LineHandler {
 public:
  LineHandler() = default;
  virtual ~LineHandler() = default;
  LineHandler(const LineHandler&) = delete;
  LineHandler& operator=(const LineHandler&) = delete;

  /// The first line for each client. Lines have no end here.
  [[nodiscard]] virtual std::string greeting() = 0;
  /// For who may not be a client.
  [[nodiscard]] virtual std::string refusal(std::string_view why) = 0;
  /// The answer to a line. `follows`: whether the client gets news from now on.
  [[nodiscard]] virtual std::string answer(std::string_view line, bool& follows) = 0;
  /// Descriptors that are readable when there are news.
  [[nodiscard]] virtual std::vector<int> watched() const = 0;
  /// What has happened since the last call, a line each; called when one of them is readable.
  [[nodiscard]] virtual std::vector<std::string> news() = 0;
  /// What is to be done now and then. Returns when to call it again.
  virtual Time tick(Time now) = 0;
};

/// Serves clients of a UNIX socket: a line is a request, and has one line as its answer; clients
/// that follow get further lines. A thread of its own does it, so whatever a client sends or does
/// not read delays nobody else: it costs that client its connection, or its news, and memory that
/// is bounded. Root and this process's user may connect.
class LineServer {
 public:
  /// Clients at a time. A further one takes the place of the one that has been quiet for longest.
  static constexpr std::size_t kMostClients = 32;
  /// Bytes of a request.
  static constexpr std::size_t kLongestLine = 64 << 10;
  /// Bytes of news that wait for one client. What finds no room is dropped and counted, until the
  /// client has read the rest.
  static constexpr std::size_t kMostNews = 256 << 10;

  /// Listens at `path`, and starts the thread. `handler` must outlive it. Throws mrc::Error.
  LineServer(std::string path, LineHandler& handler);
  /// Ends the thread and removes the socket; in a forked child neither.
  ~LineServer();
  LineServer(const LineServer&) = delete;
  LineServer& operator=(const LineServer&) = delete;

  /// Of the socket.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// In a forked child: whether the thread, which does not exist there, was changing nothing.
  [[nodiscard]] bool at_rest() noexcept {
    return std::unique_lock(working_, std::try_to_lock).owns_lock();
  }

 private:
  struct Client {
    UniqueFd socket;
    std::string in, out;   ///< received and not looked at; to be sent
    std::size_t sent = 0;  ///< of `out`
    std::size_t dropped = 0;
    bool follows = false;
    bool ends = false;  ///< once all lines are answered and `out` is sent
    Time heard{};

    [[nodiscard]] bool idle() const noexcept { return out.empty(); }
    [[nodiscard]] bool has_line() const noexcept { return in.find('\n') != in.npos; }
    [[nodiscard]] bool done() const noexcept { return ends && idle() && !has_line(); }
  };
  using Clients = std::list<Client>;

  void run() noexcept;
  void serve_all();
  void wait(Time until, std::unique_lock<std::mutex>& working);
  void accept_clients(Time now);
  Clients::iterator drop(Clients::iterator client) noexcept;
  void say(Client& client, std::string_view line);
  void tell(Client& client, std::string_view line);
  [[nodiscard]] bool receive(Client& client, Time now);
  [[nodiscard]] static bool send(Client& client);
  void serve(Client& client);

  const std::string path_;
  LineHandler& handler_;
  const mrc::detail::ForkMark fork_;
  UniqueFd stop_;  ///< eventfd
  UniqueFd listener_;
  std::mutex working_;  ///< held by the thread except while it sleeps
  Clients clients_;
  Time due_{};  ///< when handler_.tick() is to be called
  std::vector<::pollfd> polled_;
  bool accepting_ = true;  ///< false after a failure that may last: no descriptors are left
  std::thread thread_;
};

}  // namespace mrc::inline v0_1::control
