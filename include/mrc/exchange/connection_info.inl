// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/exchange/connection_info.hpp"
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
      case InfoItem::capabilities:
        read_capabilities(reader.u32());
        break;
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
  /// Unknown bits are of later releases.
  void read_capabilities(std::uint32_t bits) noexcept {
    info_.solicited = (bits & kInfoSolicited) != 0;
    info_.parts = (bits & kInfoParts) != 0;
    info_.foreign = (bits & kInfoForeign) != 0;
  }
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

  ConnectionInfo info_ = [] {
    ConnectionInfo of_openmrc;  // unless the capabilities say otherwise
    of_openmrc.foreign = false;
    return of_openmrc;
  }();
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

}  // namespace mrc::inline v0_1
