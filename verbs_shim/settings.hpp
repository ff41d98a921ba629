// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/mrc.hpp"

namespace mrc_verbs {

/// What the environment says: options of the device (docs/configuration.md), and variables of the
/// shim alone.
struct Settings {
  mrc::Config config;
  /// MRC_VERBS_VENDOR_ID, MRC_VERBS_VENDOR_PART_ID: what ibv_query_device() says. Some programs do
  /// more with vendors that they know; the default is none of them.
  std::uint32_t vendor_id = 0;
  std::uint32_t vendor_part_id = 0;
  /// MRC_VERBS_MIN_TIMEOUT: how long a queue pair waits at least for a silent peer, however short
  /// the time-outs of the program are. 0: theirs hold.
  mrc::Duration min_timeout{0};
  /// MRC_VERBS_CONTROLLER=process: mrc_ctl_* act on this process alone, not on all devices of the
  /// host.
  bool controls_process = false;
  /// The planes are the default route's interface because nothing else was asked for. Then the
  /// loopback, which stands in for it on hosts without network, will not do: peers elsewhere would
  /// be told an address that is their own.
  bool planes_by_default = false;
};

/// Reads the environment. Throws mrc::Error that names variable, value and what is allowed.
[[nodiscard]] Settings read_settings();

}  // namespace mrc_verbs
