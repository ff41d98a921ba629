// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/channel.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "mrc/core/byte_codec.hpp"
#include "mrc/core/error.hpp"

namespace mrc_nccl {

namespace {

// A child that kept its parent's connections open would hide the parent's death from its peers. One
// bit per descriptor. Lock-free, since a lock may be held by a thread that the child lacks.
constexpr int kMostFds = 1 << 16;
std::array<std::atomic<std::uint64_t>, kMostFds / 64> parents_only{};

void close_parents() noexcept {
  for (std::size_t word = 0; word < parents_only.size(); ++word)
    for (auto bits = parents_only[word].exchange(0); bits != 0; bits &= bits - 1)
      ::close(static_cast<int>(word) * 64 + std::countr_zero(bits));
}

int stream_socket(int family) noexcept {
  return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

void set_option(int fd, int level, int option, int value) noexcept {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// A host that vanishes while a connection is set up is noticed within 20 s.
void set_options(int fd) noexcept {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

// The address in the form of the family of the socket.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family = AF_INET6;
};
Address socket_address(const mrc::port::IpAddress& ip, std::uint16_t port) noexcept {
  Address address;
  if (mrc::port::is_v4(ip)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data() + 12, 4);
    std::memcpy(&address.storage, &v4, address.length = sizeof v4);
    address.family = AF_INET;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, ip.data(), 16);
    std::memcpy(&address.storage, &v6, address.length = sizeof v6);
  }
  return address;
}

mrc::port::PeerAddress peer_address(const sockaddr_storage& from) noexcept {
  mrc::port::PeerAddress peer;
  if (from.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &from, sizeof v6);
    std::memcpy(peer.ip.data(), &v6.sin6_addr, 16);
    peer.udp_port = ntohs(v6.sin6_port);
  } else {
    sockaddr_in v4;
    std::memcpy(&v4, &from, sizeof v4);
    const auto* b = reinterpret_cast<const std::uint8_t*>(&v4.sin_addr);
    peer.ip = mrc::port::make_v4(b[0], b[1], b[2], b[3]);
    peer.udp_port = ntohs(v4.sin_port);
  }
  return peer;
}

// One of a few ports may still have connections of earlier listeners, which are no obstacle.
bool listens(const Socket& socket, Address& address, bool reuse) noexcept {
  const int on = 1;
  if (reuse) ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), address.length) == 0 &&
         ::listen(socket.fd(), SOMAXCONN) == 0;
}

// A socket that listens there, or one that is not open, with errno.
Socket try_to_listen(const std::optional<mrc::port::IpAddress>& ip, std::uint16_t port) noexcept {
  Address address = socket_address(ip.value_or(mrc::port::IpAddress{}), port);
  Socket socket(stream_socket(address.family));
  if (!ip && socket.open()) {
    const int off = 0;
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  } else if (!ip) {  // a host without IPv6
    socket = Socket(stream_socket(AF_INET));
    address = socket_address(mrc::port::make_v4(0, 0, 0, 0), port);
  }
  if (socket.open() && !listens(socket, address, port != 0)) {
    const int error = errno;
    socket.close();
    errno = error;
  }
  return socket;
}

// What to do about it.
std::string remedy(const ListenPlace& place, int error) {
  if (error == EADDRINUSE && place.first_port != 0)
    return ": all ports of MRC_NCCL_PORTS are taken, by listeners of this or of other processes";
  if (error == EACCES) return ": MRC_NCCL_PORTS below 1024 need CAP_NET_BIND_SERVICE";
  if (place.ip && (error == EADDRNOTAVAIL || error == EAFNOSUPPORT))
    return ": MRC_NCCL_LISTEN=" + mrc::port::format_ip(*place.ip) +
           " is not an address of this host";
  if (error == EMFILE) return ": raise ulimit -n";
  return {};
}

}  // namespace

Socket::Socket(int fd) noexcept : fd_(fd) {
  static const int watching = ::pthread_atfork(nullptr, nullptr, &close_parents);
  (void)watching;
  if (fd >= 0 && fd < kMostFds)
    parents_only[static_cast<std::size_t>(fd) / 64].fetch_or(std::uint64_t{1} << (fd % 64));
}

void Socket::close() noexcept {
  if (open()) {
    if (fd_ < kMostFds)
      parents_only[static_cast<std::size_t>(fd_) / 64].fetch_and(~(std::uint64_t{1} << (fd_ % 64)));
    ::close(fd_);
  }
  fd_ = -1;
}

Socket listen_at(const ListenPlace& place, std::uint16_t& port) {
  // Ranks that start together would all try the first port first.
  const unsigned ports = place.last_port - place.first_port + 1u;
  const auto start = static_cast<unsigned>(::getpid()) * 61u;
  Socket socket;
  int error = EADDRINUSE;
  for (unsigned i = 0; i < ports && !socket.open() && error == EADDRINUSE; ++i) {
    port = static_cast<std::uint16_t>(place.first_port + (start + i) % ports);
    socket = try_to_listen(place.ip, port);
    error = errno;
  }
  if (!socket.open())
    throw mrc::Error(std::error_code(error, std::system_category()),
                     "cannot listen for connections on a TCP port" + remedy(place, error));
  Address address;
  address.length = sizeof address.storage;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) !=
      0)
    throw mrc::Error(std::error_code(errno, std::system_category()),
                     "cannot find out the TCP port of a listener");
  port = peer_address(address.storage).udp_port;
  return socket;
}

Socket accept_one(const Socket& listener, mrc::port::PeerAddress& peer) noexcept {
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  Socket socket(::accept4(listener.fd(), reinterpret_cast<sockaddr*>(&from), &length,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.open()) return socket;
  set_options(socket.fd());
  peer = peer_address(from);
  return socket;
}

Socket begin_connect(const mrc::port::IpAddress& ip, std::uint16_t port) noexcept {
  const Address address = socket_address(ip, port);
  Socket socket(stream_socket(address.family));
  if (socket.open()) set_options(socket.fd());
  if (socket.open() && ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address.storage),
                                 address.length) != 0) {
    const int error = errno;
    if (error != EINPROGRESS && error != EINTR) {
      socket.close();
      errno = error;
    }
  }
  return socket;
}

std::optional<int> connect_result(const Socket& socket) noexcept {
  pollfd entry{socket.fd(), POLLOUT, 0};
  if (::poll(&entry, 1, 0) <= 0) return std::nullopt;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

// ------------------------------------------------------------------------------------- Channel

namespace {

constexpr std::size_t kHeadBytes = 4, kTagBytes = 8;

}  // namespace

std::uint64_t Channel::tag(const mrc::SipKey& secret, Side sender, std::uint64_t before,
                           mrc::Bytes message) {
  std::vector<std::uint8_t> bytes;
  mrc::ByteWriter(bytes).u8(static_cast<std::uint8_t>(sender)).u64(before).bytes(message);
  return mrc::siphash(secret, bytes);
}

void Channel::fail(int error) noexcept {
  // A reset is the answer of a host whose process is gone. Everything else is the network's: the
  // queue pair, which has other planes, decides whether the peer can be reached.
  if (state_ == State::open)
    state_ = error == 0 || error == ECONNRESET || error == EPIPE ? State::broken : State::lost;
}

void Channel::refuse_forgery() noexcept {
  forged_ = true;
  state_ = State::broken;
  inbox_.clear();
}

void Channel::queue(mrc::Bytes message) {
  sent_tag_ = tag(secret_, side_, sent_tag_, message);
  mrc::ByteWriter(outbox_).u32(message.size()).bytes(message).u64(sent_tag_);
}

void Channel::send(mrc::Bytes message) {
  queue(message);
  flush();
}

void Channel::flush() noexcept {
  while (!outbox_.empty() && state_ == State::open) {
    const auto n = ::send(socket_.fd(), outbox_.data(), outbox_.size(), MSG_NOSIGNAL);
    if (n > 0) {
      outbox_.erase(outbox_.begin(), outbox_.begin() + n);
    } else if (errno == EINTR) {
      continue;
    } else {
      if (errno != EAGAIN) fail(errno);
      return;
    }
  }
}

void Channel::finish() noexcept {
  if (!socket_.open() || finished_) return;
  finished_ = true;
  try {
    queue({});
    flush();
  } catch (...) {  // no memory: the peer takes it for the end of this process
  }
  ::shutdown(socket_.fd(), SHUT_WR);
}

void Channel::close() noexcept {
  finish();
  socket_.close();
}

void Channel::fill() {
  std::array<std::uint8_t, 4096> chunk;
  while (state_ == State::open && inbox_.size() < kMaxMessage) {
    const auto n = ::recv(socket_.fd(), chunk.data(), chunk.size(), 0);
    if (n > 0) {
      inbox_.insert(inbox_.end(), chunk.begin(), chunk.begin() + n);
    } else if (n == 0) {
      fail(0);
    } else if (errno != EINTR) {
      if (errno != EAGAIN) fail(errno);
      return;
    }
  }
}

std::optional<std::vector<std::uint8_t>> Channel::receive() {
  if (!socket_.open()) return std::nullopt;
  flush();
  fill();
  mrc::ByteReader in(inbox_);
  const std::size_t length = in.u32();
  if (length > kMaxMessage - kHeadBytes - kTagBytes) {
    refuse_forgery();
    return std::nullopt;
  }
  const mrc::Bytes bytes = in.bytes(length);
  const std::uint64_t tag_of_peer = in.u64();
  if (in.missing()) return std::nullopt;
  std::vector<std::uint8_t> message(bytes.begin(), bytes.end());
  const Side sender = side_ == Side::connects ? Side::accepts : Side::connects;
  received_tag_ = tag(secret_, sender, received_tag_, message);
  if (received_tag_ != tag_of_peer) {
    refuse_forgery();
    return std::nullopt;
  }
  inbox_.erase(inbox_.begin(), inbox_.end() - static_cast<std::ptrdiff_t>(in.left()));
  if (!message.empty()) return message;
  state_ = State::ended;
  return std::nullopt;
}

Channel::State Channel::look() {
  if (!socket_.open()) return State::ended;
  while (receive()) {  // nothing but the end is expected any more
  }
  return state_;
}

// ------------------------------------------------------------------------------ the peer's host

void Channel::outlast_outages() noexcept {
  set_option(socket_.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, 24 * 3600 * 1000);
  ask_host(false);
}

void Channel::ask_host(bool often) noexcept {
  if (!socket_.open()) return;
  const int seconds = often ? 1 : 60;
  set_option(socket_.fd(), IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set_option(socket_.fd(), IPPROTO_TCP, TCP_KEEPIDLE, seconds);  // asks at once where that is over
}

bool Channel::host_heard_within(mrc::Duration time) const noexcept {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (!socket_.open() || (state_ != State::open) ||
      ::getsockopt(socket_.fd(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
    return false;
  return std::chrono::milliseconds(info.tcpi_last_ack_recv) < time;
}

}  // namespace mrc_nccl
