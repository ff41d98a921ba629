// SPDX-License-Identifier: Apache-2.0
// What whoever listens at a control socket may say, and what a tool makes of it.
#include "mrc/control/client.hpp"

#include <sys/socket.h>

#include <string>

#include "host/control_rig.hpp"
#include "mrc/control/line_server.hpp"
#include "support/own_folder.hpp"

using namespace mrc;
using namespace mrc::test;
using control::RemoteDevice;
using Json = nlohmann::json;

namespace remote_device_test {

/// A device behind a socket at which all that it will ever say lies ready.
struct Scripted {
  OwnFolder folder;
  control::SocketFile file{folder.path + "/s", {}, 0};
  UniqueFd listener = control::listen_unix(file.path);
  RemoteDevice device{file};
  UniqueFd connection{::accept(listener.fd(), nullptr, nullptr)};

  void say(const std::string& line) const {
    const std::string text = line + "\n";
    REQUIRE(::send(connection.fd(), text.data(), text.size(), 0) ==
            static_cast<::ssize_t>(text.size()));
  }
  bool greets(const std::string& line) {
    say(line);
    return device.greet(monotonic_now() + kPatience);
  }
};

const std::string kHello = R"({"pid":7,"program":"p","host":"h","protocol":1})";

TEST_CASE("remote device: fields are read as far as they are what they should be") {
  const Json odd = Json::parse(
      R"({"n":-1,"big":1e300,"half":2.5,"t":3,"f":1,"o":[],"l":{},"null":null,"fine":4})");
  for (const Json& object : {odd, Json(), Json(7), Json("x"), Json::array({1})}) {
    CAPTURE(object.dump());
    for (const char* name : {"n", "big", "t", "f", "o", "l", "null", "none"}) {
      CAPTURE(name);
      if (name != std::string("t") && name != std::string("f"))
        CHECK(control::count_in(object, name) == 0);
      CHECK(control::text_in(object, name).empty());
      CHECK(control::flag_in(object, name, true));
      if (name != std::string("l")) CHECK(control::object_in(object, name).empty());
      if (name != std::string("o")) CHECK(control::list_in(object, name).empty());
    }
    CHECK(control::object_in(object, "o").is_object());
    CHECK(control::list_in(object, "l").is_array());
  }
  CHECK(control::count_in(odd, "fine") == 4);
  CHECK(control::count_in(odd, "half") == 2);
  CHECK(control::count_in({{"n", UINT64_MAX}}, "n") == UINT64_MAX);
  CHECK(control::text_in({{"t", "x"}}, "t") == "x");
  CHECK(!control::flag_in({{"f", false}}, "f", true));
}

TEST_CASE("remote device: greetings that are none, in words") {
  for (const auto& [hello, why] : {
           std::pair{R"({"error":{"text":"it is full"}})", "it is full"},
           std::pair{R"({"error":{"text":7}})", "it refuses"},
           std::pair{R"({"error":{}})", "it refuses"},
           std::pair{R"({"error":[]})", "what listens is no OpenMRC device"},
           std::pair{R"([1])", "what listens is no OpenMRC device"},
           std::pair{R"({"pid":"7","program":"p","host":"h","protocol":1})",
                     "what listens is no OpenMRC device"},
       }) {
    Scripted scripted;
    CHECK(!scripted.greets(hello));
    CHECK(scripted.device.problem() == scripted.file.path + ": " + why);
  }
}

TEST_CASE("remote device: answers of any shape are an answer, or are told in words") {
  const std::string why = "p (pid 7): it refuses, and does not say why",
                    odd =
                        "p (pid 7): its answer is not as docs/control.md has it; it may be "
                        "another version";
  for (const auto& [sent, expected] : {
           std::pair{R"({"id":1,"ok":true})", std::string()},
           std::pair{R"({"id":"1","ok":true})", odd},
           std::pair{R"({"id":{},"ok":true})", odd},
           std::pair{R"({"id":1,"ok":1})", why},
           std::pair{R"({"id":1,"ok":false,"error":"x"})", why},
           std::pair{R"({"id":1,"error":{"text":[],"code":4}})", why},
           std::pair{R"({"id":1,"error":{"text":"no","code":{}}})", std::string("p (pid 7): no")},
       }) {
    const std::string answer = sent, words = expected;
    CAPTURE(answer);
    Scripted scripted;
    REQUIRE(scripted.greets(kHello));
    for (const char* other : {R"({"id":7,"ok":true})", R"({"event":"x"})", "[]", "x"})
      scripted.say(other);  // of an earlier request, and events
    scripted.say(answer);
    std::string told;
    try {
      (void)scripted.device.request({{"request", "config"}}, kPatience);
    } catch (const Error& error) {
      told = detail::words_of(error);
    }
    CHECK(told == words);
  }
}

}  // namespace remote_device_test
