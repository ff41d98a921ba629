// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "mrc/core/system_error.hpp"
#include "mrc/net/socket.hpp"

namespace mrc::inline v0_1::port::detail {

/// A socket filter in classic BPF under construction: base of those that ports attach. Byte offsets
/// count from where the kernel shows the packet to the filter: on a packet socket the Ethernet
/// header, on a UDP socket the UDP header. A load beyond the end rejects the packet.
class FilterProgram {
 public:
  /// Throws Error if the kernel refuses it.
  void attach(const Socket& socket) {
    const sock_fprog program{static_cast<unsigned short>(size_), code_.data()};
    if (setsockopt(socket.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
      throw_errno("cannot attach the packet filter");
  }

 protected:
  void emit(unsigned code, std::uint32_t k) {
    code_[size_++] = {static_cast<std::uint16_t>(code), 0, 0, k};
  }
  void load_half(std::uint32_t at) { emit(BPF_LD | BPF_H | BPF_ABS, at); }
  void load_byte(std::uint32_t at) { emit(BPF_LD | BPF_B | BPF_ABS, at); }
  void load_half_x(std::uint32_t at) { emit(BPF_LD | BPF_H | BPF_IND, at); }
  void load_byte_x(std::uint32_t at) { emit(BPF_LD | BPF_B | BPF_IND, at); }
  void load_length() { emit(BPF_LD | BPF_W | BPF_LEN, 0); }
  void set_x(std::uint32_t value) { emit(BPF_LDX | BPF_IMM, value); }
  /// Rejects the packet unless the value loaded last is this one.
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
  /// The same if it is greater.
  [[nodiscard]] std::size_t jump_if_above(std::uint32_t value) {
    emit(BPF_JMP | BPF_JGT | BPF_K, value);
    return size_ - 1;
  }
  void land(std::size_t jump) { code_[jump].jt = static_cast<std::uint8_t>(size_ - jump - 1); }

  /// Ends the program: passes the packet, and makes the place where require() rejects it.
  void finish() {
    emit(BPF_RET | BPF_K, 0xFFFF'FFFF);
    emit(BPF_RET | BPF_K, 0);
    for (std::size_t i = 0; i < refusals_; ++i) {
      sock_filter& jump = code_[refusal_[i]];
      jump.jf = static_cast<std::uint8_t>(size_ - 1 - refusal_[i] - 1);
    }
  }

 private:
  std::array<sock_filter, 48> code_{};
  std::array<std::size_t, 16> refusal_{};
  std::size_t size_ = 0, refusals_ = 0;
};

}  // namespace mrc::inline v0_1::port::detail
