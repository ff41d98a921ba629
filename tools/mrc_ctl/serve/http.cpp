// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/http.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "mrc/core/error.hpp"

namespace mrc::ctl_tool {
namespace {

constexpr std::size_t kThreads = 16;
constexpr std::size_t kLongestBody = 4096, kLongestPath = 256;
constexpr std::size_t kLongestFetched = 32 << 20;

HttpRequest request_of(const httplib::Request& r) {
  return {r.method,
          r.path,
          r.get_header_value_count("Host") == 1 ? r.get_header_value("Host") : std::string(),
          r.get_header_value("Content-Type"),
          r.get_header_value("X-OpenMRC-Token"),
          r.get_param_value("since"),
          r.body};
}

void fill(httplib::Response& out, HttpResponse&& answer) {
  out.status = answer.status;
  for (const auto& [name, value] : answer.headers) out.set_header(name, value);
  out.set_content(answer.body, answer.type);
}

/// Not SO_REUSEPORT, the library's default: two servers would share the port.
void set_options(socket_t socket) {
  const int yes = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

[[noreturn]] void throw_no_listening(const HostPort& at, int error) {
  std::string why = "can't listen at " + to_string(at);
  if (error == EADDRINUSE)
    why +=
        ": another program does, perhaps another `mrc_ctl serve`; end it, or take another "
        "port with --listen";
  else if (error == EACCES)
    why += ": ports below 1024 are root's; take another one with --listen";
  else
    why += ": it must be an address of this host; --listen 127.0.0.1:9794 always is";
  throw Error(error == 0 ? std::make_error_code(std::errc::address_not_available)
                         : std::error_code(error, std::generic_category()),
              why);
}

}  // namespace

struct HttpServer::Implementation {
  httplib::Server server;
  int port = 0;
  std::atomic<bool> ended{false};
  std::thread thread;
};

HttpServer::HttpServer(const HostPort& at, Answer answer)
    : implementation_(std::make_unique<Implementation>()) {
  using httplib::Request, httplib::Response, httplib::Server;
  Server& server = implementation_->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(5);
  server.set_read_timeout(5, 0);
  server.set_write_timeout(5, 0);
  server.set_payload_max_length(kLongestBody);
  server.set_socket_options(set_options);
  const auto handle = [answer](const Request& request, Response& response) {
    fill(response, answer(request_of(request)));
  };
  server.set_pre_routing_handler([handle](const Request& request, Response& response) {
    // A body without a length is not limited by the library.
    if (request.path.size() > kLongestPath || request.has_header("Transfer-Encoding")) {
      fill(response, {400, "text/plain; charset=utf-8", "not such a request\n", {}});
      return Server::HandlerResponse::Handled;
    }
    if (request.method != "GET" && request.method != "HEAD")
      return Server::HandlerResponse::Unhandled;  // its body is to be read
    handle(request, response);
    return Server::HandlerResponse::Handled;
  });
  server.Post(".*", handle).Put(".*", handle).Patch(".*", handle).Delete(".*", handle);
  server.Options(".*", handle);
  server.set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
    fill(response, {500, "text/plain; charset=utf-8", "failed\n", {}});
  });
  errno = 0;
  if (at.port == 0)
    implementation_->port = server.bind_to_any_port(at.host);
  else
    implementation_->port = server.bind_to_port(at.host, at.port) ? at.port : -1;
  if (implementation_->port <= 0) throw_no_listening(at, errno);
  implementation_->thread = std::thread([implementation = implementation_.get()] {
    (void)implementation->server.listen_after_bind();
    implementation->ended = true;
  });
  // stop() has no effect before.
  while (!server.is_running() && !implementation_->ended)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

HttpServer::~HttpServer() {
  implementation_->server.stop();
  implementation_->thread.join();
}

std::uint16_t HttpServer::port() const {
  return static_cast<std::uint16_t>(implementation_->port);
}

Fetched http_get(const HostPort& at, const std::string& path, Duration patience) {
  const auto limit = std::chrono::duration_cast<std::chrono::microseconds>(patience);
  const Time end = monotonic_now() + patience;
  httplib::Client client(at.host, at.port);
  client.set_connection_timeout(limit);
  client.set_read_timeout(limit);
  client.set_write_timeout(limit);
  Fetched fetched;
  const auto take = [&](const char* data, std::size_t size) {
    if (fetched.body.size() + size > kLongestFetched || monotonic_now() > end) return false;
    fetched.body.append(data, size);
    return true;
  };
  const httplib::Result result = client.Get(path, {{"Host", to_string(at)}}, take);
  if (!result)
    fetched.problem = result.error() == httplib::Error::Connection ||
                              result.error() == httplib::Error::ConnectionTimeout
                          ? "no `mrc_ctl serve` can be reached there"
                          : "it does not answer in time";
  else if (result->status == 421)
    fetched.problem = fmt::format(
        "it does not go by the name {}: start it there with --allow-host {}", at.host, at.host);
  else if (result->status != 200)
    fetched.problem = fmt::format("it answers with HTTP status {}", result->status);
  return fetched;
}

}  // namespace mrc::ctl_tool
