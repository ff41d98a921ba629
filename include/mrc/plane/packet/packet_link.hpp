// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/plane/packet/frame_channel.hpp"
#include "mrc/plane/packet/packet_options.hpp"
#include "mrc/plane/packet/packet_ring.hpp"

namespace mrc::inline v0_1::port {

/// Frames through two packet sockets: one receives the MRC packets of the own slot, which the
/// kernel selects, into a ring that it shares with this process, or, where there can be none, into
/// a fixed pool; one sends. Needs CAP_NET_RAW.
class SocketFrames final : public FrameChannel {
 public:
  /// Bytes of a slot of the pool: any frame fits.
  static constexpr std::size_t kSlotBytes = 65536 + wire::kEthernetHeader;

  /// Bytes of a socket buffer that a slot of the ring stands for, whatever its size: PacketPort's
  /// share of that is 3/4 of what senders count for a small packet (kLeastCharge), so that a
  /// quarter of the slots is left to control packets, which nobody counts.
  static constexpr std::uint32_t kSlotWorth = 3072;

  /// The ring is twice options.receive_buffer, as a socket buffer would be. Throws mrc::Error.
  explicit SocketFrames(const PacketPortOptions& options);

  [[nodiscard]] bool attach(const InterfaceState& interface) noexcept override;
  [[nodiscard]] bool usable(Time) noexcept override {
    clear_error();
    return true;
  }
  [[nodiscard]] Time next_look() const noexcept override { return kNever; }
  [[nodiscard]] std::size_t send(std::span<mmsghdr> frames, PortStats& stats) noexcept override;
  [[nodiscard]] std::span<const MutableBytes> receive(std::size_t most) noexcept override;
  [[nodiscard]] bool backlogged() const noexcept override { return backlogged_; }
  [[nodiscard]] std::uint32_t fill() const noexcept override;
  [[nodiscard]] std::uint64_t buffer() const noexcept override { return buffer_; }
  [[nodiscard]] std::uint64_t overrun() const noexcept override;
  [[nodiscard]] int poll_fd() const noexcept override { return receive_.fd(); }
  /// The socket is readable as long as something is there, or is held by the caller.
  [[nodiscard]] bool arm() noexcept override {
    clear_error();
    return !ring_.held();
  }
  /// Why there is no ring.
  [[nodiscard]] std::string note() const override { return note_; }

 private:
  /// Makes the pool.
  void make_pool(std::size_t slots);
  /// Reads with a system call into the pool.
  void read(std::size_t most) noexcept;
  /// The kernel leaves an error in the socket when the link goes down, and until somebody reads it
  /// the socket counts as readable. Receiving from a ring does not read it.
  void clear_error() noexcept {
    if (ring_) (void)get_option(receive_, SOL_SOCKET, SO_ERROR, 0);
  }

  Socket receive_, send_;
  PacketRing ring_;
  std::string note_;
  std::size_t batch_ = 0;  ///< frames of a receive() at most
  std::uint64_t buffer_ = 0;
  mutable std::uint64_t overrun_ = 0;  ///< reading resets the kernel's count
  std::unique_ptr<std::uint8_t[]> pool_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  std::vector<MutableBytes> frames_;
  bool backlogged_ = false;
};

}  // namespace mrc::inline v0_1::port
