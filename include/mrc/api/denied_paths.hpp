// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1 {

/// Paths that an administrator takes out of use, whatever their health: those of a plane with that
/// EV, towards every peer; or those over a part of the plane, as in the list `deny` of a fabric
/// description (docs/fabric.md). Without any of these, all of the plane.
struct DeniedPaths {
  Plane plane = 0;             ///< always named
  std::optional<Ev> ev{};      ///< stands alone
  std::optional<unsigned> t0;  ///< with t1: the link between the two; alone: the switch
  std::optional<unsigned> t1;  ///< alone: the switch
  std::string host{};          ///< alone, or with its t0: name of a host, its port in this plane

  /// Equal in every field.
  friend bool operator==(const DeniedPaths&, const DeniedPaths&) = default;
};

}  // namespace mrc::inline v0_1
