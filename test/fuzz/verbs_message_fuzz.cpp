// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz.hpp"
#include "mrc/core/error.hpp"
#include "mrc/verbs/verbs_device.hpp"

// Fuzzes what verbs ports read of their peers: control messages and the contact in ConnectionInfo.
// The first input byte selects. What was read is the same when it is written and read again.

using namespace mrc;
using namespace mrc::port;
using mrc::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes input(data + 1, size - 1);
  if ((data[0] & 1) != 0) {
    try {
      const VerbsContact contact = decode_verbs_contact(input);
      require(decode_verbs_contact(encode(contact)) == contact);
    } catch (const Error&) {
    }
    return 0;
  }
  const auto message = decode_verbs_message(input);
  if (!message) return 0;
  const auto again = decode_verbs_message(encode(*message));
  require(again && again->type == message->type && again->to == message->to &&
          again->from == message->from && again->key == message->key &&
          again->device_key == message->device_key && again->state.paths == message->state.paths &&
          again->state.version == message->state.version &&
          again->state.sender == message->state.sender);
  return 0;
}
