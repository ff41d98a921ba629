// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "probe/part.hpp"

namespace mrc::probe {

std::pair<std::string, std::string> link_ends(const Description& d, const Part& part) {
  const bool to_host = part.kind == PartKind::host_link;
  const unsigned t0 = to_host ? d.hosts[part.number].t0 : part.number;
  std::string low =
      to_host ? d.hosts[part.number].name : switch_name(part.plane, fabric::NodeKind::t0, t0);
  std::string high = to_host ? switch_name(part.plane, fabric::NodeKind::t0, t0)
                             : switch_name(part.plane, fabric::NodeKind::t1, part.t1);
  if (part.direction == Direction::down) std::swap(low, high);
  return {std::move(low), std::move(high)};
}

std::string part_name(const Description& d, const Part& part) {
  switch (part.kind) {
    case PartKind::host_link:
    case PartKind::switch_link: {
      const auto [from, to] = link_ends(d, part);
      return "link " + from + (part.direction == Direction::both ? " - " : " > ") + to;
    }
    case PartKind::t0:
      return "switch " + switch_name(part.plane, fabric::NodeKind::t0, part.number);
    case PartKind::t1:
      return "switch " + switch_name(part.plane, fabric::NodeKind::t1, part.number);
    case PartKind::plane:
      return "plane " + std::to_string(part.plane);
    case PartKind::host:
      return "host " + d.hosts[part.number].name;
  }
  return "?";
}

std::string direction_text(const Description& d, const Part& part) {
  if (part.direction == Direction::both) return {};
  const auto [from, to] = link_ends(d, part);
  return "from " + from + " to " + to + " only; ";
}

std::optional<fabric::Denied> denial_of(const Part& part) {
  fabric::Denied denied;
  denied.plane = part.plane;
  if (part.kind == PartKind::host) return std::nullopt;
  if (part.kind == PartKind::host_link) denied.host = part.number;
  if (part.kind == PartKind::switch_link || part.kind == PartKind::t0) denied.t0 = part.number;
  if (part.kind == PartKind::switch_link) denied.t1 = part.t1;
  if (part.kind == PartKind::t1) denied.t1 = part.number;
  return denied;
}

bool is_denied(const Description& d, const Part& part) {
  const auto wanted = denial_of(part);
  return wanted && std::any_of(d.denied.begin(), d.denied.end(), [&](const fabric::Denied& denied) {
           return denied.plane == wanted->plane && denied.t0 == wanted->t0 &&
                  denied.t1 == wanted->t1 && denied.host == wanted->host;
         });
}

}  // namespace mrc::probe
