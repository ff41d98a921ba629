// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/fault.hpp"
#include "mrc/plane/fault_hold.hpp"
#include "mrc/plane/packet/frame_channel.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/plane/receive_check.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::inline v0_1::port {

/// The settings of a PacketReceiver. A plain value.
struct PacketReceiverOptions {
  IpAddress local{};                                ///< (inner) destination address of the packets
  Plane plane = 0;                                  ///< copied into RxPacket::plane
  wire::EvFormat ev_format = wire::EvFormat::stev;  ///< how EVs are carried
  wire::ParseOptions parse;                         ///< what is accepted; its check_icrc is ignored
  bool icrc = true;                                 ///< false: the iCRC is not checked
};

/// Takes frames from a channel, parses their headers, checks the iCRC and returns the packets as
/// views into the channel's memory, valid until the next receive(). All input is untrusted. One
/// thread at a time.
class PacketReceiver {
 public:
  /// Nothing is read before the first receive().
  explicit PacketReceiver(const PacketReceiverOptions& options);
  PacketReceiver(const PacketReceiver&) = delete;
  PacketReceiver& operator=(const PacketReceiver&) = delete;

  /// Appends what has arrived for the Ethernet address `own`, up to rx.room(). What does not fit is
  /// returned by the next call.
  void receive(FrameChannel& channel, const wire::MacAddress& own, Time now, FaultInjector& faults,
               RxBurst& rx, PortStats& stats) noexcept;

  /// True if frames that have been read wait for room.
  [[nodiscard]] bool leftover() const noexcept { return next_ < frames_.size(); }

 private:
  /// Where packets go after fault injection.
  struct Sink;

  /// Parses a frame. False, and counted in `stats`, if it is not an MRC packet for this port.
  [[nodiscard]] bool take_apart(MutableBytes frame, const wire::MacAddress& own, RawPacket& packet,
                                PortStats& stats) noexcept;

  PacketReceiverOptions options_;
  std::span<const MutableBytes> frames_;  ///< of the last read
  std::size_t next_ = 0;                  ///< frame that is parsed next
  ReceiveCheck check_;
};

}  // namespace mrc::inline v0_1::port
