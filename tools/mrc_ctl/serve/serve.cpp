// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/serve.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "common/interrupt.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc_ctl/serve/host_watch.hpp"
#include "mrc_ctl/serve/http.hpp"
#include "mrc_ctl/serve/peer_watch.hpp"
#include "mrc_ctl/serve/site.hpp"

namespace mrc::ctl_tool {
namespace {

constexpr std::size_t kShortestToken = 16;

/// Of the file's first line.
std::string read_token(const std::string& file) {
  const auto fail = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, fmt::format("--token-file {}: {}", file, why));
  };
  struct stat status {};
  std::ifstream in(file);
  std::string token;
  if (::stat(file.c_str(), &status) != 0 || !in) fail("can't be read");
  if ((status.st_mode & 077) != 0)
    fail("others can read it; `chmod 600` it, and take another token");
  std::getline(in, token);
  if (token.size() < kShortestToken)
    fail(
        fmt::format("its first line must be a token of {} characters or more; `openssl rand -hex "
                    "16` makes one",
                    kShortestToken));
  return token;
}

std::string make_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw Error(std::error_code(errno, std::generic_category()), "no random bytes for a token");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::vector<HostPort> peers_of(const ServeOptions& o) {
  std::vector<HostPort> peers;
  for (const std::string& text : o.peers) peers.push_back(*parse_host_port(text, kServePort));
  return peers;
}

}  // namespace

void run_serve(const Options& o) {
  const tools::HeldSignals signals;  // also in all threads
  // What large answers took goes back to the system at once, and threads share memory.
  (void)::mallopt(M_MMAP_THRESHOLD, 256 << 10);
  (void)::mallopt(M_ARENA_MAX, 2);
  const HostPort at = *parse_host_port(o.serve.listen, kServePort);
  const bool makes_token = o.serve.steer && o.serve.token_file.empty();
  std::string token;
  if (o.serve.steer) token = makes_token ? make_token() : read_token(o.serve.token_file);
  HostWatch host(o);
  PeerWatch peers(peers_of(o.serve), o.patience);
  Site site(host, peers, AllowedHosts(at, host_name(), o.serve.hosts), o.serve.paths, token);
  const HttpServer server(at, [&site](const HttpRequest& request) { return site.answer(request); });
  const std::string url = "http://" + to_string(HostPort{at.host, server.port()});
  fmt::print("mrc_ctl: a page at {}/, metrics at {}/metrics, until Ctrl-C\n", url, url);
  if (makes_token) fmt::print("mrc_ctl: the token for changes is {}\n", token);
  std::fflush(stdout);
  while (!tools::g_interrupted) signals.sleep({}, nullptr);
  // Threads that wait for devices, other hosts or name servers are not waited for.
  std::_Exit(tools::kInterruptedStatus);
}

}  // namespace mrc::ctl_tool
