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

void check_address(const ibv_ah_attr& address) {
  if (address.is_global == 0) fail(EINVAL, "address without GRH: RoCE names peers by GID");
  if (address.grh.sgid_index != 0) fail(EINVAL, "there is one GID, of index 0");
  if (address.port_num > 1) fail(EINVAL, "there is one port, of number 1");
}

}  // namespace mrc_verbs
