// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/types.hpp"
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
  std::shared_ptr<void> held{};  ///< until the answer has been sent
};

/// Answers requests, from threads of its own. Connections end after one answer; requests are small:
/// no more than 16 KiB of one are read, for 5 seconds at most, and none that is encoded.
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

/// The problem of what is not HTTP, or not what was expected.
inline constexpr const char* kNoServe = "what answers is no `mrc_ctl serve`";

/// Takes at most that long, but for the name server, and memory for a body of `most` bytes.
[[nodiscard]] Fetched http_get(const HostPort& at, const std::string& path, Duration patience,
                               std::size_t most);

}  // namespace mrc::ctl_tool
