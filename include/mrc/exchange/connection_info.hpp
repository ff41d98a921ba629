// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1 {

/// The data that a queue pair gives to its peer, and its encoding. Set-up only; any thread.

/// What the peer needs to connect to a queue pair (mrc-1.0 §2.12): its identity, addresses and
/// limits.
struct ConnectionInfo {
  std::uint64_t device_guid = 0;      ///< tells devices apart; queue pairs of one share its paths
  Qpn qpn{};                          ///< number of the queue pair
  Psn start_psn;                      ///< first PSN that this side will send
  std::uint32_t mtu = 4096;           ///< payload bytes per packet (is_mtu()); the smaller counts.
                                      ///< 0: as this side's; such data can't be encoded
  std::uint8_t mpr_dest = 32;         ///< units of 128 PSNs that it tracks as responder
  std::uint16_t max_wimm_dest = 128;  ///< WriteImm in flight that it tracks as responder
  bool dynamic_mpr = false;           ///< takes part in Dynamic MPR
  bool trim_nack = false;             ///< answers trimmed packets
  bool icrc = true;                   ///< sends and checks the iCRC
  std::uint8_t slot = 0;              ///< which process of its host it is
  std::uint64_t receive_window = 0;   ///< bytes per plane that it can buffer; 0: not known
  /// Of another implementation of MRC; false in what OpenMRC devices say of themselves. A record
  /// that a program fills in itself is foreign, therefore: see foreign_peer().
  bool foreign = true;
  bool solicited = false;  ///< understands solicited events
  bool parts = false;      ///< takes packets in parts, and EV probes of full size (RemoteQp::parts)
  bool rc = false;         ///< offers SEND, READ and atomics (RemoteQp::rc)
  /// With `rc`: READs and atomics in flight that it tracks as responder, 0 .. 128. Not encoded
  /// without `rc`.
  std::uint8_t max_rd_atomic_dest = 0;
  /// Takes an MTU of any multiple of 128. Without it, `mtu` and what both agree on is a power of
  /// two (mrc-1.0 §2.3): so it is with other implementations.
  bool mtu_multiples = false;
  /// Verification tag for the packets sent to this queue pair (wire::Tag); 0: it has none. A secret
  /// between the two sides: who knows it can forge packets, so give this record to the peer alone.
  std::uint64_t tag = 0;
  /// port::network_namespace() of the device; 0: it wants the whole packet in the iCRC, whoever the
  /// peer is. Between two that have told the same, data packets that stay on the loopback interface
  /// may leave the payload out (wire::Bth::head_check()).
  std::uint64_t network_namespace = 0;
  std::vector<port::PeerAddress> planes;  ///< [i]: where it receives in plane i
  /// What the ports of a plane need to know beside the address, in their own form; [i]: of plane i.
  /// Shorter than `planes` if the last ones need nothing.
  std::vector<std::vector<std::uint8_t>> port_data{};

  /// Equal in every field.
  friend bool operator==(const ConnectionInfo&, const ConnectionInfo&) = default;
};

/// The bytes to give to the peer: an envelope with a checksum, and items of the form type, length,
/// value. A reader skips items of types that it does not know, unless they are marked as
/// indispensable; so later releases can add some. Throws mrc::Error (invalid_argument) when a field
/// is outside the range that a peer accepts.
[[nodiscard]] MRC_API std::vector<std::uint8_t> encode(const ConnectionInfo& info);

/// Reads what a peer has encoded. Any bytes are safe: throws mrc::Error (bad_message) that says
/// what is wrong with them, or names an indispensable item that this release does not know.
[[nodiscard]] MRC_API ConnectionInfo decode_connection_info(Bytes blob);

/// One line for logs and error messages.
[[nodiscard]] MRC_API std::string to_string(const ConnectionInfo& info);

/// A remote queue pair as verbs programs name it.
struct Destination {
  port::IpAddress gid{};  ///< an IP address of the remote device
  Qpn qpn{};              ///< its queue pair

  /// Equal in both.
  friend bool operator==(const Destination&, const Destination&) = default;
};

/// The ConnectionInfo of another implementation of MRC: what its queue pair is, which PSN it sends
/// first, and where it receives in each plane, with the UDP port (4791, 4971 or any other). The
/// rest is what MRC says of a peer that has told nothing: 32 x 128 PSNs and 128 WriteImm in flight
/// (mrc-1.0 §7.3), an MTU as this side's, or the power of two below it, and none of OpenMRC's
/// extensions: no tags, SENDs, READs or atomics, no solicited events. What is known better can be
/// changed in the result. Over IPv4 sockets its packets are sent one by one, with an iCRC that is
/// right for a NIC.
[[nodiscard]] inline ConnectionInfo foreign_peer(Qpn qpn, Psn start_psn,
                                                 std::vector<port::PeerAddress> planes) {
  ConnectionInfo info;
  if (!planes.empty()) info.device_guid = port::source_tag(planes.front().ip);
  info.qpn = qpn;
  info.start_psn = start_psn;
  info.mtu = 0;
  info.planes = std::move(planes);
  return info;
}

}  // namespace mrc::inline v0_1
