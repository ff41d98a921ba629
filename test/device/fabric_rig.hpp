// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "mrc/mrc.hpp"
#include "support/network.hpp"

/// Hosts of a fabric description for tests of devices.
namespace mrc::test {

/// A description on disk for as long as it lives.
class DescriptionFile {
 public:
  explicit DescriptionFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("openmrc-fabric-" + std::to_string(getpid()) + ".json")) {
    std::ofstream(path_) << text;
  }
  DescriptionFile(const DescriptionFile&) = delete;
  DescriptionFile& operator=(const DescriptionFile&) = delete;
  ~DescriptionFile() { std::filesystem::remove(path_); }
  [[nodiscard]] Config config() const {
    Config config;
    config.set("fabric", path_.string());
    return config;
  }

 private:
  std::filesystem::path path_;
};

/// Two hosts side by side in one network namespace. Their ports hang on bridges, so that one can
/// lose its carrier and the other one not.
inline constexpr const char* kNeighbours = R"({ "planes": 2, "forwarding": "ecmp", "hosts": [
  { "interfaces": ["a0", "a1"], "next_hops": ["02:00:00:00:00:b0", "02:00:00:00:00:b1"] },
  { "interfaces": ["b0", "b1"], "next_hops": ["02:00:00:00:00:a0", "02:00:00:00:00:a1"] }] })";

inline void make_neighbours() {
  shell(
      "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad; ip link set lo up; for p in 0 1; do "
      "ip link add br$p mtu 9216 type bridge; ip link set br$p up; for h in a b; do "
      "ip link add $h$p mtu 9216 address 02:00:00:00:00:$h$p type veth peer name s$h$p mtu 9216; "
      "ip link set s$h$p master br$p up; ip link set $h$p up; done; "
      "ip addr add fd00:$((p + 1))::1/128 dev a$p nodad; "
      "ip addr add fd00:$((p + 1))::2/128 dev b$p nodad; done; " +
      await_carrier("a0 a1 b0 b1"));
}

}  // namespace mrc::test
