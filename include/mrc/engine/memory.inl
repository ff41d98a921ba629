// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>

#include "mrc/core/types.hpp"
#include "mrc/engine/memory.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

static_assert(kLargestMtu <= 32 * wire::kPartPayload, "a bit for each part");

PartAssembly::PartAssembly(std::uint32_t places, std::uint32_t payload)
    : payload_(std::min(payload, kLargestMtu)),
      stride_(static_cast<std::uint32_t>(wire::kMaxWriteHeader + wire::kMaxPad) + payload_),
      places_(places),
      buffers_(std::make_unique_for_overwrite<std::uint8_t[]>(std::size_t{places} * stride_)) {}

std::optional<wire::RxPacket> PartAssembly::add(Time now, const wire::RxPacket& part,
                                                bool& malformed) noexcept {
  const auto& bth = wire::view_as<wire::Bth>(part.bytes);
  const auto& header = wire::view_as<wire::PartHeader>(part.bytes.subspan(sizeof(wire::Bth)));
  const std::uint32_t length = header.length, offset = header.offset;
  const std::size_t headers =  // of the whole packet
      wire::write_header_size(bth.has_timestamp(), wire::has_immediate(header.opcode()));
  const std::size_t in_front = headers + sizeof(wire::PartHeader) + bth.pad();
  malformed = places_.empty() || !wire::is_data(header.opcode()) || length > payload_ ||
              length <= wire::kPartPayload || offset >= length ||
              offset % wire::kPartPayload != 0 || part.bytes.size() < in_front ||
              part.bytes.size() - in_front != std::min(wire::kPartPayload, length - offset);
  if (malformed) return std::nullopt;

  const std::size_t index = (bth.psn().value() + value(bth.dqp()) * 37) % places_.size();
  Place& place = places_[index];
  if (place.qpn != bth.dqp() || place.psn != bth.psn() || place.length != length ||
      place.opcode != header.op || place.check != part.check || now - place.newest > kLifetime)
    place = {now, part.check, bth.dqp(), bth.psn(), length, 0, header.op, false};
  place.newest = now;
  std::uint8_t* const packet = buffers_.get() + index * stride_;
  const std::uint8_t* const piece = part.bytes.data() + in_front - bth.pad();
  std::memcpy(packet + headers + offset, piece, part.bytes.size() - in_front);
  place.have |= 1u << (offset / wire::kPartPayload);
  place.congested = place.congested || part.ecn == Ecn::ce;
  const std::uint32_t parts = wire::parts_of(length);
  if (place.have != ~std::uint32_t{0} >> (32 - parts)) return std::nullopt;

  const std::size_t pad = (4 - length % 4) % 4;
  wire::Bth whole = bth;
  whole.op = header.op;
  whole.set_pad(static_cast<unsigned>(pad));
  std::memcpy(packet, &whole, sizeof whole);
  std::memcpy(packet + sizeof whole, &header + 1, headers - sizeof whole);
  std::memset(packet + headers + length, 0, pad);
  wire::RxPacket out = part;
  out.bytes = {packet, headers + length + pad};
  out.udp_length = static_cast<std::uint32_t>(sizeof(wire::Udp) + out.bytes.size()) +
                   std::uint32_t{wire::kIcrcSize};
  if (place.congested) out.ecn = Ecn::ce;
  place.length = 0;
  return out;
}

}  // namespace mrc::inline v0_1::engine
