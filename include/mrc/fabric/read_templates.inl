// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/fabric/description.hpp"
#include "mrc/json/json.hpp"

/// "templates" of a description: route patterns (mrc-1.0 §4.2).
namespace mrc::inline v0_1::fabric::detail {

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

}  // namespace mrc::inline v0_1::fabric::detail
