// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/net/address.hpp"

/// How planes on RDMA devices are named. Needs no headers of libibverbs. Set-up calls; any thread.
namespace mrc::inline v0_1::port {

/// A plane as it is configured: `NAME`, `NAME:PORT`, `NAME\@ADDRESS` or `NAME:PORT\@ADDRESS`.
struct VerbsPlaneName {
  std::string device;     ///< as `ibv_devices` lists it
  std::uint8_t port = 0;  ///< of the device, from 1 on; 0: the first usable one
  IpAddress address{};    ///< the GID to use; all zero: the best one

  /// Equal in all fields.
  friend bool operator==(const VerbsPlaneName&, const VerbsPlaneName&) = default;
};

/// Reads one element of option `verbs`. Throws mrc::Error that says what is wrong.
[[nodiscard]] VerbsPlaneName parse_verbs_plane(std::string_view text);
/// Reads option `verbs`, which is neither empty nor `all`: names separated by commas. Throws
/// mrc::Error.
[[nodiscard]] std::vector<VerbsPlaneName> parse_verbs_planes(std::string_view list);

/// The port of an RDMA device that an interface belongs to, as the kernel describes it in `folder`.
/// Throws mrc::Error if it belongs to none.
[[nodiscard]] VerbsPlaneName verbs_port_of_interface(
    const std::string& interface, const std::string& folder = "/sys/class/infiniband");

}  // namespace mrc::inline v0_1::port
