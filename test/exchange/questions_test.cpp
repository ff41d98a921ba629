// SPDX-License-Identifier: Apache-2.0
// Questions of other devices about queue pairs of this one (resolution): floods of one kind leave
// the other kinds their answers.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "device/gid_rig.hpp"
#include "mrc/resolve/packets.hpp"

using namespace mrc;
using namespace mrc::test;

namespace questions_test {

/// A host of the loopback without a device of its own: it only asks.
class Host {
 public:
  /// 127.0.0.`number`
  explicit Host(unsigned number)
      : ip_(port::make_v4(127, 0, 0, static_cast<std::uint8_t>(number))),
        fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in own = socket_address({ip_, 0});
    socklen_t length = sizeof own;
    REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&own), length) == 0);
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &length) == 0);
    port_ = ntohs(own.sin_port);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() { ::close(fd_); }

  /// A hello to that device: queue pair `asker` of this host would connect to `asked`.
  void ask(const port::PeerAddress& device, Qpn asked, Qpn asker) const {
    wire::ResolutionPacket hello{};
    hello.bth = wire::Bth::make(wire::Opcode::resolution, asked, Psn{});
    hello.header.magic = wire::ResolutionHeader::kMagic;
    hello.header.version = wire::ResolutionHeader::kVersion;
    hello.header.step = static_cast<std::uint8_t>(wire::ResolutionStep::hello);
    hello.header.nonce_a = 1;
    hello.header.qpn_a = value(asker);
    hello.header.qpn_b = value(asked);
    hello.header.address = ip_;
    hello.header.udp_port = port_;
    std::array<std::uint8_t, sizeof hello + 4> bytes{};  // no iCRC
    std::memcpy(bytes.data(), &hello, sizeof hello);
    const sockaddr_in to = socket_address(device);
    REQUIRE(::sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                     sizeof to) == static_cast<ssize_t>(bytes.size()));
  }
  /// Answers that have come since the last call.
  [[nodiscard]] int answers() const {
    std::array<std::uint8_t, 2048> bytes;
    int count = 0;
    while (::recv(fd_, bytes.data(), bytes.size(), 0) > 0) ++count;
    return count;
  }

 private:
  [[nodiscard]] static sockaddr_in socket_address(const port::PeerAddress& address) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(address.udp_port);
    std::memcpy(&out.sin_addr, address.ip.data() + 12, 4);
    return out;
  }

  port::IpAddress ip_;
  int fd_;
  std::uint16_t port_ = 0;
};

/// What somebody asks for.
struct Question {
  Qpn asked, asker;
};

/// A device that is asked, with a queue pair that waits for a peer in the slot of nobody.
struct Asked {
  static constexpr int kFew = 16;     ///< questions at a time, which no buffer is too small for
  static constexpr int kEnough = 48;  ///< many more than a limit that is used up allows meanwhile

  explicit Asked(const port::IpAddress& gid) : side(config(), 4096) {
    for (unsigned i = 0; i < kFew; ++i) strangers.push_back(std::make_unique<Host>(100 + i));
    connect_by_gid(side.add_qp(), kPsnA, gid, kPeer, kPsnB);
    address = port::parse_address(side.device.plane_names()[0]);
  }
  [[nodiscard]] static Config config() {
    Config config = test_config("loopback:3");
    config.icrc = mrc::port::Offload::off;
    config.peer = PeerKind::openmrc;
    return config;
  }

  [[nodiscard]] DatagramQueuePair datagrams() {
    DatagramOptions options;
    options.send_cq = &side.cq;
    return side.device.create_datagram_qp(options);
  }

  /// Asks a few times, each time in another one's name, and waits until that is settled.
  void ask(const std::vector<const Host*>& hosts, const Question& question) {
    const std::uint64_t before = settled();
    for (int i = 0; i < kFew; ++i)
      hosts[static_cast<std::size_t>(i) % hosts.size()]->ask(address, question.asked,
                                                             question.asker);
    REQUIRE(eventually([&] { return settled() == before + kFew; },
                       [&] { (void)side.device.progress(); }));
  }
  /// Asks until not everything is answered. False: this machine is too slow to ask more than is
  /// answered per second, of 20,000 at most.
  [[nodiscard]] bool flood(const std::vector<const Host*>& hosts, const Question& question) {
    const std::uint64_t before = refused(), first = settled();
    const Time start = monotonic_now();
    const auto waited = [&] { return std::chrono::duration<double>(monotonic_now() - start); };
    while (refused() == before && monotonic_now() < start + kPatience) {
      ask(hosts, question);
      const auto asked = static_cast<double>(settled() - first);
      if (waited().count() > 2 && asked / waited().count() < 40'000 && refused() == before) {
        std::puts("[test skipped] this machine asks no more than is answered");
        return false;
      }
    }
    REQUIRE(refused() > before);
    return true;
  }
  /// Each question of that host has its answer.
  void check_answered(const Host& host, const Question& question) {
    (void)host.answers();
    for (int i = 0; i < kEnough; i += kFew) ask({&host}, question);
    CHECK(host.answers() == kEnough);
  }
  [[nodiscard]] std::vector<const Host*> all_strangers() const {
    std::vector<const Host*> all;
    for (const auto& host : strangers) all.push_back(host.get());
    return all;
  }

  [[nodiscard]] std::uint64_t refused() const { return side.device.stats().resolutions_refused; }
  [[nodiscard]] std::uint64_t settled() const {
    const DeviceStats stats = side.device.stats();
    return stats.resolutions_answered + stats.resolutions_refused;
  }
  /// For the queue pair that waits, by the one that it waits for.
  [[nodiscard]] Question wanted() const { return {side.qps[0].qpn(), kPeer}; }

  static constexpr Qpn kPeer{0x050004}, kOther{0x050005};
  Side side;
  std::vector<std::unique_ptr<Host>> strangers;
  port::PeerAddress address;
};

TEST_CASE("questions: floods of one kind leave the other kinds their answers") {
  Asked device(port::parse_ip("127.0.0.9"));
  const Qpn idle = device.side.add_qp().qpn();
  const DatagramQueuePair datagrams = device.datagrams();
  const Host peer(9), stranger(99);
  const std::vector<const Host*> strangers = device.all_strangers();
  const Question wanted = device.wanted(), of_another{wanted.asked, Asked::kOther},
                 for_idle{idle, Asked::kPeer}, for_datagrams{datagrams.qpn(), Asked::kPeer},
                 for_nobody{Qpn{value(idle) + 0x700}, Asked::kPeer};
  const struct {
    std::vector<const Host*> flood;
    Question by;
    const Host& host;
    Question question;  ///< that has its answers all the same
  } cases[] = {
      {strangers, for_nobody, peer, wanted},
      // Together fewer than a host may ask at once.
      {strangers, for_nobody, stranger, wanted},
      {strangers, for_nobody, stranger, of_another},
      {strangers, for_nobody, stranger, for_idle},
      {strangers, for_nobody, stranger, for_datagrams},
      // Only the peer's are wanted.
      {strangers, wanted, peer, wanted},
      {{&peer}, of_another, peer, wanted},
      {{&peer}, for_idle, peer, wanted},
      {{&peer}, for_datagrams, peer, wanted},
  };
  for (const auto& c : cases) {
    CAPTURE(&c - cases);
    if (!device.flood(c.flood, c.by)) return;
    device.check_answered(c.host, c.question);
  }
}

TEST_CASE("questions: the peer may ask from the address of any of its planes") {
  Asked device(port::parse_ip("127.0.0.2"));  // this host's own, so it has these three
  for (const unsigned number : {1, 2, 3}) {
    CAPTURE(number);
    if (!device.flood(device.all_strangers(), device.wanted())) return;
    device.check_answered(Host(number), device.wanted());
  }
}

TEST_CASE("questions: the peer's leave those of others their answers") {
  Asked device(port::parse_ip("127.0.0.9"));
  const Host peer(9), stranger(99);
  if (!device.flood({&peer}, device.wanted())) return;
  device.check_answered(stranger, device.wanted());
}

}  // namespace questions_test
