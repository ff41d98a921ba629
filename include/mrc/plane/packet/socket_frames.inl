// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "mrc/core/system.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/plane/packet/packet_filter.hpp"
#include "mrc/plane/packet/packet_link.hpp"
#include "mrc/plane/packet/packet_socket.hpp"

namespace mrc::inline v0_1::port {

SocketFrames::SocketFrames(const PacketPortOptions& options)
    : receive_(open_packet_socket()), send_(open_packet_socket()), batch_(options.receive_slots) {
  mrc::detail::require({mrc::detail::SystemCall::recvmmsg, mrc::detail::SystemCall::sendmmsg});
  attach_slot_filter(receive_, options.slot, options.udp_port);
  (void)try_option(receive_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
  set_buffer(send_, SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer);
  buffer_ = set_buffer(receive_, SO_RCVBUF, SO_RCVBUFFORCE, options.receive_buffer);
  frames_.reserve(batch_);
  const std::uint32_t here = look_up_interface(send_, options.interface).mtu;
  const std::uint32_t mtu =
      here == 0 || options.mtu == 0 ? std::max(here, options.mtu) : std::min(here, options.mtu);
  const std::string failure =
      ring_.open(receive_, mtu != 0 ? mtu : PacketRing::kMaxSlot - PacketRing::kOverhead,
                 std::uint64_t{2} * options.receive_buffer);
  if (failure.empty()) {
    buffer_ = std::uint64_t{ring_.slots()} * kSlotWorth;
    return;
  }
  note_ = "interface " + options.interface + " is read without a receive ring (" + failure +
          "): each packet takes more processor time";
  make_pool(batch_);
}

void SocketFrames::make_pool(std::size_t slots) {
  pool_ = std::make_unique_for_overwrite<std::uint8_t[]>(slots * kSlotBytes);
  vectors_.resize(slots);
  messages_.resize(slots);
  for (std::size_t i = 0; i < slots; ++i) {
    vectors_[i] = {pool_.get() + i * kSlotBytes, kSlotBytes};
    messages_[i].msg_hdr.msg_iov = &vectors_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
  }
}

bool SocketFrames::attach(const InterfaceState& interface) noexcept {
  return interface.index != 0 && bind_packet_socket(receive_, interface.index, ETH_P_IPV6) &&
         bind_packet_socket(send_, interface.index, 0);
}

std::size_t SocketFrames::send(std::span<mmsghdr> frames, PortStats& stats) noexcept {
  before_packets();
  std::size_t done = 0;
  while (done < frames.size()) {
    const int n = uncancelled::sendmmsg(send_.fd(), frames.data() + done,
                                        static_cast<unsigned>(frames.size() - done), MSG_DONTWAIT);
    ++stats.tx_calls;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::span<const MutableBytes> SocketFrames::receive(std::size_t most) noexcept {
  const std::size_t wanted = std::min(most, batch_);
  frames_.clear();
  if (ring_) {
    backlogged_ = ring_.receive(wanted, frames_);
    after_packets();
  } else {
    read(wanted);
    backlogged_ = frames_.size() == wanted;
  }
  return frames_;
}

void SocketFrames::read(std::size_t most) noexcept {
  const auto wanted = static_cast<unsigned>(most);
  for (unsigned i = 0; i < wanted; ++i) messages_[i].msg_hdr.msg_flags = 0;
  const int n = uncancelled::recvmmsg(receive_.fd(), messages_.data(), wanted, MSG_DONTWAIT);
  for (int i = 0; i < n; ++i) {
    const mmsghdr& message = messages_[static_cast<std::size_t>(i)];
    const bool whole =
        (message.msg_hdr.msg_flags & MSG_TRUNC) == 0 && message.msg_len <= kSlotBytes;
    frames_.emplace_back(static_cast<std::uint8_t*>(message.msg_hdr.msg_iov->iov_base),
                         whole ? message.msg_len : 0);
  }
}

std::uint32_t SocketFrames::fill() const noexcept {
  return ring_ ? ring_.fill() : receive_buffer_fill(receive_);
}

std::uint64_t SocketFrames::overrun() const noexcept {
  tpacket_stats counts{};
  socklen_t size = sizeof counts;
  if (getsockopt(receive_.fd(), SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0)
    overrun_ += counts.tp_drops;
  return overrun_;
}

}  // namespace mrc::inline v0_1::port
