// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/types.hpp"
#include "mrc/engine/queue_pair.hpp"
#include "mrc/engine/queues.hpp"
#include "mrc/reliability/send_window.hpp"
#include "mrc/wire/headers.hpp"

/// How messages are divided into packets: which bytes a packet carries, its size, and which message
/// a PSN belongs to. Pure functions of a queue pair's state.
namespace mrc::inline v0_1::engine {

/// The part of a message that one packet carries.
struct PacketSlice {
  std::uint32_t offset,  ///< of the payload in the message, bytes
      length;            ///< payload bytes
  std::uint32_t size;    ///< nominal size, as both sides count it (mrc-1.0 [C-15])
  std::uint8_t pad;      ///< zero bytes after the payload, to a multiple of 4
  bool first,            ///< first packet of the message
      last;              ///< last packet of the message
};

/// Packets of a message.
[[nodiscard]] constexpr std::uint32_t packets_of(std::uint32_t length, std::uint32_t mtu) noexcept {
  return std::max(1u, (length + mtu - 1) / mtu);
}

/// Packet `k` of a message. `timestamps`: data packets have a TSETH.
[[nodiscard]] inline PacketSlice slice_of(const SendWqe& w, std::uint32_t k, std::uint32_t mtu,
                                          bool timestamps) noexcept {
  PacketSlice s;
  s.offset = std::min(k * mtu, w.length);
  s.length = std::min(mtu, w.length - s.offset);
  s.pad = static_cast<std::uint8_t>((4 - s.length % 4) % 4);
  s.first = k == 0;
  s.last = k + 1 == w.packets;
  const bool immediate = w.with_immediate() && s.last;
  const auto headers = static_cast<std::uint32_t>(wire::write_header_size(timestamps, immediate));
  s.size = wire::kNominalOverhead + headers + s.length + s.pad + wire::kIcrcSize;
  return s;
}

/// A message with packets in the send window.
struct SentMessage {
  SendQueue* queue;        ///< the send queue, or that of responses
  std::uint32_t position;  ///< in it

  /// The message.
  [[nodiscard]] SendWqe& wqe() const noexcept { return queue->at(position); }
};

/// The message that a packet in the send window belongs to. A search in logarithmic time, because
/// packet records do not name the message: only retransmissions and packets given up look it up.
[[nodiscard]] SentMessage message_of(QueuePairState& qp, Psn psn) noexcept;

/// Nominal size of an outstanding packet. Its record has it until the packet is sent again.
[[nodiscard]] inline std::uint32_t nominal_size(QueuePairState& qp, Psn psn,
                                                reliability::Packet packet,
                                                bool timestamps) noexcept {
  if (packet.first_try()) return packet.size();
  const SendWqe& w = message_of(qp, psn).wqe();
  return slice_of(w, static_cast<std::uint32_t>(psn - w.first), qp.mtu, timestamps).size;
}

}  // namespace mrc::inline v0_1::engine
