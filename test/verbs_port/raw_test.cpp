// SPDX-License-Identifier: Apache-2.0
// Raw-packet mode: the frames of packet ports through raw-packet queue pairs. The stand-in's NICs
// are those of a veth pair, so that packet sockets, and the kernel, see the same frames.
#include <doctest/doctest.h>

#include <cerrno>
#include <set>

#include "device/fabric_rig.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "plane/packet_rig.hpp"
#include "support/own_folder.hpp"
#include "verbs_port_rig.hpp"

using namespace mrc;
using namespace mrc::port::test;
using mrc::test::contains;
using mrc::test::error_of;
using mrc::test::eventually;
using mrc::test::in_new_network;
using mrc::test::shell;
using mrc::test::thrown_by;
namespace fake_nic = mrc::test::fake_nic;

namespace raw_test {

/// NICs nic_pa and nic_pb behind the ends of a veth pair.
struct RawNetwork : mrc::test::FakeNics {
  RawNetwork() {
    make_veth();
    for (const char* name : {"pa", "pb"}) fake_nic::add(nic(name));
  }
  [[nodiscard]] static fake_nic::Nic nic(const std::string& interface) {
    fake_nic::Nic nic;
    nic.name = "nic_" + interface;
    nic.interface = interface;
    return nic;
  }
};

port::PacketPort raw_port(const port::PacketPortOptions& o) {
  port::VerbsFramesOptions frames;
  frames.device = {"nic_" + o.interface, 1, {}};
  frames.encapsulated = o.encapsulation != wire::Encapsulation::none;
  frames.receive_bytes = 1 << 20;
  return {o, port::open_verbs_frames(frames)};
}
port::PacketPort port_of(bool raw, const port::PacketPortOptions& o) {
  return raw ? raw_port(o) : port::PacketPort(o);
}

/// The frames that come to an interface.
class Capture {
 public:
  explicit Capture(const char* interface) : socket_(port::open_packet_socket()) {
    REQUIRE(port::bind_packet_socket(socket_, port::look_up_interface(socket_, interface).index,
                                     0x86DD));
  }
  std::multiset<std::vector<std::uint8_t>> take(std::size_t count) {
    std::multiset<std::vector<std::uint8_t>> frames;
    std::vector<std::uint8_t> frame(65536);
    (void)eventually([&] {
      const ssize_t n = ::recv(socket_.fd(), frame.data(), frame.size(), MSG_DONTWAIT);
      // Not what the kernel says by itself: neighbours, multicast groups.
      if (n > 60 && (frame[20] == 41 || frame[20] == 43))
        frames.emplace(frame.begin(), frame.begin() + n);
      return frames.size() == count;
    });
    return frames;
  }

 private:
  port::Socket socket_;
};

TEST_CASE("raw packets: the frames are those of packet sockets, byte for byte") {
  in_new_network([] {
    const RawNetwork network;
    Capture capture("pb");
    for (const bool srh : {false, true}) {
      std::multiset<std::vector<std::uint8_t>> frames[2];
      for (const bool raw : {false, true}) {
        port::PacketPortOptions a = packet_options(true);
        if (srh) a.encapsulation = wire::Encapsulation::srh;
        PacketRig rig(port_of(raw, a), port::PacketPort(packet_options(false)), packet_routes(srh));
        for (std::uint32_t i = 0; i < 40; ++i)
          rig.add(i, i * 53, static_cast<std::uint16_t>(i % kRoutes));
        CHECK(rig.send() == 40);
        frames[raw ? 1 : 0] = capture.take(40);
      }
      CHECK(frames[0].size() == 40);
      CHECK((frames[0] == frames[1]));
    }
  });
}

TEST_CASE("raw packets: packets arrive whole, also from and at packet sockets") {
  in_new_network([] {
    const RawNetwork network;
    for (const bool from_raw : {false, true})
      for (const bool to_raw : {false, true})
        for (const auto encapsulation :
             {wire::Encapsulation::none, wire::Encapsulation::ipv6_in_ipv6,
              wire::Encapsulation::srh}) {
          CAPTURE(from_raw);
          CAPTURE(to_raw);
          port::PacketPortOptions a = packet_options(true), b = packet_options(false);
          a.encapsulation = b.encapsulation = encapsulation;
          PacketRig rig(port_of(from_raw, a), port_of(to_raw, b),
                        encapsulation == wire::Encapsulation::none
                            ? std::vector<port::PacketRoute>{}
                            : packet_routes(encapsulation == wire::Encapsulation::srh));
          const std::array<std::size_t, 5> sizes{0, 1, 4096, 8192, 63};
          for (std::uint32_t i = 0; i < sizes.size(); ++i)
            rig.add(i, sizes[i], static_cast<std::uint16_t>(i % kRoutes));
          CHECK(rig.send() == sizes.size());
          rig.PacketRig::receive(sizes.size());
          REQUIRE(rig.arrived.size() == sizes.size());
          for (std::uint32_t i = 0; i < sizes.size(); ++i) {
            CHECK(PacketRig::number_of(rig.arrived[i]) == i);
            CHECK(rig.payload(rig.arrived[i]) == payload_of(i, sizes[i]));
            CHECK(rig.arrived[i].facts.entropy == Ev{0x50000u + i % kRoutes});
          }
          CHECK(rig.sender.stats().tx_packets == sizes.size());
        }
  });
}

TEST_CASE("raw packets: a ring that is full takes no more, and takes more when it is not") {
  in_new_network([] {
    const RawNetwork network;
    fake_nic::Nic slow = RawNetwork::nic("pa");
    slow.send_delay = std::chrono::milliseconds(200);
    fake_nic::add(slow);
    port::PacketPortOptions b = packet_options(false);
    b.receive_buffer = 16 << 20;  // room for all
    PacketRig rig(raw_port(packet_options(true)), port::PacketPort(b), packet_routes());
    std::uint32_t sent = 0, offered = 0, next = 0;
    while (rig.sender.stats().tx_busy == 0 && offered < 100'000) {
      for (int i = 0; i < 40; ++i) rig.add(next++, 500, 0);
      offered += 40;
      sent += rig.send();
      rig.PortRig::receive();
    }
    CHECK(rig.sender.stats().tx_busy > 0);
    CHECK(rig.sender.stats().tx_errors == 0);
    CHECK(sent < offered);
    CHECK(eventually([&] {
      rig.PortRig::receive();
      return rig.arrived.size() == sent;
    }));
    // Its completions have been taken meanwhile.
    rig.add(next++, 500, 0);
    CHECK(rig.send() == 1);
  });
}

TEST_CASE("raw packets: frames without a receive buffer are lost, and no others") {
  in_new_network([] {
    const RawNetwork network;
    port::VerbsFramesOptions frames;
    frames.device = {"nic_pb", 1, {}};
    PacketRig rig(port::PacketPort(packet_options(true)),
                  {packet_options(false), port::open_verbs_frames(frames)}, packet_routes());
    for (std::uint32_t i = 0; i < 200; ++i) rig.add(i, 100, 0);
    CHECK(rig.send() == 200);
    REQUIRE(eventually([] { return fake_nic::counts().without_receive == 200 - 64; }));
    rig.PacketRig::receive(64);
    CHECK(rig.arrived.size() == 64);
    rig.add(200, 100, 0);
    CHECK(rig.send() == 1);
    rig.PacketRig::receive(65);
    CHECK(rig.arrived.size() == 65);
  });
}

TEST_CASE("raw packets: a port sleeps until a frame comes") {
  in_new_network([] {
    const RawNetwork network;
    PacketRig rig(port::PacketPort(packet_options(true)), raw_port(packet_options(false)),
                  packet_routes());
    const auto readable = [&](int ms) {
      pollfd fd{rig.receiver.poll_fd(), POLLIN, 0};
      return ::poll(&fd, 1, ms) == 1;
    };
    CHECK(rig.receiver.arm());
    CHECK_FALSE(readable(0));
    rig.add(1, 100, 0);
    CHECK(rig.send() == 1);
    CHECK(readable(10'000));
    CHECK_FALSE(rig.receiver.arm());  // it has come
    rig.PacketRig::receive(1);
    CHECK(rig.arrived.size() == 1);
    CHECK(rig.receiver.arm());
  });
}

TEST_CASE(
    "raw packets: a queue pair that fails, a device that is removed, an interface that goes") {
  in_new_network([] {
    const RawNetwork network;
    PacketRig rig(raw_port(packet_options(true)), raw_port(packet_options(false)), packet_routes());
    std::uint32_t next = 0;
    const auto try_one = [&] {
      rig.add(next++, 300, 0);
      (void)rig.send();
      rig.PortRig::receive();
    };
    /// Packets arrive again, sooner or later.
    const auto goes_on = [&] {
      return eventually([&] {
        const std::size_t before = rig.arrived.size();
        try_one();
        return rig.arrived.size() > before;
      });
    };
    CHECK(goes_on());
    fake_nic::fail("post_send", 0, ENOMEM);
    CHECK(goes_on());
    for (const char* name : {"nic_pa", "nic_pb"}) {
      CAPTURE(name);
      fake_nic::remove(name);
      const bool sends = name[5] == 'a';
      // It is closed, so that the removal can end.
      REQUIRE(eventually([&] {
        try_one();
        return !(sends ? rig.sender.link_up() : rig.receiver.link_up());
      }));
      CHECK(fake_nic::counts().contexts == 1);
      fake_nic::add(RawNetwork::nic(std::string(name).substr(4)));
      CHECK(goes_on());
      fake_nic::remove(name);  // at once: it has the name all the time
      fake_nic::add(RawNetwork::nic(std::string(name).substr(4)));
      CHECK(goes_on());
    }
    shell("ip link set pa down");
    REQUIRE(eventually([&] {
      try_one();
      return !rig.sender.link_up();
    }));
    shell("ip link set pa up");
    CHECK(goes_on());
  });
}

TEST_CASE("raw packets: what a device cannot do is said when it is opened") {
  in_new_network([] {
    const RawNetwork network;
    fake_nic::Nic plain = RawNetwork::nic("pa");
    plain.name = "rxe9";
    plain.interface.clear();
    fake_nic::add(plain);
    const auto refusal = [](const std::string& device, std::uint8_t number = 1) {
      port::VerbsFramesOptions frames;
      frames.device = {device, number, {}};
      return error_of([&] { (void)port::open_verbs_frames(frames); });
    };
    CHECK(contains(refusal("rxe9"), "rxe9 has no raw-packet queue pairs"));
    CHECK(contains(refusal("rxe9"), "unset option verbs"));
    CHECK(contains(refusal("nic_pa", 2), "no port 2"));
    CHECK(contains(refusal("nobody"), "nic_pa, nic_pb, rxe9"));
    fake_nic::fail("ibv_create_qp", 0, EPERM);
    CHECK(contains(refusal("nic_pa"), "cap_net_raw"));
    fake_nic::fail("ibv_reg_mr", 0, ENOMEM);
    CHECK(contains(refusal("nic_pa"), "RLIMIT_MEMLOCK"));
    fake_nic::fail("ibv_create_flow", 0, ENOMEM);
    CHECK(contains(refusal("nic_pa"), "rule"));
  });
}

/// A host of kNeighbours, whose NICs are those of these interfaces.
Config raw_host(const mrc::test::DescriptionFile& file, const char* host, const char* devices,
                const mrc::test::OwnFolder& locks) {
  Config config = file.config();
  config.host = host;
  config.verbs = devices;
  config.log = LogLevel::off;
  config.lock_folder = locks.path;
  return config;
}

TEST_CASE("raw packets: two devices in a fabric") {
  in_new_network([] {
    mrc::test::make_neighbours();
    const mrc::test::FakeNics nics;
    for (const char* name : {"a0", "a1", "b0", "b1"}) fake_nic::add(RawNetwork::nic(name));
    const mrc::test::DescriptionFile file(mrc::test::kNeighbours);
    const mrc::test::OwnFolder locks_a, locks_b;  // as on two hosts
    const auto refusal = [&](const char* devices, int slot = -1) {
      Config config = raw_host(file, "h0", devices, locks_a);
      if (slot >= 0) config.slot = slot;
      return error_of([&] { const Device device(config); });
    };
    CHECK(contains(refusal("nic_a0"), "verbs names 1 RDMA devices"));
    CHECK(contains(refusal("nic_a0"), "2 planes"));
    CHECK(contains(refusal("all"), "interface a0 belongs to no RDMA device"));
    CHECK(contains(refusal("nic_a0,nic_a1", 3), "only one process"));
    mrc::test::Pair pair(raw_host(file, "h0", "nic_a0,nic_a1", locks_a),
                         raw_host(file, "h1", "nic_b0,nic_b1", locks_b));
    CHECK(contains(refusal("nic_a0,nic_a1"), "slot 0"));  // a second process
    pair.copy_all();
    fake_nic::set_weather(fake_nic::Carrier::raw, {.loss = 0.03});
    pair.copy_all(5000);
    fake_nic::remove("nic_a0");
    REQUIRE(eventually([&] { return !plane_is_up(pair.a); }));
    pair.copy_all();
    fake_nic::add(RawNetwork::nic("a0"));
    REQUIRE(eventually([&] { return plane_is_up(pair.a); }));
    pair.copy_all();
  });
}

TEST_CASE("raw packets: the RDMA device of an interface") {
  const mrc::test::RdmaFolder folder;
  folder.add("mlx5_0", 1, "eth4");
  folder.add("mlx5_1", 1, "eth5");
  folder.add("mlx5_1", 2, "eth6");
  CHECK(port::verbs_port_of_interface("eth6", folder.path) ==
        port::VerbsPlaneName{"mlx5_1", 2, {}});
  CHECK(port::verbs_port_of_interface("eth4", folder.path) ==
        port::VerbsPlaneName{"mlx5_0", 1, {}});
  CHECK(thrown_by([&] { (void)port::verbs_port_of_interface("eth9", folder.path); }).code() ==
        Errc::not_found);
}

}  // namespace raw_test
