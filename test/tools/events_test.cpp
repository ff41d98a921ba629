// SPDX-License-Identifier: Apache-2.0
// Which events `mrc_ctl events` shows, and how.
#include <doctest/doctest.h>

#include "mrc_ctl/events.hpp"

namespace events_test {

using namespace mrc::ctl_tool;
using namespace std::chrono_literals;

TEST_CASE("events: by kind, plane and age") {
  const Json down{{"event", "plane_down"}, {"number", 3}, {"time", 1000.0}, {"plane", 1}};
  const Json bad{{"event", "path_bad"}, {"number", 4}, {"time", 1060.0}, {"plane", 2}};
  const Json failed{{"event", "qp_error"}, {"number", 5}, {"time", 1090.0}, {"qpn", 7}};
  const auto wanted = [&](const Options& o) {
    std::string text;
    for (const Json& event : {down, bad, failed})
      if (wants_event(o, event, 1100)) text += event["event"].get<std::string>() + " ";
    CHECK(wants_event(o, {{"event", "dropped"}, {"count", 3}}, 1100));
    return text;
  };
  Options o;
  CHECK(wanted(o) == "plane_down path_bad qp_error ");
  o.kinds = {"plane"};
  CHECK(wanted(o) == "plane_down ");
  o.kinds = {"path_bad", "qp"};
  CHECK(wanted(o) == "path_bad qp_error ");
  o.kinds = {"path_good"};
  CHECK(wanted(o).empty());
  o.kinds = {};
  o.in_plane = 2;
  CHECK(wanted(o) == "path_bad ");
  o.in_plane = std::nullopt;
  o.since = 40s;
  CHECK(wanted(o) == "path_bad qp_error ");
  o.since = 1h;
  CHECK(wanted(o) == "plane_down path_bad qp_error ");
  for (const char* kind : {"path", "plane", "plane_up", "qp", "cq", "last_wqe"})
    CHECK_MESSAGE(is_event_kind(kind), kind);
  for (const char* kind : {"", "pla", "plane_", "planes", "_"})
    CHECK_MESSAGE(!is_event_kind(kind), kind);
}

TEST_CASE("events: what is no event is shown as far as it goes") {
  Options o;
  o.kinds = {"plane"};
  o.in_plane = 1;
  o.since = 1h;
  for (const Json& odd :
       {Json(), Json(7), Json::array(), Json{{"event", 3}, {"plane", "x"}, {"time", "y"}},
        Json{{"event", "plane_down"}, {"ev", -1}, {"time", -1e300}, {"plane", Json::object()}}}) {
    CAPTURE(odd.dump());
    CHECK(!wants_event(o, odd, 1100));
    CHECK(event_text(odd).find('?') == 0);
  }
}

TEST_CASE("events: kinds have one list") {
  CHECK(event_kinds_text() ==
        "path (path_bad, path_good), plane (plane_down, plane_up), qp_error, last_wqe, cq_overrun, "
        "srq_limit");
  CHECK(is_event_kind("plane"));
  CHECK(is_event_kind("srq_limit"));
  CHECK(!is_event_kind("planes"));
}

TEST_CASE("events: an EV stands once, and what was crossed") {
  Json event{{"event", "path_bad"}, {"number", 4},      {"time", 1e9},
             {"plane", 2},          {"ev", 21},         {"value", "0000001500"},
             {"port", 3},           {"over", "p2t1-0"}, {"destination", "fd00::1"}};
  const std::string text = event_text(event);
  CHECK(text.find("path_bad     destination=fd00::1 ev=0x15 over=p2t1-0 plane=2") !=
        std::string::npos);
  CHECK(text.find("value") == std::string::npos);
  event["profile"] = 5;
  CHECK(event_text(event).find("port=3 profile=5 value=0000001500") != std::string::npos);
  CHECK(event_text({{"event", "qp_error"}, {"qpn", 70'001}}).find("qpn=70001") !=
        std::string::npos);
  CHECK(event_text({{"event", "a\nb"}, {"x", "\x1b[2J"}}).find_first_of("\n\x1b") ==
        std::string::npos);
}

}  // namespace events_test
