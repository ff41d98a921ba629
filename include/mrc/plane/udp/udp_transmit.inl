// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <netinet/udp.h>

#include <cerrno>
#include <cstring>

#include "mrc/net/socket.hpp"
#include "mrc/plane/sendable.hpp"
#include "mrc/plane/udp/udp_transmit.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

UdpTransmitter::UdpTransmitter(bool v4, bool gso, bool icrc, std::uint8_t usual_tos,
                               std::uint32_t max_packet) noexcept
    : v4_(v4), gso_(gso), icrc_(icrc), usual_tos_(usual_tos), max_packet_(max_packet) {
  for (std::size_t i = 0; i < kMessages; ++i) prepare(i);
}

UdpTransmitter::Outcome UdpTransmitter::send(const wire::TxBurst& burst,
                                             std::span<const wire::TxPacket> packets, bool joined,
                                             UdpPeer& peer, const UdpPath& path,
                                             PortStats& stats) noexcept {
  std::uint32_t done = 0;
  bool too_long = false;
  const Socket& socket = peer.bound && path.bound.open() ? path.bound : path.socket;
  const auto total = static_cast<std::uint32_t>(packets.size());
  while (done < total) {
    build(burst, packets.subspan(done), joined, peer, path);
    if (used_ == 0) {  // the first packet exceeds a limit, and would again
      ++stats.tx_errors;
      ++done;
      continue;
    }
    const std::size_t sent = flush(socket, stats);
    for (std::size_t i = 0; i < sent; ++i) done += runs_[i].packets;
    if (sent == used_) continue;
    switch (judge(errno, runs_[sent])) {
      case Verdict::retry:
        continue;
      case Verdict::busy:
        stats.tx_busy += total - done;
        return {done, false, too_long};
      case Verdict::unreachable:
        return {done, true, too_long};
      case Verdict::too_long:
        too_long = true;
        [[fallthrough]];
      case Verdict::refused:
        stats.tx_errors += runs_[sent].packets;
        done += runs_[sent].packets;
        continue;
    }
  }
  return {done, false, too_long};
}

void UdpTransmitter::prepare(std::size_t i) noexcept {
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

void UdpTransmitter::build(const wire::TxBurst& burst, std::span<const wire::TxPacket> packets,
                           bool joined, UdpPeer& peer, const UdpPath& path) noexcept {
  joined = joined && gso_ && peer.segmented;
  used_ = vectors_used_ = trailers_used_ = copied_ = 0;
  for (const wire::TxPacket& p : packets) {
    const std::size_t vectors = p.sge_count + std::size_t{2};
    if (!sendable(p, max_packet_) || vectors_used_ + vectors > kVectors ||
        trailers_used_ == kPackets)
      break;
    if (!(joined && used_ > 0 && joins(p, vectors)) && !open(p, peer, path)) break;
    append(p, burst.sges(p), peer, path);
  }
  for (std::size_t i = 0; i < used_; ++i) close(i);
}

bool UdpTransmitter::joins(const wire::TxPacket& p, std::size_t vectors) const noexcept {
  const Run& run = runs_[used_ - 1];
  const std::uint32_t length = p.transport_length();
  return !run.closed && run.packets < kMaxSegments && length <= run.segment &&
         run.bytes + length <= kMaxMessage && run.tos == wire::make_tos(p.dscp, p.ecn) &&
         messages_[used_ - 1].msg_hdr.msg_iovlen + vectors <= kMaxSges + 2;
}

bool UdpTransmitter::open(const wire::TxPacket& p, const UdpPeer& peer,
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
  return true;
}

void UdpTransmitter::append(const wire::TxPacket& p, std::span<const wire::TxSge> sges,
                            UdpPeer& peer, const UdpPath& path) noexcept {
  const std::uint32_t length = p.transport_length();
  Trailer& trailer = trailers_[trailers_used_++];
  trailer = {};
  if (icrc_) {
    peer.prefix.patch(path.source_port, static_cast<std::uint16_t>(length + sizeof(wire::Udp)));
    const Bytes header(p.header.data(), p.header_length);
    const std::uint32_t icrc = wire::view_as<wire::Bth>(header).head_check()
                                   ? wire::icrc_of_head(peer.prefix, header, sges, p.pad)
                                   : wire::icrc(peer.prefix, header, sges, p.pad);
    wire::store_icrc(trailer.data() + p.pad, icrc + p.check_seed);
  }
  const std::size_t first = vectors_used_;
  if (length <= kSmall && copies_.size() - copied_ >= length) {
    std::uint8_t* const packet = copies_.data() + copied_;
    put({p.header.data(), p.header_length});
    for (const wire::TxSge& sge : sges) put({sge.data, sge.length});
    put({trailer.data(), p.pad + wire::kIcrcSize});
    push(packet, length);
  } else {
    push(p.header.data(), p.header_length);
    for (const wire::TxSge& sge : sges) push(sge.data, sge.length);
    push(trailer.data(), p.pad + wire::kIcrcSize);
  }
  Run& run = runs_[used_ - 1];
  ++run.packets;
  run.bytes += length;
  run.closed = length < run.segment;
  messages_[used_ - 1].msg_hdr.msg_iovlen += vectors_used_ - first;
}

void UdpTransmitter::close(std::size_t i) noexcept {
  const int tos = runs_[i].tos;
  const bool marked = tos != usual_tos_;
  if (marked) std::memcpy(controls_[i].bytes.data() + CMSG_LEN(0), &tos, sizeof tos);
  const bool segmented = runs_[i].packets > 1;
  if (segmented) {
    const auto segment = static_cast<std::uint16_t>(runs_[i].segment);
    std::memcpy(controls_[i].bytes.data() + kTosSpace + CMSG_LEN(0), &segment, sizeof segment);
  }
  msghdr& m = messages_[i].msg_hdr;
  m.msg_control = controls_[i].bytes.data() + (marked ? 0 : kTosSpace);
  m.msg_controllen = (marked ? kTosSpace : 0) + (segmented ? kSegmentSpace : 0);
}

std::size_t UdpTransmitter::flush(const Socket& socket, PortStats& stats) noexcept {
  std::size_t sent = 0;
  while (sent < used_) {
    // sendmmsg() reports an error for the first message only. If a later one fails, the next call,
    // which starts with it, returns the error.
    const int n =
        uncancelled::sendmmsg(socket.fd(), messages_.data() + sent,
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

UdpTransmitter::Verdict UdpTransmitter::judge(int error, const Run& run) noexcept {
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
    case EMSGSIZE:
      return Verdict::too_long;
    default:
      break;
  }
  // EIO: the outgoing device can't compute checksums, which GSO needs. EINVAL: the kernel has no
  // GSO, or a driver rejects it; only trusted before GSO has worked once.
  if (gso_ && run.packets > 1 && (error == EIO || (error == EINVAL && !gso_proven_))) {
    gso_ = false;
    return Verdict::retry;
  }
  // Kernels before 6.11 say EINVAL of segments that exceed the MTU.
  return error == EINVAL && run.packets > 1 ? Verdict::too_long : Verdict::refused;
}

}  // namespace mrc::inline v0_1::port
