// SPDX-License-Identifier: Apache-2.0
#include "reach.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>

#include "mrc/core/error.hpp"
#include "mrc/net/interface.hpp"

namespace mrc::perf {
namespace {

constexpr const char* kTranslated = "addresses are translated between the hosts (NAT): ";
constexpr const char* kWanted = "planes need addresses that are routed as they are";

/// Zero: not known.
port::IpAddress address_in(const nlohmann::json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_string()) return {};
  try {
    return port::parse_ip(at->get<std::string>());
  } catch (const Error&) {
    return {};
  }
}

/// Does `other` see that side at another address than its own, which is that of a plane as well?
bool differs(const Side& side, const Side& other) {
  return side.plane && !port::is_unspecified(side.own) && !port::is_unspecified(other.remote) &&
         side.own != other.remote;
}

}  // namespace

Side side_of(int socket, const std::vector<std::string>& plane_names) {
  Side side;
  port::SocketAddress own, remote;
  own.length = remote.length = sizeof own.v6;
  if (::getsockname(socket, &own.any, &own.length) == 0) side.own = own.peer().ip;
  if (::getpeername(socket, &remote.any, &remote.length) == 0) side.remote = remote.peer().ip;
  side.plane = std::any_of(plane_names.begin(), plane_names.end(), [&](const std::string& name) {
    return port::parse_address(name).ip == side.own;
  });
  return side;
}

nlohmann::json to_json(const Side& side) {
  return {{"heard", side.heard},
          {"bad_icrc", side.bad_icrc},
          {"plane", side.plane},
          {"own", port::format_ip(side.own)},
          {"remote", port::format_ip(side.remote)}};
}

Side side_from_json(const nlohmann::json& json) {
  Side side;
  if (!json.is_object()) return side;
  const auto is = [&json](const char* name, bool value) {
    const auto at = json.find(name);
    return at != json.end() && *at == value;
  };
  side.heard = !is("heard", false);
  side.bad_icrc = is("bad_icrc", true);
  side.plane = is("plane", true);
  side.own = address_in(json, "own");
  side.remote = address_in(json, "remote");
  return side;
}

std::string translation(const Side& here, const Side& there) {
  if (here.heard && there.heard) return {};
  const auto text = [](const char* who, const port::IpAddress& own, const port::IpAddress& seen,
                       const char* where) {
    return fmt::format("{}{} is {} and is seen {} as {}; {}", kTranslated, who,
                       port::format_ip(own), where, port::format_ip(seen), kWanted);
  };
  if (differs(here, there)) return text("this host", here.own, there.remote, "there");
  if (differs(there, here)) return text("the other host", there.own, here.remote, "here");
  // Sides whose options differ do not connect, so that nothing else spoils every packet.
  if ((!here.heard && here.bad_icrc) || (!there.heard && there.bad_icrc))
    return fmt::format("{}packets of MRC arrive {} with a wrong iCRC, which covers addresses; {}",
                       kTranslated, here.heard ? "there" : "here", kWanted);
  return {};
}

}  // namespace mrc::perf
