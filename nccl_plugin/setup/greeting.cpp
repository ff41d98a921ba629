// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/greeting.hpp"

#include <unistd.h>

#include <array>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"

namespace mrc_nccl {

namespace {

constexpr const char* kCutShort = " is cut short";

[[noreturn]] void refuse(const char* why) {
  throw mrc::Error(mrc::Errc::bad_message, std::string("set-up message of the NCCL plugin") + why);
}

// What others have written, as it may be shown.
std::string text_of(mrc::Bytes bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes)
    text += byte >= 0x20 && byte < 0x7F ? static_cast<char>(byte) : '?';
  return text;
}

PlaneOffer read_plane(mrc::ByteReader& in) {
  PlaneOffer plane;
  plane.ip = in.array<16>();
  plane.prefix_bits = in.u8();
  if (plane.prefix_bits > 128) refuse(": a subnet of more than 128 bits");
  plane.mtu = in.u32();
  plane.interface = text_of(in.bytes(in.u8()));
  return plane;
}

Greeting read_greeting(mrc::ByteReader& in) {
  Greeting greeting;
  greeting.mailbox.address = in.u64();
  greeting.mailbox.rkey = in.u32();
  greeting.takes_eager = in.u8() != 0;
  const mrc::Bytes info = in.bytes(in.u32());
  if (in.missing()) refuse(kCutShort);
  greeting.info = mrc::decode_connection_info(info);
  for (auto planes = in.u8(); planes > 0; --planes) greeting.planes.push_back(read_plane(in));
  greeting.name = text_of(in.bytes(in.left()));
  return greeting;
}

std::vector<std::uint8_t> encode(MessageType type, const Greeting& mine) {
  std::vector<std::uint8_t> bytes;
  mrc::ByteWriter out(bytes);
  out.u8(static_cast<std::uint8_t>(type)).u64(mine.mailbox.address).u32(mine.mailbox.rkey);
  out.u8(mine.takes_eager ? 1 : 0);
  const auto info = mrc::encode(mine.info);
  out.u32(info.size()).bytes(info).u8(mine.planes.size());
  for (const PlaneOffer& plane : mine.planes) {
    const std::string name = plane.interface.substr(0, 255);
    out.bytes(plane.ip).u8(plane.prefix_bits).u32(plane.mtu).u8(name.size()).bytes(name);
  }
  out.bytes(mine.name);
  return bytes;
}

}  // namespace

std::vector<std::uint8_t> encode_hello(const Greeting& mine) {
  return encode(MessageType::hello, mine);
}
std::vector<std::uint8_t> encode_answer(const Greeting& mine) {
  return encode(MessageType::answer, mine);
}
std::vector<std::uint8_t> encode_refusal(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  mrc::ByteWriter(bytes).u8(static_cast<std::uint8_t>(MessageType::refusal)).bytes(text);
  return bytes;
}
std::vector<std::uint8_t> encode_ready() {
  return {static_cast<std::uint8_t>(MessageType::ready)};
}

Message decode_message(mrc::Bytes bytes) {
  mrc::ByteReader in(bytes);
  Message message;
  message.type = static_cast<MessageType>(in.u8());
  switch (message.type) {
    case MessageType::hello:
    case MessageType::answer:
      message.greeting = read_greeting(in);
      break;
    case MessageType::refusal:
      message.text = text_of(in.bytes(in.left()));
      break;
    case MessageType::ready:
      break;
    default:
      refuse(": unknown type");
  }
  if (in.missing()) refuse(kCutShort);
  return message;
}

std::string process_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return std::string(host.data()) + ":" + std::to_string(::getpid());
}

}  // namespace mrc_nccl
