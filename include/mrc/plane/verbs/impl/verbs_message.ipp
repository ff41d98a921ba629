// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "mrc/plane/verbs/verbs_message.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

inline constexpr std::uint32_t kVerbsMagic = 0x4D52'4356;  // "MRCV"

struct VerbsHead {
  wire::Be32 magic;
  std::uint8_t form = 1;
  std::uint8_t type = 0;
  wire::Be16 length;  ///< of the whole message
  wire::Be64 to;
  wire::Be64 from;
};
static_assert(sizeof(VerbsHead) == 24);

struct VerbsStateBody {
  wire::Be32 version;
  wire::Be32 echo;
  wire::Be32 generation;
  wire::Be32 incarnation;
  wire::Be32 sender;
  wire::Be32 qkey;
  std::uint8_t flags = 0;  ///< bit 0: ask, bit 1: refused
  std::uint8_t count = 0;  ///< paths
  wire::Be16 reserved;
};
static_assert(sizeof(VerbsStateBody) == 28);

struct VerbsPathBody {
  wire::Be32 ud;
  wire::Be32 uc;
  std::uint8_t epoch = 0;
  std::uint8_t reserved[3] = {};
};
static_assert(sizeof(VerbsPathBody) == 12);

struct VerbsKeyBody {
  wire::Be32 key;
  wire::Be32 device_key;  ///< 0 in a query
  wire::Be32 generation;  ///< 0 in a query
};
static_assert(sizeof(VerbsKeyBody) == 12);

inline constexpr std::size_t kMaxVerbsPaths = 64;
static_assert(kMaxVerbsMessage ==
              sizeof(VerbsHead) + sizeof(VerbsStateBody) + kMaxVerbsPaths * sizeof(VerbsPathBody));

template <class Body>
inline void append(std::vector<std::uint8_t>& out, const Body& body) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&body);
  out.insert(out.end(), bytes, bytes + sizeof body);
}

inline void append_state(std::vector<std::uint8_t>& out, const VerbsState& state) {
  VerbsStateBody body;
  body.version = state.version;
  body.echo = state.echo;
  body.generation = state.generation;
  body.incarnation = state.incarnation;
  body.sender = state.sender;
  body.qkey = state.qkey;
  body.flags = static_cast<std::uint8_t>((state.ask ? 1 : 0) | (state.refused ? 2 : 0));
  body.count = static_cast<std::uint8_t>(state.paths.size());
  append(out, body);
  for (const VerbsState::Path& path : state.paths) {
    VerbsPathBody entry;
    entry.ud = path.ud;
    entry.uc = path.uc;
    entry.epoch = path.epoch;
    append(out, entry);
  }
}

[[nodiscard]] inline bool read_state(Bytes bytes, VerbsState& state) {
  if (bytes.size() < sizeof(VerbsStateBody)) return false;
  const auto& body = wire::view_as<VerbsStateBody>(bytes);
  const Bytes rest = bytes.subspan(sizeof body);
  if (body.count == 0 || body.count > kMaxVerbsPaths || body.version == 0 ||
      rest.size() != body.count * sizeof(VerbsPathBody))
    return false;
  state.version = body.version;
  state.echo = body.echo;
  state.generation = body.generation;
  state.incarnation = body.incarnation;
  state.sender = body.sender;
  state.qkey = body.qkey;
  state.ask = (body.flags & 1) != 0;
  state.refused = (body.flags & 2) != 0;
  for (std::size_t i = 0; i < body.count; ++i) {
    const auto& entry = wire::view_as<VerbsPathBody>(rest.subspan(i * sizeof(VerbsPathBody)));
    state.paths.push_back({entry.ud, entry.uc, entry.epoch});
  }
  return true;
}

}  // namespace detail

MRC_SETUP std::vector<std::uint8_t> encode(const VerbsMessage& message) {
  std::vector<std::uint8_t> out;
  detail::VerbsHead head;
  head.magic = detail::kVerbsMagic;
  head.type = static_cast<std::uint8_t>(message.type);
  head.to = message.to;
  head.from = message.from;
  const bool state = message.type == VerbsMessageType::state;
  head.length = static_cast<std::uint16_t>(
      sizeof head + (state ? sizeof(detail::VerbsStateBody) +
                                 message.state.paths.size() * sizeof(detail::VerbsPathBody)
                           : sizeof(detail::VerbsKeyBody)));
  detail::append(out, head);
  if (state) {
    detail::append_state(out, message.state);
  } else {
    detail::VerbsKeyBody body;
    body.key = message.key;
    body.device_key = message.device_key;
    body.generation = message.generation;
    detail::append(out, body);
  }
  return out;
}

MRC_SETUP std::optional<VerbsMessage> decode_verbs_message(Bytes datagram) {
  if (datagram.size() < sizeof(detail::VerbsHead)) return std::nullopt;
  const auto& head = wire::view_as<detail::VerbsHead>(datagram);
  if (head.magic != detail::kVerbsMagic || head.form != 1 || head.length != datagram.size())
    return std::nullopt;
  const Bytes rest = datagram.subspan(sizeof head);
  VerbsMessage message;
  message.type = static_cast<VerbsMessageType>(head.type);
  message.to = head.to;
  message.from = head.from;
  switch (message.type) {
    case VerbsMessageType::state:
      if (!detail::read_state(rest, message.state)) return std::nullopt;
      return message;
    case VerbsMessageType::key_query:
    case VerbsMessageType::key_answer: {
      if (rest.size() != sizeof(detail::VerbsKeyBody)) return std::nullopt;
      const auto& body = wire::view_as<detail::VerbsKeyBody>(rest);
      message.key = body.key;
      message.device_key = body.device_key;
      message.generation = body.generation;
      return message;
    }
  }
  return std::nullopt;
}

}  // namespace mrc::inline v0_1::port
