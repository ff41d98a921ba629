// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "mrc/fabric/description.hpp"

/// The parts of a fabric that can fail, and their names.
namespace mrc::inline v0_1::probe {

using fabric::Description;

/// Kinds of parts. Of explanations that are equally good the smaller part is taken, so the order
/// counts.
enum class PartKind : std::uint8_t { host_link, switch_link, t0, t1, plane, host };

/// Something that can fail: every path over it is dead then.
struct Part {
  PartKind kind = PartKind::host;
  Plane plane = 0;      ///< of everything but a host
  unsigned number = 0;  ///< of the host, the T0 or the T1; of a switch_link its T0
  unsigned t1 = 0;      ///< of a switch_link

  friend constexpr auto operator<=>(const Part&, const Part&) = default;
};

/// "p1t0-2", as the fabric tool calls it.
[[nodiscard]] inline std::string switch_name(Plane plane, fabric::NodeKind kind, unsigned number) {
  return fmt::format("p{}{}-{}", plane, kind == fabric::NodeKind::t0 ? "t0" : "t1", number);
}

/// "link p1t0-0 - p1t1-1", "switch p1t1-1", "plane 1" or "host h1".
[[nodiscard]] inline std::string part_name(const Description& d, const Part& part) {
  const auto t0 = [&](unsigned i) { return switch_name(part.plane, fabric::NodeKind::t0, i); };
  const auto t1 = [&](unsigned j) { return switch_name(part.plane, fabric::NodeKind::t1, j); };
  switch (part.kind) {
    case PartKind::host_link:
      return fmt::format("link {} - {}", d.hosts[part.number].name, t0(d.hosts[part.number].t0));
    case PartKind::switch_link:
      return fmt::format("link {} - {}", t0(part.number), t1(part.t1));
    case PartKind::t0:
      return "switch " + t0(part.number);
    case PartKind::t1:
      return "switch " + t1(part.number);
    case PartKind::plane:
      return fmt::format("plane {}", part.plane);
    case PartKind::host:
      return "host " + d.hosts[part.number].name;
  }
  return "?";
}

/// What keeps paths off a part. Nothing for a host as a whole: no path would be left.
[[nodiscard]] inline std::optional<fabric::Denied> denial_of(const Part& part) {
  fabric::Denied denied;
  denied.plane = part.plane;
  if (part.kind == PartKind::host) return std::nullopt;
  if (part.kind == PartKind::host_link) denied.host = part.number;
  if (part.kind == PartKind::switch_link || part.kind == PartKind::t0) denied.t0 = part.number;
  if (part.kind == PartKind::switch_link) denied.t1 = part.t1;
  if (part.kind == PartKind::t1) denied.t1 = part.number;
  return denied;
}

/// Does the description say that nothing may go over this part?
[[nodiscard]] inline bool is_denied(const Description& d, const Part& part) {
  const auto wanted = denial_of(part);
  return wanted && std::any_of(d.denied.begin(), d.denied.end(), [&](const fabric::Denied& denied) {
           return denied.plane == wanted->plane && denied.t0 == wanted->t0 &&
                  denied.t1 == wanted->t1 && denied.host == wanted->host;
         });
}

}  // namespace mrc::inline v0_1::probe
