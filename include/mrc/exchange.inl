// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/exchange.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <system_error>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::inline v0_1 {

namespace detail {

/// Layout, big-endian: magic 4, version 2, length 2 (of everything), items, CRC-32 over all before
/// it 4. An item: type 2, length of its value 2, value. Bit 15 of a type: a reader that does not
/// know it must refuse the whole.
inline constexpr std::uint32_t kInfoMagic = 0x4F4D5243;  // "OMRC"
inline constexpr std::uint16_t kInfoVersion = 2;
inline constexpr std::size_t kInfoHead = 8;
inline constexpr std::size_t kInfoTrailer = 4;
inline constexpr std::size_t kInfoPlane = 18;
inline constexpr std::uint16_t kIndispensable = 0x8000;

/// The items. Lengths are those of the values.
enum class InfoItem : std::uint16_t {
  device = kIndispensable | 1,      ///< GUID 8, slot 1
  queue_pair = kIndispensable | 2,  ///< QPN 4, PSN 4, MTU 4, max_wimm_dest 2, mpr_dest 1, flags 1
  planes = kIndispensable | 3,      ///< per plane: address 16, UDP port 2
  window = 4,                       ///< receive_window 8
  capabilities = 5,                 ///< bits 4: kInfoSolicited, kInfoParts, kInfoForeign
  port_data = 6,                    ///< plane 1, data; once for each plane that has some
  tag = 7,                          ///< tag 8
  mtu = 8,  ///< exact MTU 4; it says that the peer takes any multiple of 128. The MTU of
            ///< queue_pair is the power of two below it, for those who do not know this item
  rc = 9,   ///< max_rd_atomic_dest 1; it says that the peer offers SEND, READ and atomics
  network_namespace = 10,  ///< network_namespace 8
};
inline constexpr std::uint8_t kInfoDynamicMpr = 1, kInfoTrimNack = 2, kInfoIcrc = 4;
inline constexpr std::uint32_t kInfoSolicited = 1, kInfoParts = 2, kInfoForeign = 4;
inline constexpr std::uint16_t kMaxWimmDest = 32768;  // RQMSN compares modulo 2^16
inline constexpr std::uint8_t kMaxRdAtomic = 128;
inline constexpr std::size_t kMaxPortData = 1024;

/// True for an address to send to: neither unspecified nor multicast, IPv4 or IPv6.
[[nodiscard]] bool is_unicast(const port::IpAddress& ip) noexcept {
  if (port::is_unspecified(ip)) return false;
  return port::is_v4(ip) ? ip[12] != 0 && ip[12] < 224 : ip[0] != 0xFF;
}

/// The rule that `info` breaks, in words, or nullptr. encode() and decode_connection_info() apply
/// the same rules, so whatever one side encodes the other accepts.
[[nodiscard]] const char* info_fault(const ConnectionInfo& info) noexcept {
  if (value(info.qpn) < kFirstUserQpn || value(info.qpn) > 0xFFFFFF)
    return "QPN is reserved or over 24 bits";
  if (!is_mtu(info.mtu)) return "MTU is not a multiple of 128 from 256 to 32768";
  if (!info.mtu_multiples && !std::has_single_bit(info.mtu))
    return "MTU is not a power of two from 256 to 32768";
  if (info.mpr_dest == 0) return "MPR is 0";
  if (info.max_wimm_dest > kMaxWimmDest) return "WriteImm limit is over 32768";
  if (info.max_rd_atomic_dest > kMaxRdAtomic) return "limit of READs and atomics is over 128";
  if (info.planes.empty() || info.planes.size() > kMaxPlanes) return "plane count is not 1 to 32";
  for (const auto& plane : info.planes) {
    if (plane.udp_port == 0) return "a plane's UDP port is 0";
    if (!is_unicast(plane.ip)) return "a plane's address is not unicast";
  }
  if (info.port_data.size() > info.planes.size()) return "there is data for a plane too many";
  for (const auto& data : info.port_data)
    if (data.size() > kMaxPortData) return "the data for a plane's port exceeds 1024 bytes";
  return nullptr;
}

[[noreturn]] inline void bad_info(const std::string& why) {
  throw Error(Errc::bad_message, "connection data: " + why);
}

/// Checks length, magic, version and checksum; the order makes the message name the first cause.
void check_envelope(Bytes blob) {
  if (blob.size() < kInfoHead + kInfoTrailer)
    bad_info("only " + std::to_string(blob.size()) + " bytes, at least " +
             std::to_string(kInfoHead + kInfoTrailer) + " expected");
  ByteReader reader(blob);
  if (reader.u32() != kInfoMagic) bad_info("not made by OpenMRC (magic differs)");
  if (const auto version = reader.u16(); version != kInfoVersion)
    bad_info("version " + std::to_string(version) + ", this side speaks " +
             std::to_string(kInfoVersion) + "; use the same release on both sides");
  if (const auto length = reader.u16(); length != blob.size())
    bad_info("says that it has " + std::to_string(length) + " bytes, but has " +
             std::to_string(blob.size()));
  if (ByteReader(blob.last(kInfoTrailer)).u32() !=
      wire::crc32(0, blob.first(blob.size() - kInfoTrailer)))
    bad_info("checksum differs: it was changed on the way");
}

[[noreturn]] inline void bad_item(InfoItem item, const std::string& why) {
  bad_info("item " + std::to_string(static_cast<unsigned>(item) & ~unsigned{kIndispensable}) + " " +
           why);
}

/// Reads the items of one encoded ConnectionInfo.
class InfoItems {
 public:
  InfoItems() { info_.foreign = false; }  // unless the capabilities say otherwise

  void read(InfoItem item, Bytes value) {
    ByteReader reader(value);
    switch (item) {
      case InfoItem::device:
        info_.device_guid = reader.u64();
        info_.slot = reader.u8();
        break;
      case InfoItem::queue_pair:
        read_queue_pair(reader);
        break;
      case InfoItem::planes:
        while (reader.left() > 0) {
          const auto ip = reader.array<16>();
          info_.planes.push_back({ip, reader.u16()});
        }
        break;
      case InfoItem::window:
        info_.receive_window = reader.u64();
        break;
      case InfoItem::capabilities: {
        const auto bits = reader.u32();  // unknown ones are of later releases
        info_.solicited = (bits & kInfoSolicited) != 0;
        info_.parts = (bits & kInfoParts) != 0;
        info_.foreign = (bits & kInfoForeign) != 0;
        break;
      }
      case InfoItem::tag:
        info_.tag = reader.u64();
        break;
      case InfoItem::mtu:
        exact_mtu_ = reader.u32();
        info_.mtu_multiples = true;
        break;
      case InfoItem::rc:
        info_.rc = true;
        info_.max_rd_atomic_dest = reader.u8();
        break;
      case InfoItem::network_namespace:
        info_.network_namespace = reader.u64();
        break;
      case InfoItem::port_data:
        read_port_data(reader);
        break;
      default:
        if ((static_cast<std::uint16_t>(item) & kIndispensable) != 0)
          bad_item(item,
                   "is indispensable, and this release does not know it; use the same "
                   "release on both sides");
        return;
    }
    if (!reader.done()) bad_item(item, "is " + std::to_string(value.size()) + " bytes long");
    if (item == InfoItem::port_data) return;  // more than one is allowed
    const auto bit = 1u << (static_cast<unsigned>(item) & 0xFu);
    if ((seen_ & bit) != 0) bad_item(item, "is there twice");
    seen_ |= bit;
  }

  [[nodiscard]] ConnectionInfo finish() {
    for (const InfoItem item : {InfoItem::device, InfoItem::queue_pair, InfoItem::planes})
      if ((seen_ >> (static_cast<unsigned>(item) & 0xFu) & 1) == 0) bad_item(item, "is missing");
    if (info_.mtu_multiples) {
      if (std::bit_floor(exact_mtu_) != info_.mtu) bad_info("two MTUs that contradict each other");
      info_.mtu = exact_mtu_;
    }
    if (const char* fault = info_fault(info_)) bad_info(fault);
    return std::move(info_);
  }

 private:
  void read_queue_pair(ByteReader& reader) {
    info_.qpn = Qpn{reader.u32()};
    const auto psn = reader.u32();
    if (psn > Psn::kMask) bad_info("PSN is over 24 bits");
    info_.start_psn = Psn{psn};
    info_.mtu = reader.u32();
    info_.max_wimm_dest = reader.u16();
    info_.mpr_dest = reader.u8();
    const auto flags = reader.u8();
    if ((flags & ~unsigned{kInfoDynamicMpr | kInfoTrimNack | kInfoIcrc}) != 0)
      bad_info("unknown flags are set");
    info_.dynamic_mpr = (flags & kInfoDynamicMpr) != 0;
    info_.trim_nack = (flags & kInfoTrimNack) != 0;
    info_.icrc = (flags & kInfoIcrc) != 0;
  }
  void read_port_data(ByteReader& reader) {
    const std::size_t plane = reader.u8();
    if (plane >= kMaxPlanes) bad_item(InfoItem::port_data, "names a plane beyond 31");
    if (plane >= info_.port_data.size()) info_.port_data.resize(plane + 1);
    std::vector<std::uint8_t>& data = info_.port_data[plane];
    if (!data.empty()) bad_item(InfoItem::port_data, "is there twice for a plane");
    const Bytes bytes = reader.bytes(reader.left());
    data.assign(bytes.begin(), bytes.end());
  }

  ConnectionInfo info_;
  std::uint32_t exact_mtu_ = 0;
  unsigned seen_ = 0;
};

}  // namespace detail

std::vector<std::uint8_t> encode(const ConnectionInfo& info) {
  using detail::InfoItem;
  if (const char* fault = detail::info_fault(info))
    throw Error(Errc::invalid_argument, std::string("connection data: ") + fault);
  std::vector<std::uint8_t> items;
  ByteWriter out(items);
  const auto item = [&out](InfoItem type, std::size_t length) -> ByteWriter& {
    return out.u16(static_cast<std::uint16_t>(type)).u16(length);
  };
  item(InfoItem::device, 9).u64(info.device_guid).u8(info.slot);
  item(InfoItem::queue_pair, 16).u32(value(info.qpn)).u32(info.start_psn.value());
  out.u32(std::bit_floor(info.mtu)).u16(info.max_wimm_dest).u8(info.mpr_dest);
  out.u8((info.dynamic_mpr ? detail::kInfoDynamicMpr : 0u) |
         (info.trim_nack ? detail::kInfoTrimNack : 0u) | (info.icrc ? detail::kInfoIcrc : 0u));
  item(InfoItem::planes, info.planes.size() * detail::kInfoPlane);
  for (const auto& plane : info.planes) out.bytes(plane.ip).u16(plane.udp_port);
  item(InfoItem::window, 8).u64(info.receive_window);
  item(InfoItem::capabilities, 4)
      .u32((info.solicited ? detail::kInfoSolicited : 0u) | (info.parts ? detail::kInfoParts : 0u) |
           (info.foreign ? detail::kInfoForeign : 0u));
  if (info.tag != 0) item(InfoItem::tag, 8).u64(info.tag);
  if (info.mtu_multiples) item(InfoItem::mtu, 4).u32(info.mtu);
  if (info.rc) item(InfoItem::rc, 1).u8(info.max_rd_atomic_dest);
  if (info.network_namespace != 0) item(InfoItem::network_namespace, 8).u64(info.network_namespace);
  for (std::size_t i = 0; i < info.port_data.size(); ++i)
    if (const auto& data = info.port_data[i]; !data.empty())
      item(InfoItem::port_data, 1 + data.size()).u8(i).bytes(data);
  std::vector<std::uint8_t> blob;
  ByteWriter(blob)
      .u32(detail::kInfoMagic)
      .u16(detail::kInfoVersion)
      .u16(detail::kInfoHead + items.size() + detail::kInfoTrailer)
      .bytes(items);
  ByteWriter(blob).u32(wire::crc32(0, blob));
  return blob;
}

ConnectionInfo decode_connection_info(Bytes blob) {
  detail::check_envelope(blob);
  ByteReader reader(
      blob.subspan(detail::kInfoHead, blob.size() - detail::kInfoHead - detail::kInfoTrailer));
  detail::InfoItems items;
  while (reader.left() > 0) {
    const auto type = reader.u16();
    const auto length = reader.u16();
    if (reader.missing()) detail::bad_info("ends within an item");
    if (length > reader.left()) detail::bad_info("an item is longer than what is there");
    items.read(detail::InfoItem{type}, reader.bytes(length));
  }
  return items.finish();
}

std::string to_string(const ConnectionInfo& info) {
  char head[160];
  std::snprintf(head, sizeof head, "device %016llx slot %u qpn 0x%06x psn 0x%06x mtu %u mpr %u",
                static_cast<unsigned long long>(info.device_guid), info.slot, value(info.qpn),
                info.start_psn.value(), info.mtu, info.mpr_dest);
  std::string text = head;
  text += " wimm " + std::to_string(info.max_wimm_dest);
  if (info.dynamic_mpr) text += " dynamic-mpr";
  if (info.trim_nack) text += " trim";
  if (info.foreign) text += " foreign";
  if (info.tag != 0) text += " tagged";
  if (info.rc) text += " rc " + std::to_string(info.max_rd_atomic_dest);
  text += info.icrc ? " icrc" : " no-icrc";
  if (info.network_namespace != 0) text += " or-of-the-head";
  text += " window " + std::to_string(info.receive_window) + " planes";
  for (const auto& plane : info.planes) text += " " + port::format_address(plane);
  return text;
}

namespace detail {

/// When a wait ends without success.
class MRC_LOCAL TcpWait {
 public:
  TcpWait(Duration timeout, const std::atomic<bool>* cancel) : timeout_(timeout), cancel_(cancel) {
    const Time now = monotonic_now();
    deadline_ = timeout > kNever - now ? kNever : now + timeout;
  }
  [[nodiscard]] bool over() const noexcept { return monotonic_now() >= deadline_; }
  /// What poll() may wait before the flag and the deadline are looked at again. A signal may come
  /// just before poll() or to another thread, so a sleep is never longer than 100 ms.
  [[nodiscard]] int slice_ms() const noexcept {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::min(deadline_ - monotonic_now(), Duration{std::chrono::milliseconds(100)}));
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }
  void check_cancelled(const std::string& what) const {
    if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed))
      throw Error(std::make_error_code(std::errc::operation_canceled), "waiting for " + what);
  }
  /// The timeout in words.
  [[nodiscard]] std::string text() const {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count();
    return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
  }
  /// Waits until the socket is ready for `events` or in error. Throws when time is over; `what` is
  /// what is waited for, in the message.
  void until(const UniqueFd& socket, short events, const std::string& what) const;

 private:
  Duration timeout_;
  Time deadline_{};
  const std::atomic<bool>* cancel_;
};

[[nodiscard]] std::error_code errno_code(int error = errno) {
  return {error, std::system_category()};
}

void TcpWait::until(const UniqueFd& socket, short events, const std::string& what) const {
  for (;;) {
    check_cancelled(what);
    pollfd entry{socket.fd(), events, 0};
    const int ready = ::poll(&entry, 1, slice_ms());
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw Error(errno_code(), "waiting for " + what);
    if (ready == 0 && over())
      throw Error(Errc::timed_out, "waiting for " + what + " for " + text());
  }
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// The addresses of a host; empty: this one. Without AI_ADDRCONFIG, which leaves out ::1 on a host
/// whose other addresses are all IPv4.
[[nodiscard]] AddressList tcp_lookup(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                  std::to_string(port).c_str(), &hints, &list);
  if (error != 0)
    throw Error(Errc::invalid_argument,
                "host '" + host + "' port " + std::to_string(port) + ": " +
                    (error == EAI_SYSTEM ? errno_code().message() : ::gai_strerror(error)) +
                    "; is the name right?");
  return {list, &::freeaddrinfo};
}

/// One try at one address. Returns 0 or the errno value; `socket` is connected when 0.
[[nodiscard]] int tcp_try(const addrinfo& address, const TcpWait& wait, const std::string& what,
                          UniqueFd& socket) {
  socket = port::begin_connect(port::SocketAddress(address.ai_addr));
  if (!socket.open()) return errno;
  wait.until(socket, POLLOUT, what);
  if (const int error = port::connect_result(socket).value_or(0); error != 0) return error;
  // A port of the ephemeral range on this very host can end up connected to itself while nobody
  // listens there.
  port::SocketAddress own, remote;
  own.length = remote.length = sizeof own.v6;
  const bool itself = ::getsockname(socket.fd(), &own.any, &own.length) == 0 &&
                      ::getpeername(socket.fd(), &remote.any, &remote.length) == 0 &&
                      own.peer() == remote.peer();
  return itself ? ECONNREFUSED : 0;
}

/// Tries again while the port refuses.
[[nodiscard]] UniqueFd tcp_connect(const std::string& host, std::uint16_t port,
                                   const TcpWait& wait) {
  const AddressList list = tcp_lookup(host, port);
  const std::string where = "'" + host + "' port " + std::to_string(port);
  for (;;) {
    int first_error = 0;  // addresses that this host can't reach come last (RFC 6724)
    bool refused = false;
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
      UniqueFd socket;
      const int error =
          tcp_try(*a, wait, "an answer from " + where + " (is it reachable?)", socket);
      if (error == 0) return socket;
      if (first_error == 0) first_error = error;
      refused = refused || error == ECONNREFUSED;
    }
    if (!refused) throw Error(errno_code(first_error), "connecting to " + where);
    wait.check_cancelled(where);
    if (wait.over())
      throw Error(errno_code(ECONNREFUSED), "connecting to " + where + ", tried for " +
                                                wait.text() + " (is the server running there?)");
    ::poll(nullptr, 0, std::min(wait.slice_ms(), 50));
  }
}

[[nodiscard]] UniqueFd tcp_listen(std::uint16_t port, const std::string& host) {
  UniqueFd socket;
  int error = EADDRNOTAVAIL;
  if (host.empty()) {
    socket = port::listen_anywhere(port);
    error = errno;
  } else {
    const AddressList list = tcp_lookup(host, port);
    for (const addrinfo* a = list.get(); a != nullptr && !socket.open(); a = a->ai_next) {
      socket = port::listen_at(port::SocketAddress(a->ai_addr));
      error = errno;
    }
  }
  if (socket.open()) return socket;
  const char* remedy = error == EADDRINUSE ? " (choose another port, or end what uses it)"
                       : error == EACCES   ? " (ports below 1024 need privilege)"
                                           : "";
  throw Error(errno_code(error), "listening on " + (host.empty() ? "" : "'" + host + "' ") +
                                     "port " + std::to_string(port) + remedy);
}

void tcp_send(const UniqueFd& socket, Bytes bytes, const TcpWait& wait, const std::string& peer) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0)
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    else if (errno == EAGAIN)
      wait.until(socket, POLLOUT, peer + " to read");
    else if (errno != EINTR)
      throw Error(errno_code(), "sending to " + peer);
  }
}

/// Reads into `room` (not empty): 0 when nothing is there yet. Throws at the connection's end.
[[nodiscard]] std::size_t tcp_read(const UniqueFd& socket, MutableBytes room,
                                   const std::string& peer) {
  for (;;) {
    const auto got = ::recv(socket.fd(), room.data(), room.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0)
      throw Error(errno_code(ECONNRESET),
                  "receiving from " + peer + ": it closed the connection (did it end or fail?)");
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) throw Error(errno_code(), "receiving from " + peer);
  }
}

}  // namespace detail

TcpChannel TcpChannel::connect(const std::string& host, std::uint16_t port, Duration timeout,
                               const std::atomic<bool>* cancel) {
  return {detail::tcp_connect(host, port, {timeout, cancel}),
          "'" + host + "' port " + std::to_string(port), cancel};
}

void TcpChannel::send(Bytes message, Duration timeout) {
  if (message.size() > kMaxMessageBytes)
    throw Error(Errc::too_long, "message of " + std::to_string(message.size()) + " bytes to " +
                                    peer_ + "; the limit is 16 MiB");
  const detail::TcpWait wait{timeout, cancel_};
  std::vector<std::uint8_t> frame;
  frame.reserve(kHead + message.size());
  ByteWriter(frame).u32(message.size()).bytes(message);
  try {
    detail::tcp_send(socket_, frame, wait, peer_);
  } catch (...) {
    // A part of the frame may be out, so no other can follow it: tell the peer.
    ::shutdown(socket_.fd(), SHUT_WR);
    throw;
  }
}

void TcpChannel::send_text(std::string_view text, Duration timeout) {
  send({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, timeout);
}

std::vector<std::uint8_t> TcpChannel::receive(Duration timeout) {
  const detail::TcpWait wait{timeout, cancel_};
  std::optional<std::vector<std::uint8_t>> message;
  while (!(message = try_receive())) wait.until(socket_, POLLIN, "a message from " + peer_);
  return std::move(*message);
}

std::string TcpChannel::receive_text(Duration timeout) {
  const auto bytes = receive(timeout);
  return {bytes.begin(), bytes.end()};
}

std::optional<std::vector<std::uint8_t>> TcpChannel::try_receive() {
  // The inbox grows as bytes arrive: the length field alone allocates nothing.
  std::array<std::uint8_t, kChunk> chunk;
  while (inbox_.size() < wanted()) {
    const std::size_t room = std::min(wanted() - inbox_.size(), kChunk);
    const auto got = detail::tcp_read(socket_, MutableBytes(chunk).first(room), peer_);
    if (got == 0) return std::nullopt;
    inbox_.insert(inbox_.end(), chunk.data(), chunk.data() + got);
  }
  std::vector<std::uint8_t> message(inbox_.begin() + kHead, inbox_.end());
  inbox_.clear();
  return message;
}

bool TcpChannel::peer_closed() const noexcept {
  if (!inbox_.empty()) return false;
  char byte = 0;
  const auto got = ::recv(socket_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

std::size_t TcpChannel::wanted() const {
  if (inbox_.size() < kHead) return kHead;
  const std::size_t size = ByteReader(inbox_).u32();
  if (size > limit_)
    throw Error(Errc::bad_message, "message of " + std::to_string(size) + " bytes from " + peer_ +
                                       "; the limit is " + std::to_string(limit_) +
                                       ": is it a program of this kind?");
  return kHead + size;
}

TcpListener::TcpListener(std::uint16_t port, const std::string& bind,
                         const std::atomic<bool>* cancel)
    : socket_(detail::tcp_listen(port, bind)), port_(port::bound_port(socket_)), cancel_(cancel) {
  if (port_ == 0) throw Error(detail::errno_code(), "asking for the listening port");
}

TcpChannel TcpListener::accept(Duration timeout) {
  const detail::TcpWait wait{timeout, cancel_};
  for (;;) {
    port::SocketAddress from;
    UniqueFd socket = port::accept_one(socket_, from);
    if (socket.open())
      return {std::move(socket),
              "'" + port::format_ip(from.peer().ip) + "' port " + std::to_string(from.port()),
              cancel_};
    // A connection that was given up before it was accepted is no error of the listener.
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
      throw Error(detail::errno_code(), "accepting a connection");
    wait.until(socket_, POLLIN, "a connection on port " + std::to_string(port_));
  }
}

ConnectionInfo exchange(TcpChannel& channel, const ConnectionInfo& mine, Duration timeout) {
  channel.send(encode(mine), timeout);
  return decode_connection_info(channel.receive(timeout));
}

}  // namespace mrc::inline v0_1
