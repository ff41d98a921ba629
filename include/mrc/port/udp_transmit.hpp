// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc/port/port.hpp"
#include "mrc/port/sendable.hpp"
#include "mrc/port/socket.hpp"
#include "mrc/port/udp_path.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

/// An entry of the port's address table.
struct UdpPeer {
  SocketAddress address;    ///< length 0: empty entry
  wire::IcrcPrefix prefix;  ///< from this port to the peer
};

/// Sends the packets of one group, which share peer and path: runs of packets of one size go as
/// one GSO message each, several messages with one system call. Payload is not copied here: the
/// kernel gathers it from the user's memory. Large (scratch space): lives on the heap. One thread
/// at a time.
class UdpTransmitter {
 public:
  static constexpr std::uint32_t kMaxSegments = 64;    ///< per message (kernels before 6.9)
  static constexpr std::uint32_t kMaxMessage = 65507;  ///< bytes of one message, by UDP over IPv4

  /// What became of a group.
  struct Outcome {
    std::uint32_t taken = 0;   ///< packets sent or, if they can't ever be sent, given up
    bool unreachable = false;  ///< the kernel said that there is no way out
  };

  UdpTransmitter(bool v4, bool gso, bool icrc, std::uint32_t max_packet) noexcept
      : v4_(v4), gso_(gso), icrc_(icrc), max_packet_(max_packet) {
    for (std::size_t i = 0; i < kMessages; ++i) prepare(i);
  }
  UdpTransmitter(const UdpTransmitter&) = delete;
  UdpTransmitter& operator=(const UdpTransmitter&) = delete;

  /// False also after the kernel or the device has refused GSO for good.
  [[nodiscard]] bool gso() const noexcept { return gso_; }

  /// Sends `packets` of `burst` to `peer` on `path`, as many as the socket takes.
  Outcome send(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets, UdpPeer& peer,
               const UdpPath& path, PortStats& stats) noexcept {
    std::uint32_t done = 0;
    const auto total = static_cast<std::uint32_t>(packets.size());
    while (done < total) {
      build(burst, packets.subspan(done), peer, path);
      if (used_ == 0) {  // the first packet breaks a limit: sending it again would not help
        ++stats.tx_errors;
        ++done;
        continue;
      }
      const std::size_t sent = flush(path.socket, stats);
      for (std::size_t i = 0; i < sent; ++i) done += runs_[i].packets;
      if (sent == used_) continue;
      switch (judge(errno, runs_[sent])) {
        case Verdict::retry:
          continue;
        case Verdict::busy:
          stats.tx_busy += total - done;
          return {done, false};
        case Verdict::unreachable:
          return {done, true};
        case Verdict::refused:
          stats.tx_errors += runs_[sent].packets;
          done += runs_[sent].packets;
          continue;
      }
    }
    return {done, false};
  }

 private:
  static constexpr std::size_t kMessages = 16;
  static constexpr std::size_t kPackets = 256;
  static constexpr std::size_t kVectors = 2048;
  static constexpr std::size_t kTosSpace = CMSG_SPACE(sizeof(int));
  static constexpr std::size_t kSegmentSpace = CMSG_SPACE(sizeof(std::uint16_t));

  enum class Verdict : std::uint8_t { retry, busy, unreachable, refused };

  /// The packets of one message.
  struct Run {
    std::uint32_t packets = 0;
    std::uint32_t bytes = 0;
    std::uint32_t segment = 0;  ///< bytes of each packet; the last may be shorter
    std::uint8_t tos = 0;
    bool closed = false;  ///< a shorter packet was last
  };
  struct alignas(cmsghdr) Control {
    std::array<std::uint8_t, kTosSpace + kSegmentSpace> bytes;
  };
  /// Pad and iCRC of one packet.
  using Trailer = std::array<std::uint8_t, 8>;

  /// Writes what never changes in the control data of message i.
  void prepare(std::size_t i) noexcept {
    controls_[i].bytes.fill(0);
    cmsghdr tos{};
    tos.cmsg_len = CMSG_LEN(sizeof(int));
    tos.cmsg_level = v4_ ? IPPROTO_IP : IPPROTO_IPV6;
    tos.cmsg_type = v4_ ? IP_TOS : IPV6_TCLASS;
    std::memcpy(controls_[i].bytes.data(), &tos, sizeof tos);
    cmsghdr segment{};
    segment.cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    segment.cmsg_level = SOL_UDP;
    segment.cmsg_type = UDP_SEGMENT;
    std::memcpy(controls_[i].bytes.data() + kTosSpace, &segment, sizeof segment);
  }

  /// Lays out messages for as many of `packets` as there is room for; 0 in used_ if the first one
  /// can't be sent at all.
  void build(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets, UdpPeer& peer,
             const UdpPath& path) noexcept {
    used_ = vectors_used_ = trailers_used_ = 0;
    for (const wire::TxPacket& p : packets) {
      const std::size_t vectors = p.piece_count + std::size_t{2};
      if (!sendable(p, max_packet_) || vectors_used_ + vectors > kVectors ||
          trailers_used_ == kPackets)
        break;
      if (!(gso_ && used_ > 0 && joins(p, vectors)) && !open(p, peer, path)) break;
      append(p, burst.pieces(p), peer, path);
    }
    for (std::size_t i = 0; i < used_; ++i) close(i);
  }

  /// True if the packet can be a further segment of the last message.
  [[nodiscard]] bool joins(const wire::TxPacket& p, std::size_t vectors) const noexcept {
    const Run& run = runs_[used_ - 1];
    const std::uint32_t length = p.transport_length();
    return !run.closed && run.packets < kMaxSegments && length <= run.segment &&
           run.bytes + length <= kMaxMessage && run.tos == wire::make_tos(p.dscp, p.ecn) &&
           messages_[used_ - 1].msg_hdr.msg_iovlen + vectors <= kMaxPieces + 2;
  }

  /// Starts a new message; false if there is no room for it.
  [[nodiscard]] bool open(const wire::TxPacket& p, const UdpPeer& peer,
                          const UdpPath& path) noexcept {
    if (used_ == kMessages) return false;
    const std::size_t i = used_++;
    runs_[i] = {0, 0, p.transport_length(), wire::make_tos(p.dscp, p.ecn), false};
    addresses_[i] = peer.address;
    if (!v4_) addresses_[i].v6.sin6_flowinfo = htonl(path.flow_label);
    msghdr& m = messages_[i].msg_hdr;
    m = {};
    m.msg_name = &addresses_[i].any;
    m.msg_namelen = addresses_[i].length;
    m.msg_iov = vectors_.data() + vectors_used_;
    m.msg_control = controls_[i].bytes.data();
    return true;
  }

  /// Adds the packet to the last message.
  void append(const wire::TxPacket& p, std::span<const wire::Piece> pieces, UdpPeer& peer,
              const UdpPath& path) noexcept {
    const std::uint32_t length = p.transport_length();
    const std::size_t first = vectors_used_;
    push(p.header.data(), p.header_length);
    for (const wire::Piece& piece : pieces) push(piece.data, piece.length);
    Trailer& trailer = trailers_[trailers_used_++];
    trailer = {};
    if (icrc_) {
      peer.prefix.patch(path.source_port, static_cast<std::uint16_t>(length + 8));
      wire::store_icrc(trailer.data() + p.pad,
                       wire::icrc(peer.prefix, {p.header.data(), p.header_length}, pieces, p.pad));
    }
    push(trailer.data(), p.pad + wire::kIcrcSize);
    Run& run = runs_[used_ - 1];
    ++run.packets;
    run.bytes += length;
    run.closed = length < run.segment;
    messages_[used_ - 1].msg_hdr.msg_iovlen += vectors_used_ - first;
  }

  void push(const std::uint8_t* data, std::size_t length) noexcept {
    // The kernel only reads; the system call's structure has no const.
    vectors_[vectors_used_++] = {const_cast<std::uint8_t*>(data), length};
  }

  /// Completes the control data of message i. ToS goes along with every message: that costs some
  /// 50 ns per message, a setsockopt() at every change of class four times as much.
  void close(std::size_t i) noexcept {
    const int tos = runs_[i].tos;
    std::memcpy(controls_[i].bytes.data() + CMSG_LEN(0), &tos, sizeof tos);
    const bool segmented = runs_[i].packets > 1;
    if (segmented) {
      const auto segment = static_cast<std::uint16_t>(runs_[i].segment);
      std::memcpy(controls_[i].bytes.data() + kTosSpace + CMSG_LEN(0), &segment, sizeof segment);
    }
    messages_[i].msg_hdr.msg_controllen = segmented ? kTosSpace + kSegmentSpace : kTosSpace;
  }

  /// Sends the messages; returns how many went. If not all, errno says why (of the first that did
  /// not go).
  [[nodiscard]] std::size_t flush(const Socket& socket, PortStats& stats) noexcept {
    std::size_t sent = 0;
    while (sent < used_) {
      // A call that sent some messages and failed with the next hides the reason: the call after
      // it tells.
      const int n = sendmmsg(socket.fd(), messages_.data() + sent,
                             static_cast<unsigned>(used_ - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
      ++stats.tx_calls;
      if (n <= 0) break;
      for (int i = 0; i < n; ++i, ++sent) {
        stats.tx_packets += runs_[sent].packets;
        stats.tx_bytes += runs_[sent].bytes;
        gso_proven_ = gso_proven_ || runs_[sent].packets > 1;
      }
    }
    return sent;
  }

  /// What to do about a message that the kernel did not take.
  [[nodiscard]] Verdict judge(int error, const Run& run) noexcept {
    switch (error) {
      case EINTR:
        return Verdict::retry;
      case EAGAIN:
      case ENOBUFS:
      case ENOMEM:
        return Verdict::busy;
      case ENETDOWN:
      case ENETUNREACH:
      case EHOSTUNREACH:
      case ENODEV:
        return Verdict::unreachable;
      default:
        break;
    }
    // EIO: the way out leads over a device that can't do checksums for GSO. EINVAL is how kernels
    // without it, and some drivers, refuse the first message.
    if (gso_ && run.packets > 1 && (error == EIO || (error == EINVAL && !gso_proven_))) {
      gso_ = false;
      return Verdict::retry;
    }
    return Verdict::refused;
  }

  bool v4_;
  bool gso_;
  bool icrc_;
  bool gso_proven_ = false;
  std::uint32_t max_packet_;
  std::size_t used_ = 0;  ///< messages laid out
  std::size_t vectors_used_ = 0;
  std::size_t trailers_used_ = 0;
  std::array<Run, kMessages> runs_{};
  std::array<mmsghdr, kMessages> messages_{};
  std::array<SocketAddress, kMessages> addresses_{};
  std::array<Control, kMessages> controls_{};
  std::array<Trailer, kPackets> trailers_{};
  std::array<iovec, kVectors> vectors_{};
};

}  // namespace mrc::inline v0_1::port
