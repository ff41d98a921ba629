// SPDX-License-Identifier: Apache-2.0
#include "mrc/fabric/fabric_reader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fabric/fixture.hpp"

namespace mrc::fabric::testing::self_test {
namespace {

using Addresses = std::vector<wire::IpAddress>;

std::string self_error(const Description& d, const Addresses& local, const char* wanted = "") {
  return test::error_of([&] { (void)find_self(d, local, wanted); });
}

/// All addresses of host `h`, and the loopback one.
Addresses addresses_of(const Host& h) {
  Addresses all{address("::1")};
  all.insert(all.end(), h.addresses.begin(), h.addresses.end());
  return all;
}

}  // namespace

TEST_CASE("self: the host whose addresses are here") {
  const Description d = small_fabric();
  for (const Host& h : d.hosts) {
    CHECK(&find_self(d, addresses_of(h)) == &h);
    CHECK(&find_self(d, addresses_of(h), h.name) == &h);
  }
}

TEST_CASE("self: nobody, several, or not the one wanted") {
  const Description d = small_fabric();
  const std::string end = ": " + std::string(to_string(Errc::not_found));
  CHECK(self_error(d, {}) ==
        "f.json: no host has an address on this machine (h0 lacks fd00:1::1 (plane 0), for one); "
        "run inside the namespace of a host, or set its addresses up here" +
            end);
  Addresses partly = addresses_of(d.hosts[1]);
  partly.pop_back();  // a port that is down has lost its address
  CHECK(find_self(d, partly).name == "h1");
  Addresses two = partly;
  two.push_back(d.hosts[0].addresses[0]);
  CHECK(test::contains(self_error(d, two), "several hosts have addresses on this machine: h0, h1"));
  two.push_back(d.hosts[1].addresses.back());  // now h1 is the only one that is all there
  CHECK(find_self(d, two).name == "h1");
  CHECK(self_error(d, partly, "h1") == "no error");
  CHECK(
      self_error(d, addresses_of(d.hosts[0]), "h1") ==
      "f.json: this is not host h1: h1 lacks fd00:1::2 (plane 0); run inside the namespace of that "
      "host, or set MRC_HOST to another" +
          end);
  CHECK(self_error(d, partly, "h2") ==
        "f.json: has no host 'h2', only h0, h1; set MRC_HOST to one of these" + end);
  Addresses both = addresses_of(d.hosts[0]);
  for (const auto& a : d.hosts[1].addresses) both.push_back(a);
  CHECK(self_error(d, both) ==
        "f.json: several hosts have addresses on this machine: h0, h1; set MRC_HOST to one of "
        "them: " +
            std::string(to_string(Errc::invalid_argument)));
  CHECK(find_self(d, both, "h1").name == "h1");
  // Not all of a long list.
  const Description many = parse("f.json", "{ \"hosts\": 10 }");
  CHECK(test::contains(self_error(many, {}, "x"), "h6, h7, ...; set"));
}

}  // namespace mrc::fabric::testing::self_test
