// SPDX-License-Identifier: Apache-2.0
// The messages of the plugin's TCP channel: who can write into the connection, and does not know
// the secret of the handle, says nothing in the peer's name.
#include "nccl_plugin/setup/channel.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <vector>

using namespace mrc_nccl;
using State = Channel::State;

namespace channel_test {

using Message = std::vector<std::uint8_t>;

const mrc::SipKey kSecret{1, 2};

/// A channel, and its connection's other end, at which anybody may write.
struct End {
  explicit End(Channel::Side side, const mrc::SipKey& secret = kSecret) {
    std::array<int, 2> fds{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
    channel = Channel(Socket(mrc::UniqueFd(fds[0])), "peer", secret, side);
    wire = Socket(mrc::UniqueFd(fds[1]));
  }
  void put(const Message& bytes) const {
    REQUIRE(::send(wire.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  [[nodiscard]] Message taken() const {
    Message bytes(1024);
    const auto n = ::recv(wire.fd(), bytes.data(), bytes.size(), 0);
    bytes.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return bytes;
  }
  Channel channel;
  Socket wire;
};

/// What a side sends for these messages, one by one.
std::vector<Message> sent(Channel::Side side, const std::vector<Message>& messages) {
  End end(side);
  std::vector<Message> all;
  for (const Message& message : messages) {
    end.channel.send(message);
    all.push_back(end.taken());
  }
  return all;
}

/// Neither a message nor the end.
void expect_refused(Channel& channel) {
  CHECK_FALSE(channel.receive());
  CHECK(channel.state() == State::broken);
  CHECK(channel.forged());
}

TEST_CASE("channel: messages and the end arrive") {
  const std::vector<Message> messages{{1, 2, 3}, Message(5000, 7), {1, 2, 3}};
  End a(Channel::Side::connects), b(Channel::Side::accepts);
  for (const Message& message : messages) {
    a.channel.send(message);
    for (Message part = a.taken(); !part.empty(); part = a.taken()) b.put(part);
    CHECK(b.channel.receive() == message);
  }
  a.channel.finish();
  b.put(a.taken());
  CHECK_FALSE(b.channel.receive());
  CHECK(b.channel.state() == State::ended);
  CHECK_FALSE(b.channel.forged());
}

TEST_CASE("channel: what has a wrong tag is no message, and no end") {
  for (const Message& message : {Message{}, Message{1, 2, 3}}) {
    CAPTURE(message.size());
    for (std::size_t byte = 0; byte < 4 + message.size() + 8; ++byte) {
      CAPTURE(byte);
      End end(Channel::Side::accepts);
      Message forged;
      if (message.empty()) {
        End peer(Channel::Side::connects);
        peer.channel.finish();
        forged = peer.taken();
      } else {
        forged = sent(Channel::Side::connects, {message})[0];
      }
      REQUIRE(forged.size() == 4 + message.size() + 8);
      forged[byte] ^= byte == 3 && message.size() == 3 ? 2 : 1;  // shorter, not longer
      forged.resize(forged.size() + 256 * (byte == 2) + 16);
      end.put(forged);
      expect_refused(end.channel);
    }
  }
}

TEST_CASE("channel: a message that comes again, or in another place, is no message") {
  const auto three = sent(Channel::Side::connects, {{1}, {1}, {2}});
  for (const std::size_t second : {0u, 2u}) {  // again; one is left out
    CAPTURE(second);
    End end(Channel::Side::accepts);
    end.put(three[0]);
    CHECK(end.channel.receive() == Message{1});
    end.put(three[second]);
    expect_refused(end.channel);
  }
}

TEST_CASE("channel: a side's own message is none of the peer's") {
  for (const auto side : {Channel::Side::connects, Channel::Side::accepts}) {
    End end(side);
    end.channel.send(Message{1, 2, 3});
    end.put(end.taken());
    expect_refused(end.channel);
  }
}

TEST_CASE("channel: the tag is of the handle's secret") {
  End end(Channel::Side::accepts), stranger(Channel::Side::connects, {1, 3});
  stranger.channel.send(Message{1});
  end.put(stranger.taken());
  expect_refused(end.channel);
}

}  // namespace channel_test
