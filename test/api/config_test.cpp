// SPDX-License-Identifier: Apache-2.0
#include "mrc/config.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config_rig.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/wire/burst.hpp"
#include "support/doc_table.hpp"

namespace config_test {

using mrc::Config;
using mrc::Duration;
using mrc::Option;
using mrc::test::check_error;
using mrc::test::contains;
using mrc::test::error_of;
using namespace std::chrono_literals;

TEST_CASE("option values: sizes and numbers") {
  using mrc::parse_integer;
  CHECK(parse_integer<std::uint64_t>("4096") == 4096u);
  CHECK(parse_integer<std::uint64_t>("64K") == 65536u);
  CHECK(parse_integer<std::uint64_t>("8m") == 8u << 20);
  CHECK(parse_integer<std::uint64_t>("2GiB") == std::uint64_t{2} << 30);
  CHECK(parse_integer<std::uint64_t>("3Ki") == 3072u);
  CHECK(parse_integer<std::uint64_t>("0x1F") == 31u);
  CHECK(parse_integer<std::uint64_t>("18446744073709551615") == ~std::uint64_t{0});
  CHECK(parse_integer<int>("-1") == -1);
  CHECK(parse_integer<std::uint8_t>("255") == 255);
  for (const auto bad : {"", " 1", "1 ", "+1", "-1", "1.5", "K", "1KB", "1T", "1KK", "0x", "0xG",
                         "x", "1e3", "18446744073709551616", "17179869184G"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_integer<std::uint64_t>(bad).has_value());
  }
  CHECK_FALSE(parse_integer<std::uint8_t>("256").has_value());
  CHECK_FALSE(parse_integer<std::uint8_t>("1K").has_value());
  CHECK_FALSE(parse_integer<std::uint16_t>("64K").has_value());
  CHECK(parse_integer<std::uint16_t>("63K") == 63u * 1024);
  CHECK_FALSE(parse_integer<int>("2G").has_value());
  CHECK_FALSE(parse_integer<int>("-1K").has_value());
}

TEST_CASE("options that name peers by their networks") {
  Config config;
  config.set("peers_allowed", "10.0.0.0/8,fd00::/16");
  CHECK(config.get("peers_allowed") == "10.0.0.0/8,fd00::/16");
  const mrc::AllowedPeers allowed(config.peers_allowed);
  CHECK_FALSE(allowed.everybody());
  CHECK(allowed.contains(mrc::port::parse_ip("10.1.2.3")));
  CHECK(allowed.contains(mrc::port::parse_ip("fd00:7::1")));
  CHECK_FALSE(allowed.contains(mrc::port::parse_ip("192.0.2.1")));
  CHECK(mrc::AllowedPeers("").contains(mrc::port::parse_ip("192.0.2.1")));

  config.set("peer_ports", "10.0.0.7=4971,10.0.0.0/24=5000");
  const mrc::PeerPorts ports(config.peer_ports);
  CHECK(ports.find(mrc::port::parse_ip("10.0.0.7")) == 4971);  // the first one counts
  CHECK(ports.find(mrc::port::parse_ip("10.0.0.8")) == 5000);
  CHECK_FALSE(ports.find(mrc::port::parse_ip("10.0.1.8")).has_value());
  for (const char* bad : {"10.0.0.7", "10.0.0.7=", "10.0.0.7=0", "10.0.0.7=65536", "=4971",
                          "10.0.0.7=4971,", "host=4971"}) {
    CAPTURE(bad);
    check_error([&] { config.set("peer_ports", bad); }, {"peer_ports", "NETWORK=PORT"});
  }
  check_error([&] { config.set("peers_allowed", "10.0.0.1/8"); },
              {"peers_allowed", "behind the prefix of 8"});
  CHECK(config.peers_allowed == "10.0.0.0/8,fd00::/16");  // unchanged
}

TEST_CASE("option values: durations, reals, booleans, lists") {
  using mrc::parse_duration;
  CHECK(parse_duration("100ns") == Duration{100});
  CHECK(parse_duration("20us") == Duration{20us});
  CHECK(parse_duration("1.5ms") == Duration{1500us});
  CHECK(parse_duration("2s") == Duration{2s});
  CHECK(parse_duration("0") == Duration{0});
  CHECK(parse_duration("-1s") == Duration{-1s});
  for (const auto bad :
       {"", "5", "5 s", "s", "5m", "5sec", "inf", "nan", "infs", "1e30s", "1,5s"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_duration(bad).has_value());
  }
  CHECK(mrc::parse_real("0.5") == 0.5);
  CHECK(mrc::parse_real("1e3") == 1000.0);
  for (const auto bad : {"", "inf", "-inf", "nan", "1x", "0x1", "+1"}) {
    CAPTURE(bad);
    CHECK_FALSE(mrc::parse_real(bad).has_value());
  }
  CHECK(mrc::parse_cpu_list("3") == std::vector<unsigned>{3});
  CHECK(mrc::parse_cpu_list("8-10,0, 2-2") == std::vector<unsigned>{8, 9, 10, 0, 2});
  CHECK(mrc::parse_cpu_list("1023").has_value());
  for (const auto bad : {"", ",", "1,", "-1", "1-", "2-1", "1-2-3", "a", "1024", "0-99999999"})
    CHECK_FALSE(mrc::parse_cpu_list(bad).has_value());
  for (const auto yes : {"on", "true", "1"}) CHECK(mrc::parse_bool(yes) == true);
  for (const auto no : {"off", "false", "0"}) CHECK(mrc::parse_bool(no) == false);
  for (const auto bad : {"", "yes", "ON", "2"}) CHECK_FALSE(mrc::parse_bool(bad).has_value());
  CHECK(mrc::parse_list("a, b ,c") == std::vector<std::string>{"a", "b", "c"});
  for (const auto bad : {"", ",", "a,", ",a", "a,,b", " "}) {
    CAPTURE(bad);
    CHECK_FALSE(mrc::parse_list(bad).has_value());
  }
}

TEST_CASE("option values: what is written reads back") {
  for (const std::uint64_t n :
       {0ull, 1ull, 1023ull, 1024ull, 65536ull, 1ull << 30, 3ull << 31, ~0ull})
    CHECK(mrc::parse_integer<std::uint64_t>(mrc::format_size(n)) == n);
  for (const std::int64_t ns : {0ll, 1ll, 999ll, 1000ll, 1500ll, 20'000'000ll, 3'000'000'000ll})
    CHECK(mrc::parse_duration(mrc::format_duration(Duration{ns})) == Duration{ns});
  for (const double r : {0.0, 0.001, 100.0, 1.0 / 3, 99999.5})
    CHECK(mrc::parse_real(mrc::format_real(r)) == r);
}

TEST_CASE("option table: names are unique, well-formed and documented") {
  std::set<std::string_view> names;
  for (const Option& option : mrc::options()) {
    CAPTURE(option.name);
    CHECK(names.insert(option.name).second);
    CHECK_FALSE(option.group.empty());
    CHECK(option.doc.size() > 20);
    CHECK(option.doc.back() == '.');
    CHECK(option.doc.find('\n') == std::string_view::npos);
    CHECK(option.doc.find('|') == std::string_view::npos);  // would break the table
    for (const char c : option.name) CHECK(((c >= 'a' && c <= 'z') || c == '_'));
    CHECK(mrc::find_option(option.name) == &option);
  }
  CHECK(mrc::variable_name(*mrc::find_option("cc_base_rtt")) == "MRC_CC_BASE_RTT");
  CHECK(mrc::find_option("cc-base-rtt") == mrc::find_option("cc_base_rtt"));
  CHECK(mrc::find_option("") == nullptr);
  CHECK(mrc::find_option("path") == nullptr);
}

TEST_CASE("option table: each option has its own member and takes what it writes") {
  for (const Option& option : mrc::options()) {
    CAPTURE(option.name);
    Config config;
    const std::string value = config.get(option.name);
    if (value.empty()) continue;  // an empty text
    config.set(option.name, value);
    CHECK(config.get(option.name) == value);
  }
  // Values other than the defaults: exactly one option changes.
  std::istringstream changes(R"(
    planes=10.0.0.1,10.0.1.1 paths=8 udp_port=4971 peer_ports=10.0.0.7=4971
    peers_allowed=10.0.0.0/8 slot=3 lock_folder=/run/mine active_paths=4 min_active_paths=2
    loss_strikes=5 probe_successes=1 mtu=1024 burst=1 icrc=off receive_buffer=1M
    receive_shares=8 send_buffer=2M rx_batch=64 gso=off gro=on cc=fixed cc_link_speed=0.5
    cc_base_rtt=12us cc_target_delay=9us cc_fixed_window=64K cc_receiver_penalty=off mpr=8
    mpr_dest=16 max_wimm=32 max_wimm_dest=64 max_rd_atomic=128 max_rd_atomic_dest=0
    rnr_retry=0 min_rnr_timer=31 timeout=8 retry_linear=3 retry_exponential=25 dynamic_mpr=off
    trim=off peer=openmrc connect_timeout=20s strict=on sack_threshold=4K max_qps=65000
    max_cqs=2 max_srqs=5 max_mrs=3 max_pds=4 max_peers=5 max_outstanding=128 lanes=auto
    helper=off helper_cpus=0,2,8-11 helper_takeover=1ms spin=0 poll_ahead=40us dscp_no_trim=1
    dscp_trimmable=2 dscp_trimmable_retx=3 dscp_trimmed=60 dscp_trimmed_last_hop=61
    dscp_control=48 faults=loss=0.001 fabric=/dev/null host=h7 verbs=mlx5_0,mlx5_1:1
    placement=off seed=7 keylog=/tmp/keys log=info control=/run/mine stall_warning=2s
    dump=/tmp/dump)");
  const Config defaults;
  std::set<std::string> seen;
  for (std::string change; changes >> change;) {
    CAPTURE(change);
    const auto name = change.substr(0, change.find('=')), value = change.substr(name.size() + 1);
    seen.insert(name);
    Config config;
    config.set(name, value);
    CHECK(config.get(name) == value);
    int differing = 0;
    for (const Option& option : mrc::options())
      differing += config.get(option.name) != defaults.get(option.name) ? 1 : 0;
    CHECK(differing == 1);
  }
  CHECK(seen.size() == mrc::options().size());
}

TEST_CASE("config: typed values arrive in the members") {
  Config config;
  config.set("planes", "loopback:4");
  config.set("cc", "none");
  config.set("cc-base-rtt", "12us");
  config.set("receive_buffer", "0x100000");
  config.set("gso", "off");
  config.set("slot", "-1");
  config.set("lanes", "0");
  CHECK(config.get("lanes") == "auto");
  config.set("lanes", "64");
  CHECK_THROWS_WITH_AS(config.set("lanes", "65"), doctest::Contains("1 .. 64, or auto"),
                       mrc::Error);
  mrc::set_option(config, "faults=plane=1,down@2s-4s");
  CHECK(config.planes == std::vector<std::string>{"loopback:4"});
  CHECK(config.cc == mrc::cc::Algorithm::none);
  CHECK(config.cc_base_rtt == Duration{12us});
  CHECK(config.receive_buffer == 1u << 20);
  CHECK(config.gso == mrc::port::Offload::off);
  CHECK(config.slot == -1);
  CHECK(config.lanes == 64);
  CHECK(config.faults == "plane=1,down@2s-4s");
}

TEST_CASE("config: values that the device chooses have a name, and on and off have several") {
  Config config;
  CHECK(config.get("mtu") == "auto");
  CHECK(config.get("icrc") == "auto");
  config.set("mtu", "2048");
  config.set("mtu", "auto");
  CHECK(config.mtu == 0);
  for (const auto& accepted : {std::pair{"on", mrc::port::Offload::on},
                               {"1", mrc::port::Offload::on},
                               {"true", mrc::port::Offload::on},
                               {"off", mrc::port::Offload::off},
                               {"0", mrc::port::Offload::off},
                               {"false", mrc::port::Offload::off},
                               {"auto", mrc::port::Offload::automatic}}) {
    const char* const text = accepted.first;
    CAPTURE(text);
    config.set("icrc", text);
    CHECK(config.icrc == accepted.second);
  }
}

TEST_CASE("config: errors name option, value and what is allowed, and change nothing") {
  Config config;
  check_error([&] { config.set("paths", "0"); }, {"'paths'", "'0'", "1 .. 1024", "per plane"});
  check_error([&] { config.set("paths", "1025"); }, {"'1025'"});
  check_error([&] { config.set("paths", "many"); }, {"'many'"});
  check_error([&] { config.set("mtu", "1500"); }, {"'mtu'", "'1500'", "a multiple of 128"});
  check_error([&] { config.set("mtu", "65536"); }, {"256 .. 32768"});
  check_error([&] { config.set("cc", "dcqcn"); }, {"'cc'", "'dcqcn'", "nscc, fixed, none"});
  check_error([&] { config.set("icrc", "maybe"); }, {"'icrc'", "on, off"});
  check_error([&] { config.set("spin", "20"); }, {"'spin'", "'20'", "0 .. 1s"});
  check_error([&] { config.set("receive_buffer", "1K"); }, {"64K .. 1G", "bytes per plane"});
  check_error([&] { config.set("cc_link_speed", "nan"); }, {"'nan'", "0.001 .. "});
  check_error([&] { config.set("slot", "256"); }, {"-1 .. 255"});
  check_error([&] { config.set("retry_exponential", "26"); }, {"0 .. 25"});
  check_error([&] { config.set("planes", "a,,b"); }, {"'planes'", "'a,,b'", "addresses"});
  check_error([&] { config.set("path", "8"); }, {"no option 'path'", "did you mean 'paths'?"});
  check_error([&] { config.set("colour", "red"); }, {"no option 'colour'", "configuration.md"});
  check_error([&] { (void)config.get("mtuu"); }, {"did you mean 'mtu'?"});
  check_error([&] { config.set("faults", "loss=2"); }, {"'faults'", "'loss=2'", "from 0 to 1"});
  check_error([&] { mrc::set_option(config, "paths"); }, {"'paths'", "paths=VALUE"});
  const Config defaults;
  for (const Option& option : mrc::options())
    CHECK(config.get(option.name) == defaults.get(option.name));
}

TEST_CASE("config: validate checks members that were set directly") {
  const auto fails = [](auto change, std::initializer_list<std::string_view> parts) {
    Config config;
    change(config);
    check_error([&] { config.validate(); }, parts);
  };
  Config().validate();
  fails([](Config& c) { c.mtu = 3000; }, {"'mtu'", "'3000'", "a multiple of 128"});
  fails([](Config& c) { c.mtu = 128; }, {"'mtu'"});
  for (const std::uint32_t mtu : {0u, 256u, 384u, 1408u, 3968u, 32'640u, 32'768u}) {
    Config config;
    config.mtu = mtu;
    config.validate();
  }
  fails([](Config& c) { c.slot = 300; }, {"'slot'", "'300'"});
  fails([](Config& c) { c.cc = static_cast<mrc::cc::Algorithm>(9); }, {"'cc'", "nscc"});
  fails([](Config& c) { c.cc_link_speed = std::nan(""); }, {"'cc_link_speed'"});
  fails([](Config& c) { c.cc_link_speed = std::numeric_limits<double>::infinity(); },
        {"'cc_link_speed'"});
  fails([](Config& c) { c.expert.spin = Duration{-1}; }, {"'spin'"});
  fails([](Config& c) { c.faults = "lose=1"; }, {"'faults'", "'lose=1'", "loss=", "example"});
  fails([](Config& c) { c.planes.clear(); }, {"'planes'", "1 .. 32"});
  fails([](Config& c) { c.max_rd_atomic_dest = 129; }, {"'max_rd_atomic_dest'", "0 .. 128"});
  fails([](Config& c) { c.rnr_retry = 8; }, {"'rnr_retry'", "0 .. 7"});
  fails([](Config& c) { c.min_rnr_timer = 32; }, {"'min_rnr_timer'", "0 .. 31"});
  fails(
      [](Config& c) {
        c.strict = true;
        c.peer = mrc::PeerKind::openmrc;
      },
      {"'peer'", "'openmrc'", "any or mrc", "'strict' is on"});
  fails([](Config& c) { c.active_paths = 17; }, {"'active_paths'", "'17'", "= 16"});
  fails([](Config& c) { c.min_active_paths = 17; }, {"'min_active_paths'", "16"});
  fails(
      [](Config& c) {
        c.active_paths = 4;
        c.min_active_paths = 5;
      },
      {"'min_active_paths'", "'5'", "active paths, 4"});
  fails(
      [](Config& c) {
        c.udp_port = 65535;
        c.slot = 1;
      },
      {"'udp_port'", "65536"});
  Config config;
  config.planes = {"loopback:2"};
  config.active_paths = 32;
  config.min_active_paths = 32;
  config.validate();
}

TEST_CASE("config: no other packet may look trimmed") {
  Config config;
  config.expert.dscp_trimmed = 46;
  check_error([&] { config.validate(); }, {"'dscp_trimmed'", "'dscp_control'", "46"});
  // Agrees with the port's own rule for every pair of equal values.
  for (int a = 0; a < 6; ++a) {
    for (int b = 0; b < 6; ++b) {
      Config c;
      std::uint8_t* values[] = {&c.expert.dscp_no_trim,          &c.expert.dscp_trimmable,
                                &c.expert.dscp_trimmable_retx,   &c.expert.dscp_trimmed,
                                &c.expert.dscp_trimmed_last_hop, &c.expert.dscp_control};
      *values[a] = *values[b];
      const mrc::wire::DscpMap map{c.expert.dscp_no_trim,          c.expert.dscp_trimmable,
                                   c.expert.dscp_trimmable_retx,   c.expert.dscp_trimmed,
                                   c.expert.dscp_trimmed_last_hop, c.expert.dscp_control};
      const bool accepted = error_of([&] { c.validate(); }) == "no error";
      CAPTURE(a);
      CAPTURE(b);
      CHECK(accepted == map.valid());
    }
  }
}

TEST_CASE("config: planes written out") {
  const auto planes = [](std::vector<std::string> list) {
    Config config;
    config.planes = std::move(list);
    return config.plane_list();
  };
  CHECK(planes({"loopback:1"}) == std::vector<std::string>{"127.0.0.1"});
  CHECK(planes({"loopback:3"}) == std::vector<std::string>{"127.0.0.1", "127.0.0.2", "127.0.0.3"});
  CHECK(planes({"loopback6:2"}) == std::vector<std::string>{"::1", "::1"});
  CHECK(planes({"eth0", "10.0.0.1", "fe80::1%eth1"}).size() == 3);
  CHECK(planes({"loopback:32"}).size() == 32);
  for (const auto bad : {"loopback:0", "loopback:33", "loopback:", "loopback:x", "loopback6:99"}) {
    CAPTURE(bad);
    check_error([&] { (void)planes({bad}); }, {"'planes'", bad, "from 1 to 32"});
  }
  check_error([&] { (void)planes({"eth0", "eth0"}); }, {"'eth0'", "more than once"});
  check_error([&] { (void)planes({"eth0", ""}); }, {"empty"});
  check_error([&] { (void)planes({"loopback:32", "eth0"}); }, {"33"});
  // Planes on one address need 256 ports each.
  Config config;
  config.planes = {"loopback6:32"};
  config.validate();
  config.udp_port = 60000;
  check_error([&] { config.validate(); }, {"'udp_port'", "67936"});
}

/// The option table as Markdown, one table per group: the generated part of
/// docs/configuration.md.
std::string options_markdown() {
  const Config defaults;
  std::string text;
  std::string_view group;
  for (const Option& option : mrc::options()) {
    if (option.group != group) {
      group = option.group;
      text += (text.empty() ? "### " : "\n### ") + std::string(group) +
              "\n\n| Option | Variable | Default | Allowed | Meaning |\n"
              "|---|---|---|---|---|\n";
    }
    const std::string value = mrc::value_text(option, defaults);
    text += "| `" + std::string(option.name) + "` | `" + mrc::variable_name(option) + "` | " +
            (value.empty() ? "empty" : "`" + value + "`") + " | " + mrc::allowed_text(option) +
            " | " + std::string(option.doc) + " |\n";
  }
  return text;
}

TEST_CASE("docs/configuration.md has the option table") {
  mrc::test::check_doc_table("configuration.md", "<!-- options: begin -->\n",
                             "<!-- options: end -->", "\n" + options_markdown() + "\n");
}

}  // namespace config_test
