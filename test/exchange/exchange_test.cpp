// SPDX-License-Identifier: Apache-2.0
#include "mrc/exchange.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/wire/icrc.hpp"
#include "support/errors.hpp"

namespace exchange_test {

using mrc::ConnectionInfo;
using mrc::Duration;
using mrc::TcpChannel;
using mrc::TcpListener;
using mrc::test::contains;
using mrc::test::thrown_by;
using namespace std::chrono_literals;
using Blob = std::vector<std::uint8_t>;

ConnectionInfo example() {
  ConnectionInfo info;
  info.foreign = false;
  info.solicited = true;
  info.device_guid = 0x0123456789ABCDEF;
  info.qpn = mrc::Qpn{0x070123};
  info.start_psn = mrc::Psn{0xFEDCBA};
  info.mtu = 8192;
  info.mpr_dest = 200;
  info.max_wimm_dest = 300;
  info.dynamic_mpr = true;
  info.trim_nack = true;
  info.icrc = false;
  info.slot = 7;
  info.receive_window = 6'000'000'000;
  info.planes = {mrc::port::parse_address("10.0.0.1:4798"),
                 mrc::port::parse_address("[fd00::1]:4798")};
  return info;
}

/// Puts a matching length and checksum on a blob, so that what is between them is tested too.
void seal(Blob& blob) {
  blob[6] = static_cast<std::uint8_t>(blob.size() >> 8);
  blob[7] = static_cast<std::uint8_t>(blob.size());
  const auto crc = mrc::wire::crc32(0, mrc::Bytes(blob).first(blob.size() - 4));
  for (unsigned i = 0; i < 4; ++i)
    blob[blob.size() - 1 - i] = static_cast<std::uint8_t>(crc >> (8 * i));
}

/// The text of the error that decoding throws, which must be bad_message; "" if none.
std::string decode_error(const Blob& blob) {
  try {
    (void)mrc::decode_connection_info(blob);
  } catch (const mrc::Error& error) {
    CHECK(error.code() == mrc::Errc::bad_message);
    return error.what();
  }
  return "";
}

/// Two ends of a connection on this machine.
std::pair<TcpChannel, TcpChannel> channels(const std::atomic<bool>* cancel = nullptr) {
  TcpListener listener(0, "127.0.0.1", cancel);
  auto client = TcpChannel::connect("127.0.0.1", listener.port(), 5s, cancel);
  return {std::move(client), listener.accept(5s)};
}

TEST_CASE("connection info: round trip") {
  CHECK(mrc::decode_connection_info(mrc::encode(example())) == example());
  ConnectionInfo info = example();
  info.planes.assign(32, info.planes[0]);
  info.dynamic_mpr = info.trim_nack = false;
  info.icrc = true;
  CHECK(mrc::decode_connection_info(mrc::encode(info)) == info);
}

TEST_CASE("connection info: the bytes are fixed") {
  ConnectionInfo info = example();
  info.port_data = {{}, {0xAA, 0xBB}};
  const Blob bytes{
      'O',  'M',  'R',  'C',  0,    2,    0,    112,                               // envelope
      0x80, 1,    0,    9,    0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF, 7,   // device
      0x80, 2,    0,    16,   0x00, 0x07, 0x01, 0x23, 0x00, 0xFE, 0xDC, 0xBA,      // queue pair
      0x00, 0x00, 0x20, 0x00, 0x01, 0x2C, 200,  3,                                 //
      0x80, 3,    0,    36,                                                        // planes
      0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0xFF, 0xFF, 10,  //
      0,    0,    1,    0x12, 0xBE,                                                //
      0xFD, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,   //
      0,    0,    1,    0x12, 0xBE,                                                //
      0,    4,    0,    8,    0,    0,    0,    1,    0x65, 0xA0, 0xBC, 0x00,      // window
      0,    5,    0,    4,    0,    0,    0,    1,                                 // capabilities
      0,    6,    0,    3,    1,    0xAA, 0xBB};                                   // port data
  const Blob blob = mrc::encode(info);
  REQUIRE(blob.size() == bytes.size() + 4);
  CHECK(Blob(blob.begin(), blob.end() - 4) == bytes);
  CHECK(mrc::decode_connection_info(blob) == info);
}

TEST_CASE("connection info: as text") {
  const std::string text = mrc::to_string(example());
  for (const auto part : {"0123456789abcdef", "qpn 0x070123", "psn 0xfedcba", "mtu 8192", "mpr 200",
                          "wimm 300", "dynamic-mpr", "trim", "no-icrc", "slot 7",
                          "window 6000000000", "10.0.0.1:4798", "[fd00::1]:4798"}) {
    CAPTURE(part);
    CHECK(contains(text, part));
  }
}

TEST_CASE("connection info: errors say what is wrong") {
  const Blob good = mrc::encode(example());
  const auto with = [&](std::size_t offset, std::uint8_t byte) {
    Blob blob = good;
    blob.at(offset) = byte;
    return decode_error(blob);
  };
  CHECK(contains(with(0, 'X'), "magic"));
  CHECK(contains(with(5, 3), "version 3, this side speaks 2"));
  CHECK(contains(with(7, 106), "says that it has 106 bytes, but has 105"));
  CHECK(contains(with(30, good[30] ^ 1), "checksum"));
  CHECK(contains(decode_error({}), "only 0 bytes"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    const mrc::Bytes cut = mrc::Bytes(good).first(size);
    CHECK_FALSE(decode_error(Blob(cut.begin(), cut.end())).empty());
  }
}

TEST_CASE("connection info: fields outside their range, with a right checksum") {
  const auto with = [](std::size_t offset, std::initializer_list<std::uint8_t> bytes) {
    Blob blob = mrc::encode(example());
    for (const auto byte : bytes) blob[offset++] = byte;
    seal(blob);
    return decode_error(blob);
  };
  CHECK(with(25, {0, 0, 0, 3}).empty());
  CHECK(contains(with(25, {0, 0, 0, 2}), "QPN"));
  CHECK(contains(with(25, {1, 0, 0, 3}), "QPN"));
  CHECK(contains(with(29, {1, 0, 0, 0}), "PSN"));
  CHECK(contains(with(33, {0, 0, 0, 0}), "MTU"));
  CHECK(contains(with(33, {0, 0, 5, 0xDC}), "MTU"));
  CHECK(contains(with(33, {0, 1, 0, 0}), "MTU"));
  CHECK(contains(with(33, {0, 0, 5, 0x80}), "power of two"));  // 1,408
  CHECK(with(37, {0x80, 0}).empty());
  CHECK(contains(with(37, {0x80, 1}), "WriteImm"));
  CHECK(contains(with(39, {0}), "MPR"));
  CHECK(contains(with(40, {8}), "flags"));
  CHECK(contains(with(61, {0, 0}), "UDP port"));
  CHECK(contains(with(57, {0, 0, 0, 0}), "unicast"));    // 0.0.0.0
  CHECK(contains(with(57, {224, 0, 0, 1}), "unicast"));  // multicast
  CHECK(contains(with(63, {0xFF}), "unicast"));          // IPv6 multicast
}

namespace {

/// Items, with the envelope around them.
Blob enveloped(std::initializer_list<Blob> items) {
  Blob blob{'O', 'M', 'R', 'C', 0, 2, 0, 0};
  for (const Blob& item : items) blob.insert(blob.end(), item.begin(), item.end());
  blob.resize(blob.size() + 4);
  seal(blob);
  return blob;
}
/// An item of the example, from its first byte.
Blob item_of_example(std::size_t offset) {
  const Blob all = mrc::encode(example());
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + 4 + all[offset + 3]};
}

TEST_CASE("connection info: items in any order; unknown, doubled, missing and damaged ones") {
  const Blob device = item_of_example(8), queue_pair = item_of_example(21),
             planes = item_of_example(41), window = item_of_example(81),
             capabilities = item_of_example(93);
  CHECK(mrc::decode_connection_info(
            enveloped({planes, capabilities, window, device, queue_pair})) == example());
  // What this release does not know is skipped, unless it is indispensable.
  CHECK(mrc::decode_connection_info(enveloped({{0x12, 0x34, 0, 2, 1, 2},
                                               device,
                                               queue_pair,
                                               planes,
                                               window,
                                               capabilities,
                                               {0x7F, 0xFF, 0, 0}})) == example());
  const std::string unknown =
      decode_error(enveloped({{0x92, 0x34, 0, 2, 1, 2}, device, queue_pair, planes}));
  CHECK(contains(unknown, "item 4660 is indispensable"));
  CHECK(contains(unknown, "use the same release"));
  // What is left out is not known, or not had.
  const ConnectionInfo least = mrc::decode_connection_info(enveloped({device, queue_pair, planes}));
  CHECK(least.receive_window == 0);
  CHECK_FALSE(least.solicited);
  CHECK_FALSE(least.foreign);  // as OpenMRC's form shows
  CHECK_FALSE(least.parts);
  ConnectionInfo parts = example();  // each capability by itself
  for (unsigned bits = 0; bits < 8; ++bits) {
    parts.solicited = (bits & 1) != 0;
    parts.parts = (bits & 2) != 0;
    parts.foreign = (bits & 4) != 0;
    CHECK(mrc::decode_connection_info(mrc::encode(parts)) == parts);
  }
  CHECK(contains(decode_error(enveloped({queue_pair, planes})), "item 1 is missing"));
  CHECK(contains(decode_error(enveloped({device, planes})), "item 2 is missing"));
  CHECK(contains(decode_error(enveloped({device, queue_pair})), "item 3 is missing"));
  CHECK(contains(decode_error(enveloped({device, queue_pair, planes, device})), "item 1 is there"));
  CHECK(contains(decode_error(enveloped({device, queue_pair, {0x80, 3, 0, 0}})), "plane count"));
  CHECK(
      contains(decode_error(enveloped({device, queue_pair, {0x80, 3, 0, 1, 9}})), "1 bytes long"));
  CHECK(contains(decode_error(enveloped({{0, 9, 0, 200}})), "longer than what is there"));
  CHECK(contains(decode_error(enveloped({device, {0, 9, 0}})), "ends within an item"));
  const Blob data{0, 6, 0, 2, 1, 7};
  CHECK(contains(decode_error(enveloped({device, queue_pair, planes, data, data})), "twice"));
  CHECK(contains(decode_error(enveloped({device, queue_pair, planes, {0, 6, 0, 1, 2}})),
                 "a plane too many"));
  CHECK(contains(decode_error(enveloped({device, queue_pair, planes, {0, 6, 0, 1, 32}})),
                 "beyond 31"));
}

/// With the items that are left out where they say nothing, and that older releases skip.
ConnectionInfo with_offers() {
  ConnectionInfo info = example();
  info.rc = true;
  info.max_rd_atomic_dest = 16;
  info.network_namespace = 0x0102030405060708;
  return info;
}

TEST_CASE("connection info: SEND, READ and atomics are offered by an item of their own") {
  ConnectionInfo info = example();
  const Blob without = mrc::encode(info);
  CHECK_FALSE(mrc::decode_connection_info(without).rc);
  CHECK_FALSE(contains(mrc::to_string(info), " rc"));
  info.rc = true;
  info.max_rd_atomic_dest = 16;
  // Nothing else changes, so an older release, which skips what it does not know, loses nothing.
  const Blob item{0, 9, 0, 1, 16}, with = mrc::encode(info);
  REQUIRE(with.size() == without.size() + item.size());
  CHECK(Blob(with.end() - 9, with.end() - 4) == item);
  CHECK(Blob(with.begin() + 8, with.end() - 9) == Blob(without.begin() + 8, without.end() - 4));

  for (const unsigned limit : {0u, 1u, 16u, 128u}) {
    info.max_rd_atomic_dest = static_cast<std::uint8_t>(limit);
    CHECK(mrc::decode_connection_info(mrc::encode(info)) == info);
    CHECK(contains(mrc::to_string(info), " rc " + std::to_string(limit) + " "));
  }
}

TEST_CASE("connection info: the network namespace, which others skip") {
  ConnectionInfo info = example();
  CHECK(mrc::decode_connection_info(mrc::encode(info)).network_namespace == 0);
  info.network_namespace = 0x0102030405060708;
  Blob blob = mrc::encode(info);
  CHECK(mrc::decode_connection_info(blob) == info);
  CHECK(contains(mrc::to_string(info), "head"));
  CHECK(Blob(blob.end() - 16, blob.end() - 4) == Blob{0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8});
  blob[blob.size() - 15] = 0x7F;  // unknown, as 10 is to an older release
  seal(blob);
  CHECK(mrc::decode_connection_info(blob) == example());
}

TEST_CASE("connection info: items that older releases skip, damaged") {
  const auto error = [](const Blob& item) {
    Blob blob = mrc::encode(example());
    blob.insert(blob.end() - 4, item.begin(), item.end());
    seal(blob);
    return decode_error(blob);
  };
  CHECK(error({0, 9, 0, 1, 128}).empty());
  CHECK(contains(error({0, 9, 0, 1, 129}), "READs and atomics is over 128"));
  CHECK(contains(error({0, 9, 0, 2, 16, 0}), "item 9 is 2 bytes long"));
  CHECK(contains(error({0, 9, 0, 1, 16, 0, 9, 0, 1, 16}), "item 9 is there twice"));
  CHECK(contains(error({0, 10, 0, 7, 1, 2, 3, 4, 5, 6, 7}), "item 10 is 7 bytes long"));
}

TEST_CASE("connection info: what nobody would take is not sent") {
  const auto refused = [](auto change) {
    ConnectionInfo info = example();
    change(info);
    const auto error = thrown_by([&] { (void)mrc::encode(info); });
    return error.code() == mrc::Errc::invalid_argument;
  };
  CHECK(refused([](auto& i) { i.planes.clear(); }));
  CHECK(refused([](auto& i) { i.planes.resize(33, i.planes[0]); }));
  CHECK(refused([](auto& i) { i.qpn = mrc::Qpn{1}; }));
  CHECK(refused([](auto& i) { i.mtu = 1500; }));
  CHECK(refused([](auto& i) { i.mtu = 1408; }));
  CHECK(refused([](auto& i) {
    i.mtu = 1400;
    i.mtu_multiples = true;
  }));
  CHECK(refused([](auto& i) { i.planes[1] = {}; }));
  CHECK(refused([](auto& i) {
    i.rc = true;
    i.max_rd_atomic_dest = 129;
  }));
}

TEST_CASE("connection info: an MTU that is no power of two, and what older readers see of it") {
  ConnectionInfo info = example();
  info.mtu = 1408;
  info.mtu_multiples = true;
  Blob blob = mrc::encode(info);
  CHECK(mrc::decode_connection_info(blob) == info);
  CHECK((blob[33] == 0 && blob[34] == 0 && blob[35] == 4 && blob[36] == 0));  // 1,024
  blob[35] = 8;
  seal(blob);
  CHECK(contains(decode_error(blob), "contradict"));
  info.mtu = 4096;
  CHECK(mrc::decode_connection_info(mrc::encode(info)) == info);
  CHECK_FALSE(mrc::decode_connection_info(mrc::encode(example())).mtu_multiples);
}

TEST_CASE("connection info: random damage is refused or harmless") {
  mrc::Random random(1);
  unsigned accepted = 0, offers = 0;
  for (int round = 0; round < 20'000; ++round) {
    Blob blob = mrc::encode(with_offers());
    for (auto flips = 1 + random.below(8); flips > 0; --flips)
      blob[random.below(static_cast<std::uint32_t>(blob.size()))] =
          static_cast<std::uint8_t>(random.next());
    if (random.chance(0.3)) blob.resize(random.below(140));
    if (blob.size() >= 12 && random.chance(0.7)) {  // get past the envelope
      const Blob head{'O', 'M', 'R', 'C', 0, 2};
      std::copy(head.begin(), head.end(), blob.begin());
      seal(blob);
    }
    try {
      const auto info = mrc::decode_connection_info(blob);
      ++accepted;
      offers += info.rc;
      CHECK((info.rc ? info.max_rd_atomic_dest <= 128 : info.max_rd_atomic_dest == 0));
      CHECK(mrc::decode_connection_info(mrc::encode(info)) == info);  // nothing is made up
    } catch (const mrc::Error& error) {
      CHECK(error.code() == mrc::Errc::bad_message);
    }
  }
  CHECK(accepted > 100);
  CHECK(accepted < 19'900);
  CHECK(offers > 100);
  for (int round = 0; round < 20'000; ++round) {
    Blob noise(random.below(200));
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(random.next());
    CHECK_FALSE(decode_error(noise).empty());
  }
}

TEST_CASE("tcp: messages keep their borders, any size") {
  auto [client, server] = channels();
  const Blob large(3 << 20, 0xA5);
  std::thread sender([&client = client, &large] {
    client.send({});
    client.send_text("hello");
    client.send(large);
    client.send_text("bye");
  });
  CHECK(server.receive(5s).empty());
  CHECK(server.receive_text(5s) == "hello");
  CHECK(server.receive(5s) == large);
  CHECK(server.receive_text(5s) == "bye");
  sender.join();
  CHECK_FALSE(server.try_receive().has_value());
  CHECK_FALSE(server.peer_closed());
  CHECK(contains(client.peer(), "'127.0.0.1' port "));
  CHECK(contains(server.peer(), "'127.0.0.1' port "));
}

TEST_CASE("tcp: both sides swap their connection data") {
  auto [client, server] = channels();
  ConnectionInfo mine = example(), theirs = example();
  theirs.qpn = mrc::Qpn{99};
  ConnectionInfo got;
  std::thread other([&, &server = server] { got = mrc::exchange(server, theirs); });
  CHECK(mrc::exchange(client, mine) == theirs);
  other.join();
  CHECK(got == mine);
}

TEST_CASE("tcp: connect waits for a listener to appear") {
  std::uint16_t port = 0;
  { port = TcpListener(0, "127.0.0.1").port(); }
  std::atomic<bool> late{false};
  std::thread server([&] {
    std::this_thread::sleep_for(300ms);
    late = true;
    TcpListener listener(port, "127.0.0.1");
    auto channel = listener.accept(5s);
    channel.send_text("here");
  });
  auto client = TcpChannel::connect("127.0.0.1", port, 5s);
  CHECK(late);
  CHECK(client.receive_text(5s) == "here");
  server.join();
}

TEST_CASE("tcp: errors name host, port, cause and remedy") {
  std::uint16_t port = 0;
  { port = TcpListener(0, "127.0.0.1").port(); }
  const auto refused = thrown_by([&] { (void)TcpChannel::connect("127.0.0.1", port, 200ms); });
  CHECK(refused.code() == std::errc::connection_refused);
  CHECK(contains(refused.what(), "'127.0.0.1' port " + std::to_string(port)));
  CHECK(contains(refused.what(), "tried for 200 ms (is the server running there?)"));

  const auto unknown = thrown_by([] { (void)TcpChannel::connect("no.such.host.invalid", 1, 1s); });
  CHECK(contains(unknown.what(), "'no.such.host.invalid' port 1"));

  TcpListener listener(0, "127.0.0.1");
  const auto in_use = thrown_by([&] { TcpListener(listener.port(), "127.0.0.1"); });
  CHECK(in_use.code() == std::errc::address_in_use);
  CHECK(contains(in_use.what(), std::to_string(listener.port())));
  CHECK(contains(in_use.what(), "choose another port"));

  const auto foreign = thrown_by([] { TcpListener(0, "192.0.2.1"); });
  CHECK(foreign.code() == std::errc::address_not_available);
  CHECK(contains(foreign.what(), "'192.0.2.1'"));

  const auto idle = thrown_by([&] { (void)listener.accept(50ms); });
  CHECK(idle.code() == mrc::Errc::timed_out);
  CHECK(contains(idle.what(), "port " + std::to_string(listener.port())));
}

TEST_CASE("tcp: the default listener takes IPv4 and, where there is any, IPv6") {
  TcpListener listener(0);
  auto v4 = TcpChannel::connect("127.0.0.1", listener.port(), 5s);
  CHECK(listener.accept(5s).fd() >= 0);
  const bool has_v6 = [] {
    try {
      TcpListener(0, "::1");
      return true;
    } catch (const mrc::Error&) {
      return false;
    }
  }();
  if (!has_v6) {
    MESSAGE("no IPv6 loopback on this machine; only IPv4 was tried");
    return;
  }
  auto v6 = TcpChannel::connect("::1", listener.port(), 5s);
  CHECK(listener.accept(5s).fd() >= 0);
}

TEST_CASE("tcp: receive times out, and goes on where it was") {
  auto [client, server] = channels();
  const auto error = thrown_by([&server = server] { (void)server.receive(50ms); });
  CHECK(error.code() == mrc::Errc::timed_out);
  CHECK(contains(error.what(), "for 50 ms"));
  // Half a frame, a timeout, the other half.
  const Blob first{0, 0, 0, 4, 'a', 'b'}, second{'c', 'd'};
  CHECK(::send(client.fd(), first.data(), first.size(), 0) == 6);
  CHECK(thrown_by([&server = server] { (void)server.receive(50ms); }).code() ==
        mrc::Errc::timed_out);
  CHECK(::send(client.fd(), second.data(), second.size(), 0) == 2);
  CHECK(server.receive_text(5s) == "abcd");
}

TEST_CASE("tcp: a peer that closes is noticed") {
  auto [client, server] = channels();
  client.send_text("last words");
  client.close();
  CHECK(server.receive_text(5s) == "last words");
  const auto error = thrown_by([&server = server] { (void)server.receive(5s); });
  CHECK(error.code() == std::errc::connection_reset);
  CHECK(contains(error.what(), "closed the connection"));
  CHECK(server.peer_closed());
  // Sending to it ends in an error, not in SIGPIPE.
  const auto broken = thrown_by([&server = server] {
    for (int i = 0; i < 100; ++i) {
      server.send(Blob(65536));
      std::this_thread::sleep_for(1ms);
    }
  });
  CHECK((broken.code() == std::errc::broken_pipe || broken.code() == std::errc::connection_reset));
}

TEST_CASE("tcp: absurd lengths are refused on both sides") {
  auto [client, server] = channels();
  const Blob head{0xFF, 0xFF, 0xFF, 0xFF};
  CHECK(::send(client.fd(), head.data(), head.size(), 0) == 4);
  const auto error = thrown_by([&server = server] { (void)server.receive(5s); });
  CHECK(error.code() == mrc::Errc::bad_message);
  CHECK(contains(error.what(), "4294967295"));
  const Blob large((16 << 20) + 1);
  CHECK(thrown_by([&, &client = client] { client.send(large); }).code() == mrc::Errc::too_long);
}

TEST_CASE("tcp: a peer that does not read can't block the sender for ever") {
  auto [client, server] = channels();
  const Blob large(16 << 20);
  const auto error = thrown_by([&, &client = client] {
    client.send(large, 100ms);
    client.send(large, 100ms);
  });
  CHECK(error.code() == mrc::Errc::timed_out);
  CHECK(contains(error.what(), "to read"));
  // The frame was cut off, so there is no going on.
  CHECK(thrown_by([&client = client] { client.send_text("more"); }).code() ==
        std::errc::broken_pipe);
}

TEST_CASE("tcp: the cancel flag ends each kind of wait") {
  std::atomic<bool> cancel{false};
  auto [client, server] = channels(&cancel);
  TcpListener listener(0, "127.0.0.1", &cancel);
  std::uint16_t closed = 0;
  { closed = TcpListener(0, "127.0.0.1").port(); }
  const auto cancelled = [&](auto f) {
    cancel = false;
    std::thread later([&] {
      std::this_thread::sleep_for(100ms);
      cancel = true;
    });
    const auto start = mrc::monotonic_now();
    const auto error = thrown_by(f);
    later.join();
    CHECK(error.code() == std::errc::operation_canceled);
    CHECK(mrc::monotonic_now() - start < Duration{20s});  // on a busy machine, too
  };
  cancelled([&] { (void)listener.accept(); });
  cancelled([&, &server = server] { (void)server.receive(mrc::kForever); });
  cancelled([&] { (void)TcpChannel::connect("127.0.0.1", closed, mrc::kForever, &cancel); });
  cancelled([&, &client = client] {
    const Blob large(16 << 20);
    for (;;) client.send(large, mrc::kForever);
  });
}

TEST_CASE("tcp: signals that mean nothing to the wait don't disturb it") {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};  // without SA_RESTART: system calls end with EINTR
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  auto [client, server] = channels();
  const pthread_t waiting = pthread_self();
  std::thread other([&client = client, waiting] {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(10ms);
      pthread_kill(waiting, SIGUSR1);
    }
    client.send_text("done");
  });
  CHECK(server.receive_text(5s) == "done");
  other.join();
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace

}  // namespace exchange_test
