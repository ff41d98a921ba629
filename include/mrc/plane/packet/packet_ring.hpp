// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/socket.hpp"

namespace mrc::inline v0_1::port {

/// The receive ring of a packet socket: slots of one size in memory that the kernel and this
/// process share (PACKET_RX_RING). The kernel copies a frame into the next slot when it arrives,
/// whatever processor that is on; receiving takes no system call and no further copy.
///
/// Version 2 of the rings (TPACKET_V2): each slot says for itself whether it is filled. Version 3
/// hands over blocks of many frames when they are full or a millisecond old at the least, and its
/// socket is not readable before: too late for a transport.
///
/// One thread at a time. A child process that was forked has the memory too, as it has the socket.
class PacketRing {
 public:
  /// Bytes that a slot has beside the IP packet: the kernel's header, its alignment, and the
  /// Ethernet header.
  static constexpr std::uint32_t kOverhead = 96;
  /// Size of a slot at most. Frames that are longer than a slot, since the MTU was raised later or
  /// the host has put packets together, come by way of the socket's receive buffer, one per call.
  static constexpr std::uint32_t kMaxSlot = 16'384;
  /// Size of a ring at most: its memory is taken when it is made, and can't be swapped out.
  static constexpr std::uint64_t kMaxBytes = 64 << 20;

  /// No ring.
  PacketRing() = default;
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;
  ~PacketRing();

  /// Gives a socket that is not bound yet a ring of about `bytes`, kMaxBytes at most, for IP
  /// packets of `mtu` bytes. Returns why it has none, and is as it was; or nothing.
  [[nodiscard]] std::string open(const Socket& socket, std::uint32_t mtu, std::uint64_t bytes);
  /// True if there is a ring.
  [[nodiscard]] explicit operator bool() const noexcept { return memory_ != nullptr; }

  /// Gives the slots of the last call back to the kernel, and appends up to `most` frames that have
  /// arrived, valid until the next call; `frames` has room for them. An empty one was too long.
  /// True if more may be there: one that is longer than a slot is the last of a call.
  bool receive(std::size_t most, std::vector<MutableBytes>& frames) noexcept;
  /// True if frames of the last receive() occupy slots: the socket may be readable because of them.
  [[nodiscard]] bool held() const noexcept { return held_ != 0; }

  /// Part of the slots that is in use, in 1/128.
  [[nodiscard]] std::uint32_t fill() const noexcept;
  /// Frames that it holds, whatever their size.
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }

 private:
  /// Memory comes in pieces that are contiguous for the kernel, each of as many slots as fit.
  static constexpr std::uint32_t kBlock = 1 << 16;
  /// Any frame fits into so many bytes.
  static constexpr std::size_t kLongest = 65'536 + 14;

  /// The status word of the slot that is `n` after the next one, n < slots_.
  [[nodiscard]] std::uint32_t* status(std::uint32_t n) const noexcept;
  /// Reads a frame that was too long for its slot.
  [[nodiscard]] MutableBytes read_long() noexcept;

  int fd_ = -1;  ///< of the socket
  std::uint8_t* memory_ = nullptr;
  std::uint32_t blocks_ = 0, per_block_ = 0, slot_ = 0, slots_ = 0;
  std::uint32_t next_ = 0;  ///< slot that is filled next, or has been
  std::uint32_t held_ = 0;  ///< slots before next_ that are the caller's
  std::vector<std::uint8_t> long_frame_;
};

}  // namespace mrc::inline v0_1::port
