// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <list>
#include <vector>

#include "mrc/core/error.hpp"
#include "programs.hpp"
#include "results.hpp"
#include "tests.hpp"
#include "traffic.hpp"
#include "units.hpp"

namespace mrc::perf {
namespace {

constexpr Duration kHelloTime = std::chrono::seconds(10);
/// For a client's device to open.
constexpr Duration kOpenTime = std::chrono::seconds(20);
/// Longest pause of a client between two sizes.
constexpr Duration kBetweenSizes = std::chrono::minutes(10);

void print_totals(const ServerTotals& t, bool check) {
  fmt::print("{:>9}: {} messages received, {} sent", size_text(t.size), t.received, t.sent);
  if (check) fmt::print(", {} bytes checked, {} errors", t.checked_bytes, t.check_errors);
  fmt::print("\n");
  if (t.check_errors > 0) fmt::print("  {}\n", t.first_error);
  std::fflush(stdout);
}

/// Serves the sizes of one client until "bye". Returns the number of bad bytes.
std::uint64_t serve_sizes(Session& session, const Options& o) {
  const Parameters& p = session.parameters();
  Traffic traffic(session);
  const auto serve_size = [&](std::uint64_t size) {
    if (p.test == Test::latency) return serve_latency(session, size);
    if (p.test == Test::completion) return serve_completion(session, size);
    return serve_bandwidth(session, traffic, size);
  };
  std::uint64_t errors = 0;
  for (;;) {
    std::optional<nlohmann::json> message;
    const Time end = monotonic_now() + kBetweenSizes;
    while (!(message = session.control().poll())) {
      if (g_interrupted) throw Interrupted();
      if (monotonic_now() > end) throw Failure("the client has sent nothing for 10 minutes");
      session.control().sleep(std::chrono::milliseconds(20));
    }
    if ((*message)["op"] == "bye") {
      if (!o.json_file.empty()) write_file(o.json_file, message->value("report", "{}") + "\n");
      return errors;
    }
    const auto size = message->value("size", std::uint64_t{0});
    if ((*message)["op"] != "run" || size < 1 || size > p.largest)
      throw Failure("the client sent a request other than the runs that it announced");
    const ServerTotals totals = serve_size(size);
    errors += totals.check_errors;
    if (!o.quiet && totals.received + totals.sent > 0)
      print_totals(totals, p.check && !p.one_by_one());
  }
}

/// A client whose hello was answered.
struct Client {
  Control control;
  Parameters parameters{};
  Config config{};
  std::string failure{};  ///< if not empty: it can't be served
};

/// Reads what a client asks for, and answers. Throws.
void welcome(Client& client, const nlohmann::json& hello, const Options& o) {
  const auto version = hello.value("mrc_perf", 0);
  if (version != kProtocolVersion)
    throw Failure(
        fmt::format("the client speaks version {} of mrc_perf's protocol, the server "
                    "version {}: use the same program on both sides",
                    version, kProtocolVersion));
  client.parameters = parameters_from_json(hello.value("parameters", nlohmann::json::object()));
  client.config = server_config(o, hello.value("settings", nlohmann::json::object()));
  client.config.max_qps = std::max(client.config.max_qps, client.parameters.qps + 1);
  client.control.send({{"op", "welcome"}});
}

/// One client, from its memory to bye. Returns the exit status.
int serve(Client& client, const Options& o) {
  Control& control = client.control;
  const Parameters& p = client.parameters;
  try {
    Session session(Device(client.config), p, control, true);
    if (!o.quiet)
      fmt::print("client {}: {}, {} queue pair{}, {} plane{}\n", control.peer(), to_string(p.test),
                 p.qps, p.qps == 1 ? "" : "s", session.device().plane_count(),
                 session.device().plane_count() == 1 ? "" : "s");
    std::fflush(stdout);
    return serve_sizes(session, o) > 0 ? 1 : 0;
  } catch (const PeerGone& gone) {
    fmt::print(stderr, "mrc_perf: {}\n", gone.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "mrc_perf: {}\n", error.what());
    control.abort(error.what());
  }
  return g_interrupted ? 130 : 1;
}

/// Connections that have not said hello yet, and clients that have, and are opening their device:
/// their next message describes their memory. Each has a while for it, and none keeps the others
/// waiting; those that say nothing, or something else (a port scan, a script that waits for the
/// server), are dropped.
class Waiting {
 public:
  explicit Waiting(const Options& options) : options_(options) {}

  /// Waits a moment for connections and for what they say. Returns a client that is ready, or that
  /// has failed.
  std::optional<Client> look(TcpListener& listener) {
    std::vector<pollfd> fds{{listener.fd(), POLLIN, 0}};
    for (Guest& guest : guests_) fds.push_back({guest.client.control.channel().fd(), POLLIN, 0});
    (void)::poll(fds.data(), fds.size(), 100);
    if ((fds[0].revents & POLLIN) != 0) accept(listener);
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      const Step step = attend(*guest);
      if (step == Step::stays) {
        ++guest;
        continue;
      }
      std::optional<Client> client;
      if (step == Step::ready) client = std::move(guest->client);
      guest = guests_.erase(guest);
      if (client) return client;
    }
    return std::nullopt;
  }

 private:
  struct Guest {
    Client client;
    Time until;
    bool welcome = false;
  };
  enum class Step : std::uint8_t { stays, leaves, ready };
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kLongestHello = 16 << 10;

  Step attend(Guest& guest) {
    Control& control = guest.client.control;
    try {
      auto message = control.poll();
      if (!message) {
        if (monotonic_now() < guest.until) return Step::stays;
        fmt::print(stderr, "mrc_perf: {} {}\n", control.peer(),
                   guest.welcome ? "was silent for 20 s after its hello"
                                 : "did not say hello within 10 s");
        return Step::leaves;
      }
      if (guest.welcome) {
        control.channel().limit_messages(TcpChannel::kMaxMessageBytes);
        control.put_back(std::move(*message));
        return Step::ready;
      }
      if ((*message)["op"] == "hello") {
        guest.welcome = true;
        guest.until = monotonic_now() + kOpenTime;
        welcome(guest.client, *message, options_);
        return Step::stays;
      }
      fmt::print(stderr, "mrc_perf: {} said something else than hello\n", control.peer());
    } catch (const std::exception& error) {
      return fail(guest, error);
    }
    return Step::leaves;
  }

  /// A client that was welcome has had its turn. Others may come and go.
  Step fail(Guest& guest, const std::exception& error) {
    const bool gone = dynamic_cast<const PeerGone*>(&error) != nullptr;
    if (!gone || guest.welcome) fmt::print(stderr, "mrc_perf: {}\n", error.what());
    if (!guest.welcome) return Step::leaves;
    if (!gone) guest.client.control.abort(error.what());
    guest.client.failure = error.what();
    return Step::ready;
  }

  /// In place of the oldest one, if there are too many.
  void accept(TcpListener& listener) {
    TcpChannel channel;
    try {
      channel = listener.accept(Duration{0});
    } catch (const Error& error) {  // the connection is gone again, or the user has interrupted
      if (error.code() == Errc::timed_out || error.code() == std::errc::operation_canceled) return;
      throw;
    }
    channel.limit_messages(kLongestHello);
    const std::string peer = channel.peer();
    if (guests_.size() == kMost) guests_.pop_front();
    guests_.push_back({{Control(std::move(channel), peer)}, monotonic_now() + kHelloTime});
  }

  const Options& options_;
  std::list<Guest> guests_;
};

}  // namespace

int run_server(const Options& o) {
  (void)server_config(o, {});  // detects mistakes now rather than when a client connects
  check_writable(o.json_file);
  TcpListener listener(o.port, o.bind, &g_interrupted);
  Waiting waiting(o);
  int status = 0;
  do {
    if (!o.quiet) {
      fmt::print("mrc_perf: waiting for a client on port {}\n", listener.port());
      std::fflush(stdout);
    }
    std::optional<Client> client;
    while (!client && !g_interrupted) client = waiting.look(listener);
    if (!client) return o.persistent ? status : 130;
    status = client->failure.empty() ? serve(*client, o) : 1;
  } while (o.persistent && !g_interrupted);
  return status;
}

}  // namespace mrc::perf
