// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "mrc/control/line_server.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"

namespace mrc::inline v0_1::control {

/// A connection to a control socket: lines go there, and come back. What is in them is the caller's
/// affair; whoever listens may be hostile, so lines are bounded. One thread.
class Client {
 public:
  /// Bytes of a line that is taken.
  static constexpr std::size_t kLongestLine = 4 << 20;

  /// Connects. Throws mrc::Error; std::errc::connection_refused: nobody listens any more.
  explicit Client(const std::string& path) : socket_(connect_unix(path)) {}

  /// Who listens. Throws mrc::Error.
  [[nodiscard]] PeerCredentials server() const { return credentials_of(socket_); }
  /// Readable when there may be a line.
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// Sends a line, without its end. Throws mrc::Error, also when it takes too long.
  void send(std::string_view line, Duration patience);
  /// The next line, without its end; nothing if none has come after that time. Throws mrc::Error if
  /// the connection has ended, or the line is longer than `longest` bytes.
  [[nodiscard]] std::optional<std::string> receive(Duration patience,
                                                   std::size_t longest = kLongestLine);
  /// Ends the connection: calls that wait end at once. Any thread.
  void hang_up() noexcept;

 private:
  UniqueFd socket_;
  std::string in_;
  std::size_t searched_ = 0;  ///< bytes of `in_` without the end of a line
};

/// What others send, read without trust: nothing here throws but std::bad_alloc.

/// The object that a text is; an empty one if it is no JSON object, or one that is nested deeper
/// than any answer is: copying and writing it goes level by level.
[[nodiscard]] nlohmann::json object_of(const std::string& text, int deepest = 16);

/// Whether `json` is an object with that field, of the kind that `is` asks for:
/// `&nlohmann::json::is_string`, say.
[[nodiscard]] bool has_field(const nlohmann::json& json, const char* name,
                             bool (nlohmann::json::*is)() const noexcept);

/// A field of an object; 0 if there is none, or it is no number that fits.
[[nodiscard]] std::uint64_t count_in(const nlohmann::json& object, const char* name);
/// The same; empty if there is none, or it is no string.
[[nodiscard]] std::string text_in(const nlohmann::json& object, const char* name);
/// The same; `otherwise` if there is none, or it is no boolean.
[[nodiscard]] bool flag_in(const nlohmann::json& object, const char* name, bool otherwise);
/// An object in an object; an empty one if there is none.
[[nodiscard]] const nlohmann::json& object_in(const nlohmann::json& object, const char* name);
/// A list in an object; an empty one if there is none.
[[nodiscard]] const nlohmann::json& list_in(const nlohmann::json& object, const char* name);

/// How long a device has to answer, unless something else is said.
inline constexpr Duration kPatience = std::chrono::seconds(10);

/// A device of some process, by its control socket (docs/control.md). One thread.
class RemoteDevice {
 public:
  /// Requests and answers.
  using Json = nlohmann::json;

  /// Connects. Throws mrc::Error.
  explicit RemoteDevice(SocketFile file)
      : file_(std::move(file)), client_(file_.path), user_(client_.server().uid) {}

  /// Waits for its greeting. False, and problem() says why, if it is none of OpenMRC's or does not
  /// come.
  [[nodiscard]] bool greet(Time until);
  /// Why greet() was false.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// It ended while greet() waited.
  [[nodiscard]] bool gone() const { return gone_; }

  /// What it says of its process: pid, program, host and so on. Checked: these are there. The user
  /// is the kernel's word.
  [[nodiscard]] const Json& hello() const { return hello_; }
  /// The random number in the name of its socket, in 16 hexadecimal digits.
  [[nodiscard]] std::string id() const;
  /// hello() with the device's id, as JSON output names a device.
  [[nodiscard]] Json label() const;
  /// What the name of its socket says.
  [[nodiscard]] const SocketName& name() const { return file_.name; }
  /// "ib_write_bw (pid 4711)".
  [[nodiscard]] std::string title() const;
  /// Whose it is, by the kernel's word.
  [[nodiscard]] ::uid_t user() const { return user_; }

  /// Whether that error says that the device has gone, its process has ended, say.
  [[nodiscard]] static bool is_gone(const std::error_code& error) noexcept {
    return error == std::errc::connection_reset || error == std::errc::broken_pipe;
  }
  /// The answer to a request, with `"ok": true`. Throws mrc::Error with what the device says if it
  /// refuses, or if it does not answer; the code is the device's, as far as it is known.
  [[nodiscard]] Json request(Json request, std::optional<Duration> patience = {});
  /// A list as a whole, however many answers it takes; or its first `most` elements, and perhaps
  /// some more.
  [[nodiscard]] Json list(Json request, const std::string& name, std::size_t most = SIZE_MAX);
  /// The next event after {"request":"events","follow":true}; nothing if none has come in time.
  [[nodiscard]] std::optional<Json> event(Duration patience);
  /// Readable when there may be an answer or an event.
  [[nodiscard]] int fd() const { return client_.fd(); }
  /// How long it has for each further answer, and until when for all of them.
  void set_patience(Duration patience, Time end = kNever) {
    patience_ = patience;
    end_ = end;
  }
  /// Ends the connection: a call that waits for it ends at once. Any thread.
  void hang_up() noexcept { client_.hang_up(); }

 private:
  SocketFile file_;
  Client client_;
  ::uid_t user_;
  Json hello_;
  std::string problem_;
  bool gone_ = false;
  std::uint64_t requests_ = 0;
  Duration patience_ = kPatience;
  Time end_ = kNever;
};

/// A socket behind which nobody says who he is.
struct Silent {
  std::string why;   ///< with the path
  SocketName name;   ///< of the socket
  ::uid_t user = 0;  ///< whose it is
};

/// What to tell people of an exception that something about a device has thrown: words, once, with
/// its title. What a JSON library says of an answer is replaced.
[[nodiscard]] std::string problem_with(const RemoteDevice& device, const std::exception& error);
/// The same of what all_at_once() returns; empty: nothing was thrown.
[[nodiscard]] std::string problem_with(const RemoteDevice& device, const std::exception_ptr& error);

/// The devices that can be found and answer, and the others.
struct Found {
  std::vector<std::unique_ptr<RemoteDevice>> devices;  ///< by program and pid
  std::vector<Silent> silent;                          ///< that do not
  std::size_t others = 0;                              ///< that this user may not ask

  /// No socket of this user's or of root's is silent. Those of others do not count: anybody can
  /// make some.
  [[nodiscard]] bool complete() const noexcept;
};

/// Calls ask(i) for each i below `count`, all at the same time, in threads of their own and in this
/// one, and calls `meanwhile`, which must not throw, now and then while it waits. Returns when all
/// have returned: what each has thrown, or null.
[[nodiscard]] std::vector<std::exception_ptr> all_at_once(
    std::size_t count, const std::function<void(std::size_t)>& ask,
    const std::function<void()>& meanwhile = {});

/// Those in the folders that `wanted` says yes to. Sockets that nobody listens on any more are
/// removed. All devices of this user and of root have `patience` to say who they are, those of
/// others, at the same time, `for_others`.
[[nodiscard]] Found find_devices(const std::vector<std::string>& folders, Duration patience,
                                 Duration for_others,
                                 const std::function<bool(const SocketName&)>& wanted);

/// How an error is called in answers of control sockets (docs/control.md): programs may compare it.
[[nodiscard]] constexpr const char* wire_name(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::not_found:
      return "not_found";
    case Errc::unsupported:
      return "unsupported";
    case Errc::access_denied:
      return "access_denied";
    case Errc::in_use:
      return "in_use";
    case Errc::no_resources:
      return "no_resources";
    default:
      return "failed";
  }
}

}  // namespace mrc::inline v0_1::control
