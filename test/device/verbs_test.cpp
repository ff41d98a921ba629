// SPDX-License-Identifier: Apache-2.0
// Devices on RDMA devices that are not there: what is said, and that it names the remedy. How they
// run is tested in a virtual machine (test/vm).
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "api/config_rig.hpp"
#include "mrc/mrc.hpp"
#include "support/errors.hpp"

namespace verbs_test {

mrc::Config with_verbs(const std::string& planes) {
  mrc::Config config;
  config.verbs = planes;
  return config;
}

/// The error of opening a device.
mrc::Error verbs_refusal(const mrc::Config& config) {
  return mrc::test::thrown_by([&] { const mrc::Device device(config); });
}

/// Whether a message says what to do, whatever this host lacks: the headers when the library was
/// compiled, libibverbs, a kernel with RDMA, or that device.
bool names_remedy(const std::string& text) {
  const std::array remedies{"install them and compile it anew", "libibverbs1 and ibverbs-providers",
                            "modprobe ib_uverbs", "`ibv_devices` lists those that there are"};
  for (const char* remedy : remedies)
    if (mrc::test::contains(text, remedy)) return true;
  return false;
}

TEST_CASE("verbs planes: a device that this host does not have") {
  const std::string text = verbs_refusal(with_verbs("no-such-nic")).what();
  CAPTURE(text);
  CHECK(names_remedy(text));
  const mrc::test::Environment environment{{"MRC_VERBS", "no-such-nic"}};
  const std::string by_variable = verbs_refusal(mrc::Config::from_environment()).what();
  CAPTURE(by_variable);
  CHECK(names_remedy(by_variable));
  CHECK(mrc::test::contains(by_variable, "MRC_VERBS"));
}

TEST_CASE("verbs planes: names without sense are refused when the option is set") {
  mrc::Config config;
  for (const char* bad : {",", "a,", ",a", "a,,b", "a b", "/dev/infiniband/uverbs0"}) {
    const std::string text = mrc::test::thrown_by([&] { config.set("verbs", bad); }).what();
    CAPTURE(text);
    CHECK(mrc::test::contains(text, "devices separated by commas"));
  }
  CHECK(config.verbs.empty());
}

}  // namespace verbs_test
