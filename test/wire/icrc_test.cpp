// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/wire/icrc.hpp"
#include "vectors.hpp"

namespace mrc::wire::icrc_test {
namespace {

using test::Buffer, test::random_bytes;

TEST_CASE("iCRC: the worked values") {
  const Buffer packet = test::write_only_packet();
  const Bytes transport = Bytes{packet}.subspan(48, 44);
  IcrcPrefix prefix = IcrcPrefix::make(test::host(1), test::host(2), kUdpPort);
  CHECK(prefix.length == 56);
  prefix.patch(0x1234, 0x38);
  CHECK(icrc(prefix, transport) == test::kWriteOnlyIcrc);
  const TxSge payload{test::kLetters, 8};
  const Buffer header = test::header_bytes(test::write_only_header());
  CHECK(icrc(prefix, header, {&payload, 1}, 0) == test::kWriteOnlyIcrc);

  prefix.patch(0x1235, 0x38);
  CHECK(icrc(prefix, transport) == test::kWriteOnlyPort1235Icrc);
  prefix.patch(0x1234, 0x38);
  Buffer rtx = test::copy(transport);
  rtx[8] |= 0x20;
  CHECK(icrc(prefix, rtx) == test::kWriteOnlyRtxIcrc);
  CHECK(load_icrc(packet.data() + 92) == test::kWriteOnlyIcrc);

  const Buffer sack = test::sack_transport();
  prefix.patch(0x4321, 8 + 48 + 4);
  CHECK(icrc(prefix, sack) == test::kSackIcrc);
  CHECK(icrc(prefix, sack, {}, 0) == test::kSackIcrc);
}

TEST_CASE("iCRC: BTH's variant byte is masked, not changed; every other byte counts") {
  const IcrcPrefix prefix = IcrcPrefix::make(test::host(1), test::host(2), kUdpPort);
  const Buffer original = test::copy(Bytes{test::write_only_packet()}.subspan(48, 44));
  const std::uint32_t expected = icrc(prefix, original);
  for (std::size_t i = 0; i < original.size(); ++i) {
    Buffer changed = original;
    changed[i] ^= 0x40;
    const Buffer before = changed;
    CHECK((icrc(prefix, changed) == expected) == (i == 4));
    CHECK(changed == before);
  }
}

TEST_CASE("iCRC: any split into SGEs gives the value of the whole, pad included") {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    WriteHeader h = test::write_only_header();
    h.opcode = round % 2 == 0 ? Opcode::write_only : Opcode::write_only_imm;
    const Buffer data = random_bytes(random, random.below(5000));
    h.pad = static_cast<std::uint8_t>((4 - data.size() % 4) % 4);
    const Buffer header = test::header_bytes(h);
    std::vector<TxSge> sges;
    for (std::uint32_t at = 0; at < data.size();) {
      const auto left = static_cast<std::uint32_t>(data.size() - at);
      const std::uint32_t n = random.chance(0.2) ? left : random.below(left + 1);  // 0 too
      sges.push_back({data.data() + at, n});
      at += n;
    }
    Buffer whole = header;
    whole.insert(whole.end(), data.begin(), data.end());
    whole.resize(whole.size() + h.pad);
    IcrcPrefix prefix = IcrcPrefix::make(test::host(1), test::host(2), kUdpPort);
    prefix.patch(0xC000, static_cast<std::uint16_t>(whole.size() + 12));
    REQUIRE(icrc(prefix, header, sges, h.pad) == icrc(prefix, whole));
  }
}

TEST_CASE("iCRC of the head: of 48 bytes, however the payload is split; of less it is the iCRC") {
  Random random(4);
  const IcrcPrefix prefix = IcrcPrefix::make(test::host(1), test::host(2), kUdpPort);
  for (int round = 0; round < 200; ++round) {
    WriteHeader h = test::write_only_header();
    h.has_timestamp = round % 3 == 0;
    const Buffer data = random_bytes(random, random.below(round % 2 == 0 ? 40 : 5000));
    h.pad = static_cast<std::uint8_t>((4 - data.size() % 4) % 4);
    const Buffer header = test::header_bytes(h);
    std::vector<TxSge> sges;
    for (std::uint32_t at = 0; at < data.size();) {
      const auto left = static_cast<std::uint32_t>(data.size() - at);
      const std::uint32_t n = random.chance(0.2) ? left : random.below(std::min(left + 1, 9u));
      sges.push_back({data.data() + at, n});
      at += n;
    }
    Buffer whole = header;
    whole.insert(whole.end(), data.begin(), data.end());
    whole.resize(whole.size() + h.pad);
    const std::size_t head = std::min<std::size_t>(whole.size(), 48);
    const std::uint32_t expected = icrc(prefix, Bytes{whole}.first(head));
    REQUIRE(icrc_of_head(prefix, header, sges, h.pad) == expected);
    REQUIRE(icrc_of_head(prefix, whole) == expected);
    if (whole.size() > 48) REQUIRE(expected != icrc(prefix, whole));
  }
}

TEST_CASE("iCRC prefix: made from addresses or from a packet, the image is the same") {
  const Buffer v6 = test::write_only_packet();
  IcrcPrefix made = IcrcPrefix::make(test::host(1), test::host(2), kUdpPort);
  made.patch(0x1234, 0x38);
  const IcrcPrefix read =
      IcrcPrefix::of_packet(Bytes{v6}.first(40), view_as<Udp>(Bytes{v6}.subspan(40)));
  CHECK(read.length == made.length);
  CHECK(read.image == made.image);

  const IpAddress a = map_ipv4({10, 0, 0, 1}), b = map_ipv4({10, 0, 0, 2});
  IcrcPrefix made4 = IcrcPrefix::make(a, b, kUdpPort);
  made4.patch(0x1234, 0x38);
  const Buffer image = test::copy(made4.image, made4.length);
  // 8 ones; version, ToS, total length, id 0, DF, TTL, UDP, checksum, addresses; UDP.
  CHECK(image == test::from_hex("ff ff ff ff ff ff ff ff 45 ff 00 4c 00 00 40 00 ff 11 ff ff "
                                "0a 00 00 01 0a 00 00 02 12 34 12 b7 00 38 ff ff"));
}

TEST_CASE("iCRC is stored least significant byte first") {
  Buffer out(4);
  store_icrc(out.data(), 0xA085E775);
  CHECK(out == test::from_hex("75 e7 85 a0"));
  CHECK(load_icrc(out.data()) == 0xA085E775);
}

}  // namespace
}  // namespace mrc::wire::icrc_test
