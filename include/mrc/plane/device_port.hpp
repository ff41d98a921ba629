// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <any>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mrc/api/fault_spec.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/port.hpp"
#include "mrc/plane/port_path.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::detail {

/// How a peer is reached in one plane: a value of the port's type Route. Made by the PathProvider
/// and read by the port of the same PlaneOpener; nothing between them looks inside.
using PeerRoute = std::any;

/// A port of a device, of whatever kind: the Port concept (plane/port.hpp), and what a device needs
/// beside it. Calls are virtual, at most a few per burst. Set-up calls throw mrc::Error. One thread
/// at a time. In a forked child its destructor is called at most, which must leave alone what the
/// parent still uses.
class DevicePort {
 public:
  DevicePort() = default;
  DevicePort(const DevicePort&) = delete;
  DevicePort& operator=(const DevicePort&) = delete;
  virtual ~DevicePort() = default;

  // --- the Port concept
  virtual std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                                 std::span<const wire::TxGroup> groups) noexcept = 0;
  virtual std::span<const wire::CopyId> take_released() noexcept = 0;
  virtual void receive(Time now, port::RxBurst& rx) noexcept = 0;
  virtual std::span<const wire::PacketName> take_settled() noexcept = 0;
  virtual void register_memory(const port::MemorySpan& memory) = 0;
  virtual void deregister_memory(std::uint32_t key) noexcept = 0;
  virtual void add_peer(PeerId peer, const PeerRoute& route) = 0;
  virtual void remove_peer(PeerId peer) noexcept = 0;
  [[nodiscard]] virtual std::string await_route(const PeerRoute& route,
                                                Duration patience) const = 0;
  virtual bool arm() noexcept = 0;
  [[nodiscard]] virtual bool link_up() const noexcept = 0;
  [[nodiscard]] virtual int poll_fd() const noexcept = 0;
  [[nodiscard]] virtual int link_fd() const noexcept = 0;
  [[nodiscard]] virtual Time next_release() const noexcept = 0;
  [[nodiscard]] virtual const port::Capabilities& capabilities() const noexcept = 0;
  [[nodiscard]] virtual port::PortStats stats() const noexcept = 0;
  /// Part of the receive buffer that is in use, in 1/128: of ports that have a method of this name.
  [[nodiscard]] virtual std::uint32_t receive_fill() const noexcept = 0;

  /// The port's own paths, in the order of their numbers.
  [[nodiscard]] virtual std::span<const port::PortPath> paths() const noexcept = 0;
  /// Where peers send to.
  [[nodiscard]] virtual port::PeerAddress address() const noexcept = 0;
  /// What peers must know of the port beside its address: ConnectionInfo::port_data of its plane,
  /// which their PathProvider gets. Empty: nothing. A port of type P has it if it has a method of
  /// this name.
  [[nodiscard]] virtual std::vector<std::uint8_t> connection_data() const = 0;
  /// Messages to be logged once; set-up calls may append some.
  [[nodiscard]] virtual std::span<const std::string> notes() const noexcept = 0;

  /// Injected faults: set_fault() of all packets of the port, set_path_fault() of those sent on one
  /// path; clear_faults() ends both.
  virtual void set_fault(const port::FaultSpec& spec) = 0;
  virtual void set_path_fault(std::uint16_t port_path, const port::FaultSpec& spec) = 0;
  virtual void clear_faults() = 0;
  [[nodiscard]] virtual const port::FaultStats& fault_stats() const noexcept = 0;
};

/// A DevicePort that owns a port of type P, made from the constructor's arguments. A PeerRoute of
/// such a port holds a P::Route.
template <class P>
class PortModel final : public DevicePort {
  static_assert(port::Port<P>);

 public:
  template <class... Args>
  explicit PortModel(Args&&... args) : port_(std::forward<Args>(args)...) {}
  [[nodiscard]] P& port() noexcept { return port_; }

  std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept final {
    return port_.transmit(now, burst, groups);
  }
  std::span<const wire::CopyId> take_released() noexcept final { return port_.take_released(); }
  void receive(Time now, port::RxBurst& rx) noexcept final { port_.receive(now, rx); }
  std::span<const wire::PacketName> take_settled() noexcept final { return port_.take_settled(); }
  void register_memory(const port::MemorySpan& memory) final { port_.register_memory(memory); }
  void deregister_memory(std::uint32_t key) noexcept final { port_.deregister_memory(key); }
  void add_peer(PeerId peer, const PeerRoute& route) final {
    (void)port_.add_peer(peer, route_of(route));
  }
  [[nodiscard]] std::string await_route(const PeerRoute& route, Duration patience) const final {
    return port_.await_route(route_of(route), patience);
  }
  bool arm() noexcept final { return port_.arm(); }
  void remove_peer(PeerId peer) noexcept final { port_.remove_peer(peer); }
  [[nodiscard]] bool link_up() const noexcept final { return port_.link_up(); }
  [[nodiscard]] int poll_fd() const noexcept final { return port_.poll_fd(); }
  [[nodiscard]] int link_fd() const noexcept final { return port_.link_fd(); }
  [[nodiscard]] Time next_release() const noexcept final { return port_.next_release(); }
  [[nodiscard]] const port::Capabilities& capabilities() const noexcept final {
    return port_.capabilities();
  }
  [[nodiscard]] port::PortStats stats() const noexcept final { return port_.stats(); }
  [[nodiscard]] std::uint32_t receive_fill() const noexcept final {
    if constexpr (requires { port_.receive_fill(); })
      return port_.receive_fill();
    else
      return 0;
  }
  [[nodiscard]] std::span<const port::PortPath> paths() const noexcept final {
    return port_.paths();
  }
  [[nodiscard]] port::PeerAddress address() const noexcept final { return port_.address(); }
  [[nodiscard]] std::vector<std::uint8_t> connection_data() const final {
    if constexpr (requires { port_.connection_data(); })
      return port_.connection_data();
    else
      return {};
  }
  [[nodiscard]] std::span<const std::string> notes() const noexcept final { return port_.notes(); }
  void set_fault(const port::FaultSpec& spec) final { port_.set_fault(spec); }
  void set_path_fault(std::uint16_t port_path, const port::FaultSpec& spec) final {
    port_.set_path_fault(port_path, spec);
  }
  void clear_faults() final { port_.clear_faults(); }
  [[nodiscard]] const port::FaultStats& fault_stats() const noexcept final {
    return port_.fault_stats();
  }

 private:
  [[nodiscard]] static const typename P::Route& route_of(const PeerRoute& route) {
    return std::any_cast<const typename P::Route&>(route);
  }

  P port_;
};

}  // namespace mrc::inline v0_1::detail
