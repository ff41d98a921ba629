// SPDX-License-Identifier: Apache-2.0
// Which interfaces become planes, and which planes form a NIC.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "settings_rig.hpp"
#include "support/own_folder.hpp"

namespace planes_test {

using namespace mrc::test;
using mrc_nccl::InterfaceFacts;
using mrc_nccl::NicPlan;
using mrc_nccl::Settings;

/// The planes of all NICs: "a,b|c" are a NIC of two planes and one of one.
std::string planes_of(const Settings& settings) {
  std::string text;
  for (const NicPlan& nic : settings.nics) text += (text.empty() ? "" : "|") + joined(nic.planes);
  return text;
}

TEST_CASE("planes: NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose") {
  struct Case {
    const char* ifname;
    const char* family;
    const char* planes;
  };
  const Case cases[] = {
      // By themselves: neither loopback nor containers, by name, IPv4 where there is one.
      {"", "", "10.0.1.1,10.0.2.1,10.0.10.1,2001:db8:b::1"},
      {"", "AF_INET", "10.0.1.1,10.0.2.1,10.0.10.1"},
      {"", "AF_INET6", "2001:db8:1::1,2001:db8:2::1,2001:db8:10::1,2001:db8:b::1"},
      // Prefixes, in their order.
      {"eth", "", "10.0.1.1,10.0.2.1,10.0.10.1"},
      {"eth1", "", "10.0.1.1,10.0.10.1"},
      {"ib,eth", "", "2001:db8:b::1,10.0.1.1,10.0.2.1,10.0.10.1"},
      {"eth2,eth", "", "10.0.2.1,10.0.1.1,10.0.10.1"},
      {"eth", "AF_INET6", "2001:db8:1::1,2001:db8:2::1,2001:db8:10::1"},
      {"docker", "", "172.17.0.1"},
      {"br-", "", "172.18.0.1"},
      {"lo", "", "127.0.0.1"},
      {"lo", "AF_INET6", "::1"},
      // Whole names, in their order.
      {"=eth1", "", "10.0.1.1"},
      {"=eth2, eth1", "", "10.0.2.1,10.0.1.1"},
      {"=lo", "", "127.0.0.1"},
      // Excluding: what is left is chosen as if there were no variable.
      {"^eth", "", "2001:db8:b::1"},
      {"^eth1", "", "10.0.2.1,2001:db8:b::1"},
      {"^=eth1", "", "10.0.2.1,10.0.10.1,2001:db8:b::1"},
      {"^docker,lo", "", "10.0.1.1,10.0.2.1,10.0.10.1,2001:db8:b::1"},
      {"^=eth1,eth2", "AF_INET", "10.0.10.1"},
      {"^eth,ib", "", "172.18.0.1,172.17.0.1"},
      {"^eth,ib,docker,br", "", "127.0.0.1"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.ifname);
    CAPTURE(c.family);
    const Settings settings =
        settings_of({{"NCCL_SOCKET_IFNAME", c.ifname}, {"NCCL_SOCKET_FAMILY", c.family}});
    CHECK(planes_of(settings) == c.planes);
    CHECK(joined(settings.base.planes) == c.planes);
  }
}

TEST_CASE("planes: what NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY must not be") {
  struct Case {
    const char* ifname;
    const char* family;
    std::vector<const char*> parts;
  };
  const Case cases[] = {
      {"eth7",
       "",
       {"NCCL_SOCKET_IFNAME", "'eth7'", "eth1 (fe80::1%eth1 2001:db8:1::1 10.0.1.1)",
        "eth3 (no address)", "docker0", "lo (127.0.0.1 ::1)"}},
      {"=eth", "", {"NCCL_SOCKET_IFNAME", "'=eth'", "interface that is up", "there are: lo"}},
      {"eth3", "", {"'eth3'", "with an IPv4 or IPv6 (not link-local) address"}},
      {"ib", "AF_INET", {"'ib'", "with an IPv4 address"}},
      {"docker", "AF_INET6", {"'docker'", "with an IPv6 (not link-local) address"}},
      {"^eth,ib,docker,br,lo", "", {"leaves an interface", "there are: lo"}},
      {"eth1,", "", {"NCCL_SOCKET_IFNAME", "'eth1,'", "such as 'eth,ib'", "'^=docker0'"}},
      {"^", "", {"NCCL_SOCKET_IFNAME", "'^'", "to exclude"}},
      {"=", "", {"'='", "whole names"}},
      {"eth1,^eth2", "", {"'eth1,^eth2'"}},
      {"=^eth2", "", {"'=^eth2'"}},
      {"eth 1", "", {"'eth 1'"}},
      {"", "IPv4", {"NCCL_SOCKET_FAMILY", "'IPv4'", "allowed: AF_INET, AF_INET6"}},
  };
  for (const Case& c : cases) {
    const std::string text =
        refusal({{"NCCL_SOCKET_IFNAME", c.ifname}, {"NCCL_SOCKET_FAMILY", c.family}});
    CAPTURE(text);
    for (const char* part : c.parts) {
      CAPTURE(part);
      CHECK(contains(text, part));
    }
  }
}

TEST_CASE("planes: without better interfaces those of containers, then loopback") {
  const auto lo = net_interface("lo", {"127.0.0.1"});
  auto down = net_interface("eth0", {"10.0.0.1"});
  down.up = down.running = false;
  auto unplugged = net_interface("eth1", {"10.0.1.1"});
  unplugged.running = false;
  const auto link_local = net_interface("eth2", {"fe80::2", "169.254.0.2"});
  const auto veth = net_interface("veth0", {"10.0.3.1"});
  const auto planes = [](std::vector<InterfaceFacts> all, const char* ifname = "") {
    return planes_of(settings_of({{"NCCL_SOCKET_IFNAME", ifname}}, all));
  };
  CHECK(planes({lo, down, unplugged, link_local, veth}) == "10.0.3.1");
  CHECK(planes({lo, down, unplugged, link_local}) == "127.0.0.1");
  // Named interfaces need a link only later, and may have any address but IPv6 link-local.
  CHECK(planes({lo, unplugged, link_local}, "eth") == "10.0.1.1,169.254.0.2");
  CHECK(contains(refusal({{"NCCL_SOCKET_IFNAME", "eth0"}}, {lo, down}), "eth0 (10.0.0.1, down)"));
  CHECK(contains(refusal({}, {down}), "set MRC_PLANES or NCCL_SOCKET_IFNAME"));
  CHECK(contains(refusal({}, {}), "there are: none"));
}

TEST_CASE("planes: doubtful choices are warnings") {
  auto unplugged = net_interface("eth1", {"10.0.1.1"});
  unplugged.running = false;
  auto slow = net_interface("eth0", {"10.0.0.1"});
  slow.speed_mbps = 1000;
  auto fast = net_interface("eth2", {"10.0.2.1"});
  fast.speed_mbps = 100000;
  const auto lo = net_interface("lo", {"127.0.0.1"});
  const std::vector<InterfaceFacts> all{lo, slow, unplugged, fast};
  const auto warned = [&](const char* ifname, const char* part) {
    const auto warnings = settings_of({{"NCCL_SOCKET_IFNAME", ifname}}, all).warnings;
    CAPTURE(joined(warnings));
    return any_contains(warnings, part);
  };
  CHECK(warned("eth1", "plane on eth1: the interface has no carrier"));
  CHECK_FALSE(warned("eth2", "no carrier"));
  CHECK(warned("", "planes of very different speed form one NIC: eth0 10.0.0.1 (1 Gb/s), eth2"));
  CHECK_FALSE(warned("eth2", "speed"));
  CHECK(warned("lo,eth2", "loopback is one of several planes"));
  CHECK_FALSE(warned("lo", "loopback"));
  CHECK(warned("=eth2,eth5", "'eth5' matches no further interface"));
  const auto apart = settings_of({{"MRC_NCCL_MERGE", "none"}}, all).warnings;
  CHECK_FALSE(any_contains(apart, "speed"));
}

TEST_CASE("planes: 32 at most") {
  std::vector<InterfaceFacts> all;
  for (int i = 0; i < 33; ++i)
    all.push_back(net_interface("eth" + std::to_string(i), {"10.0.0." + std::to_string(i + 1)}));
  const std::string text = refusal({{"NCCL_SOCKET_IFNAME", "eth"}}, all);
  CHECK(contains(text, "NCCL_SOCKET_IFNAME: value 'eth'"));
  CHECK(contains(text, "up to 32 interfaces, these are 33"));
  all.pop_back();
  const Settings settings = settings_of({}, all);
  REQUIRE(settings.nics.size() == 1);
  CHECK(settings.nics[0].planes.size() == 32);
  CHECK(settings.nics[0].interfaces[10] == "eth10");
}

TEST_CASE("planes: a link-local address that several interfaces have is that of the one named") {
  const Settings settings =
      settings_of({{"MRC_PLANES", "fe80::1%eth8,fe80::1%eth7"}},
                  {net_interface("eth7", {"fe80::1"}), net_interface("eth8", {"fe80::1"})});
  REQUIRE(settings.nics.size() == 1);
  CHECK(joined(settings.nics[0].interfaces) == "eth8,eth7");
}

TEST_CASE("planes: MRC_PLANES wins over interfaces") {
  struct Case {
    const char* planes;
    const char* list;
    const char* interfaces;
  };
  const Case cases[] = {
      {"10.0.2.1,10.0.1.1", "10.0.2.1,10.0.1.1", "eth2,eth1"},
      {"eth2,2001:db8:1::1", "eth2,2001:db8:1::1", "eth2,eth1"},
      {"fe80::2%eth2", "fe80::2%eth2", "eth2"},
      {"loopback:3", "127.0.0.1,127.0.0.2,127.0.0.3", "lo,lo,lo"},
      {"loopback6:2", "::1,::1", "lo,lo"},
      {"nosuch0", "nosuch0", ""},
      {"default-route", "default-route", ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.planes);
    const Settings settings =
        settings_of({{"MRC_PLANES", c.planes}, {"NCCL_SOCKET_IFNAME", "eth10"}});
    REQUIRE(settings.nics.size() == 1);
    CHECK(joined(settings.nics[0].planes) == c.list);
    CHECK(joined(settings.nics[0].interfaces) == c.interfaces);
    CHECK(any_contains(settings.info, "NCCL_SOCKET_IFNAME chooses no planes, since MRC_PLANES"));
    CHECK(settings.planes_by == "MRC_PLANES");
    CHECK(mrc_nccl::device_config(settings, settings.nics[0]).planes == settings.base.planes);
  }
  const Settings apart = settings_of({{"MRC_PLANES", "loopback6:2"}, {"MRC_NCCL_MERGE", "none"}});
  CHECK(planes_of(apart) == "::1|::1");
  CHECK(contains(refusal({{"MRC_PLANES", "loopback:99"}}), "from 1 to 32"));
  // What is not used is checked all the same.
  CHECK(contains(refusal({{"MRC_PLANES", "eth1"}, {"NCCL_SOCKET_FAMILY", "6"}}), "AF_INET6"));
}

TEST_CASE("planes: a NIC of all planes, or one each") {
  const NcclVariables two{{"NCCL_SOCKET_IFNAME", "=eth2,eth1"}};
  const Settings merged = settings_of(two);
  REQUIRE(merged.nics.size() == 1);
  const NicPlan& all = merged.nics[0];
  CHECK(all.name == "mrc0");
  CHECK(all.plane_count == 2);
  CHECK(all.speed_mbps == 200000);
  CHECK(all.speed_known);
  CHECK(all.pci_path == "/sys/devices/pci0000:00/0000:00:02.0");
  CHECK(all.numa_node == 1);
  CHECK(mrc_nccl::device_config(merged, all).cc_link_speed == doctest::Approx(200.0));

  NcclVariables apart = two;
  apart.emplace_back("MRC_NCCL_MERGE", "none");
  const Settings single = settings_of(apart);
  REQUIRE(single.nics.size() == 2);
  CHECK_FALSE(single.merged);
  for (int i = 0; i < 2; ++i) {
    const NicPlan& nic = single.nics[static_cast<std::size_t>(i)];
    CHECK(nic.name == "mrc" + std::to_string(i));
    CHECK(nic.first_plane == i);
    CHECK(nic.plane_count == 1);
    CHECK(nic.speed_mbps == 100000);
  }
  CHECK(joined(single.nics[1].planes) == "10.0.1.1");
  CHECK(single.nics[1].pci_path == "/sys/devices/pci0000:00/0000:00:01.0");
  const mrc::Config device = mrc_nccl::device_config(single, single.nics[1]);
  CHECK(device.planes == std::vector<std::string>{"10.0.1.1"});
  CHECK(device.cc_link_speed == doctest::Approx(100.0));
}

TEST_CASE("planes: a speed that means nothing does not reach congestion control") {
  auto veth = net_interface("eth0", {"10.0.0.1"});
  veth.speed_mbps = 10000;  // what the kernel says of each veth
  auto silent = net_interface("eth1", {"10.0.1.1"});
  silent.pci_path = "/sys/devices/pci0000:00/0000:00:03.0";  // virtio
  const mrc::Config library;
  for (const auto& facts : {veth, silent}) {
    const Settings settings = settings_of({}, {facts});
    CHECK(settings.nics[0].speed_mbps == 10000);
    CHECK_FALSE(settings.nics[0].speed_known);
    CHECK(mrc_nccl::device_config(settings, settings.nics[0]).cc_link_speed ==
          library.cc_link_speed);
  }
  const Settings own = settings_of({{"MRC_CC_LINK_SPEED", "25"}});
  CHECK(mrc_nccl::device_config(own, own.nics[0]).cc_link_speed == 25.0);
}

TEST_CASE("planes: other options are checked against the planes of each NIC") {
  // 3 planes of 16 paths.
  const NcclVariables base{{"NCCL_SOCKET_IFNAME", "eth"}, {"MRC_ACTIVE_PATHS", "48"}};
  CHECK(settings_of(base).base.active_paths == 48);
  NcclVariables apart = base;
  apart.emplace_back("MRC_NCCL_MERGE", "none");
  CHECK(contains(refusal(apart), "'planes' x 'paths' = 16"));
}

/// The path of an example of a fabric description.
std::string fabric_file() {
#ifdef MRC_SOURCE_DIR
  const std::filesystem::path root = MRC_SOURCE_DIR;
#else
  const auto root = std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path();
#endif
  return (root / "tools" / "fabrics" / "demo.json").string();
}

TEST_CASE("planes: a fabric brings its own") {
  const std::string file = fabric_file();
  const auto fabric = mrc::fabric::read(file);
  std::vector<InterfaceFacts> all{net_interface("lo", {"::1"})};
  const mrc::fabric::Host& host = fabric.hosts.at(1);
  for (std::size_t p = 0; p < host.addresses.size(); ++p)
    all.push_back(
        net_interface("p" + std::to_string(p), {mrc::port::format_ip(host.addresses[p])}));
  const NcclVariables base{{"MRC_FABRIC", file}, {"NCCL_SOCKET_IFNAME", "eth"}};
  const Settings settings = settings_of(base, all);
  REQUIRE(settings.nics.size() == 1);
  const NicPlan& nic = settings.nics[0];
  CHECK(nic.planes.empty());
  CHECK(nic.plane_count == fabric.planes);
  CHECK(nic.interfaces.size() == fabric.planes);
  CHECK(nic.interfaces[0] == "p0");
  CHECK(nic.speed_mbps == static_cast<int>(fabric.link_speed * 1000 * fabric.planes));
  CHECK(mrc_nccl::device_config(settings, nic).fabric == file);
  CHECK(mrc_nccl::device_config(settings, nic).cc_link_speed == mrc::Config().cc_link_speed);
  CHECK(any_contains(settings.info, "since MRC_FABRIC is set"));

  const auto with = [&](const char* name, const char* value) {
    NcclVariables variables = base;
    variables.emplace_back(name, value);
    return variables;
  };
  const std::string text = refusal(with("MRC_NCCL_MERGE", "none"), all);
  CHECK(contains(text, "MRC_NCCL_MERGE: value 'none'"));
  CHECK(contains(text, "MRC_FABRIC"));
  CHECK(settings_of(with("NCCL_NET_MERGE_LEVEL", "LOC"), all).merged);
  CHECK(settings_of(with("MRC_HOST", host.name.c_str()), all).nics.size() == 1);
  CHECK(contains(refusal(with("MRC_HOST", "nobody"), all), "has no host 'nobody'"));
  CHECK(contains(refusal(base, gpu_node()), "MRC_FABRIC: value '" + file + "'"));
  CHECK(contains(refusal({{"MRC_FABRIC", "/no/such/file"}}), "MRC_FABRIC: value '/no/such/file'"));
}

std::string interfaces_of(const std::vector<mrc_nccl::PlaneFacts>& planes) {
  std::string text;
  for (const auto& plane : planes) text += plane.interface + plane.address + ' ';
  return text;
}

TEST_CASE("planes: on RDMA devices, each port by its own interface") {
  const RdmaFolder rdma;
  rdma.add("mlx5_0", 1, "eth1", "1: DOWN");
  rdma.add("mlx5_0", 2, "eth2");
  rdma.add("mlx5_1", 1, "eth10");
  mrc_nccl::VerbsDevices devices;
  devices.folder = rdma.path;
  devices.all = []() -> std::vector<mrc::port::VerbsPlaneName> {
    return {{"mlx5_0", 2, {}}, {"mlx5_1", 1, {}}};
  };
  struct Case {
    const char* verbs;
    const char* interfaces;
  };
  const Case cases[] = {
      {"mlx5_0", "eth2 "},    // its first active port
      {"mlx5_0:1", "eth1 "},  // the one that is named, whatever its state
      {"mlx5_1@10.0.10.1", "eth10 "},
      {"mlx5_1,mlx5_0:2", "eth10 eth2 "},
      {"all", "eth2 eth10 "},       // what the library will open, and no port that is down
      {"gone0,mlx5_1", " eth10 "},  // not known here: opening the device says so
  };
  for (const Case& c : cases) {
    CAPTURE(c.verbs);
    mrc::Config config;
    config.verbs = c.verbs;
    const auto planes = mrc_nccl::verbs_planes(config, gpu_node(), devices);
    CHECK(interfaces_of(planes) == c.interfaces);
    if (planes[0].interface == "eth10") CHECK(planes[0].speed_mbps == 100000);
  }
  const auto refused = [&](const char* verbs) -> std::string {
    mrc::Config config;
    config.verbs = verbs;
    try {
      (void)mrc_nccl::verbs_planes(config, gpu_node(), devices);
      return "no error";
    } catch (const mrc_nccl::SettingsError& error) {
      return error.what();
    }
  };
  CHECK(contains(refused("mlx5_0:x"), "MRC_VERBS: value 'mlx5_0:x': verbs plane"));
  devices.all = []() -> std::vector<mrc::port::VerbsPlaneName> {
    throw mrc::Error(mrc::Errc::not_found, "no RDMA device");
  };
  CHECK(contains(refused("all"), "MRC_VERBS: value 'all': no RDMA device"));

  const Settings settings = settings_of({{"MRC_VERBS", "a,b"}, {"NCCL_SOCKET_IFNAME", "eth"}});
  REQUIRE(settings.nics.size() == 1);
  CHECK(settings.nics[0].plane_count == 2);
  CHECK(settings.planes_by == "MRC_VERBS");
  CHECK(any_contains(settings.info, "since MRC_VERBS is set"));
  CHECK(mrc_nccl::device_config(settings, settings.nics[0]).verbs == "a,b");
  CHECK(contains(refusal({{"MRC_VERBS", "a"}, {"MRC_NCCL_MERGE", "none"}}), "MRC_VERBS"));
}

TEST_CASE("planes: what carries the packets, as the banner says it") {
  using mrc_nccl::carriers;
  mrc::Config config;
  CHECK(carriers(config) == "UDP ports");
  config.verbs = "mlx5_0,mlx5_1";
  CHECK(carriers(config) == "RDMA devices");
  config.fabric = "fabric.json";
  CHECK(carriers(config) == "packets of a fabric over RDMA devices");
  config.verbs.clear();
  CHECK(carriers(config) == "packets of a fabric");
}

TEST_CASE("planes: the PCI function of a device") {
  using mrc_nccl::pci_function;
  CHECK(pci_function("/sys/devices/pci0000:00/0000:00:03.0") ==
        "/sys/devices/pci0000:00/0000:00:03.0");
  CHECK(pci_function("/sys/devices/pci0000:00/0000:00:03.0/virtio0") ==
        "/sys/devices/pci0000:00/0000:00:03.0");
  CHECK(pci_function("/sys/devices/pci0000:5d/0000:5d:02.0/0000:5e:00.1") ==
        "/sys/devices/pci0000:5d/0000:5d:02.0/0000:5e:00.1");
  CHECK(pci_function("/sys/devices/platform/soc/eth").empty());
  CHECK(pci_function("/sys/devices/virtual/net/lo").empty());
  CHECK(pci_function("").empty());
}

TEST_CASE("planes: the interfaces of this host") {
  const auto all = mrc_nccl::read_interfaces();
  const auto lo = std::find_if(all.begin(), all.end(), [](const auto& f) { return f.loopback; });
  REQUIRE(lo != all.end());
  CHECK(lo->name == "lo");
  CHECK(lo->pci_path.empty());
  CHECK(lo->speed_mbps == -1);
  for (const auto& facts : all)
    CHECK(std::count_if(all.begin(), all.end(),
                        [&](const auto& other) { return other.name == facts.name; }) == 1);
  if (lo->up) CHECK_FALSE(lo->addresses.empty());
}

}  // namespace planes_test
