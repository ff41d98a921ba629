// SPDX-License-Identifier: Apache-2.0
// What option icrc=auto changes on the wire: between processes of one host that connect by GID a
// number in two messages and a bit of data packets, and to another host nothing.
#include <doctest/doctest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "device/gid_rig.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/wire/opcode.hpp"
#include "support/network.hpp"

using namespace mrc;
using namespace mrc::test;

namespace two_hosts_test {

/// The MRC packets that pass the interfaces of this network namespace, out and in, over IPv4.
class Capture {
 public:
  Capture() : socket_(::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, htons(ETH_P_ALL))) {
    REQUIRE(socket_.open());
    (void)port::try_option(socket_, SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20);
  }
  struct Seen {
    unsigned data = 0;        ///< data packets, the bursts that the kernel has not cut yet as one
    unsigned heads = 0;       ///< those with a bit of the variant reserved byte
    unsigned infos = 0;       ///< messages with connection data
    unsigned namespaces = 0;  ///< those that name a network namespace
    bool other_variant = false;  ///< other variant reserved bits, or in other packets
  };
  [[nodiscard]] Seen take() {
    Seen seen;
    std::vector<std::uint8_t> frame(1 << 16);
    ssize_t n = 0;
    while ((n = ::recv(socket_.fd(), frame.data(), frame.size(), 0)) > 0) {
      constexpr std::size_t kHeaders = 20 + 8;
      if (n < ssize_t{kHeaders + 12} || frame[0] != 0x45 || frame[9] != 17) continue;
      const Bytes mrc = Bytes(frame).subspan(kHeaders, static_cast<std::size_t>(n) - kHeaders);
      look(mrc, seen);
    }
    return seen;
  }

 private:
  static void look(Bytes packet, Seen& seen) {
    if (!wire::is_known(packet[0])) return;
    const auto opcode = wire::Opcode{packet[0]};
    if (wire::is_data(opcode)) {
      ++seen.data;
      seen.heads += packet[4] == 1;
      seen.other_variant = seen.other_variant || packet[4] > 1;
    } else {
      seen.other_variant = seen.other_variant || packet[4] != 0;
    }
    if (opcode != wire::Opcode::resolution) return;
    const auto has = [&](std::initializer_list<std::uint8_t> bytes) {
      return std::search(packet.begin(), packet.end(), bytes.begin(), bytes.end()) != packet.end();
    };
    if (!has({'O', 'M', 'R', 'C'})) return;
    ++seen.infos;
    seen.namespaces += has({0, 10, 0, 8});
  }

  port::Socket socket_;
};

Config config_at(const char* address, std::uint64_t seed) {
  Config config = test_config(address, seed);
  config.slot = 0;
  return config;
}

void copy_and_check(Side& a, Side& b) {
  REQUIRE(post_copy(a, a.qps[0], b, 0, 300'000) == Errc::ok);
  CHECK(a.await_one().status == WcStatus::success);
  CHECK(std::equal(a.source.begin(), a.source.begin() + 300'000, b.target.begin()));
}

TEST_CASE("same host: its two messages name the network namespace, and data packets have the bit") {
  in_new_network([] {
    shell("ip link set lo up");
    Capture capture;
    GidPair pair;
    copy_and_check(pair.a, pair.b);
    const Capture::Seen seen = capture.take();
    CHECK(seen.data > 0);
    CHECK(seen.heads == seen.data);
    CHECK(seen.infos >= 2);
    CHECK(seen.namespaces == seen.infos);
    CHECK_FALSE(seen.other_variant);
  });
}

TEST_CASE("two hosts: nothing on the wire is different, although one kernel carries every byte") {
  in_new_network([] {
    shell("ip link add p0 type veth peer name p1; ip link set lo up; ip link set p0 up");
    shell("ip addr add 10.9.0.1/24 dev p0");
    std::promise<pid_t> made;
    std::promise<void> moved, end;
    std::promise<Qpn> asking;
    std::promise<Side*> ready;
    // Sockets, and the helper threads of a device, are of the network namespace of their thread.
    std::thread other([&] {
      const bool allowed = ::unshare(CLONE_NEWNET) == 0;
      made.set_value(allowed ? ::gettid() : 0);
      moved.get_future().wait();
      if (!allowed) return;
      shell("ip link set lo up; ip addr add 10.9.0.2/24 dev p1; ip link set p1 up; " +
            await_carrier("p1"));
      Side b(config_at("10.9.0.2", 2));
      QueuePair& qp = b.add_qp();
      ready.set_value(&b);
      const Qpn qpn = asking.get_future().get();
      connect_by_gid(qp, kPsnB, port::parse_ip("10.9.0.1"), qpn, kPsnA);
      end.get_future().wait();
    });
    const pid_t thread = made.get_future().get();
    if (thread != 0) shell("ip link set p1 netns " + std::to_string(thread));
    moved.set_value();
    if (thread != 0) {
      Side& b = *ready.get_future().get();
      Capture capture;
      Side a(config_at("10.9.0.1", 1));
      QueuePair& qp = a.add_qp();
      CHECK(qp.local_info().network_namespace != b.qps[0].local_info().network_namespace);
      connect_by_gid(qp, kPsnA, port::parse_ip("10.9.0.2"), b.qps[0].qpn(), kPsnB);
      asking.set_value(qp.qpn());
      copy_and_check(a, b);
      const Capture::Seen seen = capture.take();
      CHECK(seen.data > 0);
      CHECK(seen.heads == 0);
      CHECK(seen.infos >= 2);
      CHECK(seen.namespaces == 0);
      CHECK_FALSE(seen.other_variant);
      for (const Side* side : {&a, &b})
        for (const PeerReport& peer : side->device.stats().connected) CHECK_FALSE(peer.head_check);
      end.set_value();
    }
    other.join();
  });
}

}  // namespace two_hosts_test
