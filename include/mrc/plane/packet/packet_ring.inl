// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>

#include "mrc/net/socket.hpp"
#include "mrc/plane/packet/packet_ring.hpp"

namespace mrc::inline v0_1::port {

PacketRing::~PacketRing() {
  if (memory_ != nullptr) ::munmap(memory_, std::size_t{blocks_} * kBlock);
}

std::string PacketRing::open(const Socket& socket, std::uint32_t mtu, std::uint64_t bytes) {
  const auto failed = [&](const char* step) {
    const int error = errno;
    const tpacket_req none{};
    (void)setsockopt(socket.fd(), SOL_PACKET, PACKET_RX_RING, &none, sizeof none);
    return std::string(step) + ": " + std::generic_category().message(error);
  };
  slot_ = (mtu + kOverhead + TPACKET_ALIGNMENT - 1) / TPACKET_ALIGNMENT * TPACKET_ALIGNMENT;
  if (slot_ > kMaxSlot) return "packets of " + std::to_string(mtu) + " bytes are too long for one";
  per_block_ = kBlock / slot_;
  const std::uint64_t block = std::uint64_t{per_block_} * slot_;
  bytes = std::min(bytes, kMaxBytes);
  blocks_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (bytes + block / 2) / block));
  slots_ = blocks_ * per_block_;
  long_frame_.resize(kLongest);
  if (!try_option(socket, SOL_PACKET, PACKET_VERSION, TPACKET_V2)) return failed("PACKET_VERSION");
  // A frame that is longer than a slot goes to the receive buffer as well.
  (void)try_option(socket, SOL_PACKET, PACKET_COPY_THRESH, 1);
  tpacket_req request{};
  request.tp_block_size = kBlock;
  request.tp_block_nr = blocks_;
  request.tp_frame_size = slot_;
  request.tp_frame_nr = slots_;
  if (setsockopt(socket.fd(), SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0)
    return failed("PACKET_RX_RING");
  const std::size_t size = std::size_t{blocks_} * kBlock;
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket.fd(), 0);
  if (memory == MAP_FAILED) return failed("mmap");
  memory_ = static_cast<std::uint8_t*>(memory);
  fd_ = socket.fd();
  return {};
}

std::uint32_t* PacketRing::status(std::uint32_t n) const noexcept {
  std::uint32_t index = next_ + n;
  if (index >= slots_) index -= slots_;
  std::uint8_t* slot =
      memory_ + std::size_t{index / per_block_} * kBlock + std::size_t{index % per_block_} * slot_;
  return &reinterpret_cast<tpacket2_hdr*>(slot)->tp_status;
}

bool PacketRing::receive(std::size_t most, std::vector<MutableBytes>& frames) noexcept {
  for (; held_ != 0; --held_)
    std::atomic_ref(*status(slots_ - held_)).store(TP_STATUS_KERNEL, std::memory_order_release);
  bool whole = true;
  while (frames.size() < most && held_ < slots_ && whole) {
    std::uint32_t* word = status(0);
    const std::uint32_t state = std::atomic_ref(*word).load(std::memory_order_acquire);
    if ((state & TP_STATUS_USER) == 0) break;
    auto* header = reinterpret_cast<tpacket2_hdr*>(word);
    whole = header->tp_snaplen == header->tp_len;
    if (whole)
      frames.emplace_back(reinterpret_cast<std::uint8_t*>(header) + header->tp_mac,
                          header->tp_snaplen);
    else
      frames.push_back((state & TP_STATUS_COPY) != 0 ? read_long() : MutableBytes{});
    if (++next_ == slots_) next_ = 0;
    ++held_;
  }
  return frames.size() == most || !whole;
}

MutableBytes PacketRing::read_long() noexcept {
  const auto read = [&] {
    return uncancelled::recv(fd_, long_frame_.data(), long_frame_.size(), MSG_DONTWAIT | MSG_TRUNC);
  };
  ssize_t n = read();
  if (n < 0 && errno != EAGAIN) n = read();  // a link that went down is reported once
  const auto length = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  return length <= long_frame_.size() ? MutableBytes(long_frame_.data(), length) : MutableBytes{};
}

/// Filled slots follow each other, the oldest first.
std::uint32_t PacketRing::fill() const noexcept {
  std::uint32_t least = 0, most = slots_ - held_;
  while (least < most) {
    const std::uint32_t n = (least + most) / 2;
    const std::uint32_t state = std::atomic_ref(*status(n)).load(std::memory_order_acquire);
    if ((state & TP_STATUS_USER) != 0)
      least = n + 1;
    else
      most = n;
  }
  return static_cast<std::uint32_t>(std::uint64_t{held_ + least} * 128 / slots_);
}

}  // namespace mrc::inline v0_1::port
