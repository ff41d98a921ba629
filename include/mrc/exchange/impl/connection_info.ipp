// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "mrc/core/error.hpp"
#include "mrc/exchange/connection_info.hpp"
#include "mrc/wire/crc32.hpp"

namespace mrc::inline v0_1 {

namespace detail {

/// Layout, big-endian: magic 4, version 2, length 2 (of everything), GUID 8, QPN 4, PSN 4, MTU 4,
/// max_wimm_dest 2, mpr_dest 1, flags 1, receive_window 8, slot 1, plane count 1; per plane
/// address 16, UDP port 2; CRC-32 over all before it 4.
inline constexpr std::uint32_t kInfoMagic = 0x4F4D5243;  // "OMRC"
inline constexpr std::uint16_t kInfoVersion = 1;
inline constexpr std::size_t kInfoHead = 42;
inline constexpr std::size_t kInfoPlane = 18;
inline constexpr std::size_t kInfoTrailer = 4;
inline constexpr std::uint8_t kInfoDynamicMpr = 1, kInfoTrimNack = 2, kInfoIcrc = 4;
inline constexpr std::uint32_t kMinMtu = 256, kMaxMtu = 32768;
inline constexpr std::uint16_t kMaxWimmDest = 32768;  // RQMSN compares modulo 2^16

inline void put(std::vector<std::uint8_t>& out, std::uint64_t value, unsigned bytes) {
  while (bytes-- > 0) out.push_back(static_cast<std::uint8_t>(value >> (8 * bytes)));
}

/// Takes big-endian numbers off the front. The caller has checked the length.
class InfoReader {
 public:
  explicit InfoReader(Bytes bytes) noexcept : rest_(bytes) {}
  template <class T>
  [[nodiscard]] T take() noexcept {
    std::uint64_t number = 0;
    for (const std::uint8_t byte : rest_.first(sizeof(T))) number = number << 8 | byte;
    rest_ = rest_.subspan(sizeof(T));
    return static_cast<T>(number);
  }
  [[nodiscard]] port::IpAddress take_address() noexcept {
    port::IpAddress ip{};
    std::copy_n(rest_.begin(), ip.size(), ip.begin());
    rest_ = rest_.subspan(ip.size());
    return ip;
  }

 private:
  Bytes rest_;
};

/// True for an address to send to: neither unspecified nor multicast, IPv4 or IPv6.
[[nodiscard]] inline bool is_unicast(const port::IpAddress& ip) noexcept {
  if (port::is_unspecified(ip)) return false;
  return port::is_v4(ip) ? ip[12] != 0 && ip[12] < 224 : ip[0] != 0xFF;
}

/// The rule that `info` breaks, in words, or nullptr. encode() and decode_connection_info() apply
/// the same rules, so whatever one side encodes the other accepts.
[[nodiscard]] inline const char* info_fault(const ConnectionInfo& info) noexcept {
  if (value(info.qpn) < kFirstUserQpn || value(info.qpn) > 0xFFFFFF)
    return "QPN is reserved or over 24 bits";
  if (info.mtu < kMinMtu || info.mtu > kMaxMtu || (info.mtu & (info.mtu - 1)) != 0)
    return "MTU is not a power of two from 256 to 32768";
  if (info.mpr_dest == 0) return "MPR is 0";
  if (info.max_wimm_dest > kMaxWimmDest) return "WriteImm limit is over 32768";
  if (info.planes.empty() || info.planes.size() > kMaxPlanes) return "plane count is not 1 to 32";
  for (const auto& plane : info.planes) {
    if (plane.udp_port == 0) return "a plane's UDP port is 0";
    if (!is_unicast(plane.ip)) return "a plane's address is not unicast";
  }
  return nullptr;
}

[[noreturn]] inline void bad_info(const std::string& why) {
  throw Error(Errc::bad_message, "connection data: " + why);
}

/// Checks length, magic, version and checksum; the order makes the message name the first cause.
inline void check_envelope(Bytes blob) {
  if (blob.size() < kInfoHead + kInfoTrailer)
    bad_info("only " + std::to_string(blob.size()) + " bytes, at least " +
             std::to_string(kInfoHead + kInfoTrailer) + " expected");
  InfoReader reader(blob);
  if (reader.take<std::uint32_t>() != kInfoMagic) bad_info("not made by OpenMRC (magic differs)");
  if (const auto version = reader.take<std::uint16_t>(); version != kInfoVersion)
    bad_info("version " + std::to_string(version) + ", this side speaks " +
             std::to_string(kInfoVersion) + "; use the same release on both sides");
  if (const auto length = reader.take<std::uint16_t>(); length != blob.size())
    bad_info("says that it has " + std::to_string(length) + " bytes, but has " +
             std::to_string(blob.size()));
  InfoReader trailer(blob.last(kInfoTrailer));
  if (trailer.take<std::uint32_t>() != wire::crc32(0, blob.first(blob.size() - kInfoTrailer)))
    bad_info("checksum differs: it was changed on the way");
}

}  // namespace detail

MRC_SETUP std::vector<std::uint8_t> encode(const ConnectionInfo& info) {
  if (const char* fault = detail::info_fault(info))
    throw Error(Errc::invalid_argument, std::string("connection data: ") + fault);
  const std::size_t length =
      detail::kInfoHead + info.planes.size() * detail::kInfoPlane + detail::kInfoTrailer;
  std::vector<std::uint8_t> out;
  out.reserve(length);
  detail::put(out, detail::kInfoMagic, 4);
  detail::put(out, detail::kInfoVersion, 2);
  detail::put(out, length, 2);
  detail::put(out, info.device_guid, 8);
  detail::put(out, value(info.qpn), 4);
  detail::put(out, info.start_psn.value(), 4);
  detail::put(out, info.mtu, 4);
  detail::put(out, info.max_wimm_dest, 2);
  detail::put(out, info.mpr_dest, 1);
  const unsigned flags = (info.dynamic_mpr ? detail::kInfoDynamicMpr : 0u) |
                         (info.trim_nack ? detail::kInfoTrimNack : 0u) |
                         (info.icrc ? detail::kInfoIcrc : 0u);
  detail::put(out, flags, 1);
  detail::put(out, info.receive_window, 8);
  detail::put(out, info.slot, 1);
  detail::put(out, info.planes.size(), 1);
  for (const auto& plane : info.planes) {
    out.insert(out.end(), plane.ip.begin(), plane.ip.end());
    detail::put(out, plane.udp_port, 2);
  }
  detail::put(out, wire::crc32(0, out), detail::kInfoTrailer);
  return out;
}

MRC_SETUP ConnectionInfo decode_connection_info(Bytes blob) {
  detail::check_envelope(blob);
  detail::InfoReader reader(blob.subspan(8));
  ConnectionInfo info;
  info.device_guid = reader.take<std::uint64_t>();
  info.qpn = Qpn{reader.take<std::uint32_t>()};
  const auto psn = reader.take<std::uint32_t>();
  if (psn > Psn::kMask) detail::bad_info("PSN is over 24 bits");
  info.start_psn = Psn{psn};
  info.mtu = reader.take<std::uint32_t>();
  info.max_wimm_dest = reader.take<std::uint16_t>();
  info.mpr_dest = reader.take<std::uint8_t>();
  const auto flags = reader.take<std::uint8_t>();
  if ((flags & ~unsigned{detail::kInfoDynamicMpr | detail::kInfoTrimNack | detail::kInfoIcrc}) != 0)
    detail::bad_info("unknown flags are set");
  info.dynamic_mpr = (flags & detail::kInfoDynamicMpr) != 0;
  info.trim_nack = (flags & detail::kInfoTrimNack) != 0;
  info.icrc = (flags & detail::kInfoIcrc) != 0;
  info.receive_window = reader.take<std::uint64_t>();
  info.slot = reader.take<std::uint8_t>();
  const std::size_t planes = reader.take<std::uint8_t>();
  if (blob.size() != detail::kInfoHead + planes * detail::kInfoPlane + detail::kInfoTrailer)
    detail::bad_info("length does not fit " + std::to_string(planes) + " planes");
  for (std::size_t i = 0; i < planes; ++i) {
    const auto ip = reader.take_address();
    info.planes.push_back({ip, reader.take<std::uint16_t>()});
  }
  if (const char* fault = detail::info_fault(info)) detail::bad_info(fault);
  return info;
}

MRC_SETUP std::string to_string(const ConnectionInfo& info) {
  char head[160];
  std::snprintf(head, sizeof head, "device %016llx slot %u qpn 0x%06x psn 0x%06x mtu %u mpr %u",
                static_cast<unsigned long long>(info.device_guid), info.slot, value(info.qpn),
                info.start_psn.value(), info.mtu, info.mpr_dest);
  std::string text = head;
  text += " wimm " + std::to_string(info.max_wimm_dest);
  if (info.dynamic_mpr) text += " dynamic-mpr";
  if (info.trim_nack) text += " trim";
  text += info.icrc ? " icrc" : " no-icrc";
  text += " window " + std::to_string(info.receive_window) + " planes";
  for (const auto& plane : info.planes) text += " " + port::format_address(plane);
  return text;
}

}  // namespace mrc::inline v0_1
