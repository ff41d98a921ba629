// SPDX-License-Identifier: Apache-2.0
// What the environment asks of the plugin, and what is said of values that are wrong.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <chrono>

#include "nccl_plugin/settings/timeouts.hpp"
#include "nccl_plugin/settings/variables.hpp"
#include "settings_rig.hpp"

namespace settings_test {

using namespace mrc::test;
using namespace std::chrono_literals;
using mrc::Config;
using mrc::Duration;
using mrc_nccl::Settings;

/// "timeout linear exponential".
std::string retries_of(const Settings& settings) {
  return std::to_string(settings.base.timeout) + " " + std::to_string(settings.base.retry_linear) +
         " " + std::to_string(settings.base.retry_exponential);
}

TEST_CASE("settings: without variables the plugin's defaults") {
  const Settings settings = settings_of({});
  CHECK(settings.merged);
  CHECK_FALSE(settings.early_receives);
  CHECK(settings.qp_hints);
  CHECK(settings.stats_file.empty());
  CHECK_FALSE(settings.traffic_class_set);
  CHECK(settings.warnings.empty());
  CHECK(settings.base.max_wimm >= 32 * 8);
  CHECK(settings.base.max_wimm_dest >= 32 * 8);
  CHECK(settings.base.timeout == Config().timeout);
  CHECK(settings.base.lanes == Config().lanes);
  CHECK(retries_of(settings) == "12 7 11");
  CHECK(settings.peer_timeout == Duration{4102ll * 4194304});
  CHECK(settings.peer_timeout > 10s);  // an outage of so long costs no connection
  CHECK(settings.outage == 60s);
  CHECK(settings.heartbeat == 1s);
  CHECK(any_contains({settings.patience},
                     "after 17.2 s, or 60 s while its host answers (timeout 12, "
                     "7 linear and 11 doubling retries)"));
}

TEST_CASE("settings: outages that end when the peer's host answers") {
  CHECK(settings_of({{"MRC_NCCL_OUTAGE", "90s"}}).outage == 90s);
  CHECK(settings_of({{"MRC_NCCL_OUTAGE", "forever"}}).outage == mrc_nccl::kForEver);
  const auto least = settings_of({{"MRC_NCCL_OUTAGE", "0s"}});
  CHECK(least.outage == least.peer_timeout);
  CHECK(settings_of({{"NCCL_IB_TIMEOUT", "0"}}).outage == mrc_nccl::kForEver);
  for (const char* wrong : {"-1s", "25h", "5", "never"}) {
    CAPTURE(wrong);
    CHECK(contains(refusal({{"MRC_NCCL_OUTAGE", wrong}}),
                   "MRC_NCCL_OUTAGE: value '" + std::string(wrong) + "' is not allowed"));
  }
}

TEST_CASE("settings: address and ports of listeners") {
  CHECK_FALSE(settings_of({}).listen.ip.has_value());
  CHECK(settings_of({}).listen.first_port == 0);
  const auto chosen =
      settings_of({{"MRC_NCCL_LISTEN", "10.0.1.1"}, {"MRC_NCCL_PORTS", "50000-50999"}});
  CHECK(chosen.listen.ip == mrc::port::make_v4(10, 0, 1, 1));
  CHECK(chosen.listen.first_port == 50000);
  CHECK(chosen.listen.last_port == 50999);
  const auto one = settings_of({{"MRC_NCCL_PORTS", "7000"}});
  CHECK(one.listen.first_port == 7000);
  CHECK(one.listen.last_port == 7000);
  for (const char* wrong : {"0", "9-8", "-", "1-", "-5", "1-70000", "1-2-3", "a-b", " 1-2"}) {
    CAPTURE(wrong);
    const std::string text = refusal({{"MRC_NCCL_PORTS", wrong}});
    CHECK(contains(text, "MRC_NCCL_PORTS: value '" + std::string(wrong) + "' is not allowed"));
    CHECK(contains(text, "such as 50000-50999"));
  }
  CHECK(contains(refusal({{"MRC_NCCL_LISTEN", "eth0"}}),
                 "MRC_NCCL_LISTEN: value 'eth0' is not allowed; allowed: an IP address"));
}

TEST_CASE("settings: timeouts and retries, the most specific variable wins") {
  struct Case {
    NcclVariables variables;
    const char* retries;  // timeout, linear, exponential
  };
  const Case cases[] = {
      {{{"NCCL_MRC_TIMEOUT", "20"}}, "20 7 11"},
      {{{"NCCL_MRC_TIMEOUT", "0"}}, "0 7 11"},
      {{{"NCCL_MRC_TIMEOUT", "24"}}, "24 7 11"},
      {{{"NCCL_MRC_TIMEOUT", ""}}, "12 7 11"},
      {{{"NCCL_IB_TIMEOUT", "1"}}, "3 7 11"},
      {{{"NCCL_IB_TIMEOUT", "22"}}, "24 7 11"},
      {{{"NCCL_IB_TIMEOUT", "0"}}, "12 7 25"},
      {{{"NCCL_IB_TIMEOUT", "18"}, {"NCCL_MRC_TIMEOUT", "14"}}, "14 7 11"},
      {{{"NCCL_IB_TIMEOUT", "0"}, {"NCCL_MRC_TIMEOUT", "14"}}, "14 7 11"},
      {{{"NCCL_IB_TIMEOUT", "0"}, {"MRC_TIMEOUT", "10"}}, "10 7 11"},
      {{{"NCCL_IB_TIMEOUT", "0"}, {"NCCL_MRC_RETRY_CNT_EXP", "3"}}, "12 7 3"},
      {{{"NCCL_MRC_TIMEOUT", "14"}, {"MRC_TIMEOUT", "10"}}, "10 7 11"},
      {{{"NCCL_IB_RETRY_CNT", "0"}}, "12 0 11"},
      {{{"NCCL_IB_RETRY_CNT", "3"}, {"NCCL_MRC_RETRY_CNT_LINEAR", "5"}}, "12 5 11"},
      {{{"NCCL_MRC_RETRY_CNT_LINEAR", "5"}, {"MRC_RETRY_LINEAR", "1"}}, "12 1 11"},
      {{{"NCCL_MRC_RETRY_CNT_EXP", "0"}}, "12 7 0"},
      {{{"NCCL_MRC_RETRY_CNT_EXP", "25"}}, "12 7 25"},
      {{{"NCCL_MRC_RETRY_CNT_EXP", "25"}, {"MRC_RETRY_EXPONENTIAL", "4"}}, "12 7 4"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.variables.back().first);
    CAPTURE(c.variables.back().second);
    CHECK(retries_of(settings_of(c.variables)) == c.retries);
  }
  const Settings clamped = settings_of({{"NCCL_IB_TIMEOUT", "23"}});
  CHECK(clamped.base.timeout == 24);
  CHECK(any_contains(clamped.warnings, "NCCL_IB_TIMEOUT: value '23' counts as 22 (17.2 s)"));
}

TEST_CASE("settings: the time until a silent peer counts as dead") {
  const auto time_of = [](unsigned timeout, unsigned linear, unsigned exponential) {
    Config config;
    config.timeout = static_cast<std::uint8_t>(timeout);
    config.retry_linear = static_cast<std::uint8_t>(linear);
    config.retry_exponential = static_cast<std::uint8_t>(exponential);
    return mrc_nccl::give_up_time(config);
  };
  const Duration t12{1024 * 4096}, t24{1024ll << 24};
  CHECK(time_of(12, 0, 0) == t12);
  CHECK(time_of(12, 3, 0) == 4 * t12);
  CHECK(time_of(12, 0, 1) == 3 * t12);
  CHECK(time_of(12, 2, 3) == (3 + 2 + 4 + 8) * t12);
  CHECK(time_of(24, 7, 8) == 16 * t24);  // T(24) does not double
  CHECK(time_of(12, 7, 24) > 12 * t24);
  CHECK(time_of(0, 7, 0) == 8 * 2 * Config().cc_base_rtt);  // never shorter
  CHECK(time_of(12, 7, 25) == mrc_nccl::kForEver);

  const Settings forever = settings_of({{"NCCL_IB_TIMEOUT", "0"}});
  CHECK(forever.peer_timeout == mrc_nccl::kForEver);
  CHECK(forever.heartbeat == 1s);
  CHECK(any_contains({forever.patience}, "dead after for ever") == false);
  CHECK(any_contains({forever.patience}, "never"));

  const Settings hasty = settings_of({{"MRC_TIMEOUT", "0"}, {"MRC_RETRY_EXPONENTIAL", "0"}});
  CHECK(hasty.heartbeat == 50ms);
  CHECK(any_contains(hasty.warnings, "connections fail after 3.2 ms without an answer"));
}

TEST_CASE("settings: switches and files") {
  for (const char* on : {"on", "1"})
    CHECK(settings_of({{"MRC_NCCL_EARLY_RECEIVES", on}}).early_receives);
  for (const char* off : {"off", "0"}) {
    CHECK_FALSE(settings_of({{"MRC_NCCL_EARLY_RECEIVES", off}}).early_receives);
    CHECK_FALSE(settings_of({{"NCCL_MRC_QP_HINT_ENABLE", off}}).qp_hints);
  }
  CHECK(settings_of({{"NCCL_MRC_QP_HINT_ENABLE", "1"}}).qp_hints);
  CHECK(settings_of({{"NCCL_MRC_STATS", "/tmp/x.json"}}).stats_file == "/tmp/x.json");
}

TEST_CASE("settings: one NIC or several") {
  struct Case {
    const char* merge;
    const char* level;
    bool merged;
  };
  const Case cases[] = {
      {"", "", true},      {"all", "", true},    {"1", "", true},        {"on", "", true},
      {"none", "", false}, {"0", "", false},     {"off", "", false},     {"", "LOC", false},
      {"", "PORT", true},  {"", "PIX", true},    {"", "PXB", true},      {"", "PXN", true},
      {"", "SYS", true},   {"all", "LOC", true}, {"none", "PIX", false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.merge);
    CAPTURE(c.level);
    const Settings settings =
        settings_of({{"MRC_NCCL_MERGE", c.merge}, {"NCCL_NET_MERGE_LEVEL", c.level}});
    CHECK(settings.merged == c.merged);
    CHECK(settings.nics.size() == (c.merged ? 1 : 4));
  }
  CHECK(any_contains(settings_of({{"NCCL_NET_MERGE_LEVEL", "LOC"}}).info, "one NIC per plane"));
}

TEST_CASE("settings: errors name variable, value and what is allowed") {
  struct Case {
    const char* name;
    const char* value;
    const char* allowed;
  };
  const Case cases[] = {
      {"NCCL_MRC_TIMEOUT", "25", "0 .. 24 (1.024 us x 2^n"},
      {"NCCL_MRC_TIMEOUT", "-1", "0 .. 24"},
      {"NCCL_MRC_TIMEOUT", "12x", "0 .. 24"},
      {"NCCL_MRC_RETRY_CNT_LINEAR", "8", "0 .. 7 (retries)"},
      {"NCCL_MRC_RETRY_CNT_EXP", "26", "0 .. 25 (doubling retries; 25: for ever)"},
      {"NCCL_IB_TIMEOUT", "32", "0 .. 31 (4.096 us x 2^n; 0: for ever)"},
      {"NCCL_IB_TIMEOUT", "long", "0 .. 31"},
      {"NCCL_IB_RETRY_CNT", "8", "0 .. 7"},
      {"NCCL_IB_TC", "256", "-1 .. 255 (-1: not set)"},
      {"NCCL_MRC_QP_HINT_ENABLE", "2", "off, on"},
      {"MRC_NCCL_EARLY_RECEIVES", "yes", "off, on"},
      {"MRC_NCCL_EARLY_RECEIVES", "off|0", "off, on"},
      {"MRC_NCCL_MERGE", "some", "all, none"},
      {"NCCL_NET_MERGE_LEVEL", "loc", "LOC, PORT, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS"},
      {"MRC_PATHS", "0", "1 .. 1024 (per plane)"},
      {"MRC_TIMEOUT", "25", "0 .. 24"},
      {"MRC_FAULTS", "loss=2", "a rate must be a number from 0 to 1"},
  };
  for (const Case& c : cases) {
    const std::string text = refusal({{c.name, c.value}});
    CAPTURE(text);
    CHECK(text.starts_with("environment variable " + std::string(c.name) + ": value '" + c.value +
                           "' is not allowed; "));
    CHECK(contains(text, c.allowed));
  }
}

TEST_CASE("settings: a value that loses is checked, too") {
  CHECK(contains(refusal({{"NCCL_IB_TIMEOUT", "99"}, {"MRC_TIMEOUT", "12"}}), "NCCL_IB_TIMEOUT"));
  CHECK(contains(refusal({{"NCCL_MRC_TIMEOUT", "99"}, {"MRC_TIMEOUT", "12"}}), "NCCL_MRC_TIMEOUT"));
  CHECK(contains(refusal({{"NCCL_NET_MERGE_LEVEL", "x"}, {"MRC_NCCL_MERGE", "all"}}), "LOC"));
}

TEST_CASE("settings: the traffic class is the DSCP of data") {
  const auto dscp = [](const NcclVariables& variables) {
    return static_cast<int>(settings_of(variables).base.expert.dscp_no_trim);
  };
  CHECK(dscp({{"NCCL_IB_TC", "-1"}}) == 0);
  CHECK(dscp({{"NCCL_IB_TC", "0"}}) == 0);
  CHECK(dscp({{"NCCL_IB_TC", "104"}}) == 26);
  CHECK(dscp({{"NCCL_IB_TC", "106"}}) == 26);  // the ECN bits do not count
  CHECK(dscp({{"NCCL_IB_TC", "255"}}) == 63);
  CHECK(dscp({{"NCCL_IB_TC", "104"}, {"MRC_DSCP_NO_TRIM", "8"}}) == 8);
  CHECK_FALSE(settings_of({{"NCCL_IB_TC", "-1"}}).traffic_class_set);
  CHECK(settings_of({{"NCCL_IB_TC", "0"}}).traffic_class_set);
  CHECK(settings_of({{"MRC_DSCP_NO_TRIM", "8"}}).traffic_class_set);
  // 12 and 16 are those of trimmed packets.
  CHECK(contains(refusal({{"NCCL_IB_TC", "48"}}), "NCCL_IB_TC: value '48'"));
  CHECK(contains(refusal({{"NCCL_IB_TC", "64"}}), "MRC_DSCP_TRIMMED_LAST_HOP): not 16"));

  Config config;
  CHECK(mrc_nccl::apply_traffic_class(config, -1, "trafficClass").empty());
  CHECK(config.expert.dscp_no_trim == 0);
  CHECK(mrc_nccl::apply_traffic_class(config, 32, "trafficClass").empty());
  CHECK(config.expert.dscp_no_trim == 8);
  CHECK(contains(error_of<mrc_nccl::SettingsError>(
                     [&] { (void)mrc_nccl::apply_traffic_class(config, 300, "trafficClass"); }),
                 "trafficClass: value '300' is not allowed; allowed: -1 .. 255"));
  config.fabric = "/some/fabric.json";
  CHECK(contains(mrc_nccl::apply_traffic_class(config, 64, "trafficClass"), "has no effect"));
  CHECK(config.expert.dscp_no_trim == 8);
}

TEST_CASE("settings: variables without effect are told, not refused") {
  const Settings settings = settings_of({{"NCCL_IB_HCA", "mlx5_0"}, {"NCCL_MRC_CC_MIN_RATE", "7"}});
  CHECK(any_contains(settings.info, "NCCL_IB_HCA has no effect on planes"));
  CHECK(any_contains(settings.info, "NCCL_MRC_CC_MIN_RATE has no effect"));
  CHECK(settings.warnings.empty());
}

TEST_CASE("settings: helper threads stay, whatever MRC_HELPER says") {
  const Settings settings = settings_of({{"MRC_HELPER", "off"}});
  CHECK(settings.base.helper);
  CHECK(any_contains(settings.warnings, "MRC_HELPER=off has no effect"));
  CHECK(settings_of({{"MRC_HELPER", "on"}}).warnings.empty());
}

TEST_CASE("settings: unknown variables of the plugin are warnings with the nearest name") {
  struct Case {
    const char* name;
    const char* warning;  // nullptr: none
  };
  const Case cases[] = {
      {"MRC_NCCL_MERG", "MRC_NCCL_MERG (did you mean MRC_NCCL_MERGE?)"},
      {"MRC_NCCL_EARLY_RECEIVE", "(did you mean MRC_NCCL_EARLY_RECEIVES?)"},
      {"NCCL_MRC_RETRY_CNT", "(did you mean NCCL_MRC_RETRY_CNT_EXP?)"},
      {"NCCL_MRC_TIMEOUTS", "(did you mean NCCL_MRC_TIMEOUT?)"},
      {"NCCL_MRC_SOMETHING_ELSE", "unknown environment variable, ignored: NCCL_MRC_SOMETHING_ELSE"},
      {"NCCL_IB_UNKNOWN", nullptr},
      {"MRC_PATHS", nullptr},
  };
  for (const Case& c : cases) {
    const Settings settings = settings_of({{c.name, "1"}});
    CAPTURE(c.name);
    CAPTURE(joined(settings.warnings));
    if (c.warning == nullptr) {
      CHECK(settings.warnings.empty());
    } else {
      CHECK(any_contains(settings.warnings, c.warning));
    }
  }
  CHECK_FALSE(any_contains(settings_of({{"NCCL_MRC_SOMETHING_ELSE", "1"}}).warnings, "mean"));
}

TEST_CASE("settings: every variable that is documented is known, and no other") {
  NcclVariables variables;
  for (const auto& variable : mrc_nccl::variables())
    if (variable.name.find("MRC_") != std::string_view::npos)
      variables.emplace_back(variable.name, "");
  CHECK(mrc_nccl::unknown_variables(mrc_nccl::Environment(variables)).empty());
  const std::string table = mrc_nccl::variables_markdown();
  for (const auto& variable : mrc_nccl::variables())
    CHECK(contains(table, "| `" + std::string(variable.name) + "` |"));
}

/// Sets a variable of the process for one test.
class ProcessVariable {
 public:
  ProcessVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ProcessVariable() { unsetenv(name_); }
  ProcessVariable(const ProcessVariable&) = delete;
  ProcessVariable& operator=(const ProcessVariable&) = delete;

 private:
  const char* name_;
};

TEST_CASE("settings: the environment of the process") {
  const ProcessVariable merge("MRC_NCCL_MERGE", "none");
  const ProcessVariable planes("MRC_PLANES", "loopback:3");
  const ProcessVariable unknown("NCCL_MRC_STAT", "x");
  const ProcessVariable misspelt("MRC_PATH", "3");
  const ProcessVariable stats("NCCL_MRC_STATS", "out.json");
  const Settings settings = mrc_nccl::read_settings({}, mrc_nccl::read_interfaces());
  CHECK(settings.nics.size() == 3);
  CHECK(settings.base.max_qps == mrc_nccl::plugin_defaults().max_qps);
  CHECK(settings.stats_file == "out.json");
  CHECK(any_contains(settings.warnings, "did you mean NCCL_MRC_STATS?"));
  CHECK(any_contains(settings.warnings, "MRC_PATH (did you mean MRC_PATHS?)"));
  CHECK_FALSE(any_contains(settings.warnings, "MRC_NCCL_MERGE"));
  const ProcessVariable paths("MRC_PATHS", "0");
  const std::string text = error_of<mrc_nccl::SettingsError>(
      [] { (void)mrc_nccl::read_settings({}, mrc_nccl::read_interfaces()); });
  CHECK(contains(text, "environment variable MRC_PATHS: value '0' is not allowed"));
}

}  // namespace settings_test
