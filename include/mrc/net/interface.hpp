// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"
#include "mrc/wire/ip.hpp"

struct ifreq;  // <net/if.h>

namespace mrc::inline v0_1::port {

/// A socket, closed with its owner.
using Socket = UniqueFd;

/// setsockopt() of an int; false on failure with errno set.
[[nodiscard]] bool try_option(const Socket& socket, int level, int name, int value) noexcept;

/// setsockopt() of an int that must succeed; `what` names the option in the Error.
void set_option(const Socket& socket, int level, int name, int value, const char* what);

/// getsockopt() of an int; `fallback` on failure.
[[nodiscard]] int get_option(const Socket& socket, int level, int name, int fallback) noexcept;

/// Sets a socket buffer (`name`: SO_RCVBUF or SO_SNDBUF) as close to `bytes` as the kernel allows,
/// and returns the size in effect, which Linux doubles. `force`: the privileged option, which
/// net.core.{r,w}mem_max does not limit.
std::uint64_t set_buffer(const Socket& socket, int name, int force, std::uint32_t bytes) noexcept;

/// The part of a socket's receive buffer that is in use, in 1/128; 0 on failure. A system call.
[[nodiscard]] std::uint32_t receive_buffer_fill(const Socket& socket) noexcept;

/// A non-blocking UDP socket of the family of `local.ip`, tied to `local.interface` if one is
/// named; not bound yet. Over IPv6 it receives packets without a UDP checksum, too (mrc-1.0 §1.2).
/// Throws Error.
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

/// As in core/unique_fd.hpp, for sockets: like those of the C library.
inline ssize_t recv(int fd, void* to, std::size_t size, int flags) noexcept {
  const Uncancelled now;
  return ::recv(fd, to, size, flags);
}
/// See recv().
inline int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags) noexcept {
  const Uncancelled now;
  return ::recvmmsg(fd, messages, count, flags, nullptr);
}
/// See recv().
inline int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) noexcept {
  const Uncancelled now;
  return ::sendmmsg(fd, messages, count, flags);
}

}  // namespace mrc::inline v0_1::uncancelled

namespace mrc::inline v0_1::port {

/// TCP sockets on which nothing waits; one that is not open, with errno, where that fails. Set-up
/// only; any thread.

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

namespace detail {

/// Base of the classic BPF filters that ports attach. Byte offsets count from the Ethernet header
/// on a packet socket, from the UDP header on a UDP socket. A load beyond the end rejects the
/// packet.
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
  void load_byte(std::uint32_t at) { emit(BPF_LD | BPF_B | BPF_ABS, at); }
  /// Rejects the packet unless the value loaded last is this one.
  void require(std::uint32_t value) {
    refusal_[refusals_++] = size_;
    emit(BPF_JMP | BPF_JEQ | BPF_K, value);
  }
  /// Jumps if the value loaded last is this one, to where land() is called with the result.
  [[nodiscard]] std::size_t jump_if(std::uint32_t value, unsigned test = BPF_JEQ) {
    emit(BPF_JMP | test | BPF_K, value);
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

/// Calls visit(type, value) for each rtattr in `bytes`.
template <class Visit>
void for_each_attribute(Bytes bytes, Visit visit) {
  rtattr attribute;
  while (bytes.size() >= sizeof attribute) {
    std::memcpy(&attribute, bytes.data(), sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > bytes.size()) return;
    visit(static_cast<unsigned>(attribute.rta_type & NLA_TYPE_MASK),
          bytes.first(attribute.rta_len).subspan(RTA_LENGTH(0)));
    bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), RTA_ALIGN(attribute.rta_len)));
  }
}

/// A request to rtnetlink with IPv6 addresses and numbers as attributes, and its one answer.
class NetlinkRequest {
 public:
  template <class Header>
  NetlinkRequest(std::uint16_t type, const Header& header) {
    head().nlmsg_len = NLMSG_LENGTH(sizeof header);
    head().nlmsg_type = type;
    head().nlmsg_flags = NLM_F_REQUEST;
    std::memcpy(data(), &header, sizeof header);
  }

  void add(std::uint16_t type, const void* data, std::size_t size) noexcept {
    const rtattr attribute{static_cast<unsigned short>(RTA_LENGTH(size)), type};
    std::uint8_t* at = buffer_.data() + NLMSG_ALIGN(head().nlmsg_len);
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), data, size);
    head().nlmsg_len =
        static_cast<std::uint32_t>(NLMSG_ALIGN(head().nlmsg_len) + RTA_ALIGN(attribute.rta_len));
  }

  /// Sends it and reads the answer. 0, or the errno that the kernel answered.
  [[nodiscard]] int send() noexcept {
    const Uncancelled asking;
    const Socket socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!socket.open()) return errno;
    if (::send(socket.fd(), buffer_.data(), head().nlmsg_len, 0) < 0) return errno;
    const ssize_t n = ::recv(socket.fd(), buffer_.data(), buffer_.size(), 0);
    if (n < 0) return errno;
    if (!NLMSG_OK(&head(), static_cast<std::size_t>(n))) return EBADMSG;
    if (head().nlmsg_type != NLMSG_ERROR) return 0;
    nlmsgerr error;
    if (head().nlmsg_len < NLMSG_LENGTH(sizeof error)) return EBADMSG;
    std::memcpy(&error, data(), sizeof error);
    return -error.error;
  }

  /// The answer's header.
  template <class Header>
  [[nodiscard]] Header header() noexcept {
    Header header{};
    if (head().nlmsg_len >= NLMSG_LENGTH(sizeof header))
      std::memcpy(&header, data(), sizeof header);
    return header;
  }

  /// The answer's attributes, behind a header of `header` bytes.
  [[nodiscard]] Bytes attributes(std::size_t header) noexcept {
    return attributes_of(buffer_.data(), header);
  }
  /// Copies the answer's attribute behind a header of `header` bytes; false if there is none of
  /// that type and size.
  [[nodiscard]] bool get(std::size_t header, std::uint16_t type, void* data,
                         std::size_t size) noexcept {
    bool found = false;
    for_each_attribute(attributes(header), [&](unsigned its, Bytes value) {
      if (found || its != type || value.size() != size) return;
      std::memcpy(data, value.data(), size);
      found = true;
    });
    return found;
  }

  /// Sends it as a question for everything, and calls visit(header, attributes) for each message of
  /// the answer, `most` at most.
  template <class Header, class Visit>
  void send_for_all(std::size_t most, Visit visit) {
    head().nlmsg_flags |= NLM_F_DUMP;
    const Socket socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!socket.open() || ::send(socket.fd(), buffer_.data(), head().nlmsg_len, 0) < 0) return;
    alignas(nlmsghdr) std::array<std::uint8_t, 32 << 10> answer;
    for (std::size_t seen = 0; seen < most;) {
      const ssize_t n = ::recv(socket.fd(), answer.data(), answer.size(), 0);
      if (n <= 0) return;
      const auto size = static_cast<std::size_t>(n);
      nlmsghdr of;
      for (std::size_t at = 0; at + sizeof of <= size; at += NLMSG_ALIGN(of.nlmsg_len), ++seen) {
        std::memcpy(&of, answer.data() + at, sizeof of);
        if (of.nlmsg_len < NLMSG_LENGTH(sizeof(Header)) || of.nlmsg_len > size - at ||
            of.nlmsg_type == NLMSG_DONE || of.nlmsg_type == NLMSG_ERROR)
          return;
        Header header;
        std::memcpy(&header, answer.data() + at + NLMSG_HDRLEN, sizeof header);
        visit(header, attributes_of(answer.data() + at, sizeof header));
      }
    }
  }

 private:
  [[nodiscard]] static Bytes attributes_of(const std::uint8_t* message,
                                           std::size_t header) noexcept {
    nlmsghdr head;
    std::memcpy(&head, message, sizeof head);
    const std::size_t begin = NLMSG_ALIGN(NLMSG_LENGTH(header));
    return {message + begin, head.nlmsg_len - std::min<std::size_t>(head.nlmsg_len, begin)};
  }
  [[nodiscard]] std::uint8_t* data() noexcept { return buffer_.data() + NLMSG_LENGTH(0); }
  [[nodiscard]] nlmsghdr& head() noexcept { return *reinterpret_cast<nlmsghdr*>(buffer_.data()); }

  alignas(nlmsghdr) std::array<std::uint8_t, 4096> buffer_{};
};

}  // namespace detail

/// The interface of a local address. A plain value.
struct Interface {
  std::string name;          ///< empty if none was found
  std::uint32_t index = 0;   ///< the kernel's interface index; 0 if none was found
  std::uint32_t mtu = 1500;  ///< bytes of the largest IP packet; Ethernet's where not known
  bool running = true;       ///< up and with a carrier, or that can't be told
  /// Packets can leave by it. The loopback interface and those that only hold addresses (dummy,
  /// VRF) are no links.
  bool link = true;
};

/// Interface::link of an interface with these flags (IFF_*).
[[nodiscard]] bool is_link(unsigned flags) noexcept;

/// Reads name, MTU and state anew, by the index. What can't be read stays. False if there is no
/// such interface any more, which is not running then. Three system calls.
[[nodiscard]] bool refresh(const Socket& socket, Interface& interface) noexcept;

/// All IP addresses of this host, or of this network namespace. Throws Error.
[[nodiscard]] std::vector<IpAddress> local_addresses();

/// Length of the subnet's prefix of an address of this host, counted in the mapped form for IPv4
/// (10.0.0.1/24 has 120); 128 if no interface has it. Throws Error.
[[nodiscard]] unsigned prefix_length(const IpAddress& local);

/// Fills in the address of a LocalAddress that names only an interface: the first of IPv4, else of
/// IPv6 that is not link-local, else the link-local one. Throws Error if there is none.
[[nodiscard]] LocalAddress resolve(LocalAddress local);

/// Waits, kTentative at most, while an IPv6 address of this host can't be used yet: duplicate
/// address detection takes 1 to 2 s. Throws Error that names the cause if it is not usable then.
void await_address(const LocalAddress& local);
/// See await_address().
inline constexpr Duration kTentative = std::chrono::seconds{3};

/// The interface of that name, else the one that has the address. A loopback address that no
/// interface lists (127.0.0.2, say) belongs to the loopback interface. Throws Error.
[[nodiscard]] Interface find_interface(const Socket& socket, const LocalAddress& local);

/// Packets of the socket leave by that interface, and none that arrive by another are received:
/// Linux before 5.7 wants CAP_NET_RAW. Without it packets that arrive are not limited, and IPv6
/// routes with smaller metrics precede. Throws Error.
void leave_by(const Socket& socket, bool v4, const Interface& interface);

namespace detail {

/// An ioctl() about the interface of that name; false on failure with errno set.
[[nodiscard]] bool ask_interface(const Socket& socket, const std::string& name, unsigned long what,
                                 ifreq& request) noexcept;

/// True if the flags (the answer to SIOCGIFFLAGS) say that the interface is up and has a carrier.
[[nodiscard]] bool is_running(const ifreq& flags) noexcept;

/// The number of a network namespace's file below /proc; 0 if it can't be looked at.
[[nodiscard]] std::uint64_t inode_of(const char* path) noexcept;

}  // namespace detail

/// The address that packets to another one would leave from, by the kernel's routes; all zero if
/// there is no route. Sends nothing.
[[nodiscard]] IpAddress source_address(const IpAddress& destination) noexcept;

/// The address that packets to the Internet would leave from: of IPv4, else of IPv6, else
/// 127.0.0.1. Sends nothing. Throws Error.
[[nodiscard]] IpAddress default_route_address();

/// A netlink socket that becomes readable when a link of this network namespace changes, or what
/// else it watches. One thread at a time.
class NetlinkMonitor {
 public:
  /// What is watched besides links: neighbours and IPv6 routes, or routes and addresses.
  enum class Watch : std::uint8_t { next_hops, routes };
  /// What has changed.
  struct News {
    bool links = false;      ///< any interface: one that was removed comes back with a new index
    bool next_hops = false;  ///< what else is watched; of neighbours, those on read()'s interface
  };

  /// Throws Error.
  explicit NetlinkMonitor(Watch watch = Watch::next_hops);
  /// Null where that is not allowed.
  [[nodiscard]] static std::unique_ptr<NetlinkMonitor> try_open(Watch watch);

  /// Becomes readable when there is something to read().
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

  /// Reads the messages that are waiting, 64 at most, and returns what they are about. The caller
  /// then queries the state itself: the kernel drops messages when too many are waiting.
  [[nodiscard]] News read(std::uint32_t interface_index) noexcept;

 private:
  void look(std::size_t size, std::uint32_t interface_index, News& news) const noexcept;

  Socket socket_;
  alignas(8) std::array<std::uint8_t, 8192> buffer_{};
};

/// True if packets from `source`, an address of this host, to `destination` are delivered on this
/// host over the loopback interface of its network namespace. Both are of one IP version. Sends
/// nothing.
[[nodiscard]] bool stays_on_loopback(const IpAddress& source,
                                     const IpAddress& destination) noexcept;

/// A number of the calling thread's network namespace that no other has on any machine, unless one
/// was copied while it ran: a hash over the namespace's number and the kernel's boot id. No secret.
/// 0: it can't be told here. Any thread.
[[nodiscard]] std::uint64_t network_namespace() noexcept;

/// By which interfaces packets from one address leave for another, as the kernel's routes and rules
/// say. A plain value.
struct Way {
  /// Next hops that are looked at, most.
  static constexpr std::size_t kMost = 8;
  /// The loopback interface's index, in every network namespace.
  static constexpr std::uint32_t kLoopback = 1;

  /// Indices of the next hops' interfaces, then 0. None at all: unknown, or `none`. kLoopback if
  /// the other address is one of this host, too.
  std::array<std::uint32_t, kMost> interfaces{};
  bool none = false;  ///< there is no route
  /// Packets leave by that interface only if their socket is bound to it: by the route alone, some
  /// would take another.
  bool bound = false;
};

/// The way of packets: by `own`, the interface that has their source address, if it is a link and a
/// route there leads to the destination, else as the route says. Both addresses are of one IP
/// version. Sends nothing; any thread.
[[nodiscard]] Way find_way(const Interface& own, const IpAddress& source,
                           const IpAddress& destination) noexcept;

/// The MTU, in bytes, of packets from an address: that of `own`, the interface that has it, if it
/// is a link or the address a loopback address. Else the smallest one of the links by which routers
/// are reached, without default routes if there are others, or else of all that are up; `own`'s if
/// there are none. Links that lead to neighbours only are left out: who has a peer there asks for
/// the way to it. Throws Error.
[[nodiscard]] std::uint32_t outgoing_mtu(const Socket& socket, const Interface& own,
                                         const IpAddress& source);

}  // namespace mrc::inline v0_1::port
