// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::reliability {

/// The selective part of a SACK: bit i of `bitmap` stands for PSN cack + offset + i.
struct SackRange {
  std::int16_t offset = 1;   ///< PSN of bit 0, relative to cack
  std::uint64_t bitmap = 0;  ///< received packets
};

/// The responder's window: which PSNs have been received, and which of them end a message (mrc-1.0
/// §2.4, §2.5, Table 7-5). A message is complete when the cumulative PSN passes its last packet;
/// since MSNs count messages, the number of message ends passed suffices for Transport ACKs.
///
/// A packet may be received but not settled: another copy of it may still be written to memory, so
/// nothing that depends on it may complete. SACKs report it, but the cumulative PSN does not pass
/// it before settle().
///
/// One thread. Nothing allocates after the constructor.
class ReceiveWindow {
 public:
  /// Result of check().
  enum class Verdict : std::uint8_t {
    fresh,      ///< in the window, not seen before
    duplicate,  ///< seen before, or below the window
    beyond,     ///< above the window ([C-6])
  };

  /// `range`: MPR_DEST in packets, 128 .. 32,640. `settling`: packets can be unsettled.
  explicit ReceiveWindow(std::uint32_t range, bool settling = false)
      : range_(range),
        settling_(settling),
        received_(range),
        ends_(range),
        unsettled_(settling ? range : 0) {}

  /// Empties the window; `first` is expected next.
  void start(Psn first) noexcept {
    cack_ = max_received_ = lowest_unsacked_ = first - 1;
    message_ = first;
    out_of_order_ = 0;
    unsettled_count_ = 0;
    received_.clear_all();
    ends_.clear_all();
    unsettled_.clear_all();
  }

  /// Whether `psn` is new, a duplicate, or beyond the window.
  [[nodiscard]] Verdict check(Psn psn) const noexcept {
    const std::int32_t ahead = psn - cack_;
    if (ahead <= 0) return Verdict::duplicate;
    if (static_cast<std::uint32_t>(ahead) > range_) return Verdict::beyond;
    return out_of_order_ != 0 && received_.test(psn.value()) ? Verdict::duplicate : Verdict::fresh;
  }

  /// The progress made by accept().
  struct Advance {
    std::uint32_t packets = 0;   ///< the cumulative PSN advanced by so many
    std::uint32_t messages = 0;  ///< number of messages completed
    Psn last_end;                ///< last PSN of the newest of them
  };

  /// Records a fresh packet. `end`: it is the last one of its message. `settled`: false needs
  /// `settling` in the constructor. Calls complete(first, last) for each message that the
  /// cumulative PSN passes, with its PSNs, in their order.
  template <class F>
  Advance accept(Psn psn, bool end, bool settled, F&& complete) noexcept {
    if (psn.after(max_received_)) max_received_ = psn;
    if (psn == cack_ + 1 && out_of_order_ == 0 && settled) {
      cack_ = psn;
      if (end) pass_message(psn, complete);
      return {1, end ? 1u : 0u, psn};
    }
    received_.set(psn.value());
    if (end) ends_.set(psn.value());
    ++out_of_order_;
    if (!settled) {
      unsettled_.set(psn.value());
      ++unsettled_count_;
    }
    return psn == cack_ + 1 ? advance(complete) : Advance{};
  }
  /// The same, for who does not ask where messages begin.
  Advance accept(Psn psn, bool end) noexcept {
    return accept(psn, end, true, [](Psn, Psn) {});
  }
  /// A packet that was received is unsettled, or unsettled again. Nothing happens if the cumulative
  /// PSN has passed it.
  void unsettle(Psn psn) noexcept {
    const std::int32_t ahead = psn - cack_;
    if (!settling_ || ahead <= 0 || static_cast<std::uint32_t>(ahead) > range_ ||
        !received_.test(psn.value()) || unsettled_.test(psn.value()))
      return;
    unsettled_.set(psn.value());
    ++unsettled_count_;
  }
  /// A packet is settled. Nothing happens if it was, or was not received. `complete`: as above.
  template <class F>
  Advance settle(Psn psn, F&& complete) noexcept {
    const std::int32_t ahead = psn - cack_;
    if (unsettled_count_ == 0 || ahead <= 0 || static_cast<std::uint32_t>(ahead) > range_ ||
        !unsettled_.test(psn.value()))
      return {};
    unsettled_.clear(psn.value());
    --unsettled_count_;
    return psn == cack_ + 1 ? advance(complete) : Advance{};
  }

  /// Highest PSN up to which all packets have been received (cack_psn).
  [[nodiscard]] Psn cack() const noexcept { return cack_; }
  /// Highest PSN received.
  [[nodiscard]] Psn max_received() const noexcept { return max_received_; }
  /// Packets received above cack (CC_STATE.ooo_count).
  [[nodiscard]] std::uint32_t out_of_order() const noexcept { return out_of_order_; }
  /// Whether packets can be unsettled.
  [[nodiscard]] bool settling() const noexcept { return settling_; }
  /// Size of the window in packets (MPR_DEST).
  [[nodiscard]] std::uint32_t range() const noexcept { return range_; }

  /// Number of consecutive SACKs that cover the whole window, at least 1. One more while a pass is
  /// in progress, since it reaches the beginning last.
  [[nodiscard]] std::uint32_t sacks_for_all() const noexcept {
    const auto span = static_cast<std::uint32_t>(max_received_ - cack_);
    if (span <= 64) return 1;
    return (span + 63) / 64 + lowest_unsacked_.after(cack_ + 1);
  }

  /// Base and bits of the next SACK: the base advances through the window from SACK to SACK, so
  /// that windows wider than 64 packets are reported completely (mrc-1.0 §2.7, [O-2], [C-25]).
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

  /// Heap bytes of this window.
  [[nodiscard]] std::size_t memory() const noexcept {
    return (received_.size() + ends_.size() + unsettled_.size()) / 8;
  }

 private:
  template <class F>
  void pass_message(Psn last, F& complete) noexcept {
    complete(message_, last);
    message_ = last + 1;
  }
  template <class F>
  Advance advance(F& complete) noexcept {
    Advance a;
    const auto first = cack_ + 1;
    const auto span = static_cast<std::uint32_t>(max_received_ - cack_);
    a.packets = static_cast<std::uint32_t>(received_.find_next_clear(first.value(), span));
    if (unsettled_count_ > 0)
      a.packets = static_cast<std::uint32_t>(unsettled_.find_next_set(first.value(), a.packets));
    for (std::uint32_t i = 0; i < a.packets;) {
      const std::uint32_t left = a.packets - i;
      i += static_cast<std::uint32_t>(
          ends_.find_next_set((first + static_cast<std::int32_t>(i)).value(), left));
      if (i >= a.packets) break;
      a.last_end = first + static_cast<std::int32_t>(i);
      pass_message(a.last_end, complete);
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
  bool settling_;
  std::uint32_t out_of_order_ = 0;
  std::uint32_t unsettled_count_ = 0;
  Psn cack_, max_received_, lowest_unsacked_;
  Psn message_;  ///< first PSN of the oldest message that is not complete
  CircularBitmap received_;
  CircularBitmap ends_;
  CircularBitmap unsettled_;
};

}  // namespace mrc::inline v0_1::reliability
