// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1::port {

/// Sockets and their options.

/// A socket, closed with its owner.
using Socket = UniqueFd;

/// setsockopt() of an int; false on failure with errno set.
[[nodiscard]] bool try_option(const Socket& socket, int level, int name, int value) noexcept;

/// setsockopt() of an int that must succeed; `what` names the option in the Error.
void set_option(const Socket& socket, int level, int name, int value, const char* what);

/// getsockopt() of an int; `fallback` on failure.
[[nodiscard]] int get_option(const Socket& socket, int level, int name, int fallback) noexcept;

/// Sets a socket buffer (`name` is SO_RCVBUF or SO_SNDBUF) as close to `bytes` as the kernel allows
/// this process, and returns the size in effect: Linux doubles the value that was set, to have room
/// for its bookkeeping. `force` is the privileged option (SO_RCVBUFFORCE, SO_SNDBUFFORCE), which is
/// not limited by net.core.{r,w}mem_max.
std::uint64_t set_buffer(const Socket& socket, int name, int force, std::uint32_t bytes) noexcept;

/// The part of a socket's receive buffer that is in use, as the kernel charges it, in 1/128: 128 is
/// full. 0 on failure. Costs a system call.
[[nodiscard]] std::uint32_t receive_buffer_fill(const Socket& socket) noexcept;

/// A non-blocking UDP socket of the family of `local.ip`, tied to `local.interface` if one is
/// named. Over IPv6 it receives packets without a UDP checksum, too (mrc-1.0 §1.2). Not bound to an
/// address yet. Throws Error.
[[nodiscard]] Socket make_udp_socket(const LocalAddress& local);

/// A socket address of either IP version with the length that the kernel wants for it.
struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t length = 0;  ///< bytes; 0: no address

  SocketAddress() noexcept : v6{} {}
  /// `port` is in host byte order; `scope` is the interface index, used for link-local addresses.
  SocketAddress(const IpAddress& ip, std::uint16_t port, std::uint32_t scope = 0) noexcept;
  /// A copy of an address of either IP version, as lists of addresses have them.
  explicit SocketAddress(const sockaddr* from) noexcept;

  /// In host byte order; 0: none.
  [[nodiscard]] std::uint16_t port() const noexcept {
    return ntohs(any.sa_family == AF_INET ? v4.sin_port : v6.sin6_port);
  }
  /// Address and port. Of neither IP version: nothing is said.
  [[nodiscard]] PeerAddress peer() const noexcept;
};

/// The IP address in an entry of a list of addresses; nothing if it is of another kind, or null.
[[nodiscard]] std::optional<IpAddress> ip_of(const sockaddr* address) noexcept;

/// bind(); false on failure with errno set.
[[nodiscard]] bool try_bind(const Socket& socket, const SocketAddress& address) noexcept;

/// The port that a socket is bound to, in host byte order, or 0.
[[nodiscard]] std::uint16_t bound_port(const Socket& socket) noexcept;

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::uncancelled {

/// As in core/unique_fd.hpp, for sockets.

/// Like that of the C library.
inline ssize_t recv(int fd, void* to, std::size_t size, int flags) noexcept {
  const Uncancelled now;
  return ::recv(fd, to, size, flags);
}
/// Like that of the C library.
inline int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags) noexcept {
  const Uncancelled now;
  return ::recvmmsg(fd, messages, count, flags, nullptr);
}
/// Like that of the C library.
inline int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) noexcept {
  const Uncancelled now;
  return ::sendmmsg(fd, messages, count, flags);
}

}  // namespace mrc::inline v0_1::uncancelled

namespace mrc::inline v0_1::port {

/// TCP sockets on which nothing waits. What returns a socket returns one that is not open, with
/// errno, when it fails. Set-up only; any thread.

/// Listens at that address, on a free port if it names none.
[[nodiscard]] Socket listen_at(const SocketAddress& at) noexcept;
/// Listens at all addresses of this host, IPv6 and IPv4.
[[nodiscard]] Socket listen_anywhere(std::uint16_t port) noexcept;
/// The next connection, and where it comes from. EAGAIN: there is none yet.
[[nodiscard]] Socket accept_one(const Socket& listener, SocketAddress& from) noexcept;
/// Begins to connect.
[[nodiscard]] Socket begin_connect(const SocketAddress& to) noexcept;
/// How a connect goes on: nothing yet, 0 when it is connected, or an errno value.
[[nodiscard]] std::optional<int> connect_result(const Socket& socket) noexcept;

}  // namespace mrc::inline v0_1::port

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
