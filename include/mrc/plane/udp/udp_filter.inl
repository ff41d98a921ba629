// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/net/socket.hpp"
#include "mrc/plane/udp/udp_filter.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/opcode.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// The program of attach_udp_filter(). A plain value.
class UdpFilter final : public FilterProgram {
 public:
  explicit UdpFilter(std::uint32_t largest) {
    constexpr std::uint32_t kBth = sizeof(wire::Udp), kRange = 0x1F;
    load_length();
    const std::size_t joined =
        jump_if_above(static_cast<std::uint32_t>(sizeof(wire::Udp)) + largest);
    load_byte(kBth + sizeof(wire::Bth) - 1);  // rejects what is shorter
    load_byte(kBth + 1);
    emit(BPF_ALU | BPF_AND | BPF_K, 0x0F);
    require(0);  // transport version
    load_byte(kBth);
    const std::size_t datagram = jump_if(static_cast<std::uint8_t>(wire::Opcode::datagram));
    const std::size_t with_imm = jump_if(static_cast<std::uint8_t>(wire::Opcode::datagram_imm));
    emit(BPF_ALU | BPF_AND | BPF_K, 0xFF & ~kRange);
    require(kFirst);
    // A bit for each opcode of that range.
    load_byte(kBth);
    emit(BPF_ALU | BPF_AND | BPF_K, kRange);
    emit(BPF_MISC | BPF_TAX, 0);
    emit(BPF_LD | BPF_IMM, known());
    emit(BPF_ALU | BPF_RSH | BPF_X, 0);
    emit(BPF_ALU | BPF_AND | BPF_K, 1);
    require(1);
    land(joined);
    land(datagram);
    land(with_imm);
    finish();
  }

 private:
  static constexpr std::uint8_t kFirst = 0xC0;
  [[nodiscard]] static constexpr std::uint32_t known() {
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < 32; ++i)
      if (wire::is_known(static_cast<std::uint8_t>(kFirst + i))) bits |= 1u << i;
    return bits;
  }
};

}  // namespace detail

void attach_udp_filter(const Socket& socket, std::uint32_t largest) {
  detail::UdpFilter(largest).attach(socket);
}

}  // namespace mrc::inline v0_1::port
