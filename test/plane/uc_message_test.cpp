// SPDX-License-Identifier: Apache-2.0
#include "mrc/verbs/uc.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace mrc;
using namespace mrc::port;

namespace uc_message_test {

std::vector<std::uint8_t> numbered(std::size_t size, unsigned first = 1) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(first + i);
  return bytes;
}

bool same(Bytes a, Bytes b) {
  return std::ranges::equal(a, b);
}

/// One entry as bytes.
std::vector<std::uint8_t> entry(const UcHeader& h) {
  std::vector<std::uint8_t> bytes(100);
  UcHeadersWriter writer(bytes);
  REQUIRE(writer.append(h));
  bytes.resize(writer.size());
  return bytes;
}

/// How many good entries there are.
int count(Bytes message, bool malformed) {
  UcHeadersReader reader(message);
  UcHeader h;
  int n = 0;
  while (reader.next(h)) ++n;
  CHECK(reader.malformed() == malformed);
  CHECK_FALSE(reader.next(h));
  return n;
}

TEST_CASE("UC names: later and earlier, also across the wrap") {
  CHECK(uc_steps(5, 6) == 1);
  CHECK(uc_steps(6, 5) == -1);
  CHECK(uc_steps(7, 7) == 0);
  CHECK(uc_steps(0xFFFFFFFF, 0) == 1);
  CHECK(uc_steps(0, 0xFFFFFFF0) == -16);
  CHECK(uc_epoch_steps(255, 0) == 1);
  CHECK(uc_epoch_steps(0, 255) == -1);
  CHECK(uc_epoch_steps(10, 137) == 127);
}

TEST_CASE("UC headers: the bytes on the wire") {
  const auto header = numbered(12, 0x40);
  const auto bytes = entry({{0x0023, 0x7E, 0x01020304}, 0x0800, 2, 0xA1B2C3D4, header});
  const std::vector<std::uint8_t> expected = {
      0x00, 0x23, 0x7E, 12,   0x01, 0x02, 0x03, 0x04, 0x08, 0x00, 0x02, 0x00, 0xA1, 0xB2,
      0xC3, 0xD4, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x4B};
  CHECK(bytes == expected);
}

TEST_CASE("UC headers: what was written is read, until the buffer is full") {
  std::vector<std::uint8_t> buffer(200);
  UcHeadersWriter writer(buffer);
  CHECK(writer.empty());
  const auto a = numbered(40), b = numbered(48, 100), c = numbered(12, 200);
  REQUIRE(writer.append({{3, 4, 5}, 1024, 0, 6, a}));
  REQUIRE(writer.append({{63, 255, 0xFFFFFFFF}, 4096, 3, 7, b}));
  REQUIRE(writer.append({{0, 0, 0}, 1, 1, 8, c}));
  CHECK(writer.size() == 3 * 16 + 40 + 48 + 12);
  CHECK_FALSE(writer.append({{1, 1, 1}, 1, 1, 1, a}));  // 56 bytes, 52 are left
  CHECK(writer.size() == 148);
  REQUIRE(writer.append({{9, 9, 9}, 9, 0, 9, numbered(36)}));  // exactly
  CHECK_FALSE(writer.append({{9, 9, 9}, 9, 0, 9, c}));

  UcHeadersReader reader(Bytes{buffer}.first(148));
  UcHeader h;
  REQUIRE(reader.next(h));
  CHECK(h.name == UcName{3, 4, 5});
  CHECK(h.payload_length == 1024);
  CHECK(h.pad == 0);
  CHECK(h.check == 6);
  CHECK(same(h.header, a));
  REQUIRE(reader.next(h));
  CHECK(h.name == UcName{63, 255, 0xFFFFFFFF});
  CHECK(h.payload_length == 4096);
  CHECK(h.pad == 3);
  CHECK(same(h.header, b));
  REQUIRE(reader.next(h));
  CHECK(h.name == UcName{0, 0, 0});
  CHECK(same(h.header, c));
  CHECK_FALSE(reader.next(h));
  CHECK_FALSE(reader.malformed());
  CHECK(count(buffer, false) == 4);
  writer.clear();
  CHECK(writer.empty());
  CHECK(writer.append({{1, 1, 1}, 1, 1, 1, a}));
}

TEST_CASE("UC headers: what is out of bounds is not written") {
  std::vector<std::uint8_t> buffer(200);
  UcHeadersWriter writer(buffer);
  const auto header = numbered(49);
  const Bytes good = Bytes{header}.first(48);
  CHECK_FALSE(writer.append({{64, 0, 0}, 1, 0, 0, good}));
  CHECK_FALSE(writer.append({{0, 0, 0}, 0, 0, 0, good}));
  CHECK_FALSE(writer.append({{0, 0, 0}, 4097, 0, 0, good}));
  CHECK_FALSE(writer.append({{0, 0, 0}, 1, 4, 0, good}));
  CHECK_FALSE(writer.append({{0, 0, 0}, 1, 0, 0, header}));
  CHECK_FALSE(writer.append({{0, 0, 0}, 1, 0, 0, good.first(11)}));
  CHECK(writer.empty());
}

TEST_CASE("UC headers: reading stops at the first malformed entry") {
  const auto good = entry({{1, 2, 3}, 100, 0, 0, numbered(40)});
  CHECK(count({}, false) == 0);
  CHECK(count(good, false) == 1);
  for (std::size_t cut = 1; cut < good.size(); ++cut) {
    CAPTURE(cut);
    auto bytes = good;
    bytes.insert(bytes.end(), good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut));
    CHECK(count(bytes, true) == 1);
  }
  const struct {
    std::size_t at;
    std::uint8_t value;
  } faults[] = {{0, 1}, {1, 64}, {3, 11}, {3, 49}, {3, 41}, {3, 255}, {8, 0x11}, {10, 4}};
  for (const auto& fault : faults) {
    CAPTURE(fault.at);
    CAPTURE(+fault.value);
    auto bytes = good;
    bytes[fault.at] = fault.value;
    CHECK(count(bytes, true) == 0);
  }
  auto empty = good;
  empty[8] = empty[9] = 0;  // a payload of 0 bytes is a marker, which has no header
  CHECK(count(empty, true) == 0);
  auto reserved = good;
  reserved[11] = 0xFF;
  CHECK(count(reserved, false) == 1);
}

TEST_CASE("UC origins: the bytes on the wire, and back") {
  const struct {
    std::vector<UcName> names;
    std::vector<std::uint8_t> bytes;
  } cases[] = {
      // By name.
      {{{0x0011, 0x22, 0x33445566}}, {1, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66}},
      {{{1, 2, 3}, {0x0011, 0x22, 0x33445566}},
       {2, 0x00, 0x01, 2, 0, 0, 0, 3, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66}},
      // By path, since it is shorter: path 1 has none.
      {{{0, 0x22, 0x33445566}, {2, 2, 3}, {3, 4, 0xFFFFFFFE}},
       {0x84, 0x22, 0x33, 0x44, 0x55, 0x66, 0,    0xFF, 0xFF, 0xFF, 0xFF,
        2,    0,    0,    0,    3,    4,    0xFF, 0xFF, 0xFF, 0xFE}},
  };
  for (const auto& c : cases) {
    CAPTURE(c.names.size());
    std::vector<std::uint8_t> bytes(40);
    REQUIRE(write_uc_origins(bytes, c.names) == c.bytes.size());
    CHECK(same(Bytes{bytes}.first(c.bytes.size()), c.bytes));
    CHECK(write_uc_origins(MutableBytes{bytes}.first(c.bytes.size() - 1), c.names) == 0);
    UcOrigins origins;
    REQUIRE(read_uc_origins(bytes, origins) == c.bytes.size());
    CHECK(std::ranges::equal(origins.all(), c.names));
  }
}

TEST_CASE(
    "UC origins: any set of up to sixty-four paths, in no more than the size that is stated") {
  std::mt19937 random(7);
  std::vector<std::uint8_t> bytes(uc_origins_size(kMaxUcPaths));
  UcOrigins origins;
  for (int i = 0; i < 2000; ++i) {
    const std::size_t paths = 1 + random() % kMaxUcPaths;
    const unsigned share = 1 + random() % 4;
    std::vector<UcName> names;
    for (std::uint16_t path = 0; path < paths; ++path)
      if (random() % share == 0)
        names.push_back({path, static_cast<std::uint8_t>(random()),
                         static_cast<std::uint32_t>(random() % kNoUcSeq)});
    const std::size_t size =
        write_uc_origins(MutableBytes{bytes}.first(uc_origins_size(paths)), names);
    REQUIRE((size > 0) == !names.empty());
    if (names.empty()) continue;
    REQUIRE(read_uc_origins(Bytes{bytes}.first(size), origins) == size);
    REQUIRE(std::ranges::equal(origins.all(), names));
  }
}

TEST_CASE("UC origins: what is no list of them is not written") {
  std::vector<std::uint8_t> bytes(1000);
  const auto refused = [&](const std::vector<UcName>& names) {
    return write_uc_origins(bytes, names) == 0;
  };
  CHECK(refused({}));
  CHECK(refused({{64, 0, 0}}));
  CHECK(refused({{0, 0, kNoUcSeq}}));
  CHECK(refused({{1, 0, 0}, {0, 0, 0}}));
  CHECK(refused({{1, 0, 0}, {1, 0, 1}}));
  CHECK_FALSE(refused({{0, 0, 0}, {1, 0, 1}}));
}

TEST_CASE("UC origins: malformed ones leave nothing") {
  std::vector<std::uint8_t> bytes(uc_origins_size(65));
  UcOrigins origins;
  const auto refused = [&](Bytes message) {
    origins.count = 7;
    const std::size_t size = read_uc_origins(message, origins);
    return size == 0 && origins.all().empty();
  };
  CHECK(refused({}));
  CHECK(refused(bytes));  // none
  bytes[0] = 65;
  CHECK(refused(bytes));
  bytes[0] = 2;
  bytes[9] = 5;  // the second one's path
  CHECK(refused(Bytes{bytes}.first(14)));
  CHECK_FALSE(refused(bytes));
  bytes[9] = 64;
  CHECK(refused(bytes));
  bytes[9] = 0;  // as the first one's
  CHECK(refused(bytes));
  bytes[0] = 0x80;
  CHECK(refused(bytes));
  bytes[0] = 0x80 | 65;
  CHECK(refused(bytes));
  bytes[0] = 0x80 | 64;
  CHECK(refused(Bytes{bytes}.first(uc_origins_size(64) - 1)));
  CHECK_FALSE(refused(bytes));
  std::fill(bytes.begin() + 1, bytes.end(), std::uint8_t{0xFF});  // no path has one
  CHECK(refused(bytes));
}

}  // namespace uc_message_test
