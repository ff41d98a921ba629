// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/channel.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/net/interface.hpp"

namespace mrc_nccl {

namespace {

// A child that kept its parent's connections open would hide the parent's death from its peers. One
// bit per descriptor. Lock-free, since a lock may be held by a thread that the child lacks.
constexpr int kMostFds = 1 << 16;
std::array<std::atomic<std::uint64_t>, kMostFds / 64> parents_only{};

void note(int fd, bool parents) noexcept {
  if (fd < 0 || fd >= kMostFds) return;
  const std::uint64_t bit = std::uint64_t{1} << (fd % 64);
  auto& word = parents_only[static_cast<std::size_t>(fd) / 64];
  if (parents)
    word.fetch_or(bit);
  else
    word.fetch_and(~bit);
}

void close_parents() noexcept {
  for (std::size_t word = 0; word < parents_only.size(); ++word)
    for (auto bits = parents_only[word].exchange(0); bits != 0; bits &= bits - 1)
      ::close(static_cast<int>(word) * 64 + std::countr_zero(bits));
}

void set_option(const Socket& socket, int level, int option, int value) noexcept {
  (void)mrc::port::try_option(socket.owned(), level, option, value);
}

// A host that vanishes while a connection is set up is noticed within 20 s.
void set_options(const Socket& socket) noexcept {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
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

Socket::Socket(mrc::UniqueFd socket) noexcept : owned_(std::move(socket)) {
  static const int watching = ::pthread_atfork(nullptr, nullptr, &close_parents);
  (void)watching;
  note(fd(), true);
}

void Socket::close() noexcept {
  if (fork_.forked()) (void)owned_.release();
  note(fd(), false);
  owned_.close();
}

Socket listen_at(const ListenPlace& place, std::uint16_t& port) {
  // Ranks that start together would all try the first port first.
  const unsigned ports = place.last_port - place.first_port + 1u;
  const auto start = static_cast<unsigned>(::getpid()) * 61u;
  Socket socket;
  int error = EADDRINUSE;
  for (unsigned i = 0; i < ports && !socket.open() && error == EADDRINUSE; ++i) {
    port = static_cast<std::uint16_t>(place.first_port + (start + i) % ports);
    socket = Socket(place.ip ? mrc::port::listen_at({*place.ip, port})
                             : mrc::port::listen_anywhere(port));
    error = errno;
  }
  if (!socket.open())
    throw mrc::Error(std::error_code(error, std::system_category()),
                     "cannot listen for connections on a TCP port" + remedy(place, error));
  port = mrc::port::bound_port(socket.owned());
  if (port == 0)
    throw mrc::Error(std::error_code(errno, std::system_category()),
                     "cannot find out the TCP port of a listener");
  return socket;
}

Socket accept_one(const Socket& listener, mrc::port::PeerAddress& peer) noexcept {
  mrc::port::SocketAddress from;
  Socket socket(mrc::port::accept_one(listener.owned(), from));
  if (socket.open()) set_options(socket);
  peer = from.peer();
  return socket;
}

Socket begin_connect(const mrc::port::IpAddress& ip, std::uint16_t port) noexcept {
  Socket socket(mrc::port::begin_connect({ip, port}));
  if (socket.open()) set_options(socket);
  return socket;
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
  set_option(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT, 24 * 3600 * 1000);
  ask_host(false);
}

void Channel::ask_host(bool often) noexcept {
  if (!socket_.open()) return;
  const int seconds = often ? 1 : 60;
  set_option(socket_, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set_option(socket_, IPPROTO_TCP, TCP_KEEPIDLE, seconds);  // asks at once where that is over
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
