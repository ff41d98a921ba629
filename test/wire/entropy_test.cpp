// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "mrc/wire/burst.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::wire::entropy_test {
namespace {

TEST_CASE("EV to header fields and back, in all formats") {
  constexpr Ev kEv{0x05A31234};
  CHECK(to_wire(kEv, EvFormat::udp) == WireEntropy{0x1234, 0});
  CHECK(to_wire(kEv, EvFormat::stev) == WireEntropy{0x1234, 0x05A3});
  CHECK(to_wire(kEv, EvFormat::stev_swapped) == WireEntropy{0x05A3, 0x1234});

  CHECK(from_wire({0x1234, 0x05A3}, EvFormat::stev) == kEv);
  CHECK(from_wire({0x05A3, 0x1234}, EvFormat::stev_swapped) == kEv);
  CHECK(from_wire({0x1234, 0x05A3}, EvFormat::udp) == Ev{0x1234});
}

TEST_CASE("reflected EV: what the packet does not carry is zero") {
  // IPv4: no flow label.
  CHECK(from_wire({0x1234, 0}, EvFormat::stev) == Ev{0x1234});
  CHECK(from_wire({0x05A3, 0}, EvFormat::stev_swapped) == Ev{0x05A30000});
  // Flow label bits 19:16 are not part of an EV.
  CHECK(from_wire({0x1234, 0xF05A3}, EvFormat::stev) == Ev{0x05A31234});
  CHECK(to_wire(Ev{0xFFFFFFFF}, EvFormat::stev).flow_label == 0xFFFF);
}

TEST_CASE("DSCP map: defaults, classification, validity") {
  const DscpMap map;
  CHECK(map.valid());
  for (unsigned dscp = 0; dscp < 64; ++dscp) {
    const Trim expected = dscp == 12   ? Trim::trimmed
                          : dscp == 16 ? Trim::trimmed_last_hop
                                       : Trim::none;
    CHECK(map.classify(static_cast<std::uint8_t>(dscp)) == expected);
  }
  DscpMap bad = map;
  bad.control = 64;
  CHECK_FALSE(bad.valid());
  bad = map;
  bad.trimmed = 64;
  CHECK_FALSE(bad.valid());
  bad = map;
  bad.trimmed = bad.trimmable;  // everything would look trimmed
  CHECK_FALSE(bad.valid());
  bad = map;
  bad.trimmed_last_hop = bad.control;
  CHECK_FALSE(bad.valid());
  DscpMap same = map;
  same.trimmable = same.trimmable_retx = same.no_trim;
  same.trimmed_last_hop = same.trimmed;
  CHECK(same.valid());
  CHECK(same.classify(12) == Trim::trimmed);
}

}  // namespace
}  // namespace mrc::wire::entropy_test
