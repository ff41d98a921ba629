// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/bitmap.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// The part of a SACK that names packets: bit i of `bitmap` stands for PSN cack + offset + i.
struct SackRange {
  std::int16_t offset = 1;
  std::uint64_t bitmap = 0;
};

/// The responder's window: which PSNs have come, and which of them end a message (mrc-1.0 §2.4,
/// §2.5, Table 7-5). A message is finished when the cumulative number passes its last packet;
/// since MSNs count messages, the number of ends passed is all that a Transport ACK needs.
/// One thread. Nothing allocates after the constructor.
class ReceiveWindow {
 public:
  enum class Verdict : std::uint8_t {
    fresh,      ///< in the window, not seen before
    duplicate,  ///< seen before, or below the window
    beyond,     ///< above the window ([C-6])
  };

  /// `range`: MPR_DEST in packets, 128 .. 32,640.
  explicit ReceiveWindow(std::uint32_t range) : range_(range), received_(range), ends_(range) {}

  /// Expects `first` next.
  void start(Psn first) noexcept {
    cack_ = max_received_ = lowest_unsacked_ = first - 1;
    out_of_order_ = 0;
    received_.clear_all();
    ends_.clear_all();
  }

  [[nodiscard]] Verdict check(Psn psn) const noexcept {
    const std::int32_t ahead = psn - cack_;
    if (ahead <= 0) return Verdict::duplicate;
    if (static_cast<std::uint32_t>(ahead) > range_) return Verdict::beyond;
    return out_of_order_ != 0 && received_.test(psn.value()) ? Verdict::duplicate : Verdict::fresh;
  }

  /// What accept() moved.
  struct Advance {
    std::uint32_t packets = 0;   ///< the cumulative number went up by so many
    std::uint32_t messages = 0;  ///< so many messages became complete ...
    Psn last_end;                ///< ... the newest of which ends with this PSN
  };

  /// Notes a fresh packet; `end`: the last one of its message.
  Advance accept(Psn psn, bool end) noexcept {
    if (psn.after(max_received_)) max_received_ = psn;
    if (psn == cack_ + 1 && out_of_order_ == 0) {
      cack_ = psn;
      return {1, end ? 1u : 0u, psn};
    }
    received_.set(psn.value());
    if (end) ends_.set(psn.value());
    ++out_of_order_;
    return psn == cack_ + 1 ? advance() : Advance{};
  }

  /// Highest PSN up to which everything has come (cack_psn).
  [[nodiscard]] Psn cack() const noexcept { return cack_; }
  [[nodiscard]] Psn max_received() const noexcept { return max_received_; }
  /// Packets above cack (CC_STATE.ooo_count).
  [[nodiscard]] std::uint32_t out_of_order() const noexcept { return out_of_order_; }
  [[nodiscard]] std::uint32_t range() const noexcept { return range_; }

  /// SACKs in a row that together tell everything, at least 1. One more when the walk is under way:
  /// it gets to the beginning last.
  [[nodiscard]] std::uint32_t sacks_for_all() const noexcept {
    const auto span = static_cast<std::uint32_t>(max_received_ - cack_);
    if (span <= 64) return 1;
    return (span + 63) / 64 + lowest_unsacked_.after(cack_ + 1);
  }

  /// Base and bits for the next SACK: the base walks over the window from SACK to SACK, so that
  /// windows wider than 64 packets are reported in full (mrc-1.0 §2.7, [O-2], [C-25]).
  [[nodiscard]] SackRange next_sack() noexcept {
    const Psn first = cack_ + 1;
    Psn base = lowest_unsacked_.after(first) ? lowest_unsacked_ : first;
    const bool reaches_end = !(base + 63).before(max_received_);
    if (reaches_end) {
      const Psn last_word = max_received_ - 63;
      base = last_word.after(first) ? last_word : first;
    }
    lowest_unsacked_ = reaches_end ? first : base + 64;
    SackRange range;
    range.offset = static_cast<std::int16_t>(base - cack_);
    range.bitmap = out_of_order_ == 0 ? 0 : received_.extract(base.value());
    return range;
  }

  [[nodiscard]] std::size_t memory() const noexcept {
    return (received_.size() + ends_.size()) / 8;
  }

 private:
  Advance advance() noexcept {
    Advance a;
    const auto first = cack_ + 1;
    const auto span = static_cast<std::uint32_t>(max_received_ - cack_);
    a.packets = static_cast<std::uint32_t>(received_.find_next_clear(first.value(), span));
    for (std::uint32_t i = 0; i < a.packets;) {
      const std::uint32_t left = a.packets - i;
      i += static_cast<std::uint32_t>(
          ends_.find_next_set((first + static_cast<std::int32_t>(i)).value(), left));
      if (i >= a.packets) break;
      a.last_end = first + static_cast<std::int32_t>(i);
      ++a.messages;
      ++i;
    }
    received_.clear_range(first.value(), a.packets);
    if (a.messages > 0) ends_.clear_range(first.value(), a.packets);
    cack_ = cack_ + static_cast<std::int32_t>(a.packets);
    out_of_order_ -= a.packets;
    return a;
  }

  std::uint32_t range_;
  std::uint32_t out_of_order_ = 0;
  Psn cack_, max_received_, lowest_unsacked_;
  CircularBitmap received_;
  CircularBitmap ends_;
};

}  // namespace mrc::inline v0_1::reliability
