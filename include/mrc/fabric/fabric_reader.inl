// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/fabric/fabric_reader.hpp"

#include <net/if.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/path/path_entry.hpp"

namespace mrc::inline v0_1::fabric::detail {

/// "hosts" of a description.

/// 1 to `longest` letters, digits, '-' and '_', which names of namespaces and files may contain. A
/// leading '-' would look like an option.
[[nodiscard]] inline bool is_name(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && text.front() != '-' &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
             std::string_view::npos;
}

/// "p1t0-3": the T0 switch 3 of plane 1, as tools call it.
[[nodiscard]] inline bool is_switch_name(std::string_view text) {
  const auto take = [&](std::string_view start) {
    if (!text.starts_with(start)) return false;
    text.remove_prefix(start.size());
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits > 0;
  };
  return take("p") && take("t") && take("-") && text.empty();
}

/// True for a valid name of a Linux network interface.
[[nodiscard]] inline bool is_interface_name(std::string_view text) {
  if (text.empty() || text.size() >= IFNAMSIZ || text == "." || text == "..") return false;
  for (const char c : text)
    if (c <= ' ' || c > '~' || c == '/' || c == ':' || c == '%') return false;
  return true;
}

/// Reads the hosts one after the other, and rejects names, downlinks and addresses in use by an
/// earlier one.
class HostReader {
 public:
  HostReader(const json_file::Object& root, const Description& d)
      : root_(root), d_(d), under_(d.t0, 0) {}

  [[nodiscard]] std::vector<Host> read() {
    std::vector<json_file::Object> items;
    if (root_.is_list("hosts")) items = root_.array("hosts", 1, kMaxHosts);
    const auto count = items.empty() ? root_.integer<unsigned>("hosts", 1, kMaxHosts)
                                     : static_cast<unsigned>(items.size());
    std::vector<Host> hosts;
    for (number_ = 0; number_ < count; ++number_) {
      item_ = items.empty() ? nullptr : &items[number_];
      hosts.push_back(read_host(number_ * d_.t0 / count));
    }
    return hosts;
  }

 private:
  static constexpr unsigned kMaxHosts = 4096;
  static constexpr std::size_t kLongestName = 32;

  [[nodiscard]] Host read_host(unsigned usual_t0) {
    Host h;
    h.name = "h" + std::to_string(number_);
    if (item_ != nullptr) h.name = item_->text("name", h.name);
    check_name(h.name);
    h.t0 = usual_t0;
    if (item_ != nullptr) h.t0 = item_->integer<unsigned>("t0", 0, d_.t0 - 1, usual_t0);
    h.downlink = under_[h.t0]++;
    if (item_ != nullptr) h.downlink = item_->integer<unsigned>("downlink", 0, 0xFFFF, h.downlink);
    check_downlink(h);
    read_addresses(h);
    read_interfaces(h);
    read_next_hops(h);
    return h;
  }

  void check_name(const std::string& name) {
    const std::string is = "is \"" + json_file::printable(name) + "\", ";
    if (!is_name(name, kLongestName))
      fail("name", is + "must be 1 to 32 letters, digits, '-' or '_', no '-' in front");
    if (is_switch_name(name)) fail("name", is + "which names a switch");
    if (!names_.insert(name).second) fail("name", is + "like that of an earlier host");
  }

  void check_downlink(const Host& h) {
    const std::string place = std::to_string(h.downlink) + " of T0 " + std::to_string(h.t0);
    const UsidBits bits = d_.usids.downlink;
    if (h.downlink >= bits.limit())
      fail("downlink", "is " + place + ", but usids.downlink (" + json_file::hex_text(bits.mask()) +
                           ") has room for 0 to " + std::to_string(bits.limit() - 1) +
                           ": widen it, or spread the hosts over more T0s");
    const auto [owner, is_new] = downlinks_.try_emplace({h.t0, h.downlink}, h.name);
    if (!is_new) fail("downlink", "is " + place + ", where host " + owner->second + " is already");
  }

  void read_addresses(Host& h) {
    std::vector<std::string> texts;
    if (item_ != nullptr) texts = item_->texts("addresses");
    check_count("addresses", texts.size());
    for (unsigned p = 0; p < d_.planes; ++p) {
      const auto address = texts.empty() ? usual_address(p) : parse_ipv6(texts[p]);
      if (!address || !is_routable(*address))
        fail("addresses", p,
             "is \"" + json_file::printable(texts[p]) +
                 "\", must be a unicast IPv6 address, not link-local");
      check_address(*address, p, h.name);
      h.addresses.push_back(*address);
    }
  }

  /// fd00:<plane + 1>::<host + 1>.
  [[nodiscard]] std::optional<wire::IpAddress> usual_address(unsigned plane) const {
    wire::IpAddress address{0xFD};
    address[3] = static_cast<std::uint8_t>(plane + 1);
    address[14] = static_cast<std::uint8_t>((number_ + 1) >> 8);
    address[15] = static_cast<std::uint8_t>(number_ + 1);
    return address;
  }

  void check_address(const wire::IpAddress& address, unsigned plane, const std::string& host) {
    const std::string is = "is " + format_ipv6(address) + ", ";
    for (unsigned p = 0; p < d_.planes; ++p)
      if (path::usid_block(address) == d_.blocks[p])
        fail("addresses", plane,
             is + "which lies in plane " + std::to_string(p) + "'s uSID block " +
                 format_block(d_.blocks[p]) + ": take addresses outside it");
    const auto [owner, is_new] =
        addresses_.try_emplace(address, host + " in plane " + std::to_string(plane));
    if (!is_new) fail("addresses", plane, is + "like that of host " + owner->second);
  }

  void read_interfaces(Host& h) {
    if (item_ != nullptr) h.interfaces = item_->texts("interfaces");
    check_count("interfaces", h.interfaces.size());
    if (h.interfaces.empty())
      for (unsigned p = 0; p < d_.planes; ++p) h.interfaces.push_back("p" + std::to_string(p));
    std::set<std::string_view> seen;
    for (std::size_t p = 0; p < h.interfaces.size(); ++p) {
      const std::string is = "is \"" + json_file::printable(h.interfaces[p]) + "\", ";
      if (!is_interface_name(h.interfaces[p]))
        fail("interfaces", p,
             is + "must be 1 to 15 characters without blanks, '/', ':' and '%' (Linux's limit)");
      if (!seen.insert(h.interfaces[p]).second)
        fail("interfaces", p, is + "like that of another plane");
    }
  }

  void read_next_hops(Host& h) {
    std::vector<std::string> texts;
    if (item_ != nullptr) texts = item_->texts("next_hops");
    check_count("next_hops", texts.size());
    for (unsigned p = 0; p < texts.size(); ++p) {
      const auto mac = parse_mac(texts[p]);
      if (!mac)
        fail("next_hops", p,
             "is \"" + json_file::printable(texts[p]) +
                 "\", must be the Ethernet address of one port, such as \"02:00:00:00:00:0a\"");
      h.next_hops.push_back(*mac);
    }
  }

  /// A list must be empty or have one element per plane.
  void check_count(std::string_view field, std::size_t count) const {
    if (count != 0 && count != d_.planes)
      fail(field, "has " + std::to_string(count) +
                      " elements, must have one per plane: " + std::to_string(d_.planes));
  }

  /// If the file has only the number of hosts, the error is that of field "hosts".
  [[noreturn]] void fail(std::string_view field, const std::string& what) const {
    if (item_ != nullptr) item_->fail(field, what);
    root_.fail("hosts", "h" + std::to_string(number_) + "'s " + std::string(field) + " " + what);
  }
  [[noreturn]] void fail(std::string_view field, std::size_t plane, const std::string& what) const {
    if (item_ != nullptr) item_->fail(field, plane, what);
    fail(std::string(field) + "[" + std::to_string(plane) + "]", what);
  }

  const json_file::Object& root_;
  const Description& d_;
  const json_file::Object* item_ = nullptr;  ///< null: hosts are only counted
  unsigned number_ = 0;
  std::vector<unsigned> under_;  ///< hosts so far of each T0
  std::set<std::string> names_;
  std::map<std::pair<unsigned, unsigned>, std::string> downlinks_;
  std::map<wire::IpAddress, std::string> addresses_;
};

/// "templates" of a description: route patterns (mrc-1.0 §4.2).

/// Element `i` of a pattern as a uSID written out.
inline Usid read_literal(const json_file::Object& o, std::string_view field, std::size_t i,
                         const std::string& text, const Description& d) {
  const UsidBits plane = d.usids.plane;
  const std::string is = "is \"" + json_file::printable(text) + "\", ";
  const auto usid = json_file::parse_hex(text);
  if (!usid)
    o.fail(field, i,
           is + "must be \"t0\", \"t1\", \"host_t0\", \"host\" or a uSID such as \"0x1001\"");
  if ((*usid & plane.mask()) != 0)
    o.fail(field, i,
           is + "must have zeros where usids.plane (" + json_file::hex_text(plane.mask()) +
               ") is filled in");
  if (*usid == 0 || path::is_local(*usid) != path::is_local(plane.set(*usid, d.planes - 1)))
    o.fail(field, i,
           is + "must be 0x0001 to 0xdfff in every plane, the range of nodes, or from 0xe000 on, "
                "that of links (mrc-1.0 §4.1)");
  return *usid;
}

/// Follows a pattern and throws at the uSID of a link that the switch before it does not have.
class PatternWalk {
 public:
  PatternWalk(const json_file::Object& o, std::string_view field, const Description& d,
              bool same_t0)
      : o_(o),
        field_(field),
        plan_(d.usids),
        own_t0_(same_t0 ? At::host_t0 : At::t0),
        at_(own_t0_) {}

  void go(std::size_t i, const PatternStep& step) {
    using Kind = PatternStep::Kind;
    switch (step.kind) {
      case Kind::source_t0:
        return enter(i, plan_.t0, "t0", at_ == At::t1, "a T1", own_t0_);
      case Kind::t1:
        return enter(i, plan_.t1, "t1", at_ == At::t0 || at_ == At::host_t0, "a T0", At::t1);
      case Kind::host_t0:
        return enter(i, plan_.t0, "t0", at_ == At::t1, "a T1", At::host_t0);
      case Kind::host:
        return enter(i, plan_.host, "host", at_ == At::host_t0, "the T0 of the host, \"host_t0\",",
                     At::unknown);
      case Kind::literal:
        at_ = At::unknown;  // it may name what the description does not have
        return;
    }
  }

 private:
  enum class At { t0, host_t0, t1, unknown };

  void enter(std::size_t i, Usid usid, const char* name, bool has_link, const char* owner,
             At next) {
    if (path::is_local(usid) && !has_link && at_ != At::unknown)
      o_.fail(field_, i,
              "can't stand here: usids." + std::string(name) + " (" + json_file::hex_text(usid) +
                  ") is in the range of links, so " + owner + " must come before it");
    at_ = next;
  }

  const json_file::Object& o_;
  std::string_view field_;
  const UsidPlan& plan_;
  At own_t0_;  ///< the sender's
  At at_;
};

/// The pattern in `field`, or else `usual`.
inline std::vector<PatternStep> read_steps(const json_file::Object& o, std::string_view field,
                                           std::vector<PatternStep> usual, const Description& d) {
  using Kind = PatternStep::Kind;
  if (!o.has(field)) return usual;
  const std::vector<std::string> texts = o.texts(field);
  if (texts.size() > path::kMaxUsids)
    o.fail(field, "has " + std::to_string(texts.size()) +
                      " uSIDs: 6 fit the address and 6 more a segment routing header");
  std::vector<PatternStep> steps;
  PatternWalk walk(o, field, d, field == "local");
  bool has_t1 = false, has_host = false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto fail = [&](const std::string& what) { o.fail(field, i, what); };
    PatternStep step;
    if (texts[i] == "t0")
      step.kind = Kind::source_t0;
    else if (texts[i] == "t1")
      step.kind = Kind::t1;
    else if (texts[i] == "host_t0")
      step.kind = Kind::host_t0;
    else if (texts[i] == "host")
      step.kind = Kind::host;
    else
      step.literal = read_literal(o, field, i, texts[i], d);
    if (has_host && step.kind != Kind::literal)
      fail("must not come after \"host\": what follows is for the host itself, written out");
    if (has_t1 && step.kind == Kind::t1) fail("is the second \"t1\": an EV names one uplink");
    if (!has_host) walk.go(i, step);
    has_t1 = has_t1 || step.kind == Kind::t1;
    has_host = has_host || step.kind == Kind::host;
    if (i + 1 == texts.size() && !has_host) fail("must be \"host\": all patterns lead to one");
    steps.push_back(step);
  }
  if (field == "remote" && !has_t1 && d.t0 > 1)
    o.fail(field, "lacks \"t1\": no other switch joins the " + std::to_string(d.t0) + " T0s");
  return steps;
}

/// What a template has where nothing is written, and the one behind the last. To another T0 over
/// nodes without that T0, which T1s find by the uSID of the host; over links with all of them.
inline RoutePattern usual_pattern(const UsidPlan& plan) {
  using Kind = PatternStep::Kind;
  RoutePattern usual;
  if (!path::is_local(plan.t0)) usual.remote.push_back({Kind::source_t0});
  usual.remote.push_back({Kind::t1});
  if (path::is_local(plan.host)) usual.remote.push_back({Kind::host_t0});
  usual.remote.push_back({Kind::host});
  usual.local.push_back({Kind::host});
  return usual;
}

inline std::vector<RoutePattern> read_templates(const json_file::Object& root,
                                                const Description& d) {
  const RoutePattern usual = usual_pattern(d.usids);
  const auto read = [&](const json_file::Object& o) {
    RoutePattern pattern;
    pattern.t0s = o.integers<unsigned>("t0s", 0, d.t0 - 1);
    pattern.remote = read_steps(o, "remote", usual.remote, d);
    pattern.local = read_steps(o, "local", usual.local, d);
    return pattern;
  };
  std::vector<RoutePattern> patterns;
  std::vector<bool> named(d.t0, false);
  for (const json_file::Object& o : root.array("templates", 0, 1024)) {
    if (!patterns.empty() && patterns.back().t0s.empty())
      o.fail("", "is never used: the one before has no t0s and takes all destinations");
    patterns.push_back(read(o));
    for (std::size_t i = 0; i < patterns.back().t0s.size(); ++i) {
      const unsigned t0 = patterns.back().t0s[i];
      if (named[t0])
        o.fail("t0s", i, "is T0 " + std::to_string(t0) + ", named before: the first counts");
      named[t0] = true;
    }
  }
  if (patterns.empty() || !patterns.back().t0s.empty()) patterns.push_back(usual);
  return patterns;
}

/// "block", "blocks" and "usids" of a description.

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

namespace mrc::inline v0_1::fabric {

namespace detail {

/// Largest numbers of switches. The paths between two hosts must fit a PathSet.
inline constexpr unsigned kMaxT0s = 1024, kMaxT1s = 1024;
static_assert(std::size_t{kMaxPlanes} * kMaxT1s <= path::kMaxPaths);

/// Every IPv6 link carries packets of 1280 bytes (RFC 8200 §5). These have room for 256 bytes of
/// payload after all headers: outer IPv6, SRH, inner IPv6, UDP, transport with iCRC.
inline constexpr std::uint32_t kMinMtu = 1280, kMaxMtu = 65'535;
static_assert(wire::kMaxEnvelope + wire::kMaxWriteOverhead + 256 <= kMinMtu);

inline constexpr Duration kMinRtt = std::chrono::microseconds(1), kMaxRtt = std::chrono::seconds(1);

using DscpField = std::pair<std::string_view, std::uint8_t wire::DscpMap::*>;
/// Classes that hosts send come first, so that an error names one of them.
inline constexpr DscpField kDscpFields[] = {{"no_trim", &wire::DscpMap::no_trim},
                                            {"trimmable", &wire::DscpMap::trimmable},
                                            {"trimmable_retx", &wire::DscpMap::trimmable_retx},
                                            {"control", &wire::DscpMap::control},
                                            {"trimmed", &wire::DscpMap::trimmed},
                                            {"trimmed_last_hop", &wire::DscpMap::trimmed_last_hop}};

/// Throws if there is an unknown field. Done before any value is read: the default used in place of
/// a misspelt field could cause an error about another field.
inline void check_names(const json_file::Object& root) {
  const auto know = [](const json_file::Object& o, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) (void)o.has(name);
  };
  know(root, {"$schema", "name", "forwarding", "entropy", "planes", "t0", "t1", "block", "blocks",
              "usids", "templates", "hosts", "mtu", "dscp", "link_speed", "base_rtt", "deny"});
  know(root.object("usids"),
       {"plane", "t0", "t0_number", "t1", "t1_number", "host", "host_t0", "downlink"});
  for (const DscpField& field : kDscpFields) (void)root.object("dscp").has(field.first);
  for (const json_file::Object& o : root.array("templates")) know(o, {"t0s", "remote", "local"});
  for (const json_file::Object& o : root.array("deny")) know(o, {"plane", "t0", "t1", "host"});
  if (root.is_list("hosts"))
    for (const json_file::Object& o : root.array("hosts"))
      know(o, {"name", "t0", "downlink", "addresses", "interfaces", "next_hops"});
  root.finish();
}

/// Name, kind and size. The other fields are checked against them.
inline void read_size(const json_file::Object& root, Description& d) {
  constexpr std::size_t kLongestName = 12;
  d.name = root.text("name", "fabric");
  if (!is_name(d.name, kLongestName))
    root.fail("name", "is \"" + json_file::printable(d.name) +
                          "\", must be 1 to 12 letters, digits, '-' or '_', no '-' in front");
  if (root.choice("forwarding", {"srv6", "ecmp"}, "srv6") == "ecmp")
    d.forwarding = Forwarding::ecmp;
  if (root.choice("entropy", {"stev", "udp"}, "stev") == "udp") d.entropy = wire::EvFormat::udp;
  if (d.entropy == wire::EvFormat::udp && d.forwarding == Forwarding::srv6)
    root.fail("entropy",
              "is \"udp\", which is for \"forwarding\": \"ecmp\" only: with source routes "
              "no switch looks at it, and EVs need more than 16 bits");
  d.planes = root.integer<unsigned>("planes", 1, kMaxPlanes, d.planes);
  d.t0 = root.integer<unsigned>("t0", 1, kMaxT0s, d.t0);
  d.t1 = root.integer<unsigned>("t1", 1, kMaxT1s, d.t1);
}

inline wire::DscpMap read_dscp(const json_file::Object& o) {
  wire::DscpMap map;
  for (const DscpField& f : kDscpFields)
    map.*f.second = o.integer<std::uint8_t>(f.first, 0, 63, map.*f.second);
  if (map.valid()) return map;
  for (const DscpField& f : kDscpFields) {
    const bool cut = map.*f.second == map.trimmed;
    if (cut || map.*f.second == map.trimmed_last_hop)
      o.fail(f.first, "is " + std::to_string(map.*f.second) + ", and so is " +
                          (cut ? "trimmed" : "trimmed_last_hop") +
                          ": what switches set to say that they trimmed must say nothing else");
  }
  return map;
}

/// A part of a plane that paths have to avoid.
inline Denied read_denied(const json_file::Object& o, const Description& d) {
  Denied denied;
  denied.plane = o.integer<Plane>("plane", 0, static_cast<Plane>(d.planes - 1));
  if (o.has("t0")) denied.t0 = o.integer<unsigned>("t0", 0, d.t0 - 1);
  if (o.has("t1")) denied.t1 = o.integer<unsigned>("t1", 0, d.t1 - 1);
  if (o.has("t1") && d.forwarding == Forwarding::ecmp)
    o.fail("t1", "can't be avoided with \"ecmp\", where switches choose: deny a T0, host or plane");
  if (!o.has("host")) return denied;
  if (o.has("t0") || o.has("t1"))
    o.fail("host", "must stand alone: its port in this plane is meant");
  const std::string name = o.text("host");
  const Host* host = d.find_host(name);
  if (host == nullptr) {
    json_file::Names names;
    for (const Host& h : d.hosts) names.insert(h.name);
    const std::string near = json_file::nearest_name(name, names);
    o.fail("host", "is \"" + json_file::printable(name) + "\", which is no host" +
                       (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
  }
  denied.host = static_cast<unsigned>(host - d.hosts.data());
  return denied;
}

inline Description read_file(const json_file::File& file, std::string name) {
  const json_file::Object root = file.root();
  check_names(root);
  Description d;
  d.file = std::move(name);
  read_size(root, d);
  read_blocks(root, d);
  const json_file::Object usids = root.object("usids");
  d.usids = read_usids(usids);
  check_sizes(root, d);
  d.hosts = HostReader(root, d).read();
  check_nodes(usids, d);
  d.patterns = read_templates(root, d);
  d.mtu = root.integer<std::uint32_t>("mtu", kMinMtu, kMaxMtu, d.mtu);
  d.dscp = read_dscp(root.object("dscp"));
  d.link_speed = root.number("link_speed", 0.001, 100'000, d.link_speed);
  d.base_rtt = root.duration("base_rtt", kMinRtt, kMaxRtt, d.base_rtt);
  for (const json_file::Object& o : root.array("deny")) d.denied.push_back(read_denied(o, d));
  return d;
}

}  // namespace detail

Description parse(const std::string& name, std::string_view text) {
  return detail::read_file(json_file::File::parse(name, text), name);
}

Description read(const std::string& path) {
  return detail::read_file(json_file::File::read(path, "fabric description"), path);
}

namespace detail {

/// How many of a host's addresses are among `local`.
inline std::size_t count_present(const Host& h, std::span<const wire::IpAddress> local) {
  return static_cast<std::size_t>(
      std::count_if(h.addresses.begin(), h.addresses.end(), [&](const wire::IpAddress& address) {
        return std::find(local.begin(), local.end(), address) != local.end();
      }));
}

/// "h1 lacks fd00:2::2 (plane 1)".
inline std::string lack_text(const Host& h, std::size_t plane) {
  return h.name + " lacks " + format_ipv6(h.addresses[plane]) + " (plane " + std::to_string(plane) +
         ")";
}

/// "h0, h1"; after eight names "...".
inline std::string host_names(const std::vector<const Host*>& hosts) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(hosts.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + hosts[i]->name;
  return text + (hosts.size() > kMost ? ", ..." : "");
}

inline const Host& find_wanted(const Description& d, std::span<const wire::IpAddress> local,
                               const std::string& wanted) {
  const Host* host = d.find_host(wanted);
  if (host == nullptr) {
    std::vector<const Host*> all;
    for (const Host& h : d.hosts) all.push_back(&h);
    throw Error(Errc::not_found, d.file + ": has no host '" + wanted + "', only " +
                                     host_names(all) + "; set MRC_HOST to one of these");
  }
  if (count_present(*host, local) == 0)
    throw Error(Errc::not_found,
                d.file + ": this is not host " + wanted + ": " + lack_text(*host, 0) +
                    "; run inside the namespace of that host, or set MRC_HOST to another");
  return *host;
}

}  // namespace detail

const Host& find_self(const Description& d, std::span<const wire::IpAddress> local,
                      std::string_view wanted) {
  if (!wanted.empty()) return detail::find_wanted(d, local, std::string(wanted));
  std::vector<const Host*> some, all;
  for (const Host& h : d.hosts) {
    const std::size_t present = detail::count_present(h, local);
    if (present > 0) some.push_back(&h);
    if (present == h.addresses.size()) all.push_back(&h);
  }
  if (all.size() == 1) return *all.front();
  if (all.empty() && some.size() == 1) return *some.front();
  if (some.empty())
    throw Error(Errc::not_found,
                d.file + ": no host has an address on this machine (" +
                    detail::lack_text(d.hosts[0], 0) +
                    ", for one); run inside the namespace of a host, or set its addresses up here");
  throw Error(Errc::invalid_argument, d.file + ": several hosts have addresses on this machine: " +
                                          detail::host_names(all.empty() ? some : all) +
                                          "; set MRC_HOST to one of them");
}

}  // namespace mrc::inline v0_1::fabric
