// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/address.hpp"

#include <cstring>

#include "verbs_shim/errors.hpp"

namespace mrc_verbs {

mrc::port::IpAddress address_of(const ibv_gid& gid) noexcept {
  mrc::port::IpAddress address{};
  std::memcpy(address.data(), gid.raw, sizeof gid.raw);
  return address;
}

std::string no_gid(std::uint32_t index) {
  return "GID index " + std::to_string(index) + ": there is one GID; indices 0 to " +
         std::to_string(kGidIndices - 1) + " name it";
}

bool has_port(const mrc::Device& device, unsigned port) noexcept {
  return port >= 1 && port <= device.plane_count();
}

std::string no_port(const mrc::Device& device, unsigned port) {
  return "there is no port " + std::to_string(port) + "; ports 1 to " +
         std::to_string(device.plane_count()) + " are the planes";
}

void check_address(const ibv_ah_attr& address) {
  if (address.is_global == 0)
    fail(EINVAL,
         "address without GRH: RoCE names peers by GID, not by LID; the program must use a GID "
         "index (perftest: -x 0, ping-pong: -g 0)");
  if (address.grh.sgid_index >= kGidIndices) fail(EINVAL, no_gid(address.grh.sgid_index));
  if (address.port_num > 1) fail(EINVAL, "there is one port, of number 1");
}

}  // namespace mrc_verbs
