// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/exchange.hpp"
#include "nccl_plugin/rules/plane_match.hpp"

/// The messages by which two sides set a connection up, over a Channel:
///
///     sender                      receiver
///       hello(greeting)          ->
///                               <-  answer(greeting), or refusal(text)
///       ready                    ->
///
/// The receiver is connected when it answers, the sender before it says `ready`, so nothing is sent
/// to a queue pair that would not take it. The channel proves of each message that the other side
/// of the handle has sent it.
namespace mrc_nccl {

/// What each side needs of the other.
struct Greeting {
  mrc::ConnectionInfo info;          ///< its queue pair
  mrc::RemoteAddress mailbox;        ///< see Mailbox
  std::string name;                  ///< host and process id, for messages
  std::vector<PlaneOffer> planes{};  ///< what its planes are, for match_planes()
  bool takes_eager = false;          ///< a receiver that takes messages without a receive for them
};

enum class MessageType : std::uint8_t { hello = 1, answer = 2, refusal = 3, ready = 4 };

/// A message as it was received.
struct Message {
  MessageType type{};
  Greeting greeting;  ///< hello, answer
  std::string text;   ///< refusal
};

[[nodiscard]] std::vector<std::uint8_t> encode_hello(const Greeting& mine);
[[nodiscard]] std::vector<std::uint8_t> encode_answer(const Greeting& mine);
[[nodiscard]] std::vector<std::uint8_t> encode_refusal(const std::string& text);
[[nodiscard]] std::vector<std::uint8_t> encode_ready();

/// Any bytes are safe. Throws mrc::Error (bad_message).
[[nodiscard]] Message decode_message(mrc::Bytes bytes);

/// Name of this process for peers' messages: "host:pid".
[[nodiscard]] std::string process_name();

}  // namespace mrc_nccl
