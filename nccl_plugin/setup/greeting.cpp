// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/greeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "mrc/core/error.hpp"

namespace mrc_nccl {

namespace {

void put(std::vector<std::uint8_t>& out, std::uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) out.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}

// Reads from the front of a message.
class Reader {
 public:
  explicit Reader(mrc::Bytes left) : left_(left) {}
  std::uint64_t number(unsigned bytes) {
    const mrc::Bytes taken = take(bytes);
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= std::uint64_t{taken[i]} << 8 * i;
    return value;
  }
  mrc::Bytes take(std::size_t bytes) {
    if (bytes > left_.size())
      throw mrc::Error(mrc::Errc::bad_message, "set-up message of the NCCL plugin is cut short");
    const mrc::Bytes taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  std::string rest() { return text(left_.size()); }
  std::string text(std::size_t bytes) {
    std::string text;
    for (const std::uint8_t byte : take(bytes))
      text += byte >= 0x20 && byte < 0x7F ? static_cast<char>(byte) : '?';
    return text;
  }

 private:
  mrc::Bytes left_;
};

void put(std::vector<std::uint8_t>& out, const PlaneOffer& plane) {
  out.insert(out.end(), plane.ip.begin(), plane.ip.end());
  put(out, plane.prefix_bits, 1);
  put(out, plane.mtu, 4);
  const std::string name = plane.interface.substr(0, 255);
  put(out, name.size(), 1);
  out.insert(out.end(), name.begin(), name.end());
}

PlaneOffer get_plane(Reader& reader) {
  PlaneOffer plane;
  const mrc::Bytes ip = reader.take(plane.ip.size());
  std::copy(ip.begin(), ip.end(), plane.ip.begin());
  plane.prefix_bits = static_cast<std::uint8_t>(reader.number(1));
  if (plane.prefix_bits > 128)
    throw mrc::Error(mrc::Errc::bad_message,
                     "set-up message of the NCCL plugin: a subnet of more than 128 bits");
  plane.mtu = static_cast<std::uint32_t>(reader.number(4));
  plane.interface = reader.text(static_cast<std::size_t>(reader.number(1)));
  return plane;
}

void put(std::vector<std::uint8_t>& out, const Greeting& greeting) {
  put(out, greeting.mailbox.address, 8);
  put(out, greeting.mailbox.rkey, 4);
  const auto blob = mrc::encode(greeting.info);
  put(out, blob.size(), 4);
  out.insert(out.end(), blob.begin(), blob.end());
  put(out, greeting.planes.size(), 1);
  for (const PlaneOffer& plane : greeting.planes) put(out, plane);
  out.insert(out.end(), greeting.name.begin(), greeting.name.end());
}

Greeting get_greeting(Reader& reader) {
  Greeting greeting;
  greeting.mailbox.address = reader.number(8);
  greeting.mailbox.rkey = static_cast<std::uint32_t>(reader.number(4));
  const auto size = static_cast<std::size_t>(reader.number(4));
  greeting.info = mrc::decode_connection_info(reader.take(size));
  for (auto planes = reader.number(1); planes > 0; --planes)
    greeting.planes.push_back(get_plane(reader));
  greeting.name = reader.rest();
  return greeting;
}

std::vector<std::uint8_t> begin(MessageType type) {
  return {static_cast<std::uint8_t>(type)};
}

}  // namespace

std::vector<std::uint8_t> encode_hello(const Greeting& mine) {
  auto out = begin(MessageType::hello);
  put(out, mine);
  return out;
}
std::vector<std::uint8_t> encode_answer(const Greeting& mine) {
  auto out = begin(MessageType::answer);
  put(out, mine);
  return out;
}
std::vector<std::uint8_t> encode_refusal(const std::string& text) {
  auto out = begin(MessageType::refusal);
  out.insert(out.end(), text.begin(), text.end());
  return out;
}
std::vector<std::uint8_t> encode_ready() {
  return begin(MessageType::ready);
}

Message decode_message(mrc::Bytes bytes) {
  Reader reader(bytes);
  Message message;
  message.type = static_cast<MessageType>(reader.number(1));
  switch (message.type) {
    case MessageType::hello:
    case MessageType::answer:
      message.greeting = get_greeting(reader);
      break;
    case MessageType::refusal:
      message.text = reader.rest();
      break;
    case MessageType::ready:
      break;
    default:
      throw mrc::Error(mrc::Errc::bad_message, "set-up message of the NCCL plugin: unknown type");
  }
  return message;
}

std::string process_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return std::string(host.data()) + ":" + std::to_string(::getpid());
}

}  // namespace mrc_nccl
