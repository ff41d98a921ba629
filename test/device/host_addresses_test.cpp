// SPDX-License-Identifier: Apache-2.0
// At which addresses a host may be found of which one is known.
#include "mrc/plane/udp_kind.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mrc/resolve/connector.hpp"

using namespace mrc;
using namespace mrc::detail;

namespace host_addresses_test {

OwnAddress own(const char* ip, unsigned prefix, std::uint16_t port = 4791) {
  const port::IpAddress address = port::parse_ip(ip);
  return {address, prefix + (port::is_v4(address) ? 96 : 0), port};
}

std::vector<std::string> likely(const std::vector<OwnAddress>& planes, const char* gid) {
  std::vector<std::string> texts;
  for (const auto& address : likely_addresses(planes, port::parse_ip(gid)))
    texts.push_back(format_address(address));
  return texts;
}

std::vector<std::string> pairs(const std::vector<OwnAddress>& planes, Plane first,
                               const char* gid) {
  const port::IpAddress ip = port::parse_ip(gid);
  std::vector<std::string> texts;
  for (const Contact& c : pairs_to_ask(planes, first, ip, likely_addresses(planes, ip)))
    texts.push_back(std::to_string(c.plane) + " " + port::format_ip(c.address.ip) + " " +
                    std::to_string(c.address.udp_port));
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("host addresses: planes that are numbered alike") {
  const std::vector<OwnAddress> planes = {own("10.0.0.1", 24), own("10.0.1.1", 24),
                                          own("10.0.2.9", 24), own("10.1.0.1", 16)};
  CHECK(likely(planes, "10.0.0.2") == Texts{"10.0.0.2:4791", "10.0.1.2:4791"});
  CHECK(likely(planes, "10.0.1.2") == Texts{"10.0.1.2:4791", "10.0.0.2:4791"});
  CHECK(likely(planes, "10.0.2.2") == Texts{"10.0.2.2:4791"});  // host parts differ here
  CHECK(likely(planes, "10.1.0.2") == Texts{"10.1.0.2:4791"});  // another length
  CHECK(likely(planes, "192.0.2.1") == Texts{"192.0.2.1:4791"});
  const std::vector<OwnAddress> bits = {own("10.0.0.33", 27), own("10.0.0.65", 27)};
  CHECK(likely(bits, "10.0.0.34") == Texts{"10.0.0.34:4791", "10.0.0.66:4791"});
  const std::vector<OwnAddress> six = {own("fd00:1::7", 64), own("fd00:2::7", 64)};
  CHECK(likely(six, "fd00:2::8") == Texts{"[fd00:2::8]:4791", "[fd00:1::8]:4791"});
  CHECK(likely({own("10.0.0.1", 32), own("10.0.1.1", 32)}, "10.0.0.1").size() == 2);
  CHECK(likely({own("10.0.0.1", 32), own("10.0.1.1", 32)}, "10.0.0.2").size() == 1);
}

TEST_CASE("host addresses: planes in one subnet, and processes of the own host") {
  const std::vector<OwnAddress> planes = {own("10.0.0.1", 24), own("10.0.0.2", 24)};
  CHECK(likely(planes, "10.0.0.3") == Texts{"10.0.0.3:4791"});
  CHECK(likely(planes, "10.0.0.2") == Texts{"10.0.0.2:4791", "10.0.0.1:4791"});
  const std::vector<OwnAddress> same = {own("::1", 128, 4791), own("::1", 128, 5047)};
  CHECK(likely(same, "::1") == Texts{"[::1]:4791", "[::1]:5047"});
}

TEST_CASE("host addresses: the likeliest pair first, then all others, never of two families") {
  const std::vector<OwnAddress> planes = {own("10.0.0.1", 24), own("10.0.1.1", 24),
                                          own("fd00::1", 64)};
  CHECK(pairs(planes, 0, "10.0.0.2") ==
        Texts{"0 10.0.0.2 4791", "1 10.0.1.2 4791", "1 10.0.0.2 4791", "0 10.0.1.2 4791"});
  CHECK(pairs(planes, 0, "10.0.1.2")[0] == "1 10.0.1.2 4791");
  CHECK(pairs(planes, 0, "fd00::2") == Texts{"2 fd00::2 4791"});
  const std::vector<OwnAddress> flat = {own("10.0.0.1", 24), own("10.0.0.2", 24)};
  CHECK(pairs(flat, 1, "10.0.0.3") == Texts{"1 10.0.0.3 4791", "0 10.0.0.3 4791"});
  const std::vector<OwnAddress> same = {own("::1", 128, 4791), own("::1", 128, 5047)};
  CHECK(pairs(same, 0, "::1") == Texts{"0 ::1 4791", "1 ::1 5047", "0 ::1 5047", "1 ::1 4791"});
}

TEST_CASE("host addresses: who owns an address speaks for itself only") {
  AddressBook book;
  const port::IpAddress gid = port::parse_ip("10.0.0.2"), other = port::parse_ip("10.0.1.9");
  const std::vector<port::PeerAddress> planes = {{gid, 4791}, {other, 4791}};
  book.learn(gid, 3, planes);
  CHECK(book.others(gid, 3).size() == 2);
  CHECK(book.others(gid, 4).empty());
  CHECK(book.others(other, 3).empty());
  CHECK(book.knows(gid));
  CHECK_FALSE(book.knows(other));
  for (std::uint32_t i = 0; i < 3 * AddressBook::kMost; ++i)  // bounded
    book.learn(port::make_v4(11, static_cast<std::uint8_t>(i >> 16),
                             static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)),
               0, planes);
  CHECK_FALSE(book.knows(gid));
}

}  // namespace host_addresses_test
