// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>
#include <linux/if_ether.h>

#include <array>
#include <cstdint>

#include "mrc/port/socket.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/opcode.hpp"

/// The kernel's part in finding the right process: a filter on a packet socket that passes MRC
/// packets to the QPNs of one slot, and nothing else.
namespace mrc::inline v0_1::port {

/// Passes frames that carry MRC (mrc-1.0 §1.1): IPv6, at will within IPv6 with or without an SRH;
/// UDP to `udp_port` or to the alternative one [C-1]; and to a QPN whose top 8 bits are `slot`.
/// Endpoint operations go to QPN 2 of the host as a whole and so to all of its processes, which
/// know by the sender and the number what is theirs.
class SlotFilter {
 public:
  SlotFilter(std::uint8_t slot, std::uint16_t udp_port) {
    constexpr std::uint32_t kIp = ETH_HLEN, kInner = kIp + 40;
    load_half(12);
    require(ETH_P_IPV6);
    load_byte(kIp + 6);
    // X is where the header behind the outer one begins: the inner IPv6 header or UDP.
    set_x(kInner);
    const std::size_t udp = jump_if(wire::kNextUdp);
    const std::size_t inner = jump_if(wire::kNextIpv6);
    require(wire::kNextRouting);
    load_byte(kInner + 1);  // (length + 1) x 8
    emit(BPF_ALU | BPF_ADD | BPF_K, 1);
    emit(BPF_ALU | BPF_LSH | BPF_K, 3);
    emit(BPF_ALU | BPF_ADD | BPF_K, kInner);
    emit(BPF_MISC | BPF_TAX, 0);
    load_byte(kInner);
    require(wire::kNextIpv6);
    land(inner);
    load_byte_x(6);
    require(wire::kNextUdp);
    emit(BPF_MISC | BPF_TXA, 0);
    emit(BPF_ALU | BPF_ADD | BPF_K, 40);
    emit(BPF_MISC | BPF_TAX, 0);
    land(udp);
    load_half_x(2);
    const std::size_t port = jump_if(udp_port);
    require(udp_port == wire::kUdpPort ? wire::kUdpPortAlternative : udp_port);
    land(port);
    load_byte_x(8);  // BTH: opcode, ... destination QPN from byte 5 on
    const std::size_t request = jump_if(static_cast<std::uint8_t>(wire::Opcode::endpoint_request));
    const std::size_t answer = jump_if(static_cast<std::uint8_t>(wire::Opcode::endpoint_response));
    load_byte_x(8 + 5);
    require(slot);
    land(request);
    land(answer);
    emit(BPF_RET | BPF_K, 0xFFFF'FFFF);
    emit(BPF_RET | BPF_K, 0);
    for (std::size_t i = 0; i < refusals_; ++i) {
      sock_filter& jump = code_[refusal_[i]];
      jump.jf = static_cast<std::uint8_t>(size_ - 1 - refusal_[i] - 1);
    }
  }

  /// Throws Error if the kernel does not take it.
  void attach(const Socket& socket) {
    const sock_fprog program{static_cast<unsigned short>(size_), code_.data()};
    if (setsockopt(socket.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
      throw_errno("cannot attach the packet filter");
  }

 private:
  void emit(unsigned code, std::uint32_t k) {
    code_[size_++] = {static_cast<std::uint16_t>(code), 0, 0, k};
  }
  void load_half(std::uint32_t at) { emit(BPF_LD | BPF_H | BPF_ABS, at); }
  void load_byte(std::uint32_t at) { emit(BPF_LD | BPF_B | BPF_ABS, at); }
  void load_half_x(std::uint32_t at) { emit(BPF_LD | BPF_H | BPF_IND, at); }
  void load_byte_x(std::uint32_t at) { emit(BPF_LD | BPF_B | BPF_IND, at); }
  void set_x(std::uint32_t value) { emit(BPF_LDX | BPF_IMM, value); }
  /// What was loaded has this value, or the frame is refused.
  void require(std::uint32_t value) {
    refusal_[refusals_++] = size_;
    emit(BPF_JMP | BPF_JEQ | BPF_K, value);
  }
  /// Goes on where the answer is given to land() if what was loaded has this value.
  [[nodiscard]] std::size_t jump_if(std::uint32_t value) {
    emit(BPF_JMP | BPF_JEQ | BPF_K, value);
    return size_ - 1;
  }
  void land(std::size_t jump) { code_[jump].jt = static_cast<std::uint8_t>(size_ - jump - 1); }

  std::array<sock_filter, 48> code_{};
  std::array<std::size_t, 16> refusal_{};
  std::size_t size_ = 0, refusals_ = 0;
};

}  // namespace mrc::inline v0_1::port
