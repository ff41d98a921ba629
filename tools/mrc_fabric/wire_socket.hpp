// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/if_packet.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mrc/core/time.hpp"
#include "mrc_fabric/system.hpp"

namespace mrc::bench {

/// Whole Ethernet frames from all interfaces of the namespace that it was made in, and to them;
/// many with one system call.
class WireSocket {
 public:
  static constexpr std::size_t kBatch = 32;

  /// A frame that came, valid until receive() is called again.
  struct Arrival {
    int interface_index = 0;
    Time time;  ///< when the kernel took it
    std::span<const std::byte> bytes;
  };
  /// A frame to send; it has to stay until send() is called.
  struct Departure {
    int interface_index = 0;
    std::span<std::byte> bytes;
  };

  /// Throws mrc::Error.
  WireSocket();
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

  /// What there is, up to kBatch frames.
  [[nodiscard]] std::span<const Arrival> receive();
  /// Sends up to kBatch frames, in this order, up to the first that can't be sent. Returns how many
  /// were.
  [[nodiscard]] std::size_t send(std::span<const Departure> frames);
  /// Frames that there was no room for since this was asked last.
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
  Time emptied_ =
      monotonic_now();  // what comes now came later, whatever the clock of the wall says
};

}  // namespace mrc::bench
