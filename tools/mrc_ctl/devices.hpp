// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "mrc/control/client.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc_ctl/options.hpp"

namespace mrc::ctl_tool {

using Json = nlohmann::json;

/// How long a device has to answer, unless something else is said.
inline constexpr Duration kPatience = std::chrono::seconds(10);

/// A device of some process, by its control socket.
class RemoteDevice {
 public:
  /// Connects. Throws mrc::Error.
  explicit RemoteDevice(control::SocketFile file) : file_(std::move(file)), client_(file_.path) {}

  /// Waits for its greeting. False, and problem() says why, if it is none of OpenMRC's or does not
  /// come.
  [[nodiscard]] bool greet(Time until);
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// What it says of its process: pid, program, host and so on. Checked: these are there. The user
  /// is the kernel's word.
  [[nodiscard]] const Json& hello() const { return hello_; }
  [[nodiscard]] std::string id() const;
  /// hello() with the device's id, as JSON output names a device.
  [[nodiscard]] Json label() const;
  [[nodiscard]] const control::SocketName& name() const { return file_.name; }
  /// "ib_write_bw (pid 4711)".
  [[nodiscard]] std::string title() const;

  /// The answer to a request, with `"ok": true`. Throws mrc::Error with what the device says if it
  /// refuses, or if it does not answer.
  [[nodiscard]] Json request(Json request, std::optional<Duration> patience = {});
  /// A list as a whole, however many answers it takes; or its first `most` elements, and perhaps
  /// some more.
  [[nodiscard]] Json list(Json request, const std::string& name, std::size_t most = SIZE_MAX);
  /// The next event after {"request":"events","follow":true}; nothing if none has come in time.
  [[nodiscard]] std::optional<Json> event(Duration patience);
  [[nodiscard]] int fd() const { return client_.fd(); }
  /// How long it has for each further answer.
  void set_patience(Duration patience) { patience_ = patience; }

 private:
  control::SocketFile file_;
  control::Client client_;
  Json hello_;
  std::string problem_;
  std::uint64_t requests_ = 0;
  Duration patience_ = kPatience;
};

/// The devices that can be found and answer, and the others.
struct Found {
  std::vector<std::unique_ptr<RemoteDevice>> devices;  ///< by program and pid
  std::vector<std::string> silent;                     ///< paths of sockets, and why
  std::size_t others = 0;                              ///< that this user may not ask
};

/// Whether the options select the device, which has greeted.
[[nodiscard]] bool selects(const Options& o, const RemoteDevice& device);
/// The same, as far as the name of its socket tells.
[[nodiscard]] bool may_select(const Options& o, const control::SocketName& name);
/// Where the options say that there are sockets.
[[nodiscard]] std::vector<std::string> folders_of(const Options& o);
/// What others send; an empty object if it is no JSON object, or one that is nested deeper than
/// any answer is: copying and writing it goes level by level.
[[nodiscard]] Json object_of(const std::string& text, int deepest = 16);

/// Those that the options select. Sockets that nobody listens on any more are removed.
[[nodiscard]] Found find_devices(const Options& o);

}  // namespace mrc::ctl_tool
