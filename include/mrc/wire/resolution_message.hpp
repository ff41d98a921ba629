// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mrc/wire/bth.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/ip.hpp"

/// Messages by which OpenMRC devices find out how to reach a queue pair of which only GID and QPN
/// are known (exchange/resolution.hpp). An extension: the opcode is not one of MRC, and other
/// implementations drop it.
namespace mrc::inline v0_1::wire {

/// Steps of a resolution. "A" asks, "B" answers.
enum class ResolutionStep : std::uint8_t {
  hello = 1,      ///< A to B: A's nonce
  challenge = 2,  ///< B to A: both nonces; B keeps nothing
  offer = 3,      ///< A to B: both nonces, and A's ConnectionInfo
  answer = 4,  ///< B to A: both nonces, and B's ConnectionInfo unless its queue pair is not ready
};

/// Header of a resolution message, behind the BTH. In front of a ConnectionInfo in its encoded
/// form, and zero bytes up to the message's size.
struct ResolutionHeader {
  static constexpr std::uint32_t kMagic = 0x4F4D5258;  ///< "OMRX"
  static constexpr std::uint8_t kVersion = 1;          ///< of this layout

  Be32 magic;                            ///< kMagic
  std::uint8_t version;                  ///< kVersion
  std::uint8_t step;                     ///< ResolutionStep
  Be16 info_length;                      ///< bytes of the ConnectionInfo; 0: none
  Be64 nonce_a;                          ///< random, of A
  Be64 nonce_b;                          ///< of B; 0 in a hello
  Be32 qpn_a;                            ///< queue pair that A wants to connect
  Be32 qpn_b;                            ///< queue pair that it wants to connect to
  IpAddress address;                     ///< where the sender receives
  Be16 udp_port;                         ///< likewise
  std::array<std::uint8_t, 2> reserved;  ///< 0
};
static_assert(sizeof(ResolutionHeader) == 52 && alignof(ResolutionHeader) == 1);

/// A resolution message without its ConnectionInfo.
struct ResolutionPacket {
  Bth bth;                  ///< dqp: the receiver's queue pair, whose slot names the process
  ResolutionHeader header;  ///< what the message says
};
static_assert(sizeof(ResolutionPacket) == 64);

/// Size of every hello and challenge, BTH included: so no answer is larger than what asked for it.
inline constexpr std::size_t kShortResolution = sizeof(ResolutionPacket);
/// Size of every offer, and most of an answer. Fits into the smallest MTU of IPv6 behind a uSID
/// stack.
inline constexpr std::size_t kLongResolution = 1088;

}  // namespace mrc::inline v0_1::wire
