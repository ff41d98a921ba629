// SPDX-License-Identifier: Apache-2.0
// Which addresses of a listener travel in a handle.
#include "nccl_plugin/setup/contact_addresses.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace mrc_nccl;

namespace contact_addresses_test {

/// The last bytes of the addresses that are chosen from planes 1, 2, ...; a bit of `up` each.
std::vector<int> chosen(unsigned planes, unsigned up, std::size_t most) {
  std::vector<ContactPlane> all;
  for (unsigned i = 0; i < planes; ++i)
    all.push_back(
        {mrc::port::make_v4(10, 0, 0, static_cast<std::uint8_t>(i + 1)), (up >> i & 1) != 0});
  std::vector<int> numbers;
  for (const auto& ip : contact_addresses(all, most)) numbers.push_back(ip[15]);
  return numbers;
}

TEST_CASE("contact addresses: all planes if there is room, those that are up first") {
  CHECK(chosen(4, 0xF, 4) == std::vector{1, 2, 3, 4});
  CHECK(chosen(4, 0xA, 4) == std::vector{2, 4, 1, 3});
  CHECK(chosen(2, 0, 4) == std::vector{1, 2});
  CHECK(chosen(0, 0, 4).empty());
}

TEST_CASE("contact addresses: spread over many planes, without those that are down") {
  CHECK(chosen(8, 0xFF, 4) == std::vector{1, 3, 5, 7});
  CHECK(chosen(8, 0xAA, 4) == std::vector{2, 4, 6, 8});
  CHECK(chosen(8, 0xC0, 4) == std::vector{7, 8, 1, 4});
}

}  // namespace contact_addresses_test
