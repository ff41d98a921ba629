// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "mrc/core/types.hpp"
#include "mrc/fabric/description.hpp"

/// The parts of a fabric that can fail, and their names. Values and functions without state: any
/// thread.
namespace mrc::probe {

using fabric::Description;
using fabric::switch_name;

/// Kinds of parts. Of explanations that are equally good the smaller part is taken, so the order
/// counts.
enum class PartKind : std::uint8_t {
  host_link,    ///< between a host and its T0, in one plane
  switch_link,  ///< between a T0 and a T1
  t0,
  t1,
  plane,
  host,  ///< in all planes
};

/// Which packets of a link a part stands for.
enum class Direction : std::uint8_t {
  both,
  up,    ///< from a host to its T0, from a T0 to a T1
  down,  ///< from a T1 to a T0, from a T0 to a host
};

/// Something that can fail: every path over it is dead then.
struct Part {
  PartKind kind = PartKind::host;  ///< says which of the other fields count
  Plane plane = 0;                 ///< of everything but a host
  unsigned number = 0;             ///< of the host, the T0 or the T1; of a switch_link its T0
  unsigned t1 = 0;                 ///< of a switch_link
  Direction direction = Direction::both;  ///< of a link

  /// By kind, plane, number, t1, direction.
  friend constexpr auto operator<=>(const Part&, const Part&) = default;
};

/// The link of which `part` is one direction; any other part itself.
[[nodiscard]] constexpr Part both_ways(Part part) noexcept {
  part.direction = Direction::both;
  return part;
}

/// "link p1t0-0 - p1t1-1", "link p1t0-0 > p1t1-1" (one direction), "switch p1t1-1", "plane 1" or
/// "host h1". The part must be of `d`.
[[nodiscard]] std::string part_name(const Description& d, const Part& part);

/// The ends of a link, the sender first if the part is one direction of it: p1t0-0 and p1t1-1. The
/// part must be a link of `d`.
[[nodiscard]] std::pair<std::string, std::string> link_ends(const Description& d, const Part& part);

/// "from p1t0-0 to p1t1-1 only; " of one direction of a link; empty for any other part.
[[nodiscard]] std::string direction_text(const Description& d, const Part& part);

/// The entry of a description's "deny" that keeps paths off a part, a link in both directions.
/// Nothing for a host as a whole: no path would be left.
[[nodiscard]] std::optional<fabric::Denied> denial_of(const Part& part);

/// True if the description denies exactly this part, or the link of which it is one direction.
[[nodiscard]] bool is_denied(const Description& d, const Part& part);

}  // namespace mrc::probe
