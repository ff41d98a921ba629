// SPDX-License-Identifier: Apache-2.0
// The control messages of verbs ports, over a network that treats them badly, and from strangers.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <random>

#include "mrc/net/interface.hpp"
#include "mrc/verbs/verbs_device.hpp"
#include "mrc/verbs/verbs_port.hpp"
#include "verbs_port_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace control_test {

using port::VerbsMessage;
using port::VerbsMessageType;
using Datagram = std::vector<std::uint8_t>;

/// Takes control messages for a port, at a UDP port of its own, and passes on what it likes.
class Relay {
 public:
  struct Manners {
    double loss = 0, duplicate = 0, swap = 0, damage = 0;
    bool no_answers = false;  ///< to questions for keys
  };
  explicit Relay(const port::PeerAddress& to)
      : to_(to), socket_(port::make_udp_socket({to.ip, {}})) {
    const port::SocketAddress any_port(to.ip, 0, 0);
    REQUIRE(::bind(socket_.fd(), &any_port.any, any_port.length) == 0);
    thread_ = std::thread([this] { run(); });
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  [[nodiscard]] port::PeerAddress address() const { return {to_.ip, port::bound_port(socket_)}; }
  void set(const Manners& manners) {
    const std::lock_guard lock(mutex_);
    manners_ = manners;
  }
  /// What has come so far.
  [[nodiscard]] std::vector<VerbsMessage> messages() const {
    const std::lock_guard lock(mutex_);
    std::vector<VerbsMessage> all;
    for (const Datagram& d : seen_)
      if (auto message = port::decode_verbs_message(d)) all.push_back(std::move(*message));
    return all;
  }
  [[nodiscard]] std::vector<Datagram> datagrams() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  /// To the port, as if it had come.
  void send(const Datagram& datagram) const {
    const port::SocketAddress to(to_.ip, to_.udp_port, 0);
    (void)::sendto(socket_.fd(), datagram.data(), datagram.size(), MSG_NOSIGNAL, &to.any,
                   to.length);
  }

 private:
  void run() {
    std::mt19937 random{7};
    Datagram kept;
    while (!stop_) {
      pollfd fd{socket_.fd(), POLLIN, 0};
      (void)::poll(&fd, 1, 10);
      Datagram datagram(2048);
      const ssize_t n = ::recv(socket_.fd(), datagram.data(), datagram.size(), MSG_DONTWAIT);
      if (n < 0) continue;
      datagram.resize(static_cast<std::size_t>(n));
      const std::lock_guard lock(mutex_);
      seen_.push_back(datagram);
      const auto chance = [&](double share) {
        return std::uniform_real_distribution<>()(random) < share;
      };
      const auto message = port::decode_verbs_message(datagram);
      if (manners_.no_answers && message && message->type == VerbsMessageType::key_answer) continue;
      if (chance(manners_.loss)) continue;
      if (chance(manners_.swap) && kept.empty()) {
        kept = datagram;  // until another one has overtaken it
        continue;
      }
      if (chance(manners_.damage)) {
        Datagram damaged = datagram;
        // Not the tokens and what they cover: UDP's checksum keeps damage from a port; what is cut,
        // or of another kind, is not.
        damaged.resize(random() % damaged.size());
        send(damaged);
        damaged = datagram;
        damaged[random() % 8] ^= static_cast<std::uint8_t>(1 + random() % 255);
        send(damaged);
      }
      send(datagram);
      if (chance(manners_.duplicate)) send(datagram);
      if (!kept.empty()) send(std::exchange(kept, {}));
    }
  }

  port::PeerAddress to_;
  port::Socket socket_;
  mutable std::mutex mutex_;
  Manners manners_;
  std::vector<Datagram> seen_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Two sides whose control messages go through relays.
struct Relayed {
  explicit Relayed(const Relay::Manners& manners = {})
      : a(rdma_config(0, true)),
        b(rdma_config(1, true)),
        a_memory(a.device.register_memory(std::span(a.target), RdmaPair::kPlaceable)),
        b_memory(b.device.register_memory(std::span(b.target), RdmaPair::kPlaceable)) {
    ConnectionInfo info_a = a.add_qp().local_info(), info_b = b.add_qp().local_info();
    to_a = std::make_unique<Relay>(info_a.planes[0]);
    to_b = std::make_unique<Relay>(info_b.planes[0]);
    to_a->set(manners);
    to_b->set(manners);
    token_a = port::decode_verbs_contact(info_a.port_data[0]).token;
    token_b = port::decode_verbs_contact(info_b.port_data[0]).token;
    info_a.planes[0] = to_a->address();
    info_b.planes[0] = to_b->address();
    a.qps[0].connect(info_b);
    b.qps[0].connect(info_a);
  }
  void write(std::size_t at, const MemoryRegion& memory, std::size_t in_memory, std::size_t bytes) {
    REQUIRE(post_write(a, at, bytes, memory, in_memory) == Errc::ok);
    const Completion done = a.await_one();
    INFO(a.qps[0].error_text());
    REQUIRE(done.status == WcStatus::success);
  }
  [[nodiscard]] bool places() {
    const auto before = RdmaPair::port_of(b).rx_placed;
    return eventually([&] {
      write(0, b_memory, 0, 64 << 10);
      return RdmaPair::port_of(b).rx_placed > before;
    });
  }

  Side a, b;
  MemoryRegion a_memory, b_memory;
  std::unique_ptr<Relay> to_a, to_b;
  std::uint64_t token_a = 0, token_b = 0;
};

TEST_CASE("verbs ports: control messages are lost, duplicated, swapped and damaged") {
  const RdmaNetwork network;
  Relayed pair({.loss = 0.4, .duplicate = 0.4, .swap = 0.3, .damage = 0.3});
  REQUIRE(pair.places());
  // States that change all the time.
  for (int i = 0; i < 3; ++i) {
    fake_nic::set_gids("nic1", {gid("fe80::9")});
    REQUIRE(eventually([&] { return !plane_is_up(pair.b); }));
    fake_nic::set_gids("nic1", {gid("fe80::9"), gid("fe80::8"), gid("127.0.0.12")});
    REQUIRE(pair.places());
  }
  CHECK(RdmaPair::port_of(pair.b).peers_refused == 0);
  CHECK(RdmaPair::port_of(pair.b).late_writes == 0);
}

TEST_CASE("verbs ports: old control messages, and forged ones, change nothing") {
  const RdmaNetwork network;
  Relayed pair;
  REQUIRE(pair.places());
  const auto calm = [&] {
    const auto before = RdmaPair::port_of(pair.b);
    REQUIRE(pair.places());
    CHECK(RdmaPair::port_of(pair.b).peers_refused == before.peers_refused);
    CHECK(RdmaPair::port_of(pair.b).path_resets == before.path_resets);
  };
  // The old ones name queue pairs that are gone.
  fake_nic::set_gids("nic1", {gid("127.0.0.12")});
  const int qps = 2 * 3 * 4;  // by UD, and by UC in both directions, of 4 paths
  REQUIRE(eventually([&] {
    return fake_nic::counts().contexts == 2 && pair.places() && fake_nic::counts().qps == qps;
  }));
  // All of them again, backwards.
  for (const auto* relay : {pair.to_a.get(), pair.to_b.get()}) {
    auto all = relay->datagrams();
    std::reverse(all.begin(), all.end());
    for (const Datagram& datagram : all) relay->send(datagram);
    calm();
  }
  // States of somebody who does not know both tokens.
  VerbsMessage state;
  for (const VerbsMessage& message : pair.to_b->messages())
    if (message.type == VerbsMessageType::state) state = message;
  REQUIRE(state.state.version != 0);
  for (int i = 0; i < 64; ++i) {
    VerbsMessage forged = state;
    (i % 2 == 0 ? forged.to : forged.from) ^= std::uint64_t{1} << i;
    forged.state.version += 1000;
    forged.state.refused = true;
    for (auto& path : forged.state.paths) path.uc = path.ud = 0x11;
    pair.to_b->send(port::encode(forged));
  }
  std::mt19937 random{3};
  for (int i = 0; i < 200; ++i) {
    Datagram noise(random() % 1000);
    for (auto& byte : noise) byte = static_cast<std::uint8_t>(random());
    pair.to_b->send(noise);
  }
  calm();
  CHECK(fake_nic::counts().qps == qps);
}

TEST_CASE("verbs ports: keys are told to peers that know them, and to nobody who tries them all") {
  const RdmaNetwork network;
  Relayed pair;
  REQUIRE(pair.places());
  const auto ask = [&](std::uint32_t key) {
    VerbsMessage query;
    query.type = VerbsMessageType::key_query;
    query.to = pair.token_b;
    query.from = pair.token_a;
    query.key = key;
    pair.to_b->send(port::encode(query));
  };
  // Answers go to the peer, whoever has asked.
  const auto answers = [&](std::uint32_t key, bool good) {
    std::size_t n = 0;
    for (const VerbsMessage& m : pair.to_a->messages())
      n += m.type == VerbsMessageType::key_answer && m.key == key && (m.device_key != 0) == good;
    return n;
  };
  const std::uint32_t placeable = pair.b_memory.remote(0).rkey;
  const std::uint32_t strict = pair.b.target_region.remote(0).rkey;
  const std::size_t before = answers(placeable, true);
  ask(placeable);
  ask(strict);
  ask(placeable ^ 0x5A5A5A);
  CHECK(eventually([&] { return answers(placeable, true) > before; }));
  CHECK(eventually([&] { return answers(strict, false) > 0; }));
  CHECK(eventually([&] { return answers(placeable ^ 0x5A5A5A, false) > 0; }));
  CHECK(answers(strict, true) == 0);
  CHECK(answers(placeable ^ 0x5A5A5A, true) == 0);
  // Wrong ones are answered a limited number of times; right ones always. Asked in portions that
  // the socket holds.
  std::uint32_t wrong = 0x7000'0000;
  for (unsigned i = 0; i < 2 * port::VerbsSession::kMaxWrongKeys; ++i) {
    ask(wrong++);
    if (i % 64 != 63) continue;
    const std::size_t so_far = answers(placeable, true);
    ask(placeable);
    REQUIRE(eventually([&] { return answers(placeable, true) > so_far; }));
  }
  std::size_t answered = 0;
  for (const VerbsMessage& m : pair.to_a->messages())
    answered += m.type == VerbsMessageType::key_answer && m.key >= 0x7000'0000 && m.key < wrong;
  CHECK(answered <= port::VerbsSession::kMaxWrongKeys);
  CHECK(answered >= port::VerbsSession::kMaxWrongKeys / 2);
  REQUIRE(pair.places());
}

TEST_CASE("verbs ports: more keys than are asked for at a time, whose answers are lost at first") {
  const RdmaNetwork network;
  Relayed pair;
  REQUIRE(pair.places());
  pair.to_a->set({.no_answers = true});
  constexpr std::size_t kRegions = 100, kBytes = 8192;
  std::vector<MemoryRegion> regions;
  for (std::size_t i = 0; i < kRegions; ++i)
    regions.push_back(pair.b.device.register_memory(
        std::span(pair.b.target).subspan(i * kBytes, kBytes), RdmaPair::kPlaceable));
  const auto placed = RdmaPair::port_of(pair.b).rx_placed;
  for (std::size_t i = 0; i < kRegions; ++i) pair.write(i * kBytes, regions[i], 0, kBytes);
  CHECK(std::equal(pair.a.source.begin(), pair.a.source.begin() + kRegions * kBytes,
                   pair.b.target.begin()));
  CHECK(RdmaPair::port_of(pair.b).rx_placed == placed);  // nobody knew a key
  pair.to_a->set({});
  for (const MemoryRegion& region : regions)
    REQUIRE(eventually([&] {
      const auto before = RdmaPair::port_of(pair.b).rx_placed;
      pair.write(0, region, 0, kBytes);
      return RdmaPair::port_of(pair.b).rx_placed > before;
    }));
}

}  // namespace control_test
