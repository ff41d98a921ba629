// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/fabric/description.hpp"
#include "mrc/json/object.hpp"

/// "templates" of a description: route patterns (mrc-1.0 §4.2).
namespace mrc::inline v0_1::fabric::detail {

/// Element `i` of a pattern as a uSID written out.
inline Usid read_literal(const json_file::Object& o, std::string_view field, std::size_t i,
                         const std::string& text, const Description& d) {
  const UsidBits plane = d.usids.plane;
  const std::string is = "is \"" + json_file::printable(text) + "\", ";
  const auto usid = json_file::parse_hex(text);
  if (!usid) o.fail(field, i, is + "must be \"t0\", \"t1\", \"host\" or a uSID such as \"0x1001\"");
  if ((*usid & plane.mask()) != 0)
    o.fail(field, i,
           is + "must have zeros where usids.plane (" + json_file::hex_text(plane.mask()) +
               ") is filled in");
  if (!path::is_global(*usid) || !path::is_global(plane.set(*usid, d.planes - 1)))
    o.fail(field, i,
           is + "must be 0x0001 to 0xdfff in every plane, the range of nodes (mrc-1.0 §4.1)");
  return *usid;
}

/// The pattern in `field`, or else `usual`.
inline std::vector<PatternStep> read_steps(const json_file::Object& o, std::string_view field,
                                           const std::vector<std::string>& usual,
                                           const Description& d) {
  using Kind = PatternStep::Kind;
  const std::vector<std::string> texts = o.texts(field, usual);
  if (texts.size() > path::kMaxUsids)
    o.fail(field, "has " + std::to_string(texts.size()) +
                      " uSIDs: 6 fit the address and 6 more a segment routing header");
  std::vector<PatternStep> steps;
  bool has_t1 = false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto fail = [&](const std::string& what) { o.fail(field, i, what); };
    PatternStep step;
    if (texts[i] == "t0")
      step.kind = Kind::source_t0;
    else if (texts[i] == "t1")
      step.kind = Kind::t1;
    else if (texts[i] == "host")
      step.kind = Kind::host;
    else
      step.literal = read_literal(o, field, i, texts[i], d);
    const bool is_last = i + 1 == texts.size();
    if (is_last && step.kind != Kind::host) fail("must be \"host\": all patterns end at one");
    if (!is_last && step.kind == Kind::host) fail("must be the last: a host forwards nothing");
    if (has_t1 && step.kind == Kind::t1) fail("is the second \"t1\": an EV names one uplink");
    has_t1 = has_t1 || step.kind == Kind::t1;
    steps.push_back(step);
  }
  if (field == "remote" && !has_t1 && d.t0 > 1)
    o.fail(field, "lacks \"t1\": no other switch joins the " + std::to_string(d.t0) + " T0s");
  return steps;
}

inline std::vector<RoutePattern> read_templates(const json_file::Object& root,
                                                const Description& d) {
  const auto read = [&](const json_file::Object& o) {
    RoutePattern pattern;
    pattern.t0s = o.integers<unsigned>("t0s", 0, d.t0 - 1);
    pattern.remote = read_steps(o, "remote", {"t0", "t1", "host"}, d);
    pattern.local = read_steps(o, "local", {"host"}, d);
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
  if (patterns.empty() || !patterns.back().t0s.empty())
    patterns.push_back(
        {{},
         {{PatternStep::Kind::source_t0}, {PatternStep::Kind::t1}, {PatternStep::Kind::host}},
         {{PatternStep::Kind::host}}});
  return patterns;
}

}  // namespace mrc::inline v0_1::fabric::detail
