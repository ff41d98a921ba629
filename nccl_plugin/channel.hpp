// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "nccl_plugin/settings/settings.hpp"

/// TCP without waiting, for the set-up of connections. The connection stays open as long as its
/// queue pair: its end tells that the peer's process has closed it, or has died.
namespace mrc_nccl {

/// How many forks lie between the start of the program and this process.
[[nodiscard]] unsigned fork_generation() noexcept;

/// A TCP socket that children made by fork() do not keep: there it is closed already.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) noexcept;
  Socket(Socket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), generation_(other.generation_) {}
  Socket& operator=(Socket&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    generation_ = other.generation_;
    return *this;
  }
  ~Socket() { close(); }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0 && generation_ == fork_generation(); }
  void close() noexcept;

 private:
  int fd_ = -1;
  unsigned generation_ = 0;  // in a child the number may be that of another file by now
};

/// Listens there, on one of the ports that are free. Throws mrc::Error.
[[nodiscard]] Socket listen_at(const ListenPlace& place, std::uint16_t& port);
/// The next connection, or a socket that is not open, with errno.
[[nodiscard]] Socket accept_one(const Socket& listener, mrc::port::PeerAddress& peer) noexcept;
/// Begins to connect; not open, with errno, if that fails at once.
[[nodiscard]] Socket begin_connect(const mrc::port::IpAddress& ip, std::uint16_t port) noexcept;
/// How a connect goes on: nothing yet, 0 when it is connected, or an errno value.
[[nodiscard]] std::optional<int> connect_result(const Socket& socket) noexcept;

/// Messages over a connected socket: 4 bytes of length, then the bytes. Nothing waits. One thread
/// at a time.
class Channel {
 public:
  /// Longest message: ConnectionInfo of 32 planes is below 2 KiB.
  static constexpr std::size_t kMaxMessage = 16 << 10;

  Channel() = default;
  Channel(Socket socket, std::string name) : socket_(std::move(socket)), peer_(std::move(name)) {}

  /// What has become of the peer.
  enum class State : std::uint8_t {
    open,
    ended,  ///< it closed the connection, or its process ended
    lost,   ///< the network does not carry it any more, which says nothing about the peer
  };
  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

  /// Queues a message and sends what can be sent.
  void send(mrc::Bytes message);
  /// A message that is there in full. Nothing if there is none; look at state() then.
  [[nodiscard]] std::optional<std::vector<std::uint8_t>> receive();
  /// Sends what is queued; one system call at most if nothing is. Reads what the peer has sent.
  State look();
  /// Sends what is queued and says that nothing more will come: the peer sees the end.
  void finish() noexcept;
  void close() noexcept { socket_.close(); }

 private:
  void flush() noexcept;
  void fill();
  void fail(int error) noexcept;

  Socket socket_;
  std::string peer_ = "nobody";
  std::vector<std::uint8_t> outbox_, inbox_;
  State state_ = State::open;
};

}  // namespace mrc_nccl
