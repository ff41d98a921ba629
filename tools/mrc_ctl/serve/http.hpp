// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/time.hpp"
#include "mrc_ctl/serve/host_port.hpp"

/// HTTP, as far as serve needs it. http.cpp alone includes the library that speaks it.
namespace mrc::ctl_tool {

struct HttpRequest {
  std::string method, path;
  std::string host;          ///< header Host, with its port
  std::string content_type;  ///< header Content-Type
  std::string token;         ///< header X-OpenMRC-Token
  std::string since;         ///< parameter of that name
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Answers requests, from threads of its own. Connections end after one answer; requests are small.
class HttpServer {
 public:
  using Answer = std::function<HttpResponse(const HttpRequest&)>;

  /// Listens. Port 0: any free one. `answer` is called by several threads at a time. Throws
  /// mrc::Error with a remedy.
  HttpServer(const HostPort& at, Answer answer);
  /// Ends the threads, once they have answered.
  ~HttpServer();

  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// What another server has answered.
struct Fetched {
  std::string body;
  std::string problem;  ///< empty: status 200
};

/// Of at most 32 MiB. Takes about that long at most.
[[nodiscard]] Fetched http_get(const HostPort& at, const std::string& path, Duration patience);

}  // namespace mrc::ctl_tool
