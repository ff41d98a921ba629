// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/listener.hpp"

#include <fmt/format.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <vector>

#include "common/interrupt.hpp"
#include "mrc/core/random.hpp"
#include "mrc/net/interface.hpp"
#include "mrc_ctl/check/token_text.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::check_tool {
namespace {

Token make_probe_token() {
  Token token;
  for (const std::size_t at : {0, 8}) {
    const std::uint64_t bits = mrc::detail::random_seed();
    std::memcpy(token.data() + at, &bits, sizeof bits);
  }
  return token;
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Json refusal(const std::string& why) {
  return {{"ok", false}, {"error", why}};
}

port::Socket listen_on(const std::string& at) {
  std::uint16_t port = ctl_tool::kCheckPort;
  port::Socket socket;
  if (at.empty()) {
    socket = port::listen_anywhere(port);
  } else {
    const auto place = ctl_tool::parse_host_port(at, ctl_tool::kCheckPort);
    if (!place || !ctl_tool::is_address(place->host))
      throw Error(Errc::invalid_argument,
                  fmt::format("--at {}: must be an address of this host, such as 10.0.0.1, with or "
                              "without a port",
                              at));
    port = place->port;
    const port::LocalAddress local = port::parse_local_address(place->host);
    socket = port::listen_at(
        port::SocketAddress(local.ip, port, if_nametoindex(local.interface.c_str())));
  }
  if (!socket.open())
    throw_errno(fmt::format("can't listen at TCP port {}{}", port,
                            errno == EADDRINUSE ? "; --at ADDRESS:PORT takes another one" : ""));
  return socket;
}

}  // namespace

CheckListener::CheckListener(OwnHost own, const std::string& at)
    : own_(std::move(own)), socket_(listen_on(at)) {}

std::string CheckListener::address() const {
  port::SocketAddress address;
  address.length = sizeof address.v6;
  (void)::getsockname(socket_.fd(), &address.any, &address.length);
  return port::format_address(address.peer());
}

void CheckListener::accept_all(Time now) {
  while (clients_.size() < kMostClients) {
    port::SocketAddress from;
    port::Socket socket = port::accept_one(socket_, from);
    if (!socket.open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) accepts_from_ = now + std::chrono::seconds(1);
      return;
    }
    clients_.push_back({LineSocket(std::move(socket)), port::format_address(from.peer()), now});
  }
}

/// False: the client is to be left.
bool CheckListener::serve(Client& client, Time now) {
  const bool open = client.lines.work();
  constexpr int kAtOnce = 16;  // others have some, too
  for (int i = 0; i < kAtOnce; ++i) {
    const auto line = client.lines.take();
    if (!line) break;
    client.heard = now;
    Json said;
    try {
      said = answer(client, *line);
    } catch (const std::exception& error) {
      said = refusal(error.what());
    }
    if (!client.lines.say(said)) return false;
    if (said["ok"] != true) {
      (void)client.lines.work();
      return false;
    }
  }
  return open && now - client.heard < kSilence;
}

Json CheckListener::answer(Client& client, const Json& request) {
  if (request.value("check", Json()) != kCheckProtocol)
    return refusal(
        fmt::format("this is `mrc_ctl check --listen` of OpenMRC {}, which speaks "
                    "version {} of its protocol; use the same release on both hosts",
                    own_.facts.version, kCheckProtocol));
  const std::string what = ctl_tool::text_in(request, "request");
  const auto number = [&request](const char* name) {
    return control::has_field(request, name, &Json::is_number_unsigned)
               ? request[name].get<std::uint64_t>()
               : UINT64_MAX;
  };
  if (what == "facts") {
    HostFacts other = facts_from(request.value("facts", Json()));
    refresh(own_);
    HostFacts facts = own_.facts;
    find_routes(facts, other);
    if (!client.session)
      fmt::print("{} checks this host: {}, OpenMRC {}\n", client.from, other.host, other.version);
    std::fflush(stdout);
    client.session.emplace(make_probe_token(), std::move(other));
    return {
        {"ok", true}, {"facts", to_json(facts)}, {"token", token_text(client.session->token())}};
  }
  if (what == "clock") return {{"ok", true}, {"time", wall_clock()}};
  if (what == "arrived" && client.session) {
    for (std::size_t plane = 0; plane < own_.planes.size(); ++plane) take_probes(plane);
    const std::uint64_t round = number("round");
    if (round > UINT16_MAX) return refusal("field round is missing");
    return client.session->report(static_cast<std::uint16_t>(round));
  }
  if (what == "send" && client.session) {
    const std::uint64_t round = number("round"), plane = number("plane"), path = number("path");
    if (round > UINT16_MAX || plane >= own_.planes.size())
      return refusal("fields round and plane are missing");
    const auto packet = client.session->on_asked(static_cast<std::uint16_t>(round), plane, path);
    if (!packet) return refusal("there is no such plane or path");
    send(*client.session, plane, *packet);
    return {{"ok", true}};
  }
  return refusal("there is no such request, or it comes before facts");
}

void CheckListener::send(Session& session, std::size_t plane, const Session::Answer& answer) {
  PlaneSockets& sockets = own_.planes[plane];
  const ProbeHead& head = answer.head;
  const int error = answer.piece
                        ? sockets.send_piece(head, kPiecePacket, answer.size, answer.to, head.path)
                        : sockets.send(head, answer.size, answer.to, head.path);
  if (error != 0) session.on_failure(head.asking, head.answering, error);
}

void CheckListener::take_probes(std::size_t plane) {
  PlaneSockets& sockets = own_.planes[plane];
  sockets.receive([&](const ProbeHead& head, std::size_t size, const port::PeerAddress& from) {
    for (Client& client : clients_) {
      if (!client.session || client.session->token() != head.token) continue;
      const auto answer =
          client.session->on_request(head, size, static_cast<unsigned>(plane), from.ip);
      if (answer) send(*client.session, plane, *answer);
      return;
    }
  });
}

void CheckListener::run() {
  const tools::HeldSignals signals;
  while (!tools::g_interrupted) {
    std::vector<::pollfd> fds;
    for (const PlaneSockets& plane : own_.planes) fds.push_back({plane.fd(), POLLIN, 0});
    const bool takes = monotonic_now() >= accepts_from_ && clients_.size() < kMostClients;
    fds.push_back({takes ? socket_.fd() : -1, POLLIN, 0});
    for (const Client& client : clients_)
      fds.push_back({client.lines.fd(),
                     static_cast<short>(client.lines.sends() ? POLLIN | POLLOUT : POLLIN), 0});
    const ::timespec second{1, 0};
    signals.sleep(fds, &second);
    for (std::size_t plane = 0; plane < own_.planes.size(); ++plane) take_probes(plane);
    const Time now = monotonic_now();
    accept_all(now);
    std::erase_if(clients_, [&](Client& client) { return !serve(client, now); });
  }
}

}  // namespace mrc::check_tool
