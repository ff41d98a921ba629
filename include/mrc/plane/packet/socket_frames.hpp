// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/plane/packet/frame_channel.hpp"
#include "mrc/plane/packet/packet_options.hpp"

namespace mrc::inline v0_1::port {

/// Frames through two packet sockets: one receives the MRC packets of the own slot, which the
/// kernel selects, into a fixed pool; one sends. Needs CAP_NET_RAW.
class SocketFrames final : public FrameChannel {
 public:
  /// Bytes of a slot of the pool: any frame fits.
  static constexpr std::size_t kSlotBytes = 65536 + wire::kEthernetHeader;

  /// Throws mrc::Error.
  explicit SocketFrames(const PacketPortOptions& options);

  [[nodiscard]] bool attach(const InterfaceState& interface) noexcept override;
  [[nodiscard]] bool usable(Time) noexcept override { return true; }
  [[nodiscard]] Time next_look() const noexcept override { return kNever; }
  [[nodiscard]] std::size_t send(std::span<mmsghdr> frames, PortStats& stats) noexcept override;
  [[nodiscard]] std::span<const MutableBytes> receive(std::size_t most) noexcept override;
  [[nodiscard]] bool backlogged() const noexcept override { return backlogged_; }
  [[nodiscard]] std::uint32_t fill() const noexcept override;
  [[nodiscard]] std::uint64_t buffer() const noexcept override { return buffer_; }
  [[nodiscard]] std::uint64_t overrun() const noexcept override;
  [[nodiscard]] int poll_fd() const noexcept override { return receive_.fd(); }
  /// The socket is readable as long as something is there.
  [[nodiscard]] bool arm() noexcept override { return true; }

 private:
  Socket receive_, send_;
  std::uint64_t buffer_ = 0;
  mutable std::uint64_t overrun_ = 0;  ///< reading resets the kernel's count
  std::unique_ptr<std::uint8_t[]> pool_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  std::vector<MutableBytes> frames_;
  bool backlogged_ = false;
};

}  // namespace mrc::inline v0_1::port

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/plane/packet/impl/socket_frames.ipp"
#endif
