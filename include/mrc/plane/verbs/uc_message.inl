// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>

#include "mrc/plane/verbs/uc_message.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Whether writers may write it and readers return it.
[[nodiscard]] inline bool valid_uc_header(const UcHeader& h, std::size_t header_length) noexcept {
  return h.name.path < kMaxUcPaths && h.payload_length >= 1 && h.payload_length <= kMaxUcPayload &&
         h.pad <= 3 && header_length >= kMinUcHeader && header_length <= wire::kMaxTransportHeader;
}

}  // namespace detail

bool UcHeadersWriter::append(const UcHeader& h) noexcept {
  const std::size_t length = h.header.size();
  if (!detail::valid_uc_header(h, length) ||
      buffer_.size() - size_ < sizeof(detail::UcHeaderEntry) + length)
    return false;
  detail::UcHeaderEntry entry;
  entry.path = h.name.path;
  entry.epoch = h.name.epoch;
  entry.header_length = static_cast<std::uint8_t>(length);
  entry.seq = h.name.seq;
  entry.payload_length = h.payload_length;
  entry.pad = h.pad;
  entry.check = h.check;
  std::memcpy(buffer_.data() + size_, &entry, sizeof entry);
  std::memcpy(buffer_.data() + size_ + sizeof entry, h.header.data(), length);
  size_ += sizeof entry + length;
  return true;
}

bool UcHeadersReader::next(UcHeader& h) noexcept {
  if (rest_.empty() || malformed_) return false;
  malformed_ = true;
  detail::UcHeaderEntry entry;
  if (rest_.size() < sizeof entry) return false;
  std::memcpy(&entry, rest_.data(), sizeof entry);
  const std::size_t length = entry.header_length;
  UcHeader read;
  read.name = {entry.path, entry.epoch, entry.seq};
  read.payload_length = entry.payload_length;
  read.pad = entry.pad;
  read.check = entry.check;
  if (!detail::valid_uc_header(read, length) || rest_.size() - sizeof entry < length) return false;
  read.header = rest_.subspan(sizeof entry, length);
  h = read;
  rest_ = rest_.subspan(sizeof entry + length);
  malformed_ = false;
  return true;
}

namespace detail {

/// At most one of each path, in their order.
[[nodiscard]] inline bool valid_uc_origins(std::span<const UcName> origins) noexcept {
  int last = -1;
  for (const UcName& name : origins) {
    if (name.path <= last || name.path >= kMaxUcPaths || name.seq == kNoUcSeq) return false;
    last = name.path;
  }
  return !origins.empty();
}

}  // namespace detail

std::size_t write_uc_origins(MutableBytes buffer, std::span<const UcName> origins) noexcept {
  if (!detail::valid_uc_origins(origins)) return 0;
  const std::size_t paths = origins.back().path + std::size_t{1};
  const std::size_t by_name = 1 + origins.size() * sizeof(detail::UcOriginEntry);
  const std::size_t by_path = 1 + paths * sizeof(detail::UcPathOrigin);
  if (buffer.size() < std::min(by_name, by_path)) return 0;
  std::uint8_t* out = buffer.data();
  if (by_name <= by_path) {
    *out++ = static_cast<std::uint8_t>(origins.size());
    for (const UcName& name : origins) {
      detail::UcOriginEntry entry;
      entry.path = name.path;
      entry.epoch = name.epoch;
      entry.seq = name.seq;
      std::memcpy(out, &entry, sizeof entry);
      out += sizeof entry;
    }
    return by_name;
  }
  *out++ = static_cast<std::uint8_t>(detail::kUcAllPaths | paths);
  for (std::size_t path = 0; path < paths; ++path) {
    detail::UcPathOrigin entry;
    entry.seq = kNoUcSeq;
    if (origins.front().path == path) {
      entry.epoch = origins.front().epoch;
      entry.seq = origins.front().seq;
      origins = origins.subspan(1);
    }
    std::memcpy(out, &entry, sizeof entry);
    out += sizeof entry;
  }
  return by_path;
}

std::size_t read_uc_origins(Bytes message, UcOrigins& origins) noexcept {
  origins.count = 0;
  if (message.empty()) return 0;
  const bool by_path = (message[0] & detail::kUcAllPaths) != 0;
  const std::size_t count = message[0] & (detail::kUcAllPaths - 1u);
  const std::size_t each = by_path ? sizeof(detail::UcPathOrigin) : sizeof(detail::UcOriginEntry);
  const std::size_t size = 1 + count * each;
  if (count > kMaxUcPaths || message.size() < size) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* in = message.data() + 1 + i * each;
    if (by_path) {
      detail::UcPathOrigin entry;
      std::memcpy(&entry, in, sizeof entry);
      if (entry.seq != kNoUcSeq)
        origins.add({static_cast<std::uint16_t>(i), entry.epoch, entry.seq});
    } else {
      detail::UcOriginEntry entry;
      std::memcpy(&entry, in, sizeof entry);
      origins.add({entry.path, entry.epoch, entry.seq});
    }
  }
  if (detail::valid_uc_origins(origins.all())) return size;
  origins.count = 0;
  return 0;
}

}  // namespace mrc::inline v0_1::port
