// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mrc/core/ring.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/types.hpp"
#include "mrc/path/path_set.hpp"
#include "mrc/wire/control_headers.hpp"
#include "mrc/wire/data_headers.hpp"

namespace mrc::inline v0_1::engine {

/// A control packet or probe that waits to be sent. It is built when it goes out, from the state of
/// that moment; only what the triggering packet told is kept here.
struct ControlItem {
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
  Kind kind{};
  Plane plane = 0;  ///< where the trigger came in, so where the answer goes if it can ([O-18])
  wire::SackMark mark = wire::SackMark::none;
  wire::NackReason reason{};
  wire::Syndrome syndrome{};
  wire::EndpointOp op{};
  path::PathIndex path = path::kNoPath;
  std::uint16_t timestamp = 0;  ///< of the trigger, reflected
  std::uint16_t id = 0;
  Psn psn;
  Ev entropy{};
  Qpn qpn{};  ///< own queue pair; none for endpoint packets
  PeerId peer{};
};

/// Control packets in the order in which they became due. Entries have numbers, so that a queue
/// pair can find its newest SACK and refresh it instead of queueing another. One thread.
class ControlQueue {
 public:
  explicit ControlQueue(std::size_t capacity) : ring_(capacity) {}

  [[nodiscard]] bool empty() const noexcept { return ring_.empty(); }
  [[nodiscard]] ControlItem& front() noexcept { return ring_.front(); }
  void pop() noexcept {
    ring_.pop_front();
    ++first_;
  }
  /// False when full. `number` names the entry afterwards.
  bool push(const ControlItem& item, std::uint32_t* number = nullptr) noexcept {
    if (number != nullptr) *number = first_ + static_cast<std::uint32_t>(ring_.size());
    return ring_.push_back(item);
  }
  /// Makes the entries for which gone(item) holds go to nobody: what they are about no longer
  /// exists, and their numbers may soon mean something else.
  template <class F>
  void forget(F&& gone) noexcept {
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      if (!gone(static_cast<const ControlItem&>(ring_[i]))) continue;
      ring_[i].qpn = Qpn{};  // reserved
      ring_[i].peer = kNobody;
    }
  }
  /// The entry of that number, or null if it has left.
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
