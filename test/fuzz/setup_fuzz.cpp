// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/exchange.hpp"
#include "mrc/faults/schedule.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc_perf/control.hpp"
#include "mrc_perf/options.hpp"
#include "nccl_plugin/setup/greeting.hpp"
#include "nccl_plugin/setup/handle.hpp"

// Fuzzes what is read while connections are set up, and what people write in options. The first
// input byte selects the parser. Each takes any bytes: it returns a value, which is the same when
// it is written and read again, or throws an error of its own kind.

namespace {

using namespace mrc;
using mrc::fuzz::require, mrc::fuzz::text_of;

/// The input with the envelope of a ConnectionInfo around it, which no fuzzer would guess.
std::vector<std::uint8_t> sealed(Bytes items) {
  std::vector<std::uint8_t> out;
  ByteWriter(out).u32(0x4F4D5243).u16(2).u16(8 + items.size() + 4).bytes(items);
  ByteWriter(out).u32(wire::crc32(0, out));
  return out;
}

void read_connection_info(Bytes input) {
  const ConnectionInfo info = decode_connection_info(input);
  require(decode_connection_info(encode(info)) == info);
  require(!to_string(info).empty());
}
void read_sealed_connection_info(Bytes input) {
  read_connection_info(sealed(input));
}

/// A message of the NCCL plugin.
void read_greeting(Bytes input) {
  using mrc_nccl::MessageType;
  const mrc_nccl::Message message = mrc_nccl::decode_message(input);
  if (message.type == MessageType::hello || message.type == MessageType::answer)
    require(decode_connection_info(encode(message.greeting.info)) == message.greeting.info);
  for (const char c : message.text + message.greeting.name) require(c >= 0x20 && c < 0x7F);
}
/// Its fixed part, a byte that says how long the items of a ConnectionInfo are, these without their
/// envelope, and the rest.
void read_sealed_greeting(Bytes input) {
  ByteReader in(input);
  std::vector<std::uint8_t> message;
  ByteWriter out(message);
  out.bytes(in.bytes(1 + 8 + 4));
  const auto info = sealed(in.bytes(in.u8()));
  out.u32(info.size()).bytes(info).bytes(in.bytes(in.left()));
  read_greeting(message);
}

void read_handle(Bytes input) {
  alignas(8) std::array<std::uint8_t, nccl_abi::kHandleBytes> bytes{};
  std::memcpy(bytes.data(), input.data(), std::min(input.size(), bytes.size()));
  auto handle = mrc_nccl::Handle::read(bytes.data());
  if (!handle) {  // with the checksum that is right
    std::memcpy(&handle.emplace(), bytes.data(), sizeof(mrc_nccl::Handle));
    handle->write(bytes.data());
    handle = mrc_nccl::Handle::read(bytes.data());
    if (!handle) return;
  }
  require(handle->addresses >= 1 && handle->addresses <= handle->ip.size());
  for (unsigned i = 0; i < handle->addresses; ++i) require(!port::format_ip(handle->ip[i]).empty());
}

/// What a server of mrc_perf does with a client's first message.
void read_perf_hello(Bytes input) {
  const auto message = perf::parse_message(input, "peer");
  if (message["op"] != "hello") return;
  const auto nothing = nlohmann::json::object();
  (void)message.value("mrc_perf", 0);
  const auto parameters = perf::parameters_from_json(message.value("parameters", nothing));
  const auto again = perf::parameters_from_json(perf::to_json(parameters));
  require(perf::to_json(again) == perf::to_json(parameters));
  (void)perf::server_config({}, message.value("settings", nothing));
}

void read_faults(Bytes input) {
  const std::string mistake = port::FaultSchedule::mistake_in(text_of(input));
  try {
    const auto schedule = port::FaultSchedule::parse(text_of(input));
    require(mistake.empty());
    const std::size_t all = schedule.all().size();
    Duration t{};
    for (int changes = 0; changes < 64 && t != Duration::max(); ++changes) {
      require(schedule.active_at(t).size() <= all);
      (void)schedule.port_fault(t, 0);
      (void)schedule.path_fault(t, 0, 0);
      const Duration next = schedule.next_change(t);
      require(next > t);
      t = next;
    }
  } catch (const Error&) {
    require(!mistake.empty());
  }
}

/// The option that the next byte selects.
void read_option(Bytes input) {
  const std::string_view text = text_of(input);
  if (text.empty()) return;
  const auto all = options();
  const std::string name(all[input.front() % all.size()].name);
  Config config;
  config.set(name, text.substr(1));
  const std::string value = config.get(name);
  Config again;
  again.set(name, value);
  require(again.get(name) == value);
  (void)config.plane_list();
}
void read_assignment(Bytes input) {
  Config config;
  set_option(config, text_of(input));
}
void read_networks(Bytes input) {
  const AllowedPeers allowed(text_of(input));
  require(allowed.everybody() == input.empty());
  for (const port::Network& network : port::parse_networks(text_of(input)))
    require(allowed.contains(network.base));
}
void read_peer_ports(Bytes input) {
  require(PeerPorts(text_of(input)).find(port::make_v4(192, 0, 2, 1)).value_or(1) != 0);
}

constexpr std::array kParsers{read_connection_info, read_sealed_connection_info,
                              read_greeting,        read_sealed_greeting,
                              read_handle,          read_perf_hello,
                              read_faults,          read_option,
                              read_assignment,      read_networks,
                              read_peer_ports};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    kParsers[data[0] % kParsers.size()](Bytes(data + 1, size - 1));
  } catch (const Error&) {                      // what these parsers throw
  } catch (const perf::Failure&) {              // of mrc_perf, likewise
  } catch (const nlohmann::json::exception&) {  // a member of another type: the client is refused
  }
  return 0;
}
