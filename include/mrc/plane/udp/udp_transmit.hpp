// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mrc/net/socket.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/plane/udp/udp_path.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1::port {

/// An entry of the port's address table.
struct UdpPeer {
  SocketAddress address;    ///< length 0: empty entry
  wire::IcrcPrefix prefix;  ///< from this port to the peer
  bool segmented = true;    ///< GSO may be used
  bool heads = false;       ///< UdpRoute::heads
  bool bound = false;       ///< packets leave from UdpPath::bound, if that is open
  bool reached = true;      ///< there is a route to it by an interface that is up, as far as known
  bool passing = false;     ///< UdpRoute::passing
  std::uint32_t mtu = 0;    ///< bytes; of the links that lead to it, if they are not the plane's
};

/// Sends the packets of one group, which share peer and path. Consecutive packets of one size
/// become one GSO message, and one system call sends several messages. Payload is not copied here,
/// but for that of small packets: the kernel gathers it from the user's memory. The object is large
/// (scratch space for one call) and belongs on the heap. One thread at a time.
class UdpTransmitter {
 public:
  static constexpr std::uint32_t kMaxSegments = 64;    ///< per message (kernels before 6.9)
  static constexpr std::uint32_t kMaxMessage = 65507;  ///< bytes of one message, by UDP over IPv4

  /// What became of a group.
  struct Outcome {
    std::uint32_t taken = 0;   ///< packets sent, or dropped because they can never be sent
    bool unreachable = false;  ///< the kernel has no route, or the network is down
    bool too_long = false;     ///< packets exceeded the MTU of the interface, and were dropped
  };

  /// `usual_tos`: ToS that the paths' sockets send with. `max_packet`: bytes of the largest packet,
  /// BTH .. iCRC.
  UdpTransmitter(bool v4, bool gso, bool icrc, std::uint8_t usual_tos,
                 std::uint32_t max_packet) noexcept;
  UdpTransmitter(const UdpTransmitter&) = delete;
  UdpTransmitter& operator=(const UdpTransmitter&) = delete;

  /// Sets the constructor's `max_packet` anew.
  void set_max_packet(std::uint32_t max_packet) noexcept { max_packet_ = max_packet; }

  /// Becomes false when the kernel or the device turns out not to support GSO.
  [[nodiscard]] bool gso() const noexcept { return gso_; }

  /// Sends `packets` of `burst` to `peer` on `path`, as many as the socket takes. `joined`: by GSO,
  /// if that works.
  Outcome send(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets, bool joined,
               UdpPeer& peer, const UdpPath& path, PortStats& stats) noexcept;

 private:
  static constexpr std::size_t kMessages = 16;
  static constexpr std::size_t kPackets = 256;
  static constexpr std::size_t kVectors = 2048;
  /// A packet of so many bytes or fewer is put together in one place: the kernel takes longer for
  /// three pieces than that takes.
  static constexpr std::uint32_t kSmall = 256;
  /// Control data of a message: ToS, and the segment size for GSO.
  static constexpr std::size_t kTosSpace = CMSG_SPACE(sizeof(int));
  static constexpr std::size_t kSegmentSpace = CMSG_SPACE(sizeof(std::uint16_t));

  enum class Verdict : std::uint8_t { retry, busy, unreachable, too_long, refused };

  /// The packets of one message.
  struct Run {
    std::uint32_t packets = 0;
    std::uint32_t bytes = 0;
    std::uint32_t segment = 0;  ///< bytes of each packet; the last may be shorter
    std::uint8_t tos = 0;
    bool closed = false;  ///< a shorter packet was last
  };
  struct alignas(cmsghdr) Control {
    std::array<std::uint8_t, kTosSpace + kSegmentSpace> bytes;
  };
  /// Pad and iCRC of one packet.
  using Trailer = std::array<std::uint8_t, 8>;

  /// Writes the constant parts of the control data of message i.
  void prepare(std::size_t i) noexcept;

  /// Lays out messages for as many of `packets` as there is room for. used_ is 0 if the first one
  /// exceeds a limit.
  void build(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets, bool joined,
             UdpPeer& peer, const UdpPath& path) noexcept;

  /// True if the packet can be a further segment of the last message.
  [[nodiscard]] bool joins(const wire::TxPacket& p, std::size_t vectors) const noexcept;

  /// Starts a new message; false if there is no room for it.
  [[nodiscard]] bool open(const wire::TxPacket& p, const UdpPeer& peer,
                          const UdpPath& path) noexcept;

  /// Adds the packet to the last message.
  void append(const wire::TxPacket& p, std::span<const wire::TxSge> sges, UdpPeer& peer,
              const UdpPath& path) noexcept;

  void push(const std::uint8_t* data, std::size_t length) noexcept {
    // The kernel only reads; the system call's structure has no const.
    vectors_[vectors_used_++] = {const_cast<std::uint8_t*>(data), length};
  }

  /// Copies a part of a small packet.
  void put(Bytes part) noexcept {
    std::copy(part.begin(), part.end(), copies_.begin() + static_cast<std::ptrdiff_t>(copied_));
    copied_ += part.size();
  }

  /// Completes the control data of message i. Every message that has not the socket's ToS carries
  /// its own: that costs some 50 ns, a setsockopt() at every change of class four times as much.
  void close(std::size_t i) noexcept;

  /// Sends the messages and returns how many the kernel took. If not all, errno is the error of the
  /// first one that it did not take.
  [[nodiscard]] std::size_t flush(const Socket& socket, PortStats& stats) noexcept;

  /// What to do about a message that the kernel did not take.
  [[nodiscard]] Verdict judge(int error, const Run& run) noexcept;

  bool v4_;
  bool gso_;
  bool icrc_;
  bool gso_proven_ = false;
  std::uint8_t usual_tos_;
  std::uint32_t max_packet_;
  std::size_t used_ = 0;  ///< messages laid out
  std::size_t vectors_used_ = 0;
  std::size_t trailers_used_ = 0;
  std::size_t copied_ = 0;  ///< bytes of copies_
  std::array<Run, kMessages> runs_{};
  std::array<mmsghdr, kMessages> messages_{};
  std::array<SocketAddress, kMessages> addresses_{};
  std::array<Control, kMessages> controls_{};
  std::array<Trailer, kPackets> trailers_{};
  std::array<iovec, kVectors> vectors_{};
  std::array<std::uint8_t, 16 * kSmall> copies_{};
};

}  // namespace mrc::inline v0_1::port
