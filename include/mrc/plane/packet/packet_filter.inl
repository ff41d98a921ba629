// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/if_ether.h>

#include <cstddef>

#include "mrc/net/socket.hpp"
#include "mrc/plane/packet/packet_filter.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/opcode.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// The program of a slot filter (attach_slot_filter()), in classic BPF. A plain value.
class SlotFilter final : public FilterProgram {
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
    const std::size_t own = jump_if(slot);
    require(0x100);  // no byte is: everything else of other slots is rejected
    land(request);
    land(answer);
    // Endpoint packets to QPN 2 are for all slots, those to a queue pair for its own.
    load_byte_x(8 + 5);
    const std::size_t own_endpoint = jump_if(slot);
    require(0);
    load_half_x(8 + 6);
    require(value(kEndpointQpn));
    land(own);
    land(own_endpoint);
    finish();
  }
};

}  // namespace detail

void attach_slot_filter(const Socket& socket, std::uint8_t slot, std::uint16_t udp_port) {
  detail::SlotFilter(slot, udp_port).attach(socket);
}

}  // namespace mrc::inline v0_1::port
