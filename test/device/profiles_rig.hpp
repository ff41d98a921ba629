// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "device_rig.hpp"
#include "support/memory_planes.hpp"

/// Profiles for tests of devices, and devices over planes in memory, which carry any EV.
namespace mrc::test::profiles {

inline ProfileEv ev(std::uint32_t name, unsigned port) {
  ProfileEv out;
  path::put_bits(out.value, 0, 16, name);
  out.port = static_cast<std::uint8_t>(port);
  return out;
}
inline EvOperation set_state(const ProfileEv& which, EvState state) {
  return {EvOperation::Kind::set_state, which, {}, state, false};
}
inline EvOperation replace(const ProfileEv& which, const ProfileEv& with) {
  return {EvOperation::Kind::replace, which, with, EvState::good, false};
}

/// A format profile 1 for UDP source ports, if there is none yet.
inline void make_format(Device& device) {
  if (device.query_format_profile(1).state != ProfileState::init) return;
  device.modify_format_profile(1, {ProfileState::offline, path::EvMode::udp, {}});
  device.modify_format_profile(1, {ProfileState::online, {}, {{{16}}}});
}
/// An explicit EV profile that is ONLINE.
inline void make_profile(Device& device, ProfileId id, const std::vector<ProfileEv>& evs) {
  make_format(device);
  EvProfileChange change;
  change.state = ProfileState::offline;
  change.mode = EvProfileMode::explicit_;
  change.format = 1;
  change.ev_count = static_cast<std::uint32_t>(evs.size());
  device.modify_ev_profile(id, change);
  change = {};
  for (const ProfileEv& e : evs) change.operations.push_back(replace({}, e));
  change.min_active = 1;
  change.event_mask = 3;
  change.state = ProfileState::online;
  device.modify_ev_profile(id, change);
}
inline void operate(Device& device, ProfileId id, std::vector<EvOperation> operations) {
  EvProfileChange change;
  change.operations = std::move(operations);
  device.modify_ev_profile(id, change);
}
/// EVs `first` .. `first` + 2n - 1, half of them in each of two planes.
inline std::vector<ProfileEv> evs_from(std::uint32_t first, unsigned n) {
  std::vector<ProfileEv> evs;
  for (unsigned i = 0; i < 2 * n; ++i) evs.push_back(ev(first + i, 1 + i % 2));
  return evs;
}

/// Paths are judged by what SACKs say and not by how fast the machine is.
inline Config patient_config(std::uint64_t seed = 1) {
  Config config = test_config("loopback:2", seed);
  config.timeout = 19;  // 0.5 s
  return config;
}

/// A host over planes in memory.
struct MemoryHost : Side {
  MemoryHost(const std::shared_ptr<MemoryNetwork>& network, std::uint8_t host, const Config& config)
      : Side(config, 1 << 20, std::make_unique<MemoryKind>(network, host)) {
    qps.reserve(64);
  }
  QueuePair& add_qp(const QpProfiles& profiles = {}, std::optional<unsigned> lane = {}) {
    QpOptions options;
    options.send_cq = &cq;
    options.profiles = profiles;
    options.lane = lane;
    qps.push_back(device.create_qp(options));
    return qps.back();
  }
};

/// Host 1 and host 2 of a network in memory.
struct Net {
  explicit Net(const Config& config = patient_config())
      : a(network, 1, config), b(std::make_unique<MemoryHost>(network, 2, config)) {}
  /// A queue pair of a, connected to one of b.
  QueuePair& pair(const QpProfiles& profiles = {}, std::optional<unsigned> lane = {}) {
    QueuePair& qp = a.add_qp(profiles, lane);
    connect(qp, b->add_qp({}, lane));
    return qp;
  }
  Errc post(QueuePair& qp, std::size_t offset, std::size_t length) {
    return post_copy(a, qp, *b, offset, length);
  }
  /// Copies all of a's source, and calls `meanwhile` after each piece.
  void copy(QueuePair& qp, const std::function<void(std::size_t)>& meanwhile = {}) {
    constexpr std::size_t kPiece = 64 << 10;
    std::fill(b->target.begin(), b->target.end(), std::uint8_t{0});
    std::size_t posted = 0, done = 0;
    const Time end = monotonic_now() + kPatience;
    while (done < a.source.size() / kPiece && monotonic_now() < end) {
      if (posted < done + 4 && posted < a.source.size() / kPiece &&
          post(qp, posted * kPiece, kPiece) == Errc::ok)
        ++posted;
      std::array<Completion, 1> c;
      (void)b->device.progress();
      if (a.cq.poll(c) == 0) continue;
      INFO(qp.error_text());
      REQUIRE(c[0].status == WcStatus::success);
      if (meanwhile) meanwhile(done);
      ++done;
    }
    CHECK(a.source == b->target);
  }
  std::map<std::uint32_t, PathReport> paths(const QueuePair& qp) {
    std::map<std::uint32_t, PathReport> out;
    for (const PathReport& r : a.device.paths(qp)) out[value(r.ev)] = r;
    return out;
  }
  [[nodiscard]] bool eventually(auto&& condition) {
    return test::eventually(condition, [&] {
      (void)a.device.progress();
      (void)b->device.progress();
    });
  }
  std::shared_ptr<MemoryNetwork> network = std::make_shared<MemoryNetwork>();
  MemoryHost a;
  std::unique_ptr<MemoryHost> b;
};

inline std::error_code code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return {};
}

}  // namespace mrc::test::profiles
