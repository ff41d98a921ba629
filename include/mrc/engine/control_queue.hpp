// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/path/trials.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"

namespace mrc::inline v0_1::engine {

/// A control packet or probe that waits to be sent. Its header is written when it is sent, from the
/// state at that time; the item has only what comes from the packet that triggered it.
struct ControlItem {
  /// The packet to be sent.
  enum class Kind : std::uint8_t {
    sack,             ///< SACK for the packet `psn`
    probe_sack,       ///< SACK that answers the reliability probe `id`
    nack,             ///< NACK `reason` for `psn`
    ack,              ///< Transport ACK of the newest finished message
    nak,              ///< Transport ACK with the NAK `syndrome` for `psn`
    probe,            ///< reliability probe `id`
    ev_probe,         ///< endpoint request: EV probe on `path`
    port_status,      ///< endpoint request: port status
    endpoint_answer,  ///< endpoint response to request `id`
  };
  Kind kind{};      ///< decides which of the other fields count
  Plane plane = 0;  ///< in which the trigger arrived; preferred for the answer ([O-18])
  wire::SackMark mark = wire::SackMark::none;  ///< sack, probe_sack: SETH.m (mrc-1.0 §2.7)
  wire::NackReason reason{};                   ///< nack: NETH reason (mrc-1.0 §1.13)
  wire::Syndrome syndrome{};                   ///< nak: AETH syndrome
  wire::EndpointOp op{};                       ///< endpoint_answer: operation of the request
  path::PathIndex path = path::kNoPath;        ///< ev_probe: the path to probe
  std::uint16_t timestamp = 0;                 ///< of the trigger, reflected
  std::uint16_t id = 0;                        ///< number of the probe or endpoint request
  bool full_size = false;  ///< ev_probe: filled up to the size of the largest data packet
  path::Piece piece = path::Piece::single;  ///< ev_probe: that it leaves in
  bool again = false;  ///< answers a retransmission or a probe: earlier answers may be lost
  Psn psn;             ///< sack, nack: PSN of the trigger; nak: of the refused request
  Ev entropy{};        ///< sack, probe_sack, nack: EV of the trigger, reflected
  /// Own queue pair. Endpoint packets: the one whose tag they carry, 0 if none.
  Qpn qpn{};
  PeerId peer{};  ///< endpoint packets: the destination
};

/// Low 16 bits of a QPN, as SPDCID and DPDCID carry them ([C-21]).
[[nodiscard]] constexpr std::uint16_t connection_id(Qpn qpn) noexcept {
  return static_cast<std::uint16_t>(value(qpn));
}

/// Makes the header of a control packet, a packed struct of headers, where it is sent from. The
/// caller fills in what follows `bth`.
template <class Header>
[[nodiscard]] Header& make_header(wire::TxPacket& packet, const wire::Bth& bth) noexcept {
  static_assert(alignof(Header) == 1 && std::is_trivially_copyable_v<Header>);
  static_assert(sizeof(Header) <= sizeof(packet.header));
  Header& header = *std::construct_at(reinterpret_cast<Header*>(packet.header.data()));
  header.bth = bth;
  packet.header_length = sizeof(Header);
  return header;
}

/// Control packets, first in first out. Entries are numbered, so that a queue pair can find its
/// newest SACK and update it instead of queueing another. One thread.
class ControlQueue {
 public:
  /// `capacity`: number of items that fit.
  explicit ControlQueue(std::size_t capacity) : ring_(capacity) {}

  /// True if no item waits.
  [[nodiscard]] bool empty() const noexcept { return ring_.empty(); }
  /// The oldest item; needs !empty().
  [[nodiscard]] ControlItem& front() noexcept { return ring_.front(); }
  /// Removes the oldest item; needs !empty().
  void pop() noexcept {
    ring_.pop_front();
    ++first_;
  }
  /// False when full. `number` receives the entry's number, for find().
  bool push(const ControlItem& item, std::uint32_t* number = nullptr) noexcept {
    if (number != nullptr) *number = first_ + static_cast<std::uint32_t>(ring_.size());
    return ring_.push_back(item);
  }
  /// Invalidates every entry whose target no longer exists (gone(item) is true): its QPN or PeerId
  /// may be reused.
  template <class F>
  void invalidate(F&& gone) noexcept {
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      if (!gone(static_cast<const ControlItem&>(ring_[i]))) continue;
      ring_[i].qpn = Qpn{};  // reserved
      ring_[i].peer = kNobody;
    }
  }
  /// The entry with that number, or null if it was taken out.
  [[nodiscard]] ControlItem* find(std::uint32_t number) noexcept {
    const std::uint32_t i = number - first_;
    return i < ring_.size() ? &ring_[i] : nullptr;
  }

 private:
  static constexpr PeerId kNobody{0xFFFFFFFF};

  Ring<ControlItem> ring_;
  std::uint32_t first_ = 1;
};

}  // namespace mrc::inline v0_1::engine
