// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "mrc/net/socket.hpp"
#include "mrc/plane/udp/udp_receive.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// After so long without reading there may be many datagrams.
inline constexpr Duration kReadPause = std::chrono::microseconds(100);

template <class T>
[[nodiscard]] inline T read_as(const std::uint8_t* data) noexcept {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace detail

/// Receives the packets that fault injection lets through, for ReceiveCheck.
struct UdpReceiver::Sink {
  UdpReceiver& receiver;
  RxBurst& rx;
  PortStats& stats;
  [[nodiscard]] bool full() const noexcept { return rx.room() == 0; }
  void deliver(const RawPacket& packet) noexcept { receiver.check_.pass(packet, rx, stats); }
};

UdpReceiver::UdpReceiver(const UdpReceiverOptions& options)
    : options_(options),
      v4_(is_v4(options.local)),
      pool_(std::make_unique_for_overwrite<std::uint8_t[]>(options.slots * kSlotBytes)),
      slots_(options.slots),
      messages_(options.slots),
      check_(options.local, options.icrc) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].vector = {pool_.get() + i * kSlotBytes, kSlotBytes};
    msghdr& m = messages_[i].msg_hdr;
    m.msg_name = &slots_[i].from.any;
    m.msg_iov = &slots_[i].vector;
    m.msg_iovlen = 1;
    m.msg_control = slots_[i].control.data();
    prepare(i);
  }
}

void UdpReceiver::prepare(std::size_t i) noexcept {
  msghdr& m = messages_[i].msg_hdr;
  m.msg_namelen = sizeof(sockaddr_in6);
  m.msg_controllen = slots_[i].control.size();
  m.msg_flags = 0;
}

void UdpReceiver::release(Time now, FaultInjector& faults, RxBurst& rx, PortStats& stats) noexcept {
  if (!faults.active()) [[likely]]
    return;
  Sink sink{*this, rx, stats};
  faults.release(now, sink);
}

bool UdpReceiver::receive(const Socket& socket, std::uint16_t to_port, Time now,
                          FaultInjector& faults, RxBurst& rx, PortStats& stats) noexcept {
  Sink sink{*this, rx, stats};
  if (sink.full()) return true;
  if (!leftover()) {
    if (!read(socket, now, rx.room(), stats)) return false;
    to_port_ = to_port;
  }
  split(now, faults, sink);
  return true;
}

bool UdpReceiver::read(const Socket& socket, Time now, std::size_t room,
                       PortStats& stats) noexcept {
  // As many datagrams as should fit if they hold as many packets as those of the last call. But one
  // while packets come one by one: the kernel would look for a second in vain.
  const std::size_t most = std::clamp<std::size_t>(room / expected_, 1, slots_.size());
  if (now != last_read_) paused_ = now - std::exchange(last_read_, now) > detail::kReadPause;
  const std::size_t wanted = one_by_one_ && count_ == 0 && !paused_ ? 1 : most;
  for (std::size_t i = 0; i < count_; ++i) prepare(i);  // the kernel has written to these
  const int n = uncancelled::recvmmsg(socket.fd(), messages_.data(), static_cast<unsigned>(wanted),
                                      MSG_DONTWAIT);
  next_ = 0;
  count_ = n > 0 ? static_cast<std::size_t>(n) : 0;
  backlogged_ = count_ == most;
  opened_ = false;
  packets_ = 0;
  if (count_ > 0) ++stats.rx_calls;
  return count_ > 0;
}

void UdpReceiver::split(Time now, FaultInjector& faults, Sink& sink) noexcept {
  const bool faulty = faults.active();
  for (; next_ < count_; ++next_, opened_ = false) {
    if (!opened_) open(sink.stats);
    opened_ = true;
    MutableBytes& rest = datagram_.packet.bytes;
    while (!rest.empty()) {
      if (sink.full()) return;
      RawPacket packet = datagram_.packet;
      packet.bytes = rest.first(std::min(rest.size(), datagram_.segment));
      packet.facts.udp_length = static_cast<std::uint32_t>(packet.bytes.size() + sizeof(wire::Udp));
      rest = rest.subspan(packet.bytes.size());
      ++packets_;
      if (faulty) [[unlikely]]
        faults.receive(now, packet, sink);
      else
        sink.deliver(packet);
    }
  }
  expected_ = std::max<std::size_t>(1, (packets_ + count_ - 1) / count_);
  one_by_one_ = packets_ == 1;
}

void UdpReceiver::open(PortStats& stats) noexcept {
  const mmsghdr& message = messages_[next_];
  Slot& slot = slots_[next_];
  datagram_ = {};
  RawPacket& packet = datagram_.packet;
  if (message.msg_len == 0 || (message.msg_hdr.msg_flags & MSG_TRUNC) != 0 || !sender(slot)) {
    ++stats.rx_malformed;
    return;
  }
  packet.bytes = {static_cast<std::uint8_t*>(slot.vector.iov_base), message.msg_len};
  datagram_.segment = message.msg_len;
  std::uint8_t tos = 0;
  std::uint32_t flow_label = 0;
  controls(messages_[next_].msg_hdr, tos, flow_label);
  packet.to_port = to_port_;
  packet.traffic_class = tos;
  packet.flow_label = flow_label;
  packet.facts.plane = options_.plane;
  packet.facts.source = source_tag(packet.from);
  packet.facts.entropy = wire::from_wire({packet.port, flow_label}, options_.ev_format);
  packet.facts.ecn = wire::ecn_of(tos);
  const std::uint8_t dscp = wire::dscp_of(tos);
  packet.facts.trim = options_.dscp.classify(dscp);
  packet.trimmable = dscp == options_.dscp.trimmable || dscp == options_.dscp.trimmable_retx;
}

bool UdpReceiver::sender(const Slot& slot) noexcept {
  RawPacket& packet = datagram_.packet;
  if (v4_) {
    if (slot.from.any.sa_family != AF_INET) return false;
    packet.from = make_v4(0, 0, 0, 0);
    std::memcpy(packet.from.data() + 12, &slot.from.v4.sin_addr, 4);
    packet.port = ntohs(slot.from.v4.sin_port);
  } else {
    if (slot.from.any.sa_family != AF_INET6) return false;
    std::memcpy(packet.from.data(), &slot.from.v6.sin6_addr, 16);
    packet.port = ntohs(slot.from.v6.sin6_port);
  }
  return true;
}

void UdpReceiver::controls(msghdr& m, std::uint8_t& tos, std::uint32_t& flow_label) noexcept {
  constexpr int kFlowInfo = 11;  // IPV6_FLOWINFO, which <netinet/in.h> leaves out
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    const std::uint8_t* data = CMSG_DATA(c);
    const std::size_t length = c->cmsg_len - CMSG_LEN(0);
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS && length >= 1) {
      tos = *data;
    } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO && length >= sizeof(int)) {
      const int size = detail::read_as<int>(data);
      if (size > 0) datagram_.segment = static_cast<std::size_t>(size);
    } else if (c->cmsg_level == IPPROTO_IPV6 && length >= sizeof(int)) {
      if (c->cmsg_type == IPV6_TCLASS) tos = static_cast<std::uint8_t>(detail::read_as<int>(data));
      if (c->cmsg_type == kFlowInfo)
        flow_label = ntohl(detail::read_as<std::uint32_t>(data)) & 0xFFFFF;
    }
  }
}

}  // namespace mrc::inline v0_1::port
