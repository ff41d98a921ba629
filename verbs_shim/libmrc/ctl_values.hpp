// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>

#include "mrc/mrc.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/libmrc/controller.hpp"
#include "verbs_shim/libmrc/provider.hpp"

/// Values of mrc_ctl.h and what the device calls them.
namespace mrc_verbs {

/// The device of a context, for calls of the controller. Throws mrc::Error (EINVAL).
[[nodiscard]] mrc::Device& controlled(mrc_context* mrc);
/// What those act on that are not about this device alone. Throws mrc::Error (EINVAL).
[[nodiscard]] std::unique_ptr<Controller> controller(mrc_context* mrc);

/// Throws mrc::Error (EINVAL) for bits of a mask that are not known, and if attributes are named
/// but there are none.
inline void check_mask(int mask, int known, const void* attributes) {
  if ((mask & ~known) != 0) fail(EINVAL, "unknown bits in the mask");
  if (mask != 0 && attributes == nullptr) fail(EINVAL, "attr is NULL");
}

[[nodiscard]] inline mrc::ProfileEv from_ctl(const mrc_ctl_ev& ev) noexcept {
  mrc::ProfileEv out;
  std::memcpy(out.value.data(), ev.val, sizeof ev.val);
  out.port = ev.port;
  return out;
}

[[nodiscard]] inline mrc_ctl_ev to_ctl(const mrc::ProfileEv& ev) noexcept {
  mrc_ctl_ev out{};
  std::memcpy(out.val, ev.value.data(), sizeof out.val);
  out.port = ev.port;
  return out;
}

}  // namespace mrc_verbs
