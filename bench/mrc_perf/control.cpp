// SPDX-License-Identifier: Apache-2.0
#include "control.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <utility>

#include "mrc/core/error.hpp"
#include "units.hpp"

namespace mrc::perf {

/// Levels of arrays and objects in a message.
constexpr int kMostNesting = 8;

nlohmann::json parse_message(Bytes bytes, const std::string& peer) {
  // What is nested deeper than any message of this program is not built up in memory.
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth < kMostNesting;
  };
  auto message = nlohmann::json::parse(bytes.begin(), bytes.end(), shallow, false);
  if (!message.is_object() || !message.contains("op") || !message["op"].is_string())
    throw Failure(fmt::format("{} sent something that is no mrc_perf message", peer));
  if (message["op"] == "abort") {
    const auto why = message.find("why");
    throw Failure(fmt::format("{} gave up: {}", peer,
                              why != message.end() && why->is_string()
                                  ? printable(why->get_ref<std::string&>())
                                  : "no reason given"));
  }
  return message;
}

void Control::send(const nlohmann::json& message) {
  try {
    channel_.send_text(message.dump());
  } catch (const Error& error) {
    throw PeerGone(fmt::format("lost the control connection to {}: {}", peer_, error.what()));
  }
}

std::optional<nlohmann::json> Control::poll() {
  if (next_) return std::exchange(next_, std::nullopt);
  std::optional<std::vector<std::uint8_t>> bytes;
  try {
    bytes = channel_.try_receive();
  } catch (const Error& error) {
    if (error.code() == Errc::bad_message) throw Failure(error.what());
    throw PeerGone(
        fmt::format("{} is gone, its control connection ended: {}", peer_, error.what()));
  }
  if (!bytes) return std::nullopt;
  return parse_message(*bytes, peer_);
}

nlohmann::json Control::wait(const std::string& op, Duration timeout,
                             const std::function<void()>& idle) {
  const Time end = monotonic_now() + timeout;
  while (monotonic_now() < end) {
    if (auto message = poll()) {
      if ((*message)["op"] == op) return std::move(*message);
      throw Failure(fmt::format("{} said '{}' where '{}' was expected", peer_,
                                printable((*message)["op"].get_ref<std::string&>()), op));
    }
    idle();
  }
  throw Failure(fmt::format("{} did not answer within {:.1f} s (expected '{}')", peer_,
                            seconds(timeout), op));
}

nlohmann::json Control::wait(const std::string& op, Duration timeout) {
  return wait(op, timeout, [this] {
    if (g_interrupted) throw Interrupted();
    sleep(std::chrono::milliseconds(20));
  });
}

void Control::sleep(std::chrono::milliseconds most) const {
  pollfd wanted{channel_.fd(), POLLIN, 0};
  ::poll(&wanted, 1, static_cast<int>(most.count()));
}

void Control::abort(const std::string& why) noexcept {
  try {
    channel_.send_text(nlohmann::json{{"op", "abort"}, {"why", why}}.dump());
  } catch (...) {  // NOLINT(bugprone-empty-catch): the peer may be gone, which is why we give up
  }
}

}  // namespace mrc::perf
