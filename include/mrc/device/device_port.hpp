// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "mrc/port/packet.hpp"
#include "mrc/port/udp.hpp"

namespace mrc::inline v0_1::detail {

/// A port of a device, of one of the kinds that there are: the Port concept, and what the kinds
/// offer beside it. One thread at a time.
class DevicePort {
 private:
  template <class F>
  decltype(auto) visit(F&& f) {
    return std::visit(std::forward<F>(f), port_);
  }
  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), port_);
  }

 public:
  explicit DevicePort(port::UdpPort port) : port_(std::move(port)) {}
  explicit DevicePort(port::PacketPort port) : port_(std::move(port)) {}

  // --- port::Port
  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept {
    return visit([&](auto& p) { return p.transmit(now, burst, groups); });
  }
  void receive(Time now, port::RxBurst& rx) noexcept {
    visit([&](auto& p) { p.receive(now, rx); });
  }
  std::uint64_t add_peer(PeerId peer, const port::PeerAddress& address) {
    return visit([&](auto& p) { return p.add_peer(peer, address); });
  }
  void remove_peer(PeerId peer) noexcept {
    visit([&](auto& p) { p.remove_peer(peer); });
  }
  [[nodiscard]] bool link_up() const noexcept {
    return visit([](const auto& p) { return p.link_up(); });
  }
  [[nodiscard]] int poll_fd() const noexcept {
    return visit([](const auto& p) { return p.poll_fd(); });
  }
  [[nodiscard]] int link_fd() const noexcept {
    return visit([](const auto& p) { return p.link_fd(); });
  }
  [[nodiscard]] Time next_release() const noexcept {
    return visit([](const auto& p) { return p.next_release(); });
  }
  [[nodiscard]] const port::Capabilities& capabilities() const noexcept {
    return visit([](const auto& p) -> const port::Capabilities& { return p.capabilities(); });
  }
  [[nodiscard]] port::PortStats stats() const noexcept {
    return visit([](const auto& p) { return p.stats(); });
  }

  /// A peer that is reached by source routes; for packet ports only.
  std::uint64_t add_peer(PeerId peer, const port::PeerAddress& address,
                         std::vector<port::PacketRoute> routes,
                         Duration patience = port::PacketPort::kResolveTime) {
    return std::get<port::PacketPort>(port_).add_peer(peer, address, std::move(routes), patience);
  }

  [[nodiscard]] std::span<const port::PortPath> paths() const noexcept {
    return visit([](const auto& p) { return p.paths(); });
  }
  [[nodiscard]] port::PeerAddress address() const noexcept {
    return visit([](const auto& p) { return p.address(); });
  }
  [[nodiscard]] std::span<const std::string> notes() const noexcept {
    return visit([](const auto& p) { return p.notes(); });
  }

  void set_fault(const port::FaultSpec& spec) {
    visit([&](auto& p) { p.set_fault(spec); });
  }
  void set_path_fault(std::uint16_t port_path, const port::FaultSpec& spec) {
    visit([&](auto& p) { p.set_path_fault(port_path, spec); });
  }
  void clear_faults() {
    visit([](auto& p) { p.clear_faults(); });
  }
  [[nodiscard]] const port::FaultStats& fault_stats() const noexcept {
    return visit([](const auto& p) -> const port::FaultStats& { return p.fault_stats(); });
  }

 private:
  std::variant<port::UdpPort, port::PacketPort> port_;
};

static_assert(port::Port<DevicePort>);

}  // namespace mrc::inline v0_1::detail
