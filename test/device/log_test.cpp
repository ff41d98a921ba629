// SPDX-License-Identifier: Apache-2.0
// Where the messages of a device go.
#include <doctest/doctest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "device_rig.hpp"
#include "support/memory_planes.hpp"

using namespace mrc;
using namespace mrc::test;

namespace log_test {

using Lines = std::vector<std::pair<LogLevel, std::string>>;

/// Planes in memory that have two things to say when they are opened.
class TalkativeKind final : public MemoryKind {
 public:
  TalkativeKind() : MemoryKind(std::make_shared<MemoryNetwork>(), 1) {}
  [[nodiscard]] detail::OpenedPlanes open(const Config& config, std::optional<std::uint8_t> slot,
                                          std::uint64_t seed, const detail::Log& log) override {
    log.info("planes in memory");
    log.warn("nobody else is here");
    return MemoryKind::open(config, slot, seed, log);
  }
};

/// What a device with that level says while it opens, apart from what it says of the environment.
Lines said_at(LogLevel level, unsigned lanes = 1) {
  (void)unknown_variables_once();
  std::mutex mutex;
  Lines lines;
  Config config = test_config();
  config.log = level;
  config.lanes = static_cast<std::uint16_t>(lanes);
  config.log_sink = [&](LogLevel of_line, std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(of_line, line);
  };
  const Device device(config, std::make_unique<TalkativeKind>());
  CHECK(device.config().log_sink);
  const std::lock_guard lock(mutex);
  return lines;
}

TEST_CASE("log: a device's messages go to the sink, bare, up to the level asked for") {
  const std::pair info{LogLevel::info, std::string("planes in memory")};
  const std::pair warning{LogLevel::warn, std::string("nobody else is here")};
  CHECK(said_at(LogLevel::info) == Lines{info, warning});
  CHECK(said_at(LogLevel::warn) == Lines{warning});
  CHECK(said_at(LogLevel::off).empty());
  CHECK(said_at(LogLevel::info, 4) == Lines{info, warning});  // the ports' notes, once
}

TEST_CASE("log: what is found out later, in the device's own thread, goes to the sink too") {
  std::mutex mutex;
  std::string all;
  Config config = test_config("loopback:1");
  config.log = LogLevel::warn;
  config.log_sink = [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    all.append(line).append("\n");
  };
  Side side(config, 4096);
  QueuePair& qp = side.add_qp();
  QpChange change;
  change.state = QpState::init;
  qp.modify(change);
  change = {};
  change.state = QpState::rtr;
  change.destination = Destination{side.device.gid(), Qpn{0xFE0102}};  // a slot that nobody has
  change.receive_psn = Psn{1};
  qp.modify(change);
  const auto warned = [&] {
    const std::lock_guard lock(mutex);
    return contains(all, "no OpenMRC device answers at");
  };
  const Time end = monotonic_now() + kPatience;
  while (!warned() && monotonic_now() < end) std::this_thread::sleep_for(1ms);
  CHECK(warned());
  const std::lock_guard lock(mutex);
  CHECK_FALSE(contains(all, "openmrc:"));
}

}  // namespace log_test
