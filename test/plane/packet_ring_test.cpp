// SPDX-License-Identifier: Apache-2.0
// How packet ports receive: from a ring in memory that the kernel fills, or without one.
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "mrc/core/system.hpp"
#include "plane/packet_rig.hpp"
#include "support/errors.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;
using mrc::test::shell;

namespace packet_ring_test {

/// Slots of the rings below: two blocks of 64 KiB, seven slots of 9,312 bytes in each.
constexpr std::uint32_t kRingSlots = 14;

/// A receiver with the smallest ring there is.
PacketPortOptions small_ring() {
  PacketPortOptions options = packet_options(false);
  options.receive_buffer = 64 << 10;
  return options;
}

/// Sends packets with these numbers, of `payload` bytes.
void send_some(PacketRig& rig, std::uint32_t first, std::uint32_t count, std::size_t payload) {
  for (std::uint32_t i = 0; i < count; ++i)
    rig.add(first + i, payload, static_cast<std::uint16_t>(i % kRoutes));
  CHECK(rig.send() == count);
}

/// Packets of these sizes have arrived, in order and whole.
void check_arrived(const PacketRig& rig, std::span<const std::size_t> sizes) {
  REQUIRE(rig.arrived.size() == sizes.size());
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    CHECK(PacketRig::number_of(rig.arrived[i]) == i);
    CHECK(PacketRig::payload(rig.arrived[i]) == payload_of(i, sizes[i]));
  }
}
void check_arrived(const PacketRig& rig, std::uint32_t count, std::size_t payload) {
  check_arrived(rig, std::vector<std::size_t>(count, payload));
}

#if !defined(MRC_THREAD_SANITIZER)  // which itself maps more than such a process may
/// Takes the right to lock any amount of memory from this thread, and has all mappings made from
/// now on count as locked, of which so many bytes are allowed, until the end of its scope. The
/// right stays away, as long as the thread lives.
class LockedMemory {
 public:
  explicit LockedMemory(rlim_t bytes) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    REQUIRE(syscall(SYS_capget, &header, sets) == 0);
    sets[0].effective &= ~(1u << CAP_IPC_LOCK);
    REQUIRE(syscall(SYS_capset, &header, sets) == 0);
    REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before_) == 0);
    const rlimit less{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_MEMLOCK, &less) == 0);
    // Not mlockall(): sanitizers have one that does nothing.
    REQUIRE(syscall(SYS_mlockall, MCL_FUTURE | MCL_ONFAULT) == 0);
  }
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;
  ~LockedMemory() {
    (void)syscall(SYS_munlockall);
    (void)setrlimit(RLIMIT_MEMLOCK, &before_);
  }

 private:
  rlimit before_{};
};
#endif

TEST_CASE("packet ring: packets come in order, round and round") {
  on_veth([] {
    PacketRig rig(packet_options(true), small_ring(), packet_routes());
    CHECK(rig.receiver.notes().empty());
    CHECK(rig.receiver.capabilities().receive_buffer == std::uint64_t{kRingSlots} * 768);
    constexpr std::uint32_t kEach = 5;
    for (std::uint32_t round = 0; round < 20; ++round) {
      send_some(rig, round * kEach, kEach, 4096);
      rig.receive((round + 1) * kEach);
    }
    check_arrived(rig, 20 * kEach, 4096);
    CHECK(rig.receiver.stats().rx_overrun == 0);
    CHECK(rig.receiver.stats().rx_malformed == 0);
  });
}

TEST_CASE("packet ring: what does not fit is dropped and counted, and the fill is known") {
  on_veth([] {
    PacketPortOptions b = small_ring();
    b.receive_slots = 4;
    PacketRig rig(packet_options(true), b, packet_routes());
    send_some(rig, 0, kRingSlots + 10, 100);
    CHECK(eventually([&] { return rig.receiver.stats().rx_overrun == 10; }));
    RxBurst rx;
    rig.receiver.receive(rig.now(), rx);
    REQUIRE(rx.packets().size() == 4);
    CHECK(rig.receiver.receive_fill() == 128);  // those four are still in their slots
    rx.clear();
    rig.receiver.receive(rig.now(), rx);
    REQUIRE(rx.packets().size() == 4);
    CHECK(rig.receiver.receive_fill() == (kRingSlots - 4) * 128 / kRingSlots);
    rig.receive();
    CHECK(rig.arrived.size() == kRingSlots - 8);
    CHECK(rig.receiver.receive_fill() == 0);
    CHECK(rig.receiver.stats().rx_overrun == 10);
  });
}

TEST_CASE("packet ring: frames that are longer than a slot come in their order, whole") {
  on_veth([] {
    PacketPortOptions b = packet_options(false);
    b.mtu = 1500;  // as if the interface's MTU had grown since
    PacketRig rig(packet_options(true), b, packet_routes());
    const std::array<std::size_t, 6> sizes{100, 4096, 8192, 1000, 0, 4096};
    for (std::uint32_t i = 0; i < sizes.size(); ++i) rig.add(i, sizes[i], 0);
    CHECK(rig.send() == sizes.size());
    rig.receive(sizes.size());
    check_arrived(rig, sizes);
    CHECK(rig.receiver.stats().rx_malformed == 0);
  });
}

TEST_CASE("packet ring: a port sleeps when nothing is there, and wakes up for one packet") {
  on_veth([] {
    PacketRig rig;
    RxBurst rx;
    rig.receiver.receive(rig.now(), rx);
    CHECK(rig.receiver.arm());
    CHECK_FALSE(readable(rig.receiver.poll_fd()));
    send_some(rig, 0, 1, 100);
    pollfd descriptor{rig.receiver.poll_fd(), POLLIN, 0};
    REQUIRE(poll(&descriptor, 1, 1000) == 1);
    rig.receiver.receive(rig.now(), rx);
    CHECK(rx.packets().size() == 1);
    CHECK_FALSE(rig.receiver.arm());  // the packet is still in its slot: look once more
    rx.clear();
    rig.receiver.receive(rig.now(), rx);
    CHECK(rx.packets().empty());
    CHECK(rig.receiver.arm());
    CHECK_FALSE(readable(rig.receiver.poll_fd()));
    // The kernel leaves an error in the socket, which would wake up again and again.
    shell("ip link set pb down");
    CHECK(readable(rig.receiver.poll_fd()));
    rx.clear();
    rig.receiver.receive(rig.now(), rx);
    CHECK(rig.receiver.arm());
    CHECK_FALSE(readable(rig.receiver.poll_fd()));
  });
}

#if !defined(MRC_THREAD_SANITIZER)
TEST_CASE("packet ring: where there can be none, a port works without, and says so") {
  on_veth([] {
    PacketPortOptions b = packet_options(false);
    b.receive_slots = 8;
    const LockedMemory limit(8 << 20);  // the ring would have 16 MiB
    PacketRig rig(packet_options(true), b, packet_routes());
    REQUIRE(rig.receiver.notes().size() == 1);
    CHECK(mrc::test::contains(rig.receiver.notes()[0],
                              "interface pb is read without a receive ring (mmap: "));
    send_some(rig, 0, 30, 4096);
    rig.receive(30);
    check_arrived(rig, 30, 4096);
    CHECK(rig.receiver.arm());
  });
}
#endif

TEST_CASE("packet ring: packets that are too long for slots are read without one") {
  on_veth([] {
    shell("ip link set pa mtu 40000 && ip link set pb mtu 40000");
    PacketPortOptions b = packet_options(false);
    b.mtu = 40'000;
    PacketRig rig(packet_options(true), b, packet_routes());
    REQUIRE(rig.receiver.notes().size() == 1);
    CHECK(mrc::test::contains(rig.receiver.notes()[0], "packets of 40000 bytes are too long"));
    send_some(rig, 0, 30, 4096);
    rig.receive(30);
    check_arrived(rig, 30, 4096);
  });
}

}  // namespace packet_ring_test
