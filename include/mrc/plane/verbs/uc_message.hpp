// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/endian.hpp"

/// What the two ends of a verbs port say about payload that the NIC places. The first transmission
/// of a data packet can be one RDMA write on an unreliable connection (UC): it carries the payload
/// and, as immediate, a sequence number. Its transport header follows by UD, in a message that
/// names the write; a retransmission goes by UD as a whole and names the writes before it.
///
/// No state, no allocation, any thread. Readers accept any bytes.
namespace mrc::inline v0_1::port {

/// Most UC paths from one device to another: all of them fit into the origins of one packet.
inline constexpr std::size_t kMaxUcPaths = 64;
/// Most payload of one UC packet in bytes, the largest path MTU of a NIC.
inline constexpr std::uint32_t kMaxUcPayload = 4096;

/// A sequence number that no UC packet has: it stands for "none".
inline constexpr std::uint32_t kNoUcSeq = ~std::uint32_t{0};

/// Names one UC packet between two devices, in one direction. Each path counts its packets from 0,
/// and begins again, with the next epoch, when its receiver has reset it.
struct UcName {
  std::uint16_t path = 0;  ///< index of the path, less than kMaxUcPaths
  std::uint8_t epoch = 0;  ///< how often the path has been reset, modulo 2^8
  std::uint32_t seq = 0;   ///< number on the path, modulo 2^32; never kNoUcSeq

  /// Equal in all three.
  friend bool operator==(const UcName&, const UcName&) = default;
};

/// Steps from `from` to `to`, two sequence numbers of one path: positive if `to` is the later one.
/// Right within 2^31 packets.
[[nodiscard]] constexpr std::int32_t uc_steps(std::uint32_t from, std::uint32_t to) noexcept {
  return static_cast<std::int32_t>(to - from);
}
/// The same for two epochs of one path; right within 2^7 resets.
[[nodiscard]] constexpr std::int32_t uc_epoch_steps(std::uint8_t from, std::uint8_t to) noexcept {
  using Epoch = Serial<struct UcEpochTag, 8>;
  return Epoch{to} - Epoch{from};
}

/// What the receiver of a UC packet must know of it besides its payload.
struct UcHeader {
  UcName name;                       ///< of the UC packet
  std::uint16_t payload_length = 0;  ///< bytes that it writes, 1 .. kMaxUcPayload
  std::uint8_t pad = 0;     ///< zero bytes (0..3) that follow the payload where it goes by UD
  std::uint32_t check = 0;  ///< of the transport header; what it covers is the port's business
  Bytes header;             ///< the transport header, 12 .. kMaxTransportHeader bytes
};

namespace detail {

/// In front of each transport header of a `headers` message.
struct UcHeaderEntry {
  wire::Be16 path;                 ///< UcName::path
  std::uint8_t epoch = 0;          ///< UcName::epoch
  std::uint8_t header_length = 0;  ///< bytes of the transport header, which follows
  wire::Be32 seq;                  ///< UcName::seq
  wire::Be16 payload_length;       ///< UcHeader::payload_length
  std::uint8_t pad = 0;            ///< UcHeader::pad
  std::uint8_t reserved = 0;       ///< sent 0, ignored on receipt
  wire::Be32 check;                ///< UcHeader::check
};
static_assert(sizeof(UcHeaderEntry) == 16 && alignof(UcHeaderEntry) == 1);

/// An origin. One byte precedes the first: how many follow.
struct UcOriginEntry {
  wire::Be16 path;         ///< UcName::path
  std::uint8_t epoch = 0;  ///< UcName::epoch
  wire::Be32 seq;          ///< UcName::seq
};
static_assert(sizeof(UcOriginEntry) == 7 && alignof(UcOriginEntry) == 1);

/// In that byte: what follows are UcPathOrigin, of the paths 0, 1 and so on.
inline constexpr std::uint8_t kUcAllPaths = 0x80;
/// The origin on a path, or none.
struct UcPathOrigin {
  std::uint8_t epoch = 0;  ///< UcName::epoch
  wire::Be32 seq;          ///< UcName::seq, or kNoUcSeq
};
static_assert(sizeof(UcPathOrigin) == 5 && alignof(UcPathOrigin) == 1);

/// Shortest transport header: BTH.
inline constexpr std::size_t kMinUcHeader = 12;

}  // namespace detail

/// Fills a buffer with the entries of a `headers` message.
class UcHeadersWriter {
 public:
  /// The buffer stays the caller's. Its size is the longest message, in bytes.
  explicit UcHeadersWriter(MutableBytes buffer) noexcept : buffer_(buffer) {}
  /// Appends an entry. False: it does not fit, or `header` is out of the bounds that UcHeader
  /// states; nothing has changed then.
  [[nodiscard]] bool append(const UcHeader& header) noexcept;
  /// Bytes written.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether there are no entries.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Begins a new message in the same buffer.
  void clear() noexcept { size_ = 0; }

 private:
  MutableBytes buffer_;
  std::size_t size_ = 0;
};

/// Reads the entries of a `headers` message.
class UcHeadersReader {
 public:
  /// `message`: the entries, without what the port puts in front of them.
  explicit UcHeadersReader(Bytes message) noexcept : rest_(message) {}
  /// The next entry; its UcHeader::header points into the message. False: there is none, or what
  /// follows is malformed.
  [[nodiscard]] bool next(UcHeader& header) noexcept;
  /// The message had bytes that are no entry; those before them were good.
  [[nodiscard]] bool malformed() const noexcept { return malformed_; }

 private:
  Bytes rest_;
  bool malformed_ = false;
};

/// Origins of a packet: the UC packets that may have carried it before.
struct UcOrigins {
  std::array<UcName, kMaxUcPaths> names;  ///< the first `count` are used
  std::uint8_t count = 0;                 ///< number of them

  /// One more; needs count < kMaxUcPaths.
  void add(const UcName& name) noexcept { names[count++] = name; }
  /// All of them.
  [[nodiscard]] std::span<const UcName> all() const noexcept { return {names.data(), count}; }
};

/// Bytes that origins take at most, in front of a retransmission, with so many paths.
[[nodiscard]] constexpr std::size_t uc_origins_size(std::size_t paths) noexcept {
  return std::max(1 + sizeof(detail::UcOriginEntry), 1 + paths * sizeof(detail::UcPathOrigin));
}
/// Writes 1 to kMaxUcPaths origins, at most one of each path and in the order of their paths, in
/// the shortest form, and returns how many bytes it took. 0: they do not fit or are not of this
/// kind.
[[nodiscard]] std::size_t write_uc_origins(MutableBytes buffer,
                                           std::span<const UcName> origins) noexcept;
/// Reads what write_uc_origins() has written from the start of `message` and returns how many bytes
/// that were. 0: malformed; `origins` is empty then.
[[nodiscard]] std::size_t read_uc_origins(Bytes message, UcOrigins& origins) noexcept;

}  // namespace mrc::inline v0_1::port
