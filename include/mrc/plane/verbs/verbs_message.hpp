// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mrc/core/types.hpp"

/// Control messages between two verbs ports, one UDP datagram each. Each names the secret tokens of
/// both ports, which only those know who exchanged ConnectionInfo: off the path, 128 bits must be
/// guessed. Set-up calls; any thread.
namespace mrc::inline v0_1::port {

/// What a message is.
enum class VerbsMessageType : std::uint8_t {
  state = 1,       ///< how the sender is reached now
  key_query = 2,   ///< what does your device call the memory of this key?
  key_answer = 3,  ///< the answer
};

/// How the sender of a message is reached now by the receiver. States are numbered, by a clock and
/// then upwards, so that those of a session that begins anew are newer; both sides repeat theirs
/// until the other one has echoed its number.
struct VerbsState {
  std::uint32_t version = 0;      ///< number of the state; wraps, never 0
  std::uint32_t echo = 0;         ///< newest version received from the other side; 0: none
  bool ask = false;               ///< an answer is wanted: `version` has not been echoed
  std::uint32_t generation = 0;   ///< of the sender's device: with a new one, its keys are others
  std::uint32_t incarnation = 0;  ///< of its receiving UC paths: with a new one, epochs begin anew
  std::uint32_t sender = 0;       ///< of its sending ones: with a new one, numbers begin anew
  bool refused = false;           ///< no UC between these two, from now on
  std::uint32_t qkey = 0;         ///< of the UD queue pairs
  /// Queue pairs of a path at which the sender of this message receives.
  struct Path {
    std::uint32_t ud = 0;    ///< queue pair number
    std::uint32_t uc = 0;    ///< queue pair number; 0: none
    std::uint8_t epoch = 0;  ///< of `uc`

    /// Equal in all fields.
    friend bool operator==(const Path&, const Path&) = default;
  };
  std::vector<Path> paths;  ///< 1 .. 64
};

/// A control message.
struct VerbsMessage {
  VerbsMessageType type = VerbsMessageType::state;  ///< which of the fields below count
  std::uint64_t to = 0;                             ///< token of the receiving port
  std::uint64_t from = 0;                           ///< token of the sending port
  VerbsState state;                                 ///< of a state
  std::uint32_t key = 0;                            ///< of a query or an answer: the program's key
  std::uint32_t device_key = 0;  ///< of an answer: the device's key; 0: the device may not write
  std::uint32_t generation = 0;  ///< of an answer: of the device that the key is for
};

/// The datagram for a message.
[[nodiscard]] std::vector<std::uint8_t> encode(const VerbsMessage& message);
/// Reads a datagram. Any bytes are safe; nothing if they are no such message.
[[nodiscard]] std::optional<VerbsMessage> decode_verbs_message(Bytes datagram);

/// Bytes of the longest message.
inline constexpr std::size_t kMaxVerbsMessage = 24 + 28 + 64 * 12;

}  // namespace mrc::inline v0_1::port
