// SPDX-License-Identifier: Apache-2.0
// What verbs ports tell one another. No device is needed.
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/verbs/verbs_device.hpp"
#include "mrc/verbs/verbs_queues.hpp"
#include "support/errors.hpp"

using namespace mrc;
using namespace mrc::port;
using mrc::test::error_of;

namespace verbs_message_test {

VerbsContact some_contact(std::size_t paths) {
  VerbsContact c;
  c.token = 0x0123'4567'89AB'CDEF;
  c.qkey = 0x7654'3210;
  c.path_mtu = 3983;
  c.placement = true;
  for (std::size_t i = 0; i < paths; ++i) c.qpns.push_back(static_cast<std::uint32_t>(17 + 3 * i));
  return c;
}

VerbsMessage some_state(std::size_t paths) {
  VerbsMessage m;
  m.to = 1;
  m.from = 0xFFFF'FFFF'0000'0002;
  m.state.version = 7;
  m.state.echo = 9;
  m.state.ask = true;
  m.state.generation = 3;
  m.state.incarnation = 0xABCD;
  m.state.sender = 0xEF01;
  m.state.refused = true;
  m.state.qkey = 0x1234;
  for (std::size_t i = 0; i < paths; ++i)
    m.state.paths.push_back({static_cast<std::uint32_t>(i + 1), static_cast<std::uint32_t>(i * 5),
                             static_cast<std::uint8_t>(i + 250)});
  return m;
}

TEST_CASE("verbs contact: what is written is read again, with 1 to 64 queue pairs") {
  for (const std::size_t paths : {1, 16, 64}) {
    const VerbsContact contact = some_contact(paths);
    CHECK(decode_verbs_contact(encode(contact)) == contact);
  }
}

TEST_CASE("verbs contact: other bytes are refused with a reason") {
  const std::vector<std::uint8_t> good = encode(some_contact(2));
  for (std::size_t n = 0; n < good.size(); ++n) {
    CAPTURE(n);
    const auto cut = std::span(good).first(n);
    if (n == good.size() - 4)  // a contact with one queue pair
      CHECK(decode_verbs_contact(cut).qpns.size() == 1);
    else
      CHECK_THROWS_AS((void)decode_verbs_contact(cut), Error);
  }
  std::vector<std::uint8_t> other = good;
  other[0] = 2;
  CHECK(error_of([&] { (void)decode_verbs_contact(other); }).find("form 2") != std::string::npos);
  CHECK_THROWS_AS((void)decode_verbs_contact(encode(some_contact(65))), Error);
}

TEST_CASE("verbs message: states are read as they were written") {
  for (const std::size_t paths : {1, 16, 64}) {
    const VerbsMessage m = some_state(paths);
    const std::vector<std::uint8_t> bytes = encode(m);
    CHECK(bytes.size() <= kMaxVerbsMessage);
    const auto read = decode_verbs_message(bytes);
    REQUIRE(read);
    CHECK(read->type == VerbsMessageType::state);
    CHECK(read->to == m.to);
    CHECK(read->from == m.from);
    CHECK(read->state.version == m.state.version);
    CHECK(read->state.echo == m.state.echo);
    CHECK(read->state.ask);
    CHECK(read->state.refused);
    CHECK(read->state.generation == m.state.generation);
    CHECK(read->state.incarnation == m.state.incarnation);
    CHECK(read->state.sender == m.state.sender);
    CHECK(read->state.qkey == m.state.qkey);
    CHECK(read->state.paths == m.state.paths);
  }
  CHECK(encode(some_state(64)).size() == kMaxVerbsMessage);
}

TEST_CASE("verbs message: keys are asked for and answered") {
  VerbsMessage m;
  m.type = VerbsMessageType::key_answer;
  m.key = 5;
  m.device_key = 6;
  m.generation = 7;
  const auto read = decode_verbs_message(encode(m));
  REQUIRE(read);
  CHECK(read->key == 5);
  CHECK(read->device_key == 6);
  CHECK(read->generation == 7);
  m.type = VerbsMessageType::key_query;
  CHECK(decode_verbs_message(encode(m))->type == VerbsMessageType::key_query);
}

TEST_CASE("verbs message: anything else is no message") {
  const std::vector<std::uint8_t> good = encode(some_state(3));
  for (std::size_t n = 0; n < good.size(); ++n)
    CHECK_FALSE(decode_verbs_message(std::span(good).first(n)));
  std::vector<std::uint8_t> longer = good;
  longer.push_back(0);
  CHECK_FALSE(decode_verbs_message(longer));
  // Magic, form, type, length; then version 0 and the number of paths.
  for (const std::size_t at : {0, 4, 5, 6, 7, 24 + 25}) {
    CAPTURE(at);
    std::vector<std::uint8_t> bad = good;
    bad[at] = static_cast<std::uint8_t>(bad[at] + 77);
    CHECK_FALSE(decode_verbs_message(bad));
  }
  VerbsMessage zero = some_state(1);
  zero.state.version = 0;
  CHECK_FALSE(decode_verbs_message(encode(zero)));
  CHECK_FALSE(decode_verbs_message(encode(some_state(0))));
  CHECK_FALSE(decode_verbs_message(encode(some_state(65))));
}

TEST_CASE("verbs format: immediates keep kind, header and path apart") {
  const UdImmediate all{UdKind::retransmission, 48, 0xFFFF};
  const UdImmediate read = UdImmediate::of(all.bits());
  CHECK(read.kind == UdKind::retransmission);
  CHECK(read.header_length == 48);
  CHECK(read.path == 0xFFFF);
}

}  // namespace verbs_message_test
