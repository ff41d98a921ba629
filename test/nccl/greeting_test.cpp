// SPDX-License-Identifier: Apache-2.0
// The set-up messages of the plugin as bytes.
#include "nccl_plugin/setup/greeting.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "mrc/core/error.hpp"
#include "support/errors.hpp"

namespace greeting_test {

mrc_nccl::Greeting some_greeting() {
  mrc_nccl::Greeting greeting;
  greeting.info.qpn = mrc::Qpn{0x123};
  greeting.info.planes = {mrc::port::parse_address("10.0.0.1:4791")};
  greeting.mailbox.address = 0x0102030405060708;
  greeting.mailbox.rkey = 9;
  greeting.takes_eager = true;
  greeting.name = "host:17";
  greeting.planes = {{"eth0", mrc::port::parse_ip("10.0.0.1"), 120, 9000}, {}};
  return greeting;
}

TEST_CASE("greeting: what is written is read again") {
  const mrc_nccl::Greeting mine = some_greeting();
  const mrc_nccl::Message message = mrc_nccl::decode_message(mrc_nccl::encode_hello(mine));
  CHECK(message.type == mrc_nccl::MessageType::hello);
  CHECK(message.greeting.info == mine.info);
  CHECK(message.greeting.mailbox.address == mine.mailbox.address);
  CHECK(message.greeting.mailbox.rkey == mine.mailbox.rkey);
  CHECK(message.greeting.takes_eager);
  CHECK(message.greeting.name == mine.name);
  CHECK(message.greeting.planes == mine.planes);
  CHECK(mrc_nccl::decode_message(mrc_nccl::encode_answer(mine)).type ==
        mrc_nccl::MessageType::answer);
  CHECK(mrc_nccl::decode_message(mrc_nccl::encode_refusal("a\nb")).text == "a?b");
  CHECK(mrc_nccl::decode_message(mrc_nccl::encode_ready()).type == mrc_nccl::MessageType::ready);
}

TEST_CASE("greeting: one that is cut short, or of an unknown type, is refused") {
  const auto bytes = mrc_nccl::encode_hello(some_greeting());
  const std::size_t fixed = bytes.size() - some_greeting().name.size();
  for (std::size_t size = 1; size < fixed; ++size) {
    CAPTURE(size);
    const auto why =
        mrc::test::error_of([&] { (void)mrc_nccl::decode_message(mrc::Bytes(bytes).first(size)); });
    CHECK(mrc::test::contains(why, "is cut short"));
  }
  for (const std::uint8_t type : {0, 5}) {
    const std::uint8_t unknown[] = {type};
    CHECK_THROWS_AS((void)mrc_nccl::decode_message(unknown), mrc::Error);
  }
  CHECK_THROWS_AS((void)mrc_nccl::decode_message({}), mrc::Error);
}

}  // namespace greeting_test
