// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/plane/fault.hpp"
#include "mrc/plane/fault_hold.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/plane/receive_check.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

/// The settings of a UdpReceiver. A plain value.
struct UdpReceiverOptions {
  IpAddress local{};  ///< destination address of the packets, covered by the iCRC
  Plane plane = 0;    ///< copied into RxPacket::plane
  wire::EvFormat ev_format = wire::EvFormat::udp;  ///< how EVs are carried
  wire::DscpMap dscp;                              ///< to recognize trimmed packets
  bool icrc = true;                                ///< false: the iCRC is not checked
  std::size_t slots = 16;                          ///< datagrams per system call
};

/// Receives datagrams into a fixed pool, splits those that the kernel has coalesced (GRO) into
/// packets, checks the iCRC and returns them as views into the pool, valid until the next
/// release() or read. All input is untrusted. One thread at a time.
class UdpReceiver {
 public:
  /// Bytes of a slot: any UDP datagram fits, a coalesced one too.
  static constexpr std::size_t kSlotBytes = 65536;

  /// Allocates the pool: options.slots slots of kSlotBytes.
  explicit UdpReceiver(const UdpReceiverOptions& options);
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;

  /// What may come from that address: ReceiveCheck::take_heads().
  void take_heads(const IpAddress& from) { check_.take_heads(from); }
  /// Undoes one take_heads().
  void forget_heads(const IpAddress& from) noexcept { check_.forget_heads(from); }

  /// Begins a round of up to two receive() calls into the same `rx`: frees what fault injection has
  /// delivered in earlier rounds, and delivers the packets that are due by now. Once per round,
  /// since `rx` refers to them.
  void release(Time now, FaultInjector& faults, RxBurst& rx, PortStats& stats) noexcept;

  /// Appends what has arrived, up to rx.room(). What does not fit is returned by the next call,
  /// which then reads no further datagrams, from whatever socket: they would overwrite the pool.
  /// `to_port` is the socket's own, covered by the iCRC; host byte order. True if there was
  /// anything to return, now or by the next call.
  bool receive(const Socket& socket, std::uint16_t to_port, Time now, FaultInjector& faults,
               RxBurst& rx, PortStats& stats) noexcept;

  /// True if the last read took as many datagrams as it asked for: more may wait in the socket.
  [[nodiscard]] bool backlogged() const noexcept { return backlogged_; }
  /// True if packets that have been read wait for room.
  [[nodiscard]] bool leftover() const noexcept { return next_ < count_; }

 private:
  struct Slot {
    SocketAddress from;
    iovec vector{};
    alignas(cmsghdr) std::array<std::uint8_t, 128> control{};
  };

  /// A datagram that is being split: the facts that all its packets share.
  struct Datagram {
    RawPacket packet;         ///< `bytes`: the rest of the datagram
    std::size_t segment = 0;  ///< bytes of each packet; the last may be shorter
  };

  /// Where packets go after fault injection.
  struct Sink;

  /// Makes a message ready for recvmmsg().
  void prepare(std::size_t i) noexcept;

  /// One recvmmsg(); false if nothing was there.
  [[nodiscard]] bool read(const Socket& socket, Time now, std::size_t room,
                          PortStats& stats) noexcept;

  /// Splits what was read into packets, until the sink is full or all is done.
  void split(Time now, FaultInjector& faults, Sink& sink) noexcept;

  /// Reads address and control data of the datagram at next_.
  void open(PortStats& stats) noexcept;

  /// Copies the sender's address; false if it is not of the socket's family.
  [[nodiscard]] bool sender(const Slot& slot) noexcept;

  /// Reads ToS, flow label and segment size from the control data.
  void controls(msghdr& m, std::uint8_t& tos, std::uint32_t& flow_label) noexcept;

  UdpReceiverOptions options_;
  bool v4_;
  bool backlogged_ = false;
  bool paused_ = false;  ///< until last_read_ nobody had read for a while; a round may read twice
  bool one_by_one_ = false;  ///< the last read that brought anything brought one packet
  bool opened_ = false;      ///< datagram_ describes the message at next_
  std::unique_ptr<std::uint8_t[]> pool_;
  std::vector<Slot> slots_;
  std::vector<mmsghdr> messages_;
  std::uint16_t to_port_ = 0;  ///< of the messages
  Time last_read_{};           ///< when they were read
  std::size_t next_ = 0;       ///< message that is being split
  std::size_t count_ = 0;      ///< messages read
  std::size_t packets_ = 0;    ///< packets in them, so far
  std::size_t expected_ = 1;   ///< packets per datagram in the previous call, rounded up
  Datagram datagram_;
  ReceiveCheck check_;
};

}  // namespace mrc::inline v0_1::port
