// SPDX-License-Identifier: Apache-2.0
// EV profiles over packet ports: two hosts of a fabric in a network namespace of their own.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>

#include "fabric_rig.hpp"
#include "profiles_rig.hpp"
#include "support/errors.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace mrc::test::profiles;

namespace profiles_fabric_test {

/// The frames that pass an interface.
class Tap {
 public:
  explicit Tap(const char* interface)
      : fd_(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    CHECK(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;
  ~Tap() { ::close(fd_); }
  /// How many of the frames since the last call had these outer addresses: destination, and segment
  /// of an SRH.
  unsigned count(const path::EvValue& ev) {
    unsigned n = 0;
    std::array<std::uint8_t, 10'000> f;
    for (;;) {
      const ssize_t size = ::recv(fd_, f.data(), f.size(), 0);
      if (size < 0) return n;
      // Ethernet 14; IPv6 40 with next header at 6 and destination at 24; SRH 8, then the segment.
      n += size > 200 && f[14 + 6] == 43 && std::equal(ev.begin(), ev.begin() + 16, &f[14 + 24]) &&
           std::equal(ev.begin() + 16, ev.end(), &f[14 + 40 + 8]);
    }
  }

 private:
  int fd_;
};

ProfileEv long_ev(unsigned last, unsigned port) {
  ProfileEv e;
  path::put_bits(e.value, 0, 32, 0xFC000001);
  path::put_bits(e.value, 32, 64, 0x1001'2002'3003'4004);
  path::put_bits(e.value, 96, 32, 0x5005'6006);
  path::put_bits(e.value, 128, 32, 0xFC000001);
  path::put_bits(e.value, 160, 16, last);
  e.port = static_cast<std::uint8_t>(port);
  return e;
}

EvProfileChange with_evs(std::vector<ProfileEv> evs) {
  EvProfileChange change;
  for (const ProfileEv& e : evs) change.operations.push_back(replace({}, e));
  change.min_active = 1;
  change.event_mask = 3;
  change.state = ProfileState::online;
  return change;
}
EvProfileChange offline(std::uint32_t count, ProfileId format) {
  EvProfileChange change;
  change.state = ProfileState::offline;
  change.mode = EvProfileMode::explicit_;
  change.format = format;
  change.ev_count = count;
  return change;
}

TEST_CASE("profiles: packet ports send EVs of 256 bits in destination address and SRH") {
  in_new_network([] {
    make_neighbours();
    std::string text = kNeighbours;
    const DescriptionFile file(text.replace(text.find("ecmp"), 4, "srv6"));
    const auto config = [&](const char* host) {
      Config c = file.config();
      c.host = host;
      c.log = LogLevel::off;
      c.timeout = 19;
      return c;
    };
    Side a(config("h0"), 256 << 10), b(config("h1"), 256 << 10);
    a.device.modify_format_profile(8, {ProfileState::offline, path::EvMode::srv6, {}});
    a.device.modify_format_profile(8, {ProfileState::online, {}, {{{64}, {64}, {64}, {64}}}});
    a.device.modify_ev_profile(5, offline(4, 8));
    a.device.modify_ev_profile(
        5, with_evs({long_ev(1, 1), long_ev(2, 1), long_ev(1, 2), long_ev(2, 2)}));
    QpOptions options;
    options.send_cq = &a.cq;
    options.profiles.ev = 5;
    a.qps.push_back(a.device.create_qp(options));
    connect(a.qps[0], b.add_qp());
    Tap plane_0("sa0"), plane_1("sa1");
    const auto copy = [&] {
      std::fill(b.target.begin(), b.target.end(), std::uint8_t{0});
      REQUIRE(post_copy(a, a.qps[0], b, 0, a.source.size()) == Errc::ok);
      REQUIRE(a.await_one().status == WcStatus::success);
      CHECK(a.source == b.target);
    };
    copy();
    CHECK(plane_0.count(long_ev(1, 1).value) > 0);
    CHECK(plane_1.count(long_ev(2, 2).value) > 0);
    for (const PathReport& r : a.device.paths(a.qps[0])) CHECK(r.packets > 0);
    // Replaced: packets go to the new address at once.
    operate(a.device, 5, {replace(long_ev(2, 2), long_ev(77, 2))});
    (void)plane_1.count({});
    copy();
    CHECK(plane_1.count(long_ev(77, 2).value) > 0);

    // EVs of another kind are refused, and so is an SRH that does not fit.
    make_format(a.device);
    a.device.modify_ev_profile(6, offline(1, 1));
    CHECK(contains(error_of([&] { a.device.modify_ev_profile(6, with_evs({ev(7, 1)})); }),
                   "its EVs are SRv6 EVs"));
    Config long_packets = config("h1");
    long_packets.mtu = 8192;
    text = kNeighbours;
    text.replace(text.find("ecmp"), 4, "srv6");
    const DescriptionFile narrow(text.replace(1, 0, R"( "mtu": 8347,)"));
    long_packets.set("fabric", narrow.config().fabric);
    Device tight(long_packets);
    CHECK(tight.config().mtu == 8192);
    tight.modify_format_profile(8, {ProfileState::offline, path::EvMode::srv6, {}});
    tight.modify_format_profile(8, {ProfileState::online, {}, {{{64}, {64}, {64}, {64}}}});
    tight.modify_ev_profile(5, offline(1, 8));
    CHECK(contains(error_of([&] { tight.modify_ev_profile(5, with_evs({long_ev(1, 1)})); }),
                   "no room for the segment routing header"));
  });
}

TEST_CASE("profiles: packet ports of an ECMP fabric send any source port and flow label") {
  in_new_network([] {
    make_neighbours();
    const DescriptionFile file(kNeighbours);
    const auto config = [&](const char* host) {
      Config c = file.config();
      c.host = host;
      c.log = LogLevel::off;
      c.timeout = 19;
      return c;
    };
    Side a(config("h0"), 256 << 10), b(config("h1"), 256 << 10);
    a.device.modify_format_profile(8, {ProfileState::offline, path::EvMode::stev, {}});
    a.device.modify_format_profile(8, {ProfileState::online, {}, {{{16}, {16}}}});
    EvProfileChange change = offline(16, 8);
    change.mode = EvProfileMode::generated;
    change.fields = {{16, 0x0A00, 0, 0xFF, 0xFF}, {16, 0xD000, 0, 0xFF, 0xFF}};
    a.device.modify_ev_profile(5, change);
    a.device.modify_ev_profile(5, with_evs({}));
    QpOptions options;
    options.send_cq = &a.cq;
    options.profiles.ev = 5;
    a.qps.push_back(a.device.create_qp(options));
    connect(a.qps[0], b.add_qp());
    REQUIRE(post_copy(a, a.qps[0], b, 0, a.source.size()) == Errc::ok);
    CHECK(a.await_one().status == WcStatus::success);
    CHECK(a.source == b.target);
    const auto paths = a.device.paths(a.qps[0]);
    CHECK(paths.size() == 16);
    for (const PathReport& r : paths) {
      CHECK((value(r.ev) & 0xFF00FF00) == 0x0A00D000);
      CHECK(r.packets > 0);
    }
    CHECK(contains(
        error_of([&] {
          a.device.modify_format_profile(9, {ProfileState::offline, path::EvMode::srv6, {}});
          a.device.modify_format_profile(9, {ProfileState::online, {}, {{{64}, {64}}}});
          a.device.modify_ev_profile(6, offline(1, 9));
          a.device.modify_ev_profile(6, with_evs({ev(0xFC00, 1)}));
        }),
        "not by SRv6 EVs"));
  });
}

}  // namespace profiles_fabric_test
