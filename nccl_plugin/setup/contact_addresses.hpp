// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "mrc/net/address.hpp"

namespace mrc_nccl {

/// A plane of a NIC, as its listeners see it.
struct ContactPlane {
  mrc::port::IpAddress ip{};
  bool up = true;
};

/// The addresses of at most `most` planes for a handle: of those that are up, spread over all of
/// them, so that some that go down later do not matter; then of the others, which may come back.
[[nodiscard]] inline std::vector<mrc::port::IpAddress> contact_addresses(
    const std::vector<ContactPlane>& planes, std::size_t most) {
  std::vector<mrc::port::IpAddress> chosen;
  const auto add = [&](bool up) {
    std::vector<mrc::port::IpAddress> all;
    for (const ContactPlane& plane : planes)
      if (plane.up == up && std::find(all.begin(), all.end(), plane.ip) == all.end() &&
          std::find(chosen.begin(), chosen.end(), plane.ip) == chosen.end())
        all.push_back(plane.ip);
    const std::size_t count = std::min(most - chosen.size(), all.size());
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(all[i * all.size() / count]);
  };
  add(true);
  add(false);
  return chosen;
}

}  // namespace mrc_nccl
