// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "mrc/core/types.hpp"
#include "mrc/net/interface.hpp"
#include "mrc_ctl/check/facts.hpp"
#include "mrc_ctl/serve/host_port.hpp"

namespace mrc::check_tool {

/// Lines of JSON over TCP, with whoever is there: each is of bounded length, and what is to be sent
/// waits in bounded memory. Nothing blocks. One thread.
class LineSocket {
 public:
  /// Bytes of a line, most.
  static constexpr std::size_t kLongest = 64 << 10;

  explicit LineSocket(port::Socket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// Something waits to be sent.
  [[nodiscard]] bool sends() const noexcept { return !out_.empty(); }
  /// Reads and sends what is possible. False: the connection has ended, or a line is too long.
  [[nodiscard]] bool work();
  /// The next line that has arrived: an object; a value that is none if it is no JSON object.
  [[nodiscard]] std::optional<Json> take();
  /// False: the line is too long, or too much waits already.
  [[nodiscard]] bool say(const Json& line);

 private:
  port::Socket socket_;
  std::string in_, out_;
  std::size_t searched_ = 0;
};

/// A connection to `mrc_ctl check --listen`. Waits for answers, each `patience` long and until
/// SIGINT at most.
class CheckClient {
 public:
  /// Throws NoAnswer.
  CheckClient(const ctl_tool::HostPort& at, Duration patience);

  /// The answer to a request, with "ok": true. Throws NoAnswer.
  [[nodiscard]] Json ask(const Json& request);

 private:
  std::string name_;
  Duration patience_;
  LineSocket lines_;
};

/// What was thrown: nobody has answered, or it was a refusal.
class NoAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace mrc::check_tool
