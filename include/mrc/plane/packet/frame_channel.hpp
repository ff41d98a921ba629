// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mrc/api/device_stats.hpp"
#include "mrc/core/types.hpp"
#include "mrc/plane/packet/packet_socket.hpp"

namespace mrc::inline v0_1::port {

/// How the frames of a packet port enter and leave an interface: by packet sockets (SocketFrames),
/// or by a raw-packet queue pair of its NIC (verbs_frames.hpp). Headers, routes and checks are the
/// port's.
///
/// One thread at a time. Nothing throws.
class FrameChannel {
 public:
  FrameChannel() = default;
  FrameChannel(const FrameChannel&) = delete;
  FrameChannel& operator=(const FrameChannel&) = delete;
  virtual ~FrameChannel() = default;

  /// Uses this interface from now on; index 0: none. False: there is none, or it can't be used.
  [[nodiscard]] virtual bool attach(const InterfaceState& interface) noexcept = 0;
  /// False: what carries the frames is gone or has failed; attach() again.
  [[nodiscard]] virtual bool usable(Time now) noexcept = 0;
  /// When usable() is to be called again, at the latest.
  [[nodiscard]] virtual Time next_look() const noexcept = 0;

  /// Sends frames, each in pieces, and counts its calls in `stats`. Returns how many were taken,
  /// from the first on: their memory is no longer needed. If not all, errno is the error of the
  /// first that was not; EAGAIN or ENOBUFS: try again soon.
  [[nodiscard]] virtual std::size_t send(std::span<mmsghdr> frames, PortStats& stats) noexcept = 0;
  /// Up to `most` frames that have arrived, in memory that is the caller's until the next call. An
  /// empty one was too long.
  [[nodiscard]] virtual std::span<const MutableBytes> receive(std::size_t most) noexcept = 0;
  /// The last receive() may have left frames behind.
  [[nodiscard]] virtual bool backlogged() const noexcept = 0;

  /// Part of the receive buffer in use, in 1/128.
  [[nodiscard]] virtual std::uint32_t fill() const noexcept = 0;
  /// Size of the receive buffer in bytes.
  [[nodiscard]] virtual std::uint64_t buffer() const noexcept = 0;
  /// Frames that were dropped since there was no room for them, as far as is known.
  [[nodiscard]] virtual std::uint64_t overrun() const noexcept = 0;
  /// Readable when something arrives after arm(); stays the same.
  [[nodiscard]] virtual int poll_fd() const noexcept = 0;
  /// Before sleep on poll_fd(). False: something has arrived since the last receive().
  [[nodiscard]] virtual bool arm() noexcept = 0;
  /// A line for the operator on how the channel was opened; empty: nothing to say.
  [[nodiscard]] virtual std::string note() const { return {}; }
};

}  // namespace mrc::inline v0_1::port
