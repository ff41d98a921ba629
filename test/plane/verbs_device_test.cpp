// SPDX-License-Identifier: Apache-2.0
// How planes on RDMA devices are named. No device is needed.
#if __has_include(<infiniband/verbs.h>)
#include "mrc/verbs/verbs_device.hpp"

#include <doctest/doctest.h>

#include <string>

#include "mrc/core/error.hpp"
#include "support/errors.hpp"

namespace verbs_device_test {

using namespace mrc::port;

TEST_CASE("verbs planes: names of devices, ports and addresses") {
  CHECK(parse_verbs_plane("mlx5_0") == VerbsPlaneName{"mlx5_0", 0, {}});
  CHECK(parse_verbs_plane("mlx5_0:2") == VerbsPlaneName{"mlx5_0", 2, {}});
  CHECK(parse_verbs_plane("rxe1@10.77.0.1") == VerbsPlaneName{"rxe1", 0, parse_ip("10.77.0.1")});
  CHECK(parse_verbs_plane("rxe1:1@2001:db8::1") ==
        VerbsPlaneName{"rxe1", 1, parse_ip("2001:db8::1")});
}

TEST_CASE("verbs planes: what is no name is refused with the form") {
  struct Case {
    const char* text;
    const char* why;
  };
  const Case cases[] = {
      {"", "no device is named"},
      {":1", "no device is named"},
      {"@10.0.0.1", "no device is named"},
      {"rxe 1", "no device is named"},
      {"rxe1:", "\"\" is not the number of a port"},
      {"rxe1:0", "\"0\" is not the number of a port"},
      {"rxe1:256", "\"256\" is not the number of a port"},
      {"rxe1:-1", "\"-1\" is not the number of a port"},
      {"/dev/rxe1", "no device is named"},
      {"rxe1:1x", "\"1x\" is not the number of a port"},
      {"rxe1:1:2", "\"1:2\" is not the number of a port"},
      {"rxe1@", "\"\" is not a numeric IPv4 or IPv6 address"},
      {"rxe1@10.0.0", "\"10.0.0\" is not a numeric"},
      {"rxe1@10.0.0.1:1", "\"10.0.0.1:1\" is not a numeric"},
      {"rxe1@::", "the address names no host"},
      {"rxe1@0.0.0.0", "the address names no host"},
  };
  for (const Case& c : cases) {
    const mrc::Error error = mrc::test::thrown_by([&] { (void)parse_verbs_plane(c.text); });
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.code() == mrc::Errc::invalid_argument);
    CHECK(mrc::test::contains(text, "verbs plane \"" + std::string(c.text) + "\": "));
    CHECK(mrc::test::contains(text, c.why));
    CHECK(mrc::test::contains(text, "DEVICE:PORT@ADDRESS"));
  }
}

#endif

}  // namespace verbs_device_test
