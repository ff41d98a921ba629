// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/plane/verbs/verbs_contact.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

inline constexpr std::uint8_t kContactForm = 1;
inline constexpr std::size_t kContactHead = 16;  ///< bytes in front of the QPNs
inline constexpr std::size_t kMaxContactQpns = 64;

}  // namespace detail

std::vector<std::uint8_t> encode(const VerbsContact& contact) {
  std::vector<std::uint8_t> bytes;
  ByteWriter out(bytes);
  out.u8(detail::kContactForm).u8(contact.placement ? 1 : 0).u16(contact.path_mtu);
  out.u32(contact.qkey).u64(contact.token);
  for (const std::uint32_t qpn : contact.qpns) out.u32(qpn);
  return bytes;
}

VerbsContact decode_verbs_contact(Bytes data) {
  const auto bad = [](const std::string& why) {
    throw Error(Errc::bad_message, "the peer's data of a verbs port " + why);
  };
  if (data.size() < detail::kContactHead) bad("is too short");
  ByteReader in(data);
  if (const auto form = in.u8(); form != detail::kContactForm)
    bad("has the unknown form " + std::to_string(form));
  VerbsContact contact;
  contact.placement = (in.u8() & 1) != 0;
  contact.path_mtu = in.u16();
  contact.qkey = in.u32();
  contact.token = in.u64();
  while (in.left() > 0) contact.qpns.push_back(in.u32());
  if (!in.done() || contact.qpns.empty() || contact.qpns.size() > detail::kMaxContactQpns)
    bad("has " + std::to_string(data.size() - detail::kContactHead) +
        " bytes of queue pair numbers");
  return contact;
}

}  // namespace mrc::inline v0_1::port
