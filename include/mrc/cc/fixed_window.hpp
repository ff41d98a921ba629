// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "mrc/cc/account.hpp"
#include "mrc/cc/congestion_control.hpp"
#include "mrc/cc/nscc_parameters.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/time.hpp"

namespace mrc::inline v0_1::cc {

/// What the algorithms without feedback have in common: they keep the account and the base
/// round-trip time and ignore every sign of congestion. Base class; one thread at a time.
class Unsteered {
 public:
  void on_send(std::uint32_t bytes, Time) noexcept { inflight_.add(bytes); }
  void on_sack(const SackSample& sack) noexcept {
    if (sack.newly >= std::uint64_t{1} << 31) return;  // an old SACK, as in mrc-1.0 §6.3
    inflight_.subtract(sack.newly);
    if (sack.has_rtt && BaseRtt::plausible(sack.rtt)) base_rtt_.observe(sack.rtt);
  }
  void on_nack(std::uint32_t bytes, bool, Time) noexcept { inflight_.subtract(bytes); }
  void on_loss(std::uint32_t bytes, Time) noexcept { inflight_.subtract(bytes); }
  void on_timeout(std::uint32_t bytes, unsigned, Time) noexcept { inflight_.subtract(bytes); }
  void on_forget(std::uint32_t bytes) noexcept { inflight_.subtract(bytes); }

  [[nodiscard]] std::int64_t inflight() const noexcept { return inflight_.bytes(); }
  [[nodiscard]] Duration base_rtt() const noexcept { return base_rtt_.value(); }
  [[nodiscard]] Duration target_qdelay() const noexcept { return target_qdelay_; }

 protected:
  explicit Unsteered(const NsccParameters& p) noexcept
      : base_rtt_(p.base_rtt, p.base_rtt_floor), target_qdelay_(p.target_qdelay) {}

 private:
  Inflight inflight_;
  BaseRtt base_rtt_;
  Duration target_qdelay_;
};

/// A window that never changes: for tests, for measurements, and for networks whose share is
/// assigned beforehand. One thread at a time.
class FixedWindow : public Unsteered {
 public:
  /// `window` in bytes; 0 takes 1.5 bandwidth-delay products (or max_cwnd). Throws Error
  /// (invalid_argument) when an option is out of range or the window is under one MTU.
  explicit FixedWindow(const NsccOptions& options, std::uint64_t window = 0)
      : FixedWindow(derive(options), window) {}

  [[nodiscard]] bool can_send(std::uint32_t bytes) const noexcept {
    if (inflight() <= 0) return true;
    return while_below_ ? window_ > inflight() : inflight() + bytes <= window_;
  }
  [[nodiscard]] bool wants_ack() const noexcept {
    return window_ - inflight() < mtu_ || window_ < ack_gen_trigger_;
  }
  [[nodiscard]] std::uint64_t window() const noexcept {
    return static_cast<std::uint64_t>(window_);
  }

 private:
  FixedWindow(const NsccParameters& p, std::uint64_t window)
      : Unsteered(p),
        mtu_(static_cast<std::int64_t>(p.min_wnd)),
        window_(window == 0 ? static_cast<std::int64_t>(p.max_wnd) : checked(window, mtu_)),
        ack_gen_trigger_(p.ack_gen_trigger),
        while_below_(p.send_while_below) {}

  static std::int64_t checked(std::uint64_t window, std::int64_t mtu) {
    detail::require_range<std::uint64_t>("fixed_window", window, static_cast<std::uint64_t>(mtu),
                                         std::uint64_t{1} << 40);
    return static_cast<std::int64_t>(window);
  }

  std::int64_t mtu_, window_, ack_gen_trigger_;
  bool while_below_;
};

/// No congestion control: never limits, only keeps the account. For networks that can't be
/// congested (a loopback, a back-to-back cable) and for finding out what the rest can do. One
/// thread at a time.
class Unlimited : public Unsteered {
 public:
  /// Throws Error (invalid_argument) when an option is out of range.
  explicit Unlimited(const NsccOptions& options) : Unsteered(derive(options)) {}

  [[nodiscard]] bool can_send(std::uint32_t) const noexcept { return true; }
  /// Nothing ever waits for a SACK to open the window.
  [[nodiscard]] bool wants_ack() const noexcept { return false; }
  [[nodiscard]] std::uint64_t window() const noexcept {
    return std::numeric_limits<std::uint64_t>::max();
  }
};

static_assert(CongestionControl<FixedWindow>);
static_assert(CongestionControl<Unlimited>);

}  // namespace mrc::inline v0_1::cc
