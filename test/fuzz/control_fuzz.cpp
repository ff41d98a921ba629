// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "mrc/control.hpp"
#include "mrc/control/client.hpp"
#include "mrc/control/dumps.hpp"
#include "mrc/control/profiles.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc/mrc.hpp"

// Fuzzes the control socket of an open device: whatever a client sends, each line of the answer is
// a JSON object, and the request behind it is answered. What it sends is a file of profiles, too:
// what a registry takes of it comes back as it is.

using namespace mrc;

namespace {

struct Opened {
  std::string folder = (std::filesystem::temp_directory_path() / "openmrc-fuzz-XXXXXX").string();
  std::optional<Device> device;

  Opened() {
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    device.emplace(config());
  }
  ~Opened() {
    device.reset();
    std::filesystem::remove_all(folder);
  }

  [[nodiscard]] Config config() const {
    Config config;
    config.planes = {"loopback:2"};
    config.paths = 4;
    config.udp_port = 22000;
    config.log = LogLevel::off;
    config.control = folder;
    return config;
  }
};

void check_profiles(const nlohmann::json& json) try {
  detail::ProfileSurroundings around;
  around.planes = 2;
  around.check_ev = [](path::EvMode, const detail::ExpandedEv&) {};
  detail::ProfileRegistry registry(around);
  registry.follow(detail::profiles_from_json(json), [](const auto&) {});
  const detail::ProfileSet set = registry.set();
  if (detail::profiles_from_json(detail::to_json(set)) != set) std::abort();
  registry.follow(set, [](const auto&) { std::abort(); });
  if (registry.set() != set) std::abort();
} catch (const Error&) {
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (const auto json = nlohmann::json::parse(data, data + size, nullptr, false);
      !json.is_discarded())
    check_profiles(json);
  static const Opened opened;
  static const std::string path = control::sockets_in(opened.folder).at(0).path;
  constexpr Duration kPatience = std::chrono::seconds(60);
  control::Client client(path);
  client.send({reinterpret_cast<const char*>(data), size}, kPatience);
  client.send(R"({"request":"process","id":"last"})", kPatience);
  while (true) {
    const auto line = client.receive(kPatience);
    if (!line) std::abort();
    const auto answer = nlohmann::json::parse(*line);
    if (!answer.is_object()) std::abort();
    if (answer.contains("event")) continue;
    if (!answer.at("ok").is_boolean()) std::abort();
    if (answer.value("id", nlohmann::json()) == "last") return 0;
  }
}
