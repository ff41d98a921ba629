// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <variant>

#include "mrc/cc/congestion_control.hpp"
#include "mrc/cc/nscc.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::cc {

/// Without feedback: a constant window, or none. Tracks bytes in flight and base round-trip time.
/// For tests, and networks without congestion or with preassigned shares. One thread at a time.
class FixedWindow {
 public:
  /// What window() is without one.
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  /// `window` in bytes; 0: 1.5 bandwidth-delay products (or max_cwnd). Throws Error
  /// (invalid_argument) when an option is out of range or the window is below one MTU.
  explicit FixedWindow(const NsccOptions& options, std::uint64_t window)
      : FixedWindow(derive(options), window) {}
  /// Without a window. Throws as well.
  [[nodiscard]] static FixedWindow unlimited(const NsccOptions& options) {
    FixedWindow none(options, 0);
    none.window_ = kUnlimited;
    return none;
  }

  void share(HostLink& link) noexcept { inflight_.share(link); }
  void on_hint(std::uint64_t) noexcept {}
  void on_send(std::uint32_t bytes, Time) noexcept { inflight_.add(bytes); }
  void on_sack(const SackSample& sack) noexcept {
    inflight_.subtract(sack.newly - std::min(sack.newly, sack.early));
    if (sack.has_rtt) on_rtt(sack.rtt);
  }
  void on_nack(std::uint32_t bytes, bool, Time) noexcept { inflight_.subtract(bytes); }
  void on_loss(std::uint32_t bytes, Time) noexcept { inflight_.subtract(bytes); }
  void on_timeout(std::uint32_t bytes, unsigned, Time) noexcept { inflight_.subtract(bytes); }
  void on_rtt(Duration rtt) noexcept {
    if (BaseRtt::plausible(rtt)) base_rtt_.observe(rtt);
  }
  void on_forget(std::uint32_t bytes) noexcept { inflight_.subtract(bytes); }

  [[nodiscard]] bool can_send(std::uint32_t bytes) const noexcept {
    if (inflight() <= 0 || window_ == kUnlimited) return true;
    const auto used = static_cast<std::uint64_t>(inflight());
    return while_below_ ? window_ > used : used + bytes <= window_;
  }
  /// Asks for a SACK when the window is nearly used up or below the SACK threshold.
  [[nodiscard]] bool wants_ack() const noexcept {
    return window_ < static_cast<std::uint64_t>(inflight()) + mtu_ || window_ < ack_gen_trigger_;
  }
  [[nodiscard]] std::uint64_t window() const noexcept { return window_; }
  [[nodiscard]] std::int64_t inflight() const noexcept { return inflight_.bytes(); }
  [[nodiscard]] Duration base_rtt() const noexcept { return base_rtt_.value(); }
  [[nodiscard]] Duration target_qdelay() const noexcept { return target_qdelay_; }

 private:
  FixedWindow(const NsccParameters& p, std::uint64_t window)
      : base_rtt_(p.base_rtt, p.base_rtt_floor),
        target_qdelay_(p.target_qdelay),
        mtu_(static_cast<std::uint64_t>(p.min_wnd)),
        window_(window == 0 ? static_cast<std::uint64_t>(p.max_wnd) : window),
        ack_gen_trigger_(p.ack_gen_trigger),
        while_below_(p.send_while_below) {
    if (window != 0)
      detail::require_range<std::uint64_t>("fixed_window", window, mtu_, std::uint64_t{1} << 40);
  }

  Inflight inflight_;
  BaseRtt base_rtt_;
  Duration target_qdelay_;
  std::uint64_t mtu_, window_, ack_gen_trigger_;
  bool while_below_;
};

static_assert(CongestionControl<FixedWindow>);

/// Algorithm and its parameters.
struct Options {
  Algorithm algorithm = Algorithm::nscc;  ///< the algorithm
  NsccOptions nscc;                       ///< network parameters, used by all algorithms
  std::uint64_t fixed_window = 0;  ///< Algorithm::fixed: bytes, 0 = 1.5 bandwidth-delay products
};

/// A congestion control context chosen at run time: a tagged union, so that a call costs a
/// predicted branch. Copyable, no heap. One thread at a time.
class Controller {
  using State = std::variant<Nscc, FixedWindow>;

  // Self is Controller or const Controller. Moving and copying the contexts can't throw, so the
  // variant is never valueless.
  template <class Self, class F>
  static decltype(auto) dispatch(Self& self, F&& fn) noexcept {
    if (auto* steered = std::get_if<Nscc>(&self.state_)) return fn(*steered);
    return fn(*std::get_if<FixedWindow>(&self.state_));
  }

 public:
  /// Throws Error (invalid_argument) when an option is out of range.
  explicit Controller(const Options& options) : state_(make(options)) {}

  // See CongestionControl.
  void share(HostLink& link) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.share(link); });
  }
  void on_hint(std::uint64_t sharers) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_hint(sharers); });
  }
  void on_send(std::uint32_t bytes, Time now) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_send(bytes, now); });
  }
  void on_sack(const SackSample& sack) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_sack(sack); });
  }
  void on_nack(std::uint32_t bytes, bool trimmed, Time now) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_nack(bytes, trimmed, now); });
  }
  void on_loss(std::uint32_t bytes, Time now) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_loss(bytes, now); });
  }
  void on_timeout(std::uint32_t bytes, unsigned consecutive, Time now) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_timeout(bytes, consecutive, now); });
  }
  void on_rtt(Duration rtt) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_rtt(rtt); });
  }
  void on_forget(std::uint32_t bytes) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_forget(bytes); });
  }

  [[nodiscard]] bool can_send(std::uint32_t bytes) const noexcept {
    return dispatch(*this, [&](const auto& c) noexcept { return c.can_send(bytes); });
  }
  [[nodiscard]] bool wants_ack() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.wants_ack(); });
  }
  [[nodiscard]] std::uint64_t window() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.window(); });
  }
  [[nodiscard]] std::int64_t inflight() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.inflight(); });
  }
  [[nodiscard]] Duration base_rtt() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.base_rtt(); });
  }
  [[nodiscard]] Duration target_qdelay() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.target_qdelay(); });
  }

  /// The algorithm chosen.
  [[nodiscard]] Algorithm algorithm() const noexcept {
    if (nscc() != nullptr) return Algorithm::nscc;
    return window() == FixedWindow::kUnlimited ? Algorithm::none : Algorithm::fixed;
  }
  /// The NSCC context, for statistics; nullptr with another algorithm.
  [[nodiscard]] const Nscc* nscc() const noexcept { return std::get_if<Nscc>(&state_); }

 private:
  static State make(const Options& o) {
    switch (o.algorithm) {
      case Algorithm::fixed:
        return FixedWindow(o.nscc, o.fixed_window);
      case Algorithm::none:
        return FixedWindow::unlimited(o.nscc);
      case Algorithm::nscc:
        break;
    }
    return Nscc(o.nscc);
  }

  State state_;
};

static_assert(CongestionControl<Controller>);

}  // namespace mrc::inline v0_1::cc
