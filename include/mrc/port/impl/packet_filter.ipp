// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>

#include "mrc/port/packet_filter.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/opcode.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// The program of a slot filter (attach_slot_filter()), in classic BPF. A plain value.
class SlotFilter {
 public:
  SlotFilter(std::uint8_t slot, std::uint16_t udp_port) {
    constexpr std::uint32_t kIp = ETH_HLEN, kInner = kIp + sizeof(wire::Ipv6);
    load_half(12);
    require(ETH_P_IPV6);
    load_byte(kIp + 6);
    // Register X: offset of the header after the outer one (inner IPv6 or UDP).
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
    emit(BPF_ALU | BPF_ADD | BPF_K, sizeof(wire::Ipv6));
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

  /// Throws Error if the kernel refuses it.
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
  /// Rejects the frame unless the value loaded last is this one.
  void require(std::uint32_t value) {
    refusal_[refusals_++] = size_;
    emit(BPF_JMP | BPF_JEQ | BPF_K, value);
  }
  /// Jumps if the value loaded last is this one; the target is set by land(), called with the
  /// result.
  [[nodiscard]] std::size_t jump_if(std::uint32_t value) {
    emit(BPF_JMP | BPF_JEQ | BPF_K, value);
    return size_ - 1;
  }
  void land(std::size_t jump) { code_[jump].jt = static_cast<std::uint8_t>(size_ - jump - 1); }

  std::array<sock_filter, 48> code_{};
  std::array<std::size_t, 16> refusal_{};
  std::size_t size_ = 0, refusals_ = 0;
};

}  // namespace detail

MRC_DECL void attach_slot_filter(const Socket& socket, std::uint8_t slot, std::uint16_t udp_port) {
  detail::SlotFilter(slot, udp_port).attach(socket);
}

}  // namespace mrc::inline v0_1::port
