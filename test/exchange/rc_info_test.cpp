// SPDX-License-Identifier: Apache-2.0
// Connection data: items that older releases skip, of SEND, READ and atomics, and of the network
// namespace.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/exchange.hpp"
#include "mrc/wire/crc32.hpp"
#include "support/errors.hpp"

namespace rc_info_test {

using RcBlob = std::vector<std::uint8_t>;

mrc::ConnectionInfo rc_example() {
  mrc::ConnectionInfo info;
  info.qpn = mrc::Qpn{0x123};
  info.planes = {mrc::port::parse_address("10.0.0.1:4791")};
  info.rc = true;
  info.max_rd_atomic_dest = 16;
  return info;
}

/// Length and checksum again, after a change.
void reseal(RcBlob& blob) {
  blob[6] = static_cast<std::uint8_t>(blob.size() >> 8);
  blob[7] = static_cast<std::uint8_t>(blob.size());
  const auto crc = mrc::wire::crc32(0, mrc::Bytes(blob).first(blob.size() - 4));
  for (unsigned i = 0; i < 4; ++i)
    blob[blob.size() - 1 - i] = static_cast<std::uint8_t>(crc >> (8 * i));
}

/// The text of the bad_message that decoding throws; "" if it does not.
std::string refusal(const RcBlob& blob) {
  try {
    (void)mrc::decode_connection_info(blob);
  } catch (const mrc::Error& error) {
    CHECK(error.code() == mrc::Errc::bad_message);
    return error.what();
  }
  return "";
}

TEST_CASE("connection info: SEND, READ and atomics are offered by an item of their own") {
  const RcBlob with = mrc::encode(rc_example());
  mrc::ConnectionInfo info = rc_example();
  info.rc = false;
  const RcBlob without = mrc::encode(info);
  // Nothing else changes, so an older release, which skips what it does not know, loses nothing.
  const RcBlob item{0, 9, 0, 1, 16};
  REQUIRE(with.size() == without.size() + item.size());
  CHECK(RcBlob(with.end() - 9, with.end() - 4) == item);
  CHECK(RcBlob(with.begin() + 8, with.end() - 9) == RcBlob(without.begin() + 8, without.end() - 4));

  for (const unsigned limit : {0u, 1u, 16u, 128u}) {
    info = rc_example();
    info.max_rd_atomic_dest = static_cast<std::uint8_t>(limit);
    CHECK(mrc::decode_connection_info(mrc::encode(info)) == info);
    CHECK(mrc::test::contains(mrc::to_string(info), " rc " + std::to_string(limit) + " "));
  }
  const mrc::ConnectionInfo plain = mrc::decode_connection_info(without);
  CHECK_FALSE(plain.rc);
  CHECK(plain.max_rd_atomic_dest == 0);
  CHECK_FALSE(mrc::test::contains(mrc::to_string(plain), " rc"));
}

TEST_CASE("connection info: what is wrong with the item of SEND, READ and atomics") {
  const RcBlob good = mrc::encode(rc_example());
  RcBlob blob = good;
  blob[blob.size() - 5] = 128;
  reseal(blob);
  CHECK(refusal(blob).empty());
  blob[blob.size() - 5] = 129;
  reseal(blob);
  CHECK(mrc::test::contains(refusal(blob), "READs and atomics is over 128"));
  const auto trailer = [](RcBlob& b) { return b.end() - 4; };
  blob = good;
  blob[blob.size() - 6] = 2;
  blob.insert(trailer(blob), 0);
  reseal(blob);
  CHECK(mrc::test::contains(refusal(blob), "item 9 is 2 bytes long"));
  blob = good;
  const RcBlob item(trailer(blob) - 5, trailer(blob));
  blob.insert(trailer(blob), item.begin(), item.end());
  reseal(blob);
  CHECK(mrc::test::contains(refusal(blob), "item 9 is there twice"));

  mrc::ConnectionInfo info = rc_example();
  info.max_rd_atomic_dest = 129;
  const auto error = mrc::test::thrown_by([&] { (void)mrc::encode(info); });
  CHECK(error.code() == mrc::Errc::invalid_argument);
}

TEST_CASE("connection info: damaged offers of SEND, READ and atomics are refused or harmless") {
  mrc::Random random(3);
  unsigned offers = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    RcBlob blob = mrc::encode(rc_example());
    // Of the item and the one in front of it, mostly.
    const auto last = static_cast<std::uint32_t>(blob.size()) - 4;
    const std::uint32_t from = random.chance(0.7) ? last - 13 : 8;
    for (auto changes = 1 + random.below(3); changes > 0; --changes)
      blob[from + random.below(last - from)] = static_cast<std::uint8_t>(random.next());
    reseal(blob);
    try {
      const mrc::ConnectionInfo info = mrc::decode_connection_info(blob);
      offers += info.rc;
      CHECK(info.max_rd_atomic_dest <= 128);
      CHECK((info.rc || info.max_rd_atomic_dest == 0));
      CHECK(mrc::decode_connection_info(mrc::encode(info)) == info);
    } catch (const mrc::Error& error) {
      CHECK(error.code() == mrc::Errc::bad_message);
      ++refused;
    }
  }
  CHECK(offers > 100);
  CHECK(refused > 100);
}

TEST_CASE("connection info: the network namespace, which others skip") {
  mrc::ConnectionInfo info = rc_example();
  const RcBlob without = mrc::encode(info);
  CHECK(mrc::decode_connection_info(without).network_namespace == 0);
  info.network_namespace = 0x0102030405060708;
  RcBlob blob = mrc::encode(info);
  CHECK(mrc::decode_connection_info(blob) == info);
  CHECK(mrc::test::contains(mrc::to_string(info), "head"));
  const RcBlob item{0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8};
  REQUIRE(blob.size() == without.size() + item.size());
  CHECK(RcBlob(blob.end() - 16, blob.end() - 4) == item);
  blob[blob.size() - 15] = 0x7F;  // unknown, as 10 is to an older release
  reseal(blob);
  CHECK(mrc::decode_connection_info(blob) == rc_example());
  blob = without;
  blob.insert(blob.end() - 4, item.begin(), item.end() - 1);  // a byte too few
  blob[blob.size() - 4 - 11 + 3] = 7;
  reseal(blob);
  CHECK_FALSE(refusal(blob).empty());
}

}  // namespace rc_info_test
