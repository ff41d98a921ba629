// SPDX-License-Identifier: Apache-2.0
// Where the messages of a device go.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gid_rig.hpp"
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
                                          const detail::Log& log) override {
    log.info("planes in memory");
    log.warn("nobody else is here");
    return MemoryKind::open(config, slot, log);
  }
};

/// What a device with that level says while it opens, apart from what it says of the environment.
Lines said_at(LogLevel level, unsigned lane_count = 1) {
  (void)unknown_variables_once();
  LogLines lines;
  Config config = test_config();
  lines.capture(config, level);
  config.lanes = static_cast<std::uint16_t>(lane_count);
  const Device device(config, std::make_unique<TalkativeKind>());
  CHECK(device.config().log_sink);
  return lines.all();
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
  LogLines lines;
  Config config = test_config("loopback:1");
  lines.capture(config, LogLevel::warn);
  Side side(config, 4096);
  QueuePair& qp = side.add_qp();
  qp.modify(to(QpState::init));
  qp.modify(to_rtr(side.device.gid(), Qpn{0xFE0102}, Psn{1}));  // a slot that nobody has
  CHECK(eventually([&] { return lines.count("no OpenMRC device answers at") > 0; }));
  CHECK(lines.count("openmrc:") == 0);
}

}  // namespace log_test
