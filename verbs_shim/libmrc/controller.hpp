// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mrc/mrc.hpp"
#include "verbs_shim/objects/host.hpp"

namespace mrc_verbs {

/// What the calls of mrc_ctl.h act on: all devices of the host, those that open later included, or
/// the device of this process alone (MRC_VERBS_CONTROLLER). Errors are mrc::Error, as Device's. Any
/// thread.
class Controller {
 public:
  virtual ~Controller() = default;

  [[nodiscard]] virtual mrc::FormatProfileInfo format(mrc::ProfileId id) = 0;
  /// With the states of the EVs: those that all devices agree on.
  [[nodiscard]] virtual mrc::EvProfileInfo evs(mrc::ProfileId id) = 0;
  [[nodiscard]] virtual mrc::CcProfileInfo cc(mrc::ProfileId id) = 0;
  virtual void change(mrc::ProfileId id, const mrc::FormatProfileChange& change) = 0;
  virtual void change(mrc::ProfileId id, const mrc::EvProfileChange& change) = 0;
  virtual void change(mrc::ProfileId id, const mrc::CcProfileChange& change) = 0;
  virtual void set_plane_enabled(unsigned plane, bool enabled) = 0;
  [[nodiscard]] virtual mrc::ProfileLimits limits() = 0;
};

/// Of the whole host, unless the settings say otherwise or its devices follow no rules of the host
/// (option control=off).
[[nodiscard]] std::unique_ptr<Controller> controller_of(Host& host);

/// Whether that is the whole host's.
[[nodiscard]] bool controls_host(const Host& host);

}  // namespace mrc_verbs
