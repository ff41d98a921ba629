// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/lanes_rig.hpp"
#include "mrc/control/client.hpp"
#include "mrc/control/run_folder.hpp"
#include "support/own_folder.hpp"

namespace mrc::test {

/// A client of control sockets.
class ControlClient {
 public:
  using Json = nlohmann::json;

  explicit ControlClient(const std::string& path) : client_(path) { hello_ = next(); }

  [[nodiscard]] const Json& hello() const { return hello_; }
  /// The next line, which must come.
  [[nodiscard]] Json next() {
    const auto line = client_.receive(kPatience);
    REQUIRE(line.has_value());
    return Json::parse(*line);
  }
  void send(const std::string& line) { client_.send(line, kPatience); }
  /// The answer to a request.
  [[nodiscard]] Json ask(Json request) {
    request["id"] = ++id_;
    send(request.dump());
    while (true) {
      Json answer = next();
      if (answer.value("id", 0) == id_) return answer;
    }
  }
  /// The same for one that must succeed.
  [[nodiscard]] Json must(Json request) {
    Json answer = ask(std::move(request));
    INFO(answer.dump());
    REQUIRE(answer["ok"] == true);
    return answer;
  }
  /// The code of the error that the request must end with.
  [[nodiscard]] std::string refused(Json request) {
    const Json answer = ask(std::move(request));
    INFO(answer.dump());
    REQUIRE(answer["ok"] == false);
    CHECK(!answer["error"]["text"].get<std::string>().empty());
    return answer["error"]["code"];
  }
  /// The connection ends, whatever comes before.
  [[nodiscard]] bool ends() {
    try {
      while (client_.receive(kPatience)) {
      }
      return false;
    } catch (const Error&) {
      return true;
    }
  }

 private:
  control::Client client_;
  Json hello_;
  int id_ = 0;
};

/// Two connected devices whose control sockets are in a folder of the test's own.
struct ControlledPair {
  OwnFolder folder;
  Pair pair;

  explicit ControlledPair(Config config = test_config()) : pair(with_folder(config)) {}
  [[nodiscard]] Config with_folder(Config& config) const {
    config.control = folder.path;
    return config;
  }
  /// A client of the device that opened first.
  [[nodiscard]] ControlClient client() const { return ControlClient(socket()); }
  [[nodiscard]] std::string socket() const {
    for (const auto& file : control::sockets_in(folder.path)) {
      ControlClient each(file.path);
      const auto planes = each.must({{"request", "planes"}})["planes"];
      if (planes[0]["address"] == pair.a.device.plane_names()[0]) return file.path;
    }
    FAIL("the device has no control socket");
    return {};
  }
};

}  // namespace mrc::test
