// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/plane/verbs/verbs_contact.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// What stands in front of the QPNs.
struct VerbsContactHead {
  std::uint8_t form = 1;
  std::uint8_t flags = 0;  ///< bit 0: placement
  wire::Be16 path_mtu;
  wire::Be32 qkey;
  wire::Be64 token;
};
static_assert(sizeof(VerbsContactHead) == 16);

inline constexpr std::size_t kMaxContactQpns = 64;

}  // namespace detail

MRC_SETUP std::vector<std::uint8_t> encode(const VerbsContact& contact) {
  detail::VerbsContactHead head;
  head.flags = contact.placement ? 1 : 0;
  head.path_mtu = contact.path_mtu;
  head.qkey = contact.qkey;
  head.token = contact.token;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&head);
  std::vector<std::uint8_t> out(bytes, bytes + sizeof head);
  for (const wire::Be32 qpn : std::vector<wire::Be32>(contact.qpns.begin(), contact.qpns.end())) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(&qpn);
    out.insert(out.end(), at, at + sizeof qpn);
  }
  return out;
}

MRC_SETUP VerbsContact decode_verbs_contact(Bytes data) {
  const auto bad = [](const std::string& why) {
    throw Error(Errc::bad_message, "the peer's data of a verbs port " + why);
  };
  if (data.size() < sizeof(detail::VerbsContactHead)) bad("is too short");
  const auto& head = wire::view_as<detail::VerbsContactHead>(data);
  if (head.form != 1) bad("has the unknown form " + std::to_string(head.form));
  const Bytes rest = data.subspan(sizeof head);
  const std::size_t count = rest.size() / sizeof(wire::Be32);
  if (rest.size() % sizeof(wire::Be32) != 0 || count == 0 || count > detail::kMaxContactQpns)
    bad("has " + std::to_string(rest.size()) + " bytes of queue pair numbers");
  VerbsContact contact;
  contact.placement = (head.flags & 1) != 0;
  contact.path_mtu = head.path_mtu;
  contact.qkey = head.qkey;
  contact.token = head.token;
  for (std::size_t i = 0; i < count; ++i)
    contact.qpns.push_back(wire::view_as<wire::Be32>(rest.subspan(i * sizeof(wire::Be32))));
  return contact;
}

}  // namespace mrc::inline v0_1::port
