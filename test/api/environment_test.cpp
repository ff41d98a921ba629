// SPDX-License-Identifier: Apache-2.0
// MRC_* variables: what they set, and what is said of those that are wrong.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config_rig.hpp"
#include "mrc/device.hpp"

namespace environment_test {

using mrc::Config;
using mrc::Duration;
using mrc::Option;
using namespace mrc::test;
using namespace std::chrono_literals;

TEST_CASE("environment: variables set options") {
  const Environment environment{{"MRC_PLANES", "loopback:8"}, {"MRC_PATHS", "32"},
                                {"MRC_CC", "none"},           {"MRC_CC_TARGET_DELAY", "50us"},
                                {"MRC_RECEIVE_BUFFER", "2M"}, {"MRC_ICRC", "0"},
                                {"MRC_LOG", "off"},           {"MRC_SEED", ""}};
  const Config config = Config::from_environment();
  CHECK(config.plane_list().size() == 8);
  CHECK(config.paths == 32);
  CHECK(config.cc == mrc::cc::Algorithm::none);
  CHECK(config.cc_target_delay == Duration{50us});
  CHECK(config.receive_buffer == 2u << 20);
  CHECK(config.icrc == mrc::port::Offload::off);
  CHECK(config.log == mrc::LogLevel::off);
  CHECK(config.seed == 0);
  CHECK(config.mtu == Config().mtu);
}

TEST_CASE("environment: variables change a program's own defaults") {
  Config own;
  own.planes = {"loopback:2"};
  own.paths = 64;
  own.timeout = 20;
  own.log_sink = [](mrc::LogLevel, std::string_view) {};
  {
    const Environment environment{{"MRC_PATHS", "32"}, {"MRC_PLANES", ""}};
    const Config config = Config::from_environment(own);
    CHECK(config.paths == 32);
    CHECK(config.planes == own.planes);
    CHECK(config.timeout == 20);
    CHECK(config.mtu == Config().mtu);
    CHECK(config.log_sink);
  }
  {
    const Environment environment{{"MRC_MIN_ACTIVE_PATHS", "200"}};
    check_error([&] { (void)Config::from_environment(own); },
                {"MRC_MIN_ACTIVE_PATHS", "'200'", "active paths, 128"});
  }
  const Environment none(std::initializer_list<std::pair<const char*, const char*>>{});
  own.mtu = 1500;  // wrong already
  check_error([&] { (void)Config::from_environment(own); }, {"option 'mtu'", "'1500'"});
}

TEST_CASE("environment: errors name variable, value and what is allowed") {
  {
    const Environment environment{{"MRC_PATHS", "0"}};
    check_error([] { (void)Config::from_environment(); },
                {"environment variable MRC_PATHS", "'0'", "1 .. 1024"});
  }
  {
    const Environment environment{{"MRC_FAULTS", "loss=0.1;rain=1"}};
    check_error([] { (void)Config::from_environment(); },
                {"environment variable MRC_FAULTS", "'loss=0.1;rain=1'", "'rain=1'", "plane=N",
                 "example", "'loss=0.001;plane=1,down@2s-4s'"});
  }
}

TEST_CASE("environment: what does not go together names the variables too") {
  struct Case {
    std::vector<std::pair<const char*, const char*>> variables;
    std::vector<std::string_view> parts;
  };
  const Case cases[] = {
      {{{"MRC_ACTIVE_PATHS", "100"}}, {"'active_paths'", "MRC_ACTIVE_PATHS", "'100'", "= 16"}},
      {{{"MRC_MIN_ACTIVE_PATHS", "17"}}, {"MRC_MIN_ACTIVE_PATHS", "'17'", "active paths, 16"}},
      {{{"MRC_PLANES", "loopback:0"}}, {"MRC_PLANES", "'loopback:0'", "from 1 to 32"}},
      {{{"MRC_PLANES", "eth0,eth0"}}, {"MRC_PLANES", "'eth0'", "more than once"}},
      {{{"MRC_PLANES", "loopback:32,eth0"}}, {"MRC_PLANES", "'loopback:32,eth0'", "1 .. 32"}},
      {{{"MRC_UDP_PORT", "65535"}, {"MRC_SLOT", "1"}},
       {"MRC_UDP_PORT", "'65535'", "up to 65534", "MRC_SLOT"}},
      {{{"MRC_DSCP_CONTROL", "12"}}, {"'dscp_trimmed'", "'12'", "MRC_DSCP_CONTROL"}},
  };
  for (const Case& c : cases) {
    const Environment environment(c.variables);
    const std::string text = error_of([] { (void)Config::from_environment(); });
    CAPTURE(text);
    for (const auto part : c.parts) {
      CAPTURE(part);
      CHECK(contains(text, part));
    }
  }
  // A value that something else has set is not the variable's.
  const Environment environment{{"MRC_ACTIVE_PATHS", "8"}};
  Config config;
  config.active_paths = 100;
  const std::string text = error_of([&] { config.validate(); });
  CHECK(contains(text, "'active_paths'"));
  CHECK_FALSE(contains(text, "MRC_"));
}

TEST_CASE("environment: every option has its variable") {
  for (const Option& option : mrc::options()) {
    const std::string variable = mrc::variable_name(option);
    CAPTURE(variable);
    const Environment environment{{variable.c_str(), "?,?,,"}};
    check_error([] { (void)Config::from_environment(); }, {variable, "'?,?,,'"});
  }
}

TEST_CASE("environment: unknown variables are a warning, once") {
  const Environment environment{
      {"MRC_PATH", "8"}, {"MRC_ZZZZZZZZ", "1"}, {"MRC_PATHS", "8"}, {"MRCX", "1"}, {"MRC_", "1"}};
  const std::string text = mrc::unknown_variables();
  CHECK(contains(text, "MRC_PATH (did you mean MRC_PATHS?)"));
  CHECK(contains(text, "MRC_ZZZZZZZZ"));
  CHECK_FALSE(contains(text, "MRCX"));
  CHECK(Config::from_environment().paths == 8);
  CHECK(mrc::unknown_variables_once() == text);
  CHECK(mrc::unknown_variables_once().empty());
  CHECK(mrc::unknown_variables() == text);
}

TEST_CASE("environment: nothing unknown, nothing to say") {
  const Environment environment{{"MRC_PATHS", "8"}};
  CHECK(mrc::unknown_variables().empty());
}

TEST_CASE("environment: the project's own variables are no mistakes, and no options") {
  const Environment environment{{"MRC_BUILD_DIR", "build"}, {"MRC_SOURCE_DIR", "."},
                                {"MRC_FUZZ_SECONDS", "1"},  {"MRC_UPDATE_DOCS", "1"},
                                {"MRC_TEST_SEEDS", "5"},    {"MRC_TEST_ANYTHING", ""},
                                {"MRC_NCCL_MERGE", "all"},  {"MRC_VERBS_VENDOR_ID", "1"}};
  CHECK(mrc::unknown_variables().empty());
  for (const Option& option : mrc::options())
    CHECK_FALSE(mrc::detail::reserved_variable(mrc::variable_name(option)));
  const Environment misspelt{{"MRC_BUILD_DIRS", "build"}, {"MRC_TESTS", "1"}, {"MRC_NCCLX", "1"}};
  CHECK(contains(mrc::unknown_variables(), "MRC_BUILD_DIRS"));
  CHECK(contains(mrc::unknown_variables(), "MRC_TESTS"));
  CHECK(contains(mrc::unknown_variables(), "MRC_NCCLX"));
}

TEST_CASE("environment: what fails when a device opens names the variables too") {
  struct Case {
    std::vector<std::pair<const char*, const char*>> variables;
    std::vector<std::string_view> parts;
  };
  const Case cases[] = {
      {{{"MRC_PLANES", "nosuch0"}},
       {"interface nosuch0", "MRC_PLANES: value 'nosuch0'", "1 .. 32"}},
      {{{"MRC_PLANES", "192.0.2.1"}}, {"not an address of this host", "MRC_PLANES", "'192.0.2.1'"}},
      {{{"MRC_UDP_PORT", "65500"}}, {"slot 255", "MRC_UDP_PORT: value '65500'", "1 .. 65535"}},
      {{{"MRC_FAULTS", "plane=2,down"}, {"MRC_PLANES", "loopback:2"}},
       {"MRC_FAULTS", "'plane=2,down'", "'plane=2'", "the last one is plane=1"}},
      {{{"MRC_FAULTS", "path=1,ecn=1"}}, {"MRC_FAULTS", "'path=1'", "loss, blackhole and down"}},
  };
  for (const Case& c : cases) {
    const Environment environment(c.variables);
    std::string text = "no error";
    try {
      const mrc::Device device(Config::from_environment());
    } catch (const mrc::Error& error) {
      text = error.what();
      const std::string reason = ": " + error.code().message();
      CHECK(text.find(reason) == text.size() - reason.size());  // said once
    }
    CAPTURE(text);
    for (const auto part : c.parts) {
      CAPTURE(part);
      CHECK(contains(text, part));
    }
  }
}

}  // namespace environment_test
