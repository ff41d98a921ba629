// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "mrc/core/value_text.hpp"
#include "mrc/plane/verbs/verbs_message.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Layout: magic 4, form 1, type 1, length 2 (of everything), tokens of receiver and sender 8 each,
/// body.
inline constexpr std::uint32_t kVerbsMagic = 0x4D52'4356;  // "MRCV"
inline constexpr std::uint8_t kVerbsForm = 1;
inline constexpr std::size_t kVerbsHead = 24, kVerbsStateHead = 28, kVerbsPathBytes = 12;
inline constexpr std::size_t kMaxVerbsPaths = 64;
static_assert(kMaxVerbsMessage == kVerbsHead + kVerbsStateHead + kMaxVerbsPaths * kVerbsPathBytes);
inline constexpr std::uint8_t kVerbsAsk = 1, kVerbsRefused = 2;  ///< flags of a state

inline void write_state(ByteWriter& out, const VerbsState& state) {
  out.u32(state.version).u32(state.echo).u32(state.generation).u32(state.incarnation);
  out.u32(state.sender).u32(state.qkey);
  out.u8((state.ask ? kVerbsAsk : 0u) | (state.refused ? kVerbsRefused : 0u));
  out.u8(state.paths.size()).u16(0);
  for (const VerbsState::Path& path : state.paths)
    out.u32(path.ud).u32(path.uc).u8(path.epoch).u8(0).u16(0);
}

[[nodiscard]] inline bool read_state(ByteReader& in, VerbsState& state) {
  state.version = in.u32();
  state.echo = in.u32();
  state.generation = in.u32();
  state.incarnation = in.u32();
  state.sender = in.u32();
  state.qkey = in.u32();
  const auto flags = in.u8();
  state.ask = (flags & kVerbsAsk) != 0;
  state.refused = (flags & kVerbsRefused) != 0;
  const std::size_t count = in.u8();
  (void)in.u16();
  if (count == 0 || count > kMaxVerbsPaths || state.version == 0) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t ud = in.u32(), uc = in.u32();
    state.paths.push_back({ud, uc, in.u8()});
    (void)in.bytes(3);
  }
  return in.done();
}

}  // namespace detail

std::vector<std::uint8_t> encode(const VerbsMessage& message) {
  std::vector<std::uint8_t> body, datagram;
  if (ByteWriter out(body); message.type == VerbsMessageType::state)
    detail::write_state(out, message.state);
  else
    out.u32(message.key).u32(message.device_key).u32(message.generation);
  ByteWriter out(datagram);
  out.u32(detail::kVerbsMagic).u8(detail::kVerbsForm).u8(static_cast<std::uint8_t>(message.type));
  out.u16(detail::kVerbsHead + body.size()).u64(message.to).u64(message.from).bytes(body);
  return datagram;
}

std::optional<VerbsMessage> decode_verbs_message(Bytes datagram) {
  ByteReader in(datagram);
  if (in.u32() != detail::kVerbsMagic || in.u8() != detail::kVerbsForm) return std::nullopt;
  VerbsMessage message;
  message.type = static_cast<VerbsMessageType>(in.u8());
  if (in.u16() != datagram.size()) return std::nullopt;
  message.to = in.u64();
  message.from = in.u64();
  switch (message.type) {
    case VerbsMessageType::state:
      if (!detail::read_state(in, message.state)) return std::nullopt;
      return message;
    case VerbsMessageType::key_query:
    case VerbsMessageType::key_answer:
      message.key = in.u32();
      message.device_key = in.u32();
      message.generation = in.u32();
      if (!in.done()) return std::nullopt;
      return message;
  }
  return std::nullopt;
}

}  // namespace mrc::inline v0_1::port
