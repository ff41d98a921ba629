// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/wire/wire_socket.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace mrc::tools {
namespace {

Time as_time(const timespec& t) {
  return Time{std::chrono::seconds(t.tv_sec) + Duration{t.tv_nsec}};
}

/// The kernel stamps frames by the wall clock, which may be set meanwhile.
Time wall_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return as_time(now);
}

/// Age of the stamp; 0 if there is none.
Duration age(msghdr& message, Time now) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp;
    std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
    return std::max(now - as_time(stamp), Duration{0});
  }
  return Duration{0};
}

}  // namespace

WireSocket::WireSocket()
    : socket_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))),
      frames_(new std::byte[kBatch * kFrame]) {
  if (!socket_.open()) throw_errno("can't make a packet socket");
  const auto set = [&](int level, int option, int value) {
    return setsockopt(socket_.fd(), level, option, &value, sizeof value) == 0;
  };
  if (!set(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) || !set(SOL_SOCKET, SO_TIMESTAMPNS, 1))
    throw_errno("can't set up a packet socket");
  (void)set(SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20);
  (void)set(SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20);
  (void)set(SOL_PACKET, PACKET_QDISC_BYPASS, 1);
}

std::span<const WireSocket::Arrival> WireSocket::receive() {
  for (std::size_t i = 0; i < kBatch; ++i) {
    Slot& slot = slots_[i];
    slot.piece = {&frames_[i * kFrame], kFrame};
    messages_[i].msg_hdr = {
        &slot.address, sizeof slot.address, &slot.piece, 1, &slot.control, slot.control.size(), 0};
  }
  const Time before = monotonic_now();
  const int n = recvmmsg(socket_.fd(), messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
  const auto count = static_cast<std::size_t>(std::max(n, 0));
  const Time wall = wall_now(), now = monotonic_now();
  for (std::size_t i = 0; i < count; ++i)
    arrivals_[i] = {slots_[i].address.sll_ifindex,
                    std::max(now - age(messages_[i].msg_hdr, wall), emptied_),
                    {&frames_[i * kFrame], messages_[i].msg_len}};
  if (count < kBatch) emptied_ = before;
  return {arrivals_.data(), count};
}

std::size_t WireSocket::send(std::span<const Departure> frames) {
  const std::size_t count = std::min(frames.size(), kBatch);
  for (std::size_t i = 0; i < count; ++i) {
    Slot& slot = slots_[i];
    slot.address = {};
    slot.address.sll_family = AF_PACKET;
    slot.address.sll_ifindex = frames[i].interface_index;
    slot.piece = {frames[i].bytes.data(), frames[i].bytes.size()};
    messages_[i].msg_hdr = {&slot.address, sizeof slot.address, &slot.piece, 1, nullptr, 0, 0};
  }
  const int n = sendmmsg(socket_.fd(), messages_.data(), static_cast<unsigned>(count), 0);
  return static_cast<std::size_t>(std::max(n, 0));
}

std::uint64_t WireSocket::take_missed() {
  tpacket_stats statistics{};
  socklen_t length = sizeof statistics;
  if (getsockopt(socket_.fd(), SOL_PACKET, PACKET_STATISTICS, &statistics, &length) != 0) return 0;
  return statistics.tp_drops;
}

}  // namespace mrc::tools
