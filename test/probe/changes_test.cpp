// SPDX-License-Identifier: Apache-2.0
#include "probe/changes.hpp"

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using namespace mrc::probe;
using Kind = Trouble::Kind;

namespace changes_test {

WallTime at(mrc::Duration time) {
  return WallTime{} + time;
}

TEST_CASE("changes: what is new and what is over is told once") {
  Changes changes;
  CHECK(changes.update(at(1s), {}).empty());
  const Trouble link{Kind::dead, "link a", "7 of 7"}, host{Kind::silent, "host b", ""};
  const auto first = changes.update(at(2s), {link, host});
  REQUIRE(first.size() == 2);
  CHECK_FALSE(first[0].is_back);
  CHECK(first[0].trouble.what == "link a");
  CHECK(first[0].when == at(2s));
  CHECK(changes.update(at(3s), {link, host}).empty());
  const auto back = changes.update(at(5s), {host});
  REQUIRE(back.size() == 1);
  CHECK(back[0].is_back);
  CHECK(back[0].trouble.what == "link a");
  CHECK(back[0].lasted == 3s);
  CHECK(changes.update(at(6s), {host}).empty());
  CHECK(changes.update(at(7s), {}).size() == 1);
}

TEST_CASE("changes: dead after lossy is one trouble that got worse") {
  Changes changes;
  CHECK(changes.update(at(1s), {{Kind::lossy, "link a", "3 %"}}).size() == 1);
  CHECK(changes.update(at(2s), {{Kind::lossy, "link a", "5 %"}}).empty());
  const auto worse = changes.update(at(3s), {{Kind::dead, "link a", ""}});
  REQUIRE(worse.size() == 1);
  CHECK_FALSE(worse[0].is_back);
  CHECK(worse[0].trouble.kind == Kind::dead);
  const auto back = changes.update(at(4s), {});
  REQUIRE(back.size() == 1);
  CHECK(back[0].lasted == 3s);
}

TEST_CASE("changes: a sweep without losses does not end lossy") {
  Changes changes;
  const Trouble lossy{Kind::lossy, "link a", ""};
  CHECK(changes.update(at(1s), {lossy}).size() == 1);
  for (unsigned i = 0; i < 4; ++i) CHECK(changes.update(at(2s), {}).empty());
  CHECK(changes.update(at(3s), {lossy}).empty());
  for (unsigned i = 0; i < 4; ++i) CHECK(changes.update(at(4s), {}).empty());
  CHECK(changes.update(at(5s), {}).size() == 1);
}

}  // namespace changes_test
