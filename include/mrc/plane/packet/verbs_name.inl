// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/plane/packet/verbs_name.hpp"

namespace mrc::inline v0_1::port {

VerbsPlaneName parse_verbs_plane(std::string_view text) {
  VerbsPlaneName plane;
  const auto bad = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, "verbs plane \"" + std::string(text) + "\": " + why +
                                            "; the form is DEVICE, DEVICE:PORT or "
                                            "DEVICE:PORT@ADDRESS, as mlx5_0:1@192.0.2.1");
  };
  std::string_view rest = text;
  if (const auto at = rest.find('@'); at != rest.npos) {
    try {
      plane.address = parse_ip(rest.substr(at + 1));
    } catch (const Error&) {
      bad("\"" + std::string(rest.substr(at + 1)) + "\" is not a numeric IPv4 or IPv6 address");
    }
    if (is_unspecified(plane.address)) bad("the address names no host");
    if (is_link_local(plane.address))
      bad("link-local addresses are never used, since they do not say by which network a peer is "
          "reached");
    rest = rest.substr(0, at);
  }
  if (const auto colon = rest.find(':'); colon != rest.npos) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), plane.port);
    if (error != std::errc{} || end != digits.data() + digits.size() || plane.port == 0)
      bad("\"" + std::string(digits) + "\" is not the number of a port");
    rest = rest.substr(0, colon);
  }
  if (rest.empty() || rest.find_first_of("/ \t") != rest.npos) bad("no device is named");
  plane.device = rest;
  return plane;
}

std::vector<VerbsPlaneName> parse_verbs_planes(std::string_view list) {
  std::vector<VerbsPlaneName> planes;
  while (!list.empty()) {
    const std::string_view text = list.substr(0, list.find(','));
    planes.push_back(parse_verbs_plane(text));
    list.remove_prefix(std::min(list.size(), text.size() + 1));
  }
  return planes;
}

VerbsPlaneName verbs_port_of_interface(const std::string& interface, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code none;  // a folder that is not there, or goes away meanwhile, is empty
  for (const auto& device : fs::directory_iterator(folder, none))
    for (const auto& port : fs::directory_iterator(device.path() / "ports", none))
      for (const auto& gid : fs::directory_iterator(port.path() / "gid_attrs" / "ndevs", none)) {
        std::string name;
        std::getline(std::ifstream(gid.path()), name);
        if (name != interface) continue;
        return parse_verbs_plane(device.path().filename().string() + ":" +
                                 port.path().filename().string());
      }
  throw Error(Errc::not_found, "interface " + interface +
                                   " belongs to no RDMA device; `rdma link` lists those that do");
}

}  // namespace mrc::inline v0_1::port
