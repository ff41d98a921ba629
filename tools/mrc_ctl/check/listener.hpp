// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <string>

#include "mrc/core/types.hpp"
#include "mrc_ctl/check/gather.hpp"
#include "mrc_ctl/check/line_socket.hpp"
#include "mrc_ctl/check/session.hpp"

namespace mrc::check_tool {

/// `mrc_ctl check --listen`: tells what this host is, and answers probes, of several checkers at
/// once. Whoever reaches its port may be hostile: clients, lines and memory are bounded, and a
/// client that says nothing for half a minute is left. One thread.
class CheckListener {
 public:
  /// Throws mrc::Error.
  CheckListener(OwnHost own, const std::string& at);

  /// "10.0.0.1:9795".
  [[nodiscard]] std::string address() const;
  [[nodiscard]] const HostFacts& facts() const noexcept { return own_.facts; }
  /// Serves until SIGINT or SIGTERM.
  void run();

 private:
  static constexpr std::size_t kMostClients = 32;
  static constexpr Duration kSilence = std::chrono::seconds(30);

  struct Client {
    LineSocket lines;
    std::string from;
    Time heard{};
    std::optional<Session> session{};
  };

  void accept_all(Time now);
  [[nodiscard]] bool serve(Client& client, Time now);
  [[nodiscard]] Json answer(Client& client, const Json& request);
  void send(Session& session, std::size_t plane, const Session::Answer& answer);
  void take_probes(std::size_t plane);

  OwnHost own_;
  port::Socket socket_;
  std::list<Client> clients_;
  Time accepts_from_{};  ///< later after a failure that may last
};

}  // namespace mrc::check_tool
