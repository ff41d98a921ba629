// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"
#include "nccl_plugin/settings/settings.hpp"

/// TCP without waiting, for the set-up of connections. The connection stays open as long as its
/// queue pair: a peer that closes it says so, and the end of a process, or of its host, shows.
namespace mrc_nccl {

/// A TCP socket that children made by fork() do not keep: there it is closed already.
class Socket {
 public:
  Socket() = default;
  /// A device is open, so forks are watched already.
  explicit Socket(mrc::UniqueFd socket) noexcept;
  Socket(Socket&& other) noexcept = default;
  Socket& operator=(Socket&& other) noexcept {
    close();
    owned_ = std::move(other.owned_);
    fork_ = other.fork_;
    return *this;
  }
  ~Socket() { close(); }

  [[nodiscard]] const mrc::UniqueFd& owned() const noexcept { return owned_; }
  [[nodiscard]] int fd() const noexcept { return owned_.fd(); }
  [[nodiscard]] bool open() const noexcept { return owned_.open() && !fork_.forked(); }
  void close() noexcept;

 private:
  mrc::UniqueFd owned_;
  mrc::detail::ForkMark fork_;  // in a child the number may be that of another file by now
};

/// Listens there, on one of the ports that are free. Throws mrc::Error.
[[nodiscard]] Socket listen_at(const ListenPlace& place, std::uint16_t& port);
/// The next connection, or a socket that is not open, with errno.
[[nodiscard]] Socket accept_one(const Socket& listener, mrc::port::PeerAddress& peer) noexcept;
/// Begins to connect; not open, with errno, if that fails at once.
[[nodiscard]] Socket begin_connect(const mrc::port::IpAddress& ip, std::uint16_t port) noexcept;

/// Messages over a connected socket: 4 bytes of length, the bytes, and a tag of 8 bytes,
/// SipHash-2-4 of the side that sends, the tag before and the bytes. So each message is known to be
/// the next one of the peer; whoever can't read the handle has 64 bits to guess. Nothing waits. One
/// thread at a time.
class Channel {
 public:
  /// Longest message: ConnectionInfo of 32 planes is below 2 KiB.
  static constexpr std::size_t kMaxMessage = 16 << 10;

  /// Which end this is.
  enum class Side : std::uint8_t { connects = 1, accepts = 2 };

  Channel() = default;
  Channel(Socket socket, std::string name, const mrc::SipKey& secret, Side side)
      : socket_(std::move(socket)), peer_(std::move(name)), secret_(secret), side_(side) {}

  /// What has become of the peer.
  enum class State : std::uint8_t {
    open,
    ended,   ///< it has said so
    broken,  ///< closed or reset without a word, as for a process that has died; or not authentic.
             ///< Somebody who can forge TCP segments can do that
    lost,    ///< the network does not carry it any more, which says nothing about the peer
  };
  [[nodiscard]] State state() const noexcept { return state_; }
  /// Broken, since what came was not from the peer.
  [[nodiscard]] bool forged() const noexcept { return forged_; }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }

  /// Queues a message and sends what can be sent. Not an empty one, which is the end.
  void send(mrc::Bytes message);
  /// A message that is there in full. Nothing if there is none; look at state() then.
  [[nodiscard]] std::optional<std::vector<std::uint8_t>> receive();
  /// Sends what is queued; one system call at most if nothing is. Reads what the peer has sent.
  State look();
  /// From now on no outage of the network ends the channel, however long it lasts.
  void outlast_outages() noexcept;
  /// Whether to ask the peer's host every second if it is there. Its kernel answers, also for a
  /// process that is stopped.
  void ask_host(bool often) noexcept;
  /// True if the peer's host has answered lately.
  [[nodiscard]] bool host_heard_within(mrc::Duration time) const noexcept;
  /// Says that nothing more will come, and sends what is queued.
  void finish() noexcept;
  /// The same, and closes the socket.
  void close() noexcept;

 private:
  void queue(mrc::Bytes message);
  [[nodiscard]] static std::uint64_t tag(const mrc::SipKey& secret, Side sender,
                                         std::uint64_t before, mrc::Bytes message);
  void flush() noexcept;
  void fill();
  void fail(int error) noexcept;
  void refuse_forgery() noexcept;

  Socket socket_;
  std::string peer_ = "nobody";
  mrc::SipKey secret_{};
  Side side_ = Side::connects;
  std::uint64_t sent_tag_ = 0, received_tag_ = 0;  // of the messages before
  std::vector<std::uint8_t> outbox_, inbox_;
  State state_ = State::open;
  bool forged_ = false;
  bool finished_ = false;
};

}  // namespace mrc_nccl
