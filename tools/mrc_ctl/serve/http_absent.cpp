// SPDX-License-Identifier: Apache-2.0
// In place of http.cpp where cpp-httplib was not found.
#include "mrc/core/error.hpp"
#include "mrc_ctl/serve/http.hpp"

namespace mrc::ctl_tool {

struct HttpServer::Implementation {};

HttpServer::HttpServer(const HostPort&, Answer) {
  throw Error(Errc::unsupported,
              "this mrc_ctl was built without cpp-httplib, which serve needs: install it "
              "(scripts/install-deps, on Debian libcpp-httplib-dev), and build mrc_ctl again");
}
HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const {
  return 0;
}

Fetched http_get(const HostPort&, const std::string&, Duration, std::size_t) {
  return {{}, "this mrc_ctl was built without cpp-httplib"};
}

}  // namespace mrc::ctl_tool
