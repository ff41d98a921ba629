// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>

#include "mrc/cc/congestion_control.hpp"
#include "mrc/cc/nscc.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"

namespace mrc::inline v0_1::cc {

/// Common base of the algorithms without feedback: counts the bytes in flight, tracks the base
/// round-trip time and ignores congestion signals. One thread at a time.
class Unsteered {
 public:
  /// Is counted there, but sends regardless of others.
  void share(HostLink& link) noexcept { inflight_.share(link); }
  /// Nothing starts carefully here.
  void on_hint(std::uint64_t) noexcept {}
  /// Counts the packet as in flight.
  void on_send(std::uint32_t bytes, Time) noexcept { inflight_.add(bytes); }
  /// Subtracts what was received and updates the base round-trip time.
  void on_sack(const SackSample& sack) noexcept {
    inflight_.subtract(sack.newly - std::min(sack.newly, sack.early));
    if (sack.has_rtt && BaseRtt::plausible(sack.rtt)) base_rtt_.observe(sack.rtt);
  }
  /// Subtracts the packet from the bytes in flight.
  void on_nack(std::uint32_t bytes, bool, Time) noexcept { inflight_.subtract(bytes); }
  /// Subtracts the packet from the bytes in flight.
  void on_loss(std::uint32_t bytes, Time) noexcept { inflight_.subtract(bytes); }
  /// Subtracts the packet from the bytes in flight.
  void on_timeout(std::uint32_t bytes, unsigned, Time) noexcept { inflight_.subtract(bytes); }
  /// Updates the base round-trip time.
  void on_rtt(Duration rtt) noexcept {
    if (BaseRtt::plausible(rtt)) base_rtt_.observe(rtt);
  }
  /// Subtracts the bytes from those in flight.
  void on_forget(std::uint32_t bytes) noexcept { inflight_.subtract(bytes); }

  /// Bytes in flight.
  [[nodiscard]] std::int64_t inflight() const noexcept { return inflight_.bytes(); }
  /// Round-trip time without queueing.
  [[nodiscard]] Duration base_rtt() const noexcept { return base_rtt_.value(); }
  /// Queueing delay that NSCC would aim at; used by loss inference.
  [[nodiscard]] Duration target_qdelay() const noexcept { return target_qdelay_; }

 protected:
  /// From derived parameters.
  explicit Unsteered(const NsccParameters& p) noexcept
      : base_rtt_(p.base_rtt, p.base_rtt_floor), target_qdelay_(p.target_qdelay) {}

 private:
  Inflight inflight_;
  BaseRtt base_rtt_;
  Duration target_qdelay_;
};

/// A constant window: for tests, for measurements, and for networks with preassigned shares. One
/// thread at a time.
class FixedWindow : public Unsteered {
 public:
  /// `window` in bytes; 0: 1.5 bandwidth-delay products (or max_cwnd). Throws Error
  /// (invalid_argument) when an option is out of range or the window is below one MTU.
  explicit FixedWindow(const NsccOptions& options, std::uint64_t window = 0)
      : FixedWindow(derive(options), window) {}

  /// Whether the packet fits the window.
  [[nodiscard]] bool can_send(std::uint32_t bytes) const noexcept {
    if (inflight() <= 0) return true;
    return while_below_ ? window_ > inflight() : inflight() + bytes <= window_;
  }
  /// Asks for a SACK when the window is nearly used up or below the SACK threshold.
  [[nodiscard]] bool wants_ack() const noexcept {
    return window_ - inflight() < mtu_ || window_ < ack_gen_trigger_;
  }
  /// The constant window in bytes.
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

/// No congestion control: no limit, counts bytes in flight only. For networks without congestion (a
/// loopback, a back-to-back cable) and for measuring everything else. One thread at a time.
class Unlimited : public Unsteered {
 public:
  /// Throws Error (invalid_argument) when an option is out of range.
  explicit Unlimited(const NsccOptions& options) : Unsteered(derive(options)) {}

  /// Always true.
  [[nodiscard]] bool can_send(std::uint32_t) const noexcept { return true; }
  /// Always false, since no packet waits for a SACK to open the window.
  [[nodiscard]] bool wants_ack() const noexcept { return false; }
  /// No limit: the largest value.
  [[nodiscard]] std::uint64_t window() const noexcept {
    return std::numeric_limits<std::uint64_t>::max();
  }
};

static_assert(CongestionControl<FixedWindow>);
static_assert(CongestionControl<Unlimited>);

/// Algorithm and its parameters.
struct Options {
  Algorithm algorithm = Algorithm::nscc;  ///< the algorithm
  NsccOptions nscc;                       ///< network parameters, used by all algorithms
  std::uint64_t fixed_window = 0;  ///< Algorithm::fixed: bytes, 0 = 1.5 bandwidth-delay products
};

/// A congestion control context whose algorithm is chosen at run time: a tagged union and a switch,
/// so that a call costs a predicted branch instead of an indirect jump. Copyable, no heap. One
/// thread at a time.
class Controller {
  // In the order of Algorithm.
  using State = std::variant<Nscc, FixedWindow, Unlimited>;

  // Self is Controller or const Controller. Moving and copying the contexts can't throw, so the
  // variant is never valueless.
  template <class Self, class F>
  static decltype(auto) dispatch(Self& self, F&& fn) noexcept {
    if (auto* steered = std::get_if<Nscc>(&self.state_)) return fn(*steered);
    if (auto* fixed = std::get_if<FixedWindow>(&self.state_)) return fn(*fixed);
    return fn(*std::get_if<Unlimited>(&self.state_));
  }

 public:
  /// Throws Error (invalid_argument) when an option is out of range.
  explicit Controller(const Options& options) : state_(make(options)) {}

  /// See CongestionControl, as for the functions below.
  void share(HostLink& link) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.share(link); });
  }
  /// See CongestionControl.
  void on_hint(std::uint64_t sharers) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_hint(sharers); });
  }
  /// See CongestionControl.
  void on_send(std::uint32_t bytes, Time now) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_send(bytes, now); });
  }
  /// See CongestionControl.
  void on_sack(const SackSample& sack) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_sack(sack); });
  }
  /// See CongestionControl.
  void on_nack(std::uint32_t bytes, bool trimmed, Time now) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_nack(bytes, trimmed, now); });
  }
  /// See CongestionControl.
  void on_loss(std::uint32_t bytes, Time now) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_loss(bytes, now); });
  }
  /// See CongestionControl.
  void on_timeout(std::uint32_t bytes, unsigned consecutive, Time now) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_timeout(bytes, consecutive, now); });
  }
  /// See CongestionControl.
  void on_rtt(Duration rtt) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_rtt(rtt); });
  }
  /// See CongestionControl.
  void on_forget(std::uint32_t bytes) noexcept {
    dispatch(*this, [&](auto& c) noexcept { c.on_forget(bytes); });
  }

  /// See CongestionControl.
  [[nodiscard]] bool can_send(std::uint32_t bytes) const noexcept {
    return dispatch(*this, [&](const auto& c) noexcept { return c.can_send(bytes); });
  }
  /// See CongestionControl.
  [[nodiscard]] bool wants_ack() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.wants_ack(); });
  }
  /// Window in bytes.
  [[nodiscard]] std::uint64_t window() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.window(); });
  }
  /// Bytes in flight.
  [[nodiscard]] std::int64_t inflight() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.inflight(); });
  }
  /// Round-trip time without queueing.
  [[nodiscard]] Duration base_rtt() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.base_rtt(); });
  }
  /// Queueing delay aimed at.
  [[nodiscard]] Duration target_qdelay() const noexcept {
    return dispatch(*this, [](const auto& c) noexcept { return c.target_qdelay(); });
  }

  /// The algorithm chosen.
  [[nodiscard]] Algorithm algorithm() const noexcept {
    return static_cast<Algorithm>(state_.index());
  }
  /// The NSCC context, for statistics; nullptr with another algorithm.
  [[nodiscard]] const Nscc* nscc() const noexcept { return std::get_if<Nscc>(&state_); }

 private:
  static State make(const Options& o) {
    switch (o.algorithm) {
      case Algorithm::fixed:
        return FixedWindow(o.nscc, o.fixed_window);
      case Algorithm::none:
        return Unlimited(o.nscc);
      case Algorithm::nscc:
        break;
    }
    return Nscc(o.nscc);
  }

  State state_;
};

static_assert(CongestionControl<Controller>);

}  // namespace mrc::inline v0_1::cc
