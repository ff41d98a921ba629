// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "mrc/core/error.hpp"
#include "programs.hpp"
#include "results.hpp"
#include "tests.hpp"
#include "units.hpp"

namespace mrc::perf {
namespace {

constexpr Duration kHelloTime = std::chrono::seconds(10);
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
  const auto serve = p.test == Test::latency      ? serve_latency
                     : p.test == Test::completion ? serve_completion
                                                  : serve_bandwidth;
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
    const ServerTotals totals = serve(session, size);
    errors += totals.check_errors;
    if (!o.quiet && totals.received + totals.sent > 0)
      print_totals(totals, p.check && !p.one_by_one());
  }
}

/// One client from hello to bye. Returns the exit status.
int serve(Control& control, const nlohmann::json& hello, const Options& o) {
  try {
    const auto version = hello.value("mrc_perf", 0);
    if (version != kProtocolVersion)
      throw Failure(
          fmt::format("the client speaks version {} of mrc_perf's protocol, the server "
                      "version {}: use the same program on both sides",
                      version, kProtocolVersion));
    const Parameters p = parameters_from_json(hello.value("parameters", nlohmann::json::object()));
    Config config = server_config(o, hello.value("settings", nlohmann::json::object()));
    config.max_qps = std::max(config.max_qps, p.qps + 1);
    control.send({{"op", "welcome"}});
    Session session(config, p, control, true);
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

/// Waits for a client that sends "hello"; connections without it (a port scan, a script that waits
/// for the server) are dropped. Empty when interrupted.
std::optional<std::pair<Control, nlohmann::json>> next_client(TcpListener& listener) {
  while (!g_interrupted) {
    try {
      TcpChannel channel = listener.accept();
      const std::string peer = channel.peer();
      Control control(std::move(channel), peer);
      auto hello = control.wait("hello", kHelloTime);
      return std::make_pair(std::move(control), std::move(hello));
    } catch (const Error& error) {
      if (error.code() != std::errc::operation_canceled) throw;
    } catch (const PeerGone&) {
      continue;
    } catch (const Failure& failure) {
      if (!g_interrupted) fmt::print(stderr, "mrc_perf: {}\n", failure.what());
    }
  }
  return std::nullopt;
}

}  // namespace

int run_server(const Options& o) {
  (void)server_config(o, {});  // detects mistakes now rather than when a client connects
  check_writable(o.json_file);
  TcpListener listener(o.port, o.bind, &g_interrupted);
  int status = 0;
  do {
    if (!o.quiet) {
      fmt::print("mrc_perf: waiting for a client on port {}\n", listener.port());
      std::fflush(stdout);
    }
    auto client = next_client(listener);
    if (!client) return o.persistent ? status : 130;
    status = serve(client->first, client->second, o);
  } while (o.persistent && !g_interrupted);
  return status;
}

}  // namespace mrc::perf
