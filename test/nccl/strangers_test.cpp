// SPDX-License-Identifier: Apache-2.0
// Who leaves a listener of the plugin when there are more strangers than places.
#include "nccl_plugin/setup/strangers.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace strangers_test {

using mrc::port::IpAddress;

IpAddress address(std::uint8_t last) {
  return mrc::port::make_v4(10, 0, 0, last);
}

std::vector<int> those_in(mrc_nccl::Strangers<int>& strangers) {
  std::vector<int> all;
  strangers.attend([&](int guest) {
    all.push_back(guest);
    return true;
  });
  return all;
}

TEST_CASE("strangers: one address has half of the places, and its oldest leaves") {
  mrc_nccl::Strangers<int> strangers;
  strangers.admit(address(1), 100, 8);
  for (int i = 0; i < 50; ++i) strangers.admit(address(2), i, 8);
  CHECK(those_in(strangers) == std::vector{100, 46, 47, 48, 49});
  CHECK(strangers.count(address(2)) == 4);
}

TEST_CASE("strangers: where all places are taken, the most crowded address gives one back") {
  mrc_nccl::Strangers<int> strangers;
  for (int i = 0; i < 4; ++i) strangers.admit(address(1), i, 8);
  for (int i = 4; i < 8; ++i) strangers.admit(address(static_cast<std::uint8_t>(i)), i, 8);
  strangers.admit(address(9), 9, 8);
  CHECK(those_in(strangers) == std::vector{1, 2, 3, 4, 5, 6, 7, 9});
  // Each with an address of its own, in descending order: the oldest leaves.
  mrc_nccl::Strangers<int> others;
  for (int i = 99; i >= 10; --i) others.admit(address(static_cast<std::uint8_t>(i)), i, 4);
  CHECK(those_in(others) == std::vector{13, 12, 11, 10});
}

TEST_CASE("strangers: fewer places than there are strangers, and none") {
  mrc_nccl::Strangers<int> strangers;
  CHECK_FALSE(strangers.drop_oldest());
  for (int i = 0; i < 20; ++i) strangers.admit(address(static_cast<std::uint8_t>(i)), i, 20);
  strangers.admit(address(30), 30, 4);
  CHECK(strangers.size() == 4);
  CHECK(those_in(strangers).back() == 30);
  strangers.attend([](int guest) { return guest != 30; });
  CHECK(strangers.count(address(30)) == 0);
  while (strangers.drop_oldest()) {
  }
  CHECK(strangers.size() == 0);
  strangers.admit(address(1), 1, 0);  // there is always room for one
  CHECK(strangers.size() == 1);
}

}  // namespace strangers_test
