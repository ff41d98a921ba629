// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/exchange/connection_info.hpp"

/// Option `strict`: what is left of a device without OpenMRC's extensions (docs/extensions.md).
namespace mrc::inline v0_1::detail {

/// The attributes that a queue pair may have in strict mode.
[[nodiscard]] inline QpAttributes strict_attributes(QpAttributes attributes) noexcept {
  attributes.rc = false;
  // What is no MTU at all is left to the range check.
  if (is_mtu(attributes.mtu)) attributes.mtu = mrc_mtu(attributes.mtu);
  return attributes;
}

/// Removes extensions from connection data that is sent or received in strict mode. Slots and
/// receive windows stay, as no packet is different by them.
[[nodiscard]] inline ConnectionInfo strict_info(ConnectionInfo info) noexcept {
  info.foreign = true;
  info.tag = 0;
  info.network_namespace = 0;
  info.solicited = false;
  info.parts = false;
  info.rc = false;
  info.max_rd_atomic_dest = 0;
  info.mtu_multiples = false;
  info.mtu = mrc_mtu(info.mtu);
  return info;
}

}  // namespace mrc::inline v0_1::detail
