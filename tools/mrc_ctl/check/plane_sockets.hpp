// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc_ctl/check/probe_packet.hpp"

namespace mrc::check_tool {

/// A plane as UdpPort has it, for probes: one socket receives, and one per path sends from a source
/// port of its own, never in fragments, and by the plane's interface where UdpPort would. One
/// thread.
class PlaneSockets {
 public:
  /// Receives at `port`, or, if that is in use, at any free one. Throws mrc::Error.
  PlaneSockets(const port::LocalAddress& local, std::uint16_t port, unsigned paths);

  [[nodiscard]] const port::IpAddress& address() const noexcept { return local_.ip; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] unsigned paths() const noexcept { return static_cast<unsigned>(senders_.size()); }
  [[nodiscard]] int fd() const noexcept { return receiver_.fd(); }
  /// That has the address now.
  [[nodiscard]] port::Interface interface();

  /// Sends a packet of `size` bytes on a path. 0, or the errno of the kernel; a socket that is full
  /// is waited for, for a moment.
  [[nodiscard]] int send(const ProbeHead& head, std::size_t size, const port::PeerAddress& to,
                         unsigned path);
  /// The same for several packets that leave in one piece: as many of `size` bytes as `bytes` hold,
  /// and a shorter one with what is left.
  [[nodiscard]] int send_piece(const ProbeHead& head, std::size_t size, std::size_t bytes,
                               const port::PeerAddress& to, unsigned path);
  /// The packets that wait, some hundred at most: fn(head, size, from).
  using Take = std::function<void(const ProbeHead&, std::size_t, const port::PeerAddress&)>;
  void receive(const Take& take);

 private:
  /// Whether packets to that address leave from `bound_`.
  [[nodiscard]] bool leaves_bound(const port::IpAddress& to);
  [[nodiscard]] int send(std::size_t bytes, std::size_t segment, const port::PeerAddress& to,
                         unsigned path);

  port::LocalAddress local_;
  std::uint32_t scope_ = 0;
  port::Socket receiver_;
  std::uint16_t port_ = 0;
  std::vector<port::Socket> senders_;
  std::vector<port::Socket> bound_;  ///< the same, and their packets leave by the interface
  port::IpAddress asked_{};          ///< to which packets were sent last
  bool leaves_bound_ = false;        ///< and that from `bound_`
  std::vector<std::uint8_t> buffer_;
};

/// What a failed send() means, with the remedy where there is one.
[[nodiscard]] std::string send_error_text(int error);

}  // namespace mrc::check_tool
