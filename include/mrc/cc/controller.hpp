// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "mrc/cc/algorithm.hpp"
#include "mrc/cc/congestion_control.hpp"
#include "mrc/cc/fixed_window.hpp"
#include "mrc/cc/nscc.hpp"
#include "mrc/cc/nscc_parameters.hpp"

namespace mrc::inline v0_1::cc {

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
