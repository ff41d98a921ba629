// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/if_packet.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc_fabric/system.hpp"

namespace mrc::tools {

/// Receives and sends whole Ethernet frames on all interfaces of the namespace in which it was
/// created, many per system call.
class WireSocket {
 public:
  static constexpr std::size_t kBatch = 32;

  /// A received frame, valid until the next receive().
  struct Arrival {
    int interface_index = 0;
    Time time;  ///< arrival at the kernel
    std::span<const std::byte> bytes;
  };
  /// A frame to send; its bytes must stay valid until send() returns.
  struct Departure {
    int interface_index = 0;
    std::span<std::byte> bytes;
  };

  /// Throws mrc::Error.
  WireSocket();
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

  /// The waiting frames, up to kBatch.
  [[nodiscard]] std::span<const Arrival> receive();
  /// Sends up to kBatch frames in this order, stopping at the first that can't be sent. Returns the
  /// number sent.
  [[nodiscard]] std::size_t send(std::span<const Departure> frames);
  /// Frames lost for lack of room since the last call.
  [[nodiscard]] std::uint64_t take_missed();

 private:
  static constexpr std::size_t kFrame = 1 << 16 | 64;  // the largest MTU, and Ethernet's header
  static constexpr std::size_t kControl = 64;          // room for a time stamp

  struct Slot {
    sockaddr_ll address;
    iovec piece;
    alignas(std::size_t) std::array<std::byte, kControl> control;
  };

  UniqueFd socket_;
  std::unique_ptr<std::byte[]> frames_;
  std::array<Slot, kBatch> slots_{};
  std::array<mmsghdr, kBatch> messages_{};
  std::array<Arrival, kBatch> arrivals_{};
  Time emptied_ = monotonic_now();  // lower bound of later arrivals, even if the wall clock is set
};

}  // namespace mrc::tools
