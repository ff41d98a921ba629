// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <any>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mrc/api/device_stats.hpp"
#include "mrc/api/fault_spec.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/fault.hpp"
#include "mrc/plane/port_path.hpp"
#include "mrc/plane/port_types.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

/// How a peer is reached in one plane: a value of a type of the kind of plane. The PlaneKind makes
/// it and the port of that kind reads it; nothing between them looks inside.
class PeerRoute {
 public:
  /// No route.
  PeerRoute() = default;
  /// Holds `route`.
  template <class R>
  requires(!std::same_as<std::remove_cvref_t<R>, PeerRoute>) explicit PeerRoute(R&& route)
      : value_(std::forward<R>(route)) {}
  /// What it holds; R is the type that it was made with.
  template <class R>
  [[nodiscard]] const R& as() const {
    return std::any_cast<const R&>(value_);
  }
  /// The same, to be changed.
  template <class R>
  [[nodiscard]] R& as() {
    return std::any_cast<R&>(value_);
  }

 private:
  std::any value_;
};

/// One NIC port, that is one plane: it turns an engine's bursts into packets on a network and back.
/// The engine never sees a port, only bursts. Calls are virtual, at most a few per burst.
///
/// One thread at a time, except where another is stated. Set-up calls throw mrc::Error; transmit(),
/// receive() and the other calls of the data path neither throw nor allocate. In a forked child the
/// destructor is called at most, which must leave alone what the parent still uses.
class Port {
 public:
  virtual ~Port() = default;

  // --- Transmission
  /// Sends the packets of these groups of the burst, all of its plane, one group after the other,
  /// and returns how many packets it took, counted from the first; the rest were not sent (port
  /// busy or down). It adds pad and iCRC, to which it adds TxPacket::check_seed.
  ///
  /// The payload of a packet with a TxPacket::copy belongs to the port until take_released()
  /// returns that number: it may read the payload in between, any number of times. A port that
  /// needs this sets Capabilities::holds_payload. Payload without a number must not be read after
  /// transmit(), nor must an SGE with region 0.
  virtual std::uint32_t transmit(Time now, const wire::TxBurst& burst,
                                 std::span<const wire::TxGroup> groups) noexcept = 0;
  /// Numbers of copies that the port no longer reads, those since the last call; the order is the
  /// port's own. The view is valid until the next call. A port that is destroyed reads nothing.
  virtual std::span<const wire::CopyId> take_released() noexcept = 0;

  // --- Reception
  /// Appends what has arrived, up to rx.room(). The views stay valid until the next receive() on
  /// the same port.
  ///
  /// A port whose hardware writes payload to its place in memory sets Capabilities::places_payload.
  /// It says so in RxPacket::placed, and only does it in regions with relaxed_ordering. While a
  /// further copy of that packet may still be written, whether or not this one was placed, the
  /// packet is RxPacket::unsettled.
  virtual void receive(Time now, RxBurst& rx) noexcept = 0;
  /// Packets of which no copy can be written any more, those since the last call; the view is valid
  /// until the next call. With RxPacket::unsettled it is the promise that memory does not change
  /// behind a completion.
  virtual std::span<const wire::PacketName> take_settled() noexcept = 0;
  /// The part of its receive buffer that is in use after the last receive(), in 1/128; 0 if it is
  /// not known. The engine asks senders for less when it is high.
  [[nodiscard]] virtual std::uint32_t receive_fill() const noexcept { return 0; }

  // --- Memory and peers
  /// Called before a packet names the region or a peer may write to it.
  virtual void register_memory(const MemorySpan& memory) = 0;
  /// Called when no request uses the region and no copy of it is held any more.
  virtual void deregister_memory(std::uint32_t key) noexcept = 0;
  /// Enters how a peer is reached, or replaces it, and returns the tag that the peer's packets will
  /// carry in RxPacket::source. Does not wait.
  virtual std::uint64_t add_peer(PeerId peer, const PeerRoute& route) = 0;
  /// Empties the entry; unknown peers are ignored.
  virtual void remove_peer(PeerId peer) noexcept = 0;
  /// Waits until packets sent by that route are not lost for want of a next hop, and returns why
  /// they would be, or an empty text. Any thread, beside the one that uses the port.
  [[nodiscard]] virtual std::string await_route(const PeerRoute& route, Duration patience) const {
    (void)route, (void)patience;
    return {};
  }

  // --- Sleep
  /// Called before a thread sleeps on poll_fd(). False: something has arrived since the last
  /// receive(); the thread must not sleep.
  virtual bool arm() noexcept = 0;
  /// Becomes readable when something arrives, or is released or settled; -1: never.
  [[nodiscard]] virtual int poll_fd() const noexcept = 0;
  /// Becomes readable when link_up() may have changed, which a receive() soon after finds out; -1:
  /// never. A port with two descriptors of arrivals gives the second one here.
  [[nodiscard]] virtual int link_fd() const noexcept = 0;
  /// When receive() will return packets that poll_fd() does not announce: they had no room in `rx`,
  /// or a fault holds them back. A past time: now; kNever: there are none.
  [[nodiscard]] virtual Time next_release() const noexcept = 0;

  // --- State
  /// Packets can be sent and received.
  [[nodiscard]] virtual bool link_up() const noexcept = 0;
  /// Counters since the port was opened.
  [[nodiscard]] virtual PortStats stats() const noexcept = 0;
  /// What the port can do; may change while it is open.
  [[nodiscard]] const Capabilities& capabilities() const noexcept { return capabilities_; }
  /// One line for each capability that was wanted and is missing, to be logged once. Set-up calls
  /// may append some.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

  // --- What peers need to know
  /// The port's own paths, in the order of their numbers.
  [[nodiscard]] virtual std::span<const PortPath> paths() const noexcept = 0;
  /// Where peers send to. Any thread.
  [[nodiscard]] virtual PeerAddress address() const noexcept = 0;
  /// The interface that a link-local address of this plane belongs to; "": it has none, or it is
  /// not known. Any thread.
  [[nodiscard]] virtual std::string zone() const { return {}; }
  /// What peers must know of the port beside its address: ConnectionInfo::port_data of its plane,
  /// which their PlaneKind gets. Empty: nothing.
  [[nodiscard]] virtual std::vector<std::uint8_t> connection_data() const { return {}; }

  // --- Administration
  /// An administrator takes the port out of use, or lets it be used again; initially it is. Its
  /// owner sees to transmit() and to what receive() brings. A port that sends by itself, or whose
  /// hardware places payload, stops both before this returns; others have nothing to do.
  virtual void set_enabled(bool enabled) noexcept { (void)enabled; }

  // --- What its driver has found out
  /// Bursts that the port hands over in one piece (Capabilities::segmentation) vanish behind it: it
  /// sends packets one by one from now on, but those of a TxGroup::one_piece, or no longer has to.
  virtual void send_singly(bool singly) noexcept { (void)singly; }

  // --- Injected faults
  /// Faults of all packets of the port, see FaultInjector::set().
  virtual void set_fault(const FaultSpec& spec) { faults_.set(spec); }
  /// Faults of the packets sent on one of its paths, see FaultInjector::set_outbound().
  virtual void set_path_fault(std::uint16_t port_path, const FaultSpec& spec) {
    faults_.set_outbound(port_path, spec);
  }
  /// Ends all faults. Packets that are held back are still delivered when they are due.
  void clear_faults() { faults_.clear(); }
  /// Packets hit by injected faults.
  [[nodiscard]] const FaultStats& fault_stats() const noexcept { return faults_.stats(); }

 protected:
  /// `fault_seed`, `fault_slots`: see FaultInjector.
  explicit Port(std::uint64_t fault_seed = 0, std::uint32_t fault_slots = 2048)
      : faults_(fault_seed, fault_slots) {}
  /// Takes the other port over; for ports that can be moved.
  Port(Port&&) noexcept = default;
  /// Closes this port and takes the other one over.
  Port& operator=(Port&&) noexcept = default;

  Capabilities capabilities_;       ///< see capabilities()
  std::vector<std::string> notes_;  ///< see notes()
  FaultInjector faults_;            ///< what it sends and receives passes these
};

/// A port that copies payload within transmit() and whose driver places nothing: sockets, say. It
/// has no use for the parts of the contract that are defined here.
class CopyingPort : public Port {
 public:
  /// Nothing is ever held.
  std::span<const wire::CopyId> take_released() noexcept override { return {}; }
  /// Nothing is ever placed.
  std::span<const wire::PacketName> take_settled() noexcept override { return {}; }
  /// No registration is needed.
  void register_memory(const MemorySpan&) override {}
  /// See register_memory().
  void deregister_memory(std::uint32_t) noexcept override {}
  /// poll_fd() is readable as long as something is there.
  bool arm() noexcept override { return true; }

 protected:
  /// See Port.
  explicit CopyingPort(std::uint64_t fault_seed = 0, std::uint32_t fault_slots = 2048)
      : Port(fault_seed, fault_slots) {}
  /// See Port.
  CopyingPort(CopyingPort&&) noexcept = default;
  /// See Port.
  CopyingPort& operator=(CopyingPort&&) noexcept = default;
};

}  // namespace mrc::inline v0_1::port
