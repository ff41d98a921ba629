// SPDX-License-Identifier: Apache-2.0
#include "mrc/fabric/usid.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "mrc/control/expand.hpp"

namespace mrc::path::usid_test {
namespace {

constexpr std::uint32_t kBlock = 0xFC000001;

TEST_CASE("uSID: the shift example of mrc-1.0 §4.1") {
  const std::vector<Usid> usids = {0x0001, 0x6501, 0x0002};
  auto made = make_route(kBlock, usids);
  REQUIRE(made.ok());
  UsidRoute route = made.value();
  CHECK_FALSE(route.has_srh);
  CHECK(route.destination == Ipv6{0xFC, 0, 0, 1, 0, 1, 0x65, 1, 0, 2});
  CHECK(step(route) == UsidStep::shifted);  // leaf 0001
  CHECK(route.destination == Ipv6{0xFC, 0, 0, 1, 0x65, 1, 0, 2});
  CHECK(step(route) == UsidStep::shifted);  // spine 6501
  CHECK(route.destination == Ipv6{0xFC, 0, 0, 1, 0, 2});
  CHECK(step(route) == UsidStep::last);  // leaf 0002 delivers
  CHECK(route.destination == Ipv6{0xFC, 0, 0, 1, 0, 2});
  CHECK(usid_block(route.destination) == kBlock);
}

TEST_CASE("uSID: any number up to twelve, the SRH from seven on [§4.3]") {
  for (std::size_t n = 1; n <= kMaxUsids; ++n) {
    CAPTURE(n);
    std::vector<Usid> usids(n);
    std::iota(usids.begin(), usids.end(), Usid{0x0101});
    UsidRoute route = make_route(kBlock, usids).value();
    CHECK(route.has_srh == (n > 6));
    CHECK(route.segments_left == (n > 6 ? 1 : 0));
    for (std::size_t i = 0; i < n; ++i) {  // each node finds its own uSID in front
      CHECK(usid_at(route.destination, 0) == usids[i]);
      const UsidStep done = step(route);
      CHECK(done == (i + 1 == n   ? UsidStep::last
                     : i + 1 == 6 ? UsidStep::segment
                                  : UsidStep::shifted));
    }
  }
  CHECK(make_route(kBlock, {}).error() == Errc::invalid_argument);
  CHECK(make_route(kBlock, std::vector<Usid>(13, 1)).error() == Errc::no_resources);
  CHECK(make_route(kBlock, std::vector<Usid>{1, 0, 2}).error() == Errc::invalid_argument);
}

TEST_CASE("uSID: global and local ranges") {
  CHECK_FALSE(is_global(0));
  CHECK((is_global(1) && is_global(0xDFFF) && !is_global(0xE000)));
  CHECK((is_local(0xE000) && is_local(0xFFFF) && !is_local(0xDFFF)));
}

/// The template of worked example A: T0, T1, destination.
UsidTemplate example() {
  UsidTemplate t;
  t.block = kBlock;
  t.usids = {0x1000, 0x2000, 0x3000};
  t.plane = {8, 4};
  t.uplink = {0, 8};
  t.downlink = {0, 8};
  return t;
}

TEST_CASE("uSID template: worked example A, plane 5, uplink 0xA3, downlink 7") {
  const UsidTemplate t = example();
  const auto route = t.route(Plane{5}, 0xA3, 7);
  REQUIRE(route.ok());
  CHECK(route.value().destination == Ipv6{0xFC, 0, 0, 1, 0x15, 0, 0x25, 0xA3, 0x35, 0x07});
  CHECK(t.route(t.ev(5, 0xA3), 7).value() == route.value());
  CHECK(t.local_route(5, 7).value().destination == Ipv6{0xFC, 0, 0, 1, 0x35, 0x07});
  CHECK(t.route(Plane{16}, 0, 0).error() == Errc::invalid_argument);
  CHECK(t.route(Plane{0}, 256, 0).error() == Errc::invalid_argument);
  CHECK(t.route(Plane{0}, 0, 256).error() == Errc::invalid_argument);
  CHECK(t.route(Ev{0xFFFF'FFFF}, 0).error() == Errc::invalid_argument);
  CHECK(t.local_route(16, 0).error() == Errc::invalid_argument);
}

/// The template for one destination as fields of the API, for expand(), with a block in front of
/// each carrier. Such an EV is longer than ev(), since each uSID has its own plane bits.
std::vector<EvField> fields_of(const UsidTemplate& t, std::uint32_t downlink) {
  std::vector<EvField> out;
  for (std::size_t i = 0; i < t.usids.size(); ++i) {
    if (i % kUsidsPerCarrier == 0) out.push_back({32, t.block, 0, 0, 0});
    EvField f{16, t.usids[i], 0, 0, t.plane.mask()};
    if (i == t.uplink_usid) f.mask |= t.uplink.mask();
    if (i == t.usids.size() - 1)
      f.init_val = t.downlink.set(static_cast<Usid>(f.init_val), downlink);
    f.max_val = low_mask(ev_bits(f));
    out.push_back(f);
  }
  return out;
}
/// The format that goes with fields_of(): 32 bits per block, 16 per uSID.
EvFormatProfile format_of(const UsidTemplate& t) {
  EvFormatProfile out{EvMode::srv6, t.usids.size() > kUsidsPerCarrier, {}};
  for (std::size_t i = 0; i < t.usids.size(); ++i) {
    if (i % kUsidsPerCarrier == 0) out.fields.push_back({32});
    out.fields.push_back({16});
  }
  return out;
}

TEST_CASE("uSID template: the same addresses by field expansion") {
  const UsidTemplate t = example();
  const auto fields = fields_of(t, 7);
  for (std::uint64_t plane = 0; plane < 16; ++plane)
    for (std::uint64_t uplink = 0; uplink < 256; uplink += 5) {
      const std::uint64_t values[] = {0, plane, plane << 8 | uplink, plane};
      const auto expanded = expand(pack(values, fields).value(), fields, format_of(t));
      REQUIRE(expanded.ok());
      const auto route = t.route(static_cast<Plane>(plane), static_cast<std::uint32_t>(uplink), 7);
      CHECK(std::equal(route.value().destination.begin(), route.value().destination.end(),
                       expanded.value().begin()));
    }
}

TEST_CASE("uSID template: more than six uSIDs, both carriers by field expansion") {
  UsidTemplate t = example();
  t.usids = {0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, 0x7000, 0x8000};
  const auto route = t.route(Plane{2}, 9, 3).value();
  CHECK(route.has_srh);
  const auto fields = fields_of(t, 3);
  const std::uint64_t values[] = {0, 2, 2 << 8 | 9, 2, 2, 2, 2, 0, 2, 2};
  const EvValue out = expand(pack(values, fields).value(), fields, format_of(t)).value();
  CHECK(std::equal(route.destination.begin(), route.destination.end(), out.begin()));
  CHECK(std::equal(route.segment.begin(), route.segment.end(), out.begin() + 16));
  CHECK(usid_at(route.segment, 1) == 0x8203);
}

TEST_CASE("uSID template: all paths, each with an address of its own") {
  const UsidTemplate t = example();
  const auto paths = t.paths(4, 32);
  REQUIRE(paths.size() == 128);
  std::set<Ipv6> seen;
  for (const PathSpec& spec : paths) {
    const auto route = t.route(spec.ev, 7);
    REQUIRE(route.ok());
    CHECK(seen.insert(route.value().destination).second);
    CHECK((usid_at(route.value().destination, 0) >> 8 & 0xF) == spec.plane);
  }
  CHECK((paths[0].plane == 0 && paths[1].plane == 1 && paths[4].plane == 0));
  CHECK_THROWS_AS((void)t.paths(17, 1), Error);
  CHECK_THROWS_AS((void)t.paths(0, 1), Error);
  CHECK_THROWS_AS((void)t.paths(1, 257), Error);
}

TEST_CASE("uSID template: what can't be is refused") {
  const auto error = [](auto change) {
    UsidTemplate t = example();
    change(t);
    return t.route(Plane{0}, 0, 0).error();
  };
  CHECK(error([](UsidTemplate&) {}) == Errc::ok);
  CHECK(error([](UsidTemplate& t) { t.usids.clear(); }) == Errc::invalid_argument);
  CHECK(error([](UsidTemplate& t) { t.usids.assign(13, 0x1000); }) == Errc::no_resources);
  CHECK(error([](UsidTemplate& t) { t.plane = {14, 4}; }) == Errc::invalid_argument);
  CHECK(error([](UsidTemplate& t) { t.plane = {6, 4}; }) == Errc::invalid_argument);
  CHECK(error([](UsidTemplate& t) { t.uplink_usid = 3; }) == Errc::invalid_argument);
  CHECK(error([](UsidTemplate& t) { t.uplink_usid = 2; }) == Errc::invalid_argument);
  CHECK(error([](UsidTemplate& t) { t.usids[1] = 0x00A3; }) == Errc::invalid_argument);
}

}  // namespace
}  // namespace mrc::path::usid_test
