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
#include <system_error>
#include <utility>
#include <vector>

#include "mrc/control/client.hpp"
#include "mrc/control/fields.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::control {

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

}  // namespace mrc::inline v0_1::control
