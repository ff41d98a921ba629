// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::cc {

/// The link that all congestion control contexts of an engine send over. One thread at a time.
struct HostLink {
  std::uint32_t destinations = 0;  ///< to which packets are in flight
};

/// Congestion control: limits the bytes in flight to one destination, for all queue pairs to it
/// (mrc-1.0 §6.8). Byte counts are nominal packet sizes, UDP length + 40 (mrc-1.0 [C-15]), by the
/// caller's own records: exactly what on_send() added is subtracted, once.

/// The input of one SACK to a congestion control context.
struct SackSample {
  Time now{};               ///< arrival time of the SACK
  std::uint32_t newly = 0;  ///< bytes newly reported as received: of the packets that this SACK, or
                            ///< a Transport ACK before it, is the first to report
  Duration rtt{};           ///< of the packet that triggered the SACK; valid if has_rtt
  bool has_rtt = false;     ///< false when the sample would be ambiguous (mrc-1.0 §6.3)
  bool ecn = false;         ///< the triggering packet was marked (m = SKIP_ONCE)
  std::uint8_t rcv_cwnd_pen = 0;  ///< receiver's penalty, 7 bit, unit 1/128 (mrc-1.0 §6.7)
  bool restore_cwnd = false;      ///< restore_cwnd of the SACK
  std::uint32_t early = 0;  ///< part of newly: left the bytes in flight before, by on_forget()
};

/// The event interface between the requester and an algorithm. A peer may have chosen the
/// arguments: any value leaves the context within its bounds. Nothing allocates, throws or blocks.
/// One thread at a time.
///
/// * share: packets to other destinations leave by the same link. Before the first packet.
/// * on_hint: so many windows, this one included, start at about the same time; 0: not known.
/// * on_send: a data packet of `bytes` is sent, for the first time or again.
/// * on_sack: a SACK arrived; also called when it reports nothing new.
/// * on_nack: a NACK arrived for a packet of `bytes`; `trimmed`: because a switch trimmed it.
/// * on_loss: a packet of `bytes` is inferred lost; called before it is retransmitted.
/// * on_timeout: the `consecutive`-th one in a row (1 = first); before a retransmission ([O-7]).
/// * on_rtt: a probe that no queue delayed for long took this time; only ever lowers base_rtt.
/// * on_forget: removes bytes without a network event: a flush, or a Transport ACK before a SACK.
/// * can_send: whether a packet of `bytes` may be sent now (mrc-1.0 §6.8, [C-12]).
/// * wants_ack: whether the next packet shall ask for a SACK (mrc-1.0 §6.8).
/// * window, inflight: bytes.
/// * base_rtt, target_qdelay: inputs to loss inference, for the age at which a packet is lost.
template <class C>
concept CongestionControl = requires(C c, const C& k, const SackSample& sample, std::uint32_t bytes,
                                     unsigned consecutive, bool trimmed, Time now, Duration rtt,
                                     std::uint64_t sharers, HostLink& link) {
  requires noexcept((c.share(link), c.on_hint(sharers), c.on_send(bytes, now), c.on_sack(sample),
                     c.on_nack(bytes, trimmed, now), c.on_loss(bytes, now),
                     c.on_timeout(bytes, consecutive, now), c.on_rtt(rtt), c.on_forget(bytes)));
  { k.can_send(bytes) }
  noexcept->std::same_as<bool>;
  { k.wants_ack() }
  noexcept->std::same_as<bool>;
  { k.window() }
  noexcept->std::same_as<std::uint64_t>;
  { k.inflight() }
  noexcept->std::same_as<std::int64_t>;
  { k.base_rtt() }
  noexcept->std::same_as<Duration>;
  { k.target_qdelay() }
  noexcept->std::same_as<Duration>;
};

/// Bytes in flight (mrc-1.0 §6.2), saturating. One thread at a time.
class Inflight {
 public:
  static constexpr std::int64_t kLowest = 0;
  static constexpr std::int64_t kHighest = std::int64_t{1} << 48;

  /// Counts as a destination of `link` while there are bytes in flight. Call it before there are
  /// any; the link must outlive this object.
  void share(HostLink& link) noexcept { link_ = &link; }
  [[nodiscard]] const HostLink* link() const noexcept { return link_; }

  void add(std::uint32_t bytes) noexcept {
    if (bytes_ == 0 && bytes > 0 && link_ != nullptr) ++link_->destinations;
    bytes_ = std::min(bytes_ + bytes, kHighest);
  }
  void subtract(std::uint64_t bytes) noexcept {
    if (bytes_ == 0) return;
    const auto n = static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, kHighest));
    bytes_ = std::max(bytes_ - n, kLowest);
    if (bytes_ == 0 && link_ != nullptr) --link_->destinations;
  }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
  HostLink* link_ = nullptr;
};

/// Round-trip time without queueing: the configured value, then the smallest measured one (mrc-1.0
/// §6.3).
class BaseRtt {
 public:
  /// Longer samples are rejected: they measure a stalled host, not the network.
  static constexpr Duration kLargest = std::chrono::seconds(1);

  /// Measurements lower `configured`, but not below `floor`.
  constexpr BaseRtt(Duration configured, Duration floor) noexcept
      : value_(configured), floor_(floor) {}

  [[nodiscard]] static constexpr bool plausible(Duration rtt) noexcept {
    return rtt > Duration::zero() && rtt <= kLargest;
  }
  /// Adds a plausible sample; true if it lowered the value.
  constexpr bool observe(Duration rtt) noexcept {
    const Duration candidate = std::max(rtt, floor_);
    if (candidate >= value_) return false;
    value_ = candidate;
    return true;
  }
  [[nodiscard]] constexpr Duration value() const noexcept { return value_; }

 private:
  Duration value_;
  Duration floor_;
};

/// The congestion control algorithms to choose from (cc/controller.hpp).
enum class Algorithm : std::uint8_t {
  nscc,   ///< Nscc
  fixed,  ///< FixedWindow
  none,   ///< FixedWindow::unlimited()
};

/// The name that the MRC API and the configuration use.
[[nodiscard]] constexpr const char* to_string(Algorithm a) noexcept {
  switch (a) {
    case Algorithm::nscc:
      return "uet-1.0-nscc";
    case Algorithm::fixed:
      return "fixed";
    case Algorithm::none:
      return "none";
  }
  return "unknown";
}

/// The algorithm of that name ("nscc" is short for "uet-1.0-nscc"); nothing if there is none.
[[nodiscard]] constexpr std::optional<Algorithm> parse_algorithm(std::string_view name) noexcept {
  if (name == "nscc") return Algorithm::nscc;
  for (const Algorithm a : {Algorithm::nscc, Algorithm::fixed, Algorithm::none}) {
    if (name == to_string(a)) return a;
  }
  return std::nullopt;
}

}  // namespace mrc::inline v0_1::cc
