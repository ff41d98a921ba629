// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "mrc/port/fault.hpp"
#include "mrc/port/fault_hold.hpp"
#include "mrc/port/port.hpp"
#include "mrc/port/receive_check.hpp"
#include "mrc/port/socket.hpp"
#include "mrc/wire/entropy.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/overhead.hpp"
#include "mrc/wire/packet_parse.hpp"

namespace mrc::inline v0_1::port {

/// The settings of a PacketReceiver. A plain value.
struct PacketReceiverOptions {
  IpAddress local{};                                ///< (inner) destination address of the packets
  Plane plane = 0;                                  ///< copied into RxPacket::plane
  wire::EvFormat ev_format = wire::EvFormat::stev;  ///< how EVs are carried
  wire::ParseOptions parse;                         ///< what is accepted; its check_icrc is ignored
  bool icrc = true;                                 ///< false: the iCRC is not checked
  std::size_t slots = 64;                           ///< frames per system call
};

/// Receives frames into a fixed pool, parses their headers, checks the iCRC and returns the packets
/// as views into the pool, valid until the next receive(). All input is untrusted. One thread at a
/// time.
class PacketReceiver {
 public:
  /// Bytes of a slot: any frame fits.
  static constexpr std::size_t kSlotBytes = 65536 + wire::kEthernetHeader;

  /// Allocates the pool: options.slots slots of kSlotBytes.
  explicit PacketReceiver(const PacketReceiverOptions& options);
  PacketReceiver(const PacketReceiver&) = delete;
  PacketReceiver& operator=(const PacketReceiver&) = delete;

  /// Appends what has arrived for the Ethernet address `own`, up to rx.room(). What does not fit is
  /// returned by the next call.
  void receive(const Socket& socket, const wire::MacAddress& own, Time now, FaultInjector& faults,
               RxBurst& rx, PortStats& stats) noexcept;

  /// True if the last read took as many frames as it asked for: more may wait in the socket.
  [[nodiscard]] bool backlogged() const noexcept { return backlogged_; }
  /// True if frames that have been read wait for room.
  [[nodiscard]] bool leftover() const noexcept { return next_ < count_; }

 private:
  /// Where packets go after fault injection.
  struct Sink;

  /// One recvmmsg(); false if nothing was there.
  [[nodiscard]] bool read(const Socket& socket, std::size_t room, PortStats& stats) noexcept;

  /// Parses frame i. False, and counted in `stats`, if it is not an MRC packet for this port.
  [[nodiscard]] bool take_apart(std::size_t i, const wire::MacAddress& own, RawPacket& packet,
                                PortStats& stats) noexcept;

  PacketReceiverOptions options_;
  std::unique_ptr<std::uint8_t[]> pool_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  bool backlogged_ = false;
  std::size_t next_ = 0;   ///< frame that is parsed next
  std::size_t count_ = 0;  ///< frames read
  ReceiveCheck check_;
};

}  // namespace mrc::inline v0_1::port

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/port/impl/packet_receive.ipp"
#endif
