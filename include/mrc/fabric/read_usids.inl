// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/fabric/description.hpp"
#include "mrc/fabric/fabric_address.hpp"
#include "mrc/json/json.hpp"

/// "block", "blocks" and "usids" of a description.
namespace mrc::inline v0_1::fabric::detail {

inline std::uint32_t read_block(const json_file::Object& root, std::string_view field,
                                std::size_t index, const std::string& text) {
  const auto block = parse_block(text);
  if (!block)
    root.fail(field, index,
              "is \"" + json_file::printable(text) +
                  "\", must be a unicast IPv6 prefix of 32 bits, such as \"fcbb::/32\"");
  return *block;
}

inline void read_blocks(const json_file::Object& root, Description& d) {
  if (!root.has("blocks")) {
    d.blocks.assign(d.planes, read_block(root, "block", 0, root.text("block", "fcbb::/32")));
    return;
  }
  if (root.has("block")) root.fail("blocks", "leave this or \"block\" out: there can be only one");
  const std::vector<std::string> texts = root.texts("blocks");
  if (texts.size() != d.planes)
    root.fail("blocks", "has " + std::to_string(texts.size()) +
                            " elements, must have one per plane: " + std::to_string(d.planes));
  for (std::size_t p = 0; p < texts.size(); ++p)
    d.blocks.push_back(read_block(root, "blocks", p, texts[p]));
}

/// A field of a uSID from its mask.
inline UsidBits read_mask(const json_file::Object& usids, std::string_view field,
                          UsidBits fallback) {
  const std::uint16_t mask = usids.hex(field, fallback.mask());
  UsidBits bits;
  if (mask != 0) bits.shift = static_cast<std::uint8_t>(std::countr_zero(mask));
  bits.width = static_cast<std::uint8_t>(std::popcount(mask));
  if (bits.mask() != mask)
    usids.fail(field, "is " + json_file::hex_text(mask) +
                          ", must be a mask of bits side by side, such as 0x0ff0");
  return bits;
}

/// A field inside the uSIDs of one kind.
struct UsidPart {
  std::string_view name;
  UsidBits bits;

  /// "plane (0x0f00)".
  [[nodiscard]] std::string text() const {
    return std::string(name) + " (" + json_file::hex_text(bits.mask()) + ")";
  }
};

/// The fixed bits of a kind of uSID. `parts` are the fields to fill in: they must not overlap, and
/// their bits must be zero.
inline Usid read_base(const json_file::Object& usids, std::string_view field, Usid fallback,
                      const std::vector<UsidPart>& parts) {
  const Usid base = usids.hex(field, fallback);
  if (base == 0)
    usids.fail(field,
               "is 0x0000, must be 0x0001 to 0xdfff, the range of nodes, or from 0xe000 on, that "
               "of links (mrc-1.0 §4.1)");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if ((parts[i].bits.mask() & parts[j].bits.mask()) != 0)
        usids.fail(parts[i].name, "overlaps " + parts[j].text() + " in the uSIDs of " +
                                      std::string(field) + ": give each bits of its own");
    if ((parts[i].bits.mask() & base) != 0)
      usids.fail(field, "is " + json_file::hex_text(base) + ", must have zeros where " +
                            parts[i].text() + " is filled in");
  }
  return base;
}

inline UsidPlan read_usids(const json_file::Object& usids) {
  UsidPlan plan;
  plan.plane = read_mask(usids, "plane", plan.plane);
  plan.t0_number = read_mask(usids, "t0_number", plan.t0_number);
  plan.t1_number = read_mask(usids, "t1_number", plan.t1_number);
  plan.host_t0 = read_mask(usids, "host_t0", plan.host_t0);
  plan.downlink = read_mask(usids, "downlink", plan.downlink);
  const UsidPart plane{"plane", plan.plane};
  plan.t0 = read_base(usids, "t0", plan.t0, {plane, {"t0_number", plan.t0_number}});
  plan.t1 = read_base(usids, "t1", plan.t1, {plane, {"t1_number", plan.t1_number}});
  plan.host = read_base(usids, "host", plan.host,
                        {plane, {"host_t0", plan.host_t0}, {"downlink", plan.downlink}});
  return plan;
}

/// Throws unless the fields have room for every plane and switch.
inline void check_sizes(const json_file::Object& root, const Description& d) {
  const UsidPlan& plan = d.usids;
  const auto fits = [&](std::string_view field, unsigned count, const UsidPart& part,
                        const char* remedy = "widen it") {
    if (count > part.bits.limit())
      root.fail(field, "is " + std::to_string(count) + ", but usids." + part.text() +
                           " has room for " + std::to_string(part.bits.limit()) + ": " + remedy);
  };
  const bool plane_in_block = plan.plane.width == 0 && root.has("blocks");
  if (!plane_in_block)
    fits("planes", d.planes, {"plane", plan.plane},
         "widen it, or make it 0 and give each plane a block in \"blocks\"");
  for (std::size_t p = 0; plane_in_block && p < d.planes; ++p)
    for (std::size_t q = 0; q < p; ++q)
      if (d.blocks[p] == d.blocks[q])
        root.fail("blocks", p,
                  "is the block of plane " + std::to_string(q) +
                      " as well: without usids.plane every plane needs its own");
  fits("t0", d.t0, {"t0_number", plan.t0_number});
  // A link is one of its T0 whether or not it names it.
  if (!path::is_local(plan.host) || plan.host_t0.width != 0)
    fits("t0", d.t0, {"host_t0", plan.host_t0});
  fits("t1", d.t1, {"t1_number", plan.t1_number});
}

/// Throws unless each uSID of a plane has one meaning: one of a node in the whole plane, one of a
/// link at its switch. uSIDs of different planes differ in the plane bits only, so checking the
/// first and the last plane is enough.
inline void check_nodes(const json_file::Object& usids, const Description& d) {
  const auto last = static_cast<Plane>(d.planes - 1);
  constexpr unsigned kPlane = ~0u, kEveryT1 = ~1u,
                     kEveryT0 = ~2u;  // where; else the number of a T0
  std::map<std::pair<unsigned, Usid>, std::string> owners;
  const auto add = [&](std::string_view field, const std::string& node, unsigned at, Usid first,
                       Usid highest) {
    const bool local = path::is_local(first);
    if (!local && path::is_local(highest))
      usids.fail(field, "gives " + node + " of plane " + std::to_string(last) + " the uSID " +
                            json_file::hex_text(highest) +
                            ", outside 0x0001 to 0xdfff, the range of nodes (mrc-1.0 §4.1)");
    const auto refuse = [&](const std::string& owner, const char* where) {
      usids.fail(field, "gives " + node + " the uSID " + json_file::hex_text(first) +
                            ", which is that of " + owner + where);
    };
    if (const auto uplink = owners.find({kEveryT0, first});
        local && at < d.t0 && uplink != owners.end())
      refuse(uplink->second, " at the same T0");
    const auto [owner, is_new] = owners.try_emplace({local ? at : kPlane, first}, node);
    if (!is_new) refuse(owner->second, local ? " at the same switch" : " in every plane");
  };
  const UsidPlan& plan = d.usids;
  for (unsigned i = 0; i < d.t0; ++i)
    add("t0", "T0 " + std::to_string(i), kEveryT1, plan.of_t0(0, i), plan.of_t0(last, i));
  for (unsigned j = 0; j < d.t1; ++j)
    add("t1", "T1 " + std::to_string(j), kEveryT0, plan.of_t1(0, j), plan.of_t1(last, j));
  for (const Host& h : d.hosts)
    add("host", "host " + h.name, h.t0, plan.of_host(0, h.t0, h.downlink),
        plan.of_host(last, h.t0, h.downlink));
}

}  // namespace mrc::inline v0_1::fabric::detail
