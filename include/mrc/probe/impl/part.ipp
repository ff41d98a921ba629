// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/probe/part.hpp"

namespace mrc::inline v0_1::probe {

MRC_DECL std::string switch_name(Plane plane, fabric::NodeKind kind, unsigned number) {
  return 'p' + std::to_string(plane) + (kind == fabric::NodeKind::t0 ? "t0-" : "t1-") +
         std::to_string(number);
}

MRC_DECL std::string part_name(const Description& d, const Part& part) {
  const auto t0 = [&](unsigned i) { return switch_name(part.plane, fabric::NodeKind::t0, i); };
  const auto t1 = [&](unsigned j) { return switch_name(part.plane, fabric::NodeKind::t1, j); };
  switch (part.kind) {
    case PartKind::host_link:
      return "link " + d.hosts[part.number].name + " - " + t0(d.hosts[part.number].t0);
    case PartKind::switch_link:
      return "link " + t0(part.number) + " - " + t1(part.t1);
    case PartKind::t0:
      return "switch " + t0(part.number);
    case PartKind::t1:
      return "switch " + t1(part.number);
    case PartKind::plane:
      return "plane " + std::to_string(part.plane);
    case PartKind::host:
      return "host " + d.hosts[part.number].name;
  }
  return "?";
}

MRC_DECL std::optional<fabric::Denied> denial_of(const Part& part) {
  fabric::Denied denied;
  denied.plane = part.plane;
  if (part.kind == PartKind::host) return std::nullopt;
  if (part.kind == PartKind::host_link) denied.host = part.number;
  if (part.kind == PartKind::switch_link || part.kind == PartKind::t0) denied.t0 = part.number;
  if (part.kind == PartKind::switch_link) denied.t1 = part.t1;
  if (part.kind == PartKind::t1) denied.t1 = part.number;
  return denied;
}

MRC_DECL bool is_denied(const Description& d, const Part& part) {
  const auto wanted = denial_of(part);
  return wanted && std::any_of(d.denied.begin(), d.denied.end(), [&](const fabric::Denied& denied) {
           return denied.plane == wanted->plane && denied.t0 == wanted->t0 &&
                  denied.t1 == wanted->t1 && denied.host == wanted->host;
         });
}

}  // namespace mrc::inline v0_1::probe
