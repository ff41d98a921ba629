// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"

/// The data that a queue pair gives to its peer, and its encoding. Set-up only; any thread.
namespace mrc::inline v0_1 {

/// What the peer needs to connect to a queue pair (mrc-1.0 §2.12): its identity, addresses and
/// limits.
struct ConnectionInfo {
  std::uint64_t device_guid = 0;      ///< tells devices apart; queue pairs of one share its paths
  Qpn qpn{};                          ///< number of the queue pair
  Psn start_psn;                      ///< first PSN that this side will send
  std::uint32_t mtu = 4096;           ///< payload bytes per packet; both sides must agree
  std::uint8_t mpr_dest = 32;         ///< units of 128 PSNs that it tracks as responder
  std::uint16_t max_wimm_dest = 128;  ///< WriteImm in flight that it tracks as responder
  bool dynamic_mpr = false;           ///< takes part in Dynamic MPR
  bool trim_nack = false;             ///< answers trimmed packets
  bool icrc = true;                   ///< sends and checks the iCRC
  std::uint8_t slot = 0;              ///< which process of its host it is
  std::uint64_t receive_window = 0;   ///< bytes per plane that it can buffer; 0: not known
  std::vector<port::PeerAddress> planes;  ///< [i]: where it receives in plane i

  /// Equal in every field.
  friend bool operator==(const ConnectionInfo&, const ConnectionInfo&) = default;
};

/// The bytes to give to the peer. Throws mrc::Error (invalid_argument) when a field is outside the
/// range that a peer accepts.
[[nodiscard]] MRC_API std::vector<std::uint8_t> encode(const ConnectionInfo& info);

/// Reads what a peer has encoded. Any bytes are safe: throws mrc::Error (bad_message) that says
/// what is wrong with them.
[[nodiscard]] MRC_API ConnectionInfo decode_connection_info(Bytes blob);

/// One line for logs and error messages.
[[nodiscard]] MRC_API std::string to_string(const ConnectionInfo& info);

}  // namespace mrc::inline v0_1

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/exchange/impl/connection_info.ipp"
#endif
