// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device_rig.hpp"
#include "fake_nic/fake_nic.hpp"
#include "mrc/net/address.hpp"
#include "support/brief.hpp"

/// Devices on RDMA devices, for tests: these are the stand-in's.
namespace mrc::test {

inline fake_nic::Gid gid(const std::string& address, bool roce_v2 = true) {
  return {port::parse_ip(address), roce_v2};
}

/// The stand-in without devices. What OpenMRC makes on those that are added must be gone at the
/// end, and nothing it did may have broken the rules of verbs.
struct FakeNics {
  FakeNics() { fake_nic::reset(); }
  FakeNics(const FakeNics&) = delete;
  FakeNics& operator=(const FakeNics&) = delete;
  ~FakeNics() {
    const fake_nic::Counts counts = fake_nic::counts();
    CHECK(counts.objects() == 0);
    CHECK(counts.overruns == 0);
    CHECK(fake_nic::misuses() == std::vector<std::string>{});
    fake_nic::reset();
  }
};

/// nic0 and nic1, 127.0.0.11 and 127.0.0.12, on one network.
struct RdmaNetwork : FakeNics {
  RdmaNetwork() : RdmaNetwork([](fake_nic::Nic&) {}) {}
  /// After that change of each.
  template <class Change>
  explicit RdmaNetwork(const Change& change) {
    for (int i = 0; i < 2; ++i) {
      fake_nic::Nic one = nic(i);
      change(one);
      fake_nic::add(one);
    }
  }
  [[nodiscard]] static fake_nic::Nic nic(int number) {
    fake_nic::Nic nic;
    nic.name = "nic" + std::to_string(number);
    nic.gids = {gid("fe80::" + std::to_string(number + 1)),
                gid("127.0.0.1" + std::to_string(number + 1))};
    return nic;
  }
};

/// Settings for a device on nic<number>.
inline Config rdma_config(int number, bool placement) {
  Config config = test_config();
  config.verbs = "nic" + std::to_string(number);
  config.placement = placement;
  config.seed = static_cast<std::uint64_t>(number + 1);
  return config;
}

[[nodiscard]] inline bool plane_is_up(const Side& side) {
  return side.device.stats().planes[0].up;
}

/// Posts a write of that part of the source to an offset of a peer's memory.
inline Errc post_write(Side& from, std::size_t at, std::size_t bytes, const MemoryRegion& to,
                       std::size_t offset, std::uint64_t wr_id = 0, std::size_t qp = 0) {
  const Sge sge = from.sge(at, bytes);
  SendRequest request;
  request.wr_id = wr_id;
  request.sges = {&sge, 1};
  request.remote = to.remote(offset);
  return from.qps[qp].post_send(request);
}

/// Two devices and a connected queue pair on each. The peers' devices may place what is written to
/// `a_memory` and `b_memory`, in the targets.
struct RdmaPair : Pair {
  static constexpr std::size_t kUsualBytes = kBrief ? 256 << 10 : 1 << 20;
  explicit RdmaPair(bool placement, std::size_t bytes = kUsualBytes)
      : RdmaPair(rdma_config(0, placement), rdma_config(1, placement), bytes) {}
  RdmaPair(const Config& config_a, const Config& config_b, std::size_t bytes = kUsualBytes)
      : Pair(config_a, config_b, bytes),
        a_memory(a.device.register_memory(std::span(a.target), kPlaceable)),
        b_memory(b.device.register_memory(std::span(b.target), kPlaceable)) {}

  /// Copies all of `from`'s source in writes of `size` bytes, and checks every byte.
  void copy(Side& from, Side& to, const MemoryRegion& memory, std::size_t size = 64 << 10) {
    std::fill(to.target.begin(), to.target.end(), std::uint8_t{0});
    std::size_t posted = 0, waiting = 0;
    while (posted < from.source.size() || waiting > 0) {
      const std::size_t n = std::min(size, from.source.size() - posted);
      if (n > 0 && waiting < 16) {
        REQUIRE(post_write(from, posted, n, memory, posted) == Errc::ok);
        posted += n;
        ++waiting;
        continue;
      }
      const Completion done = from.await_one();
      INFO(from.qps[0].error_text());
      REQUIRE(done.status == WcStatus::success);
      --waiting;
    }
    CHECK(from.source == to.target);
  }
  void there(std::size_t size = 64 << 10) { copy(a, b, b_memory, size); }
  void back(std::size_t size = 64 << 10) { copy(b, a, a_memory, size); }

  /// Copies until b's device places payload, or does again; it is prepared in the background.
  void until_placed() {
    const auto before = port_of(b).rx_placed;
    REQUIRE(eventually([&] {
      there();
      return port_of(b).rx_placed > before;
    }));
  }

  [[nodiscard]] static port::PortStats port_of(const Side& side) {
    return side.device.stats().planes[0].port;
  }

  static constexpr Access kPlaceable =
      Access::local_write | Access::remote_write | Access::relaxed_ordering;
  MemoryRegion a_memory, b_memory;
};

}  // namespace mrc::test
