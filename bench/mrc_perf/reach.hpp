// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"

namespace mrc::perf {

/// What one side knows of the way to the other when the queue pairs are connected.
struct Side {
  bool heard = true;         ///< it has accepted packets of MRC
  bool bad_icrc = false;     ///< it has received some whose iCRC is wrong
  bool plane = false;        ///< `own` is the address of one of its planes
  port::IpAddress own{};     ///< of its end of the TCP connection; zero: not known
  port::IpAddress remote{};  ///< of the other end, as it sees it
};

/// Takes the ends of a connected TCP socket; `plane_names`: Device::plane_names().
[[nodiscard]] Side side_of(int socket, const std::vector<std::string>& plane_names);

/// As the peer is told.
[[nodiscard]] nlohmann::json to_json(const Side& side);
/// Any JSON is safe: what is missing is not known.
[[nodiscard]] Side side_from_json(const nlohmann::json& json);

/// Why packets of MRC do not arrive, if that is because addresses are translated on the way; else
/// empty.
[[nodiscard]] std::string translation(const Side& here, const Side& there);

}  // namespace mrc::perf
