// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mrc/api/port_stats.hpp"
#include "mrc/core/access.hpp"
#include "mrc/core/types.hpp"
#include "mrc/wire/burst.hpp"

/// A port is one NIC port, that is one plane: it turns an engine's bursts into packets on a
/// network and back. Concepts instead of virtual functions: a call costs nothing, and the engine
/// never sees a port at all, only bursts.
namespace mrc::inline v0_1::port {

/// What a port can do; probed when it is opened.
struct Capabilities {
  std::uint32_t max_packet = 0;      ///< largest transport packet, BTH .. iCRC, in bytes
  std::uint32_t max_burst = 1;       ///< packets of one path that it can send with one call
  std::uint64_t receive_buffer = 0;  ///< bytes of unread traffic that it holds before it drops
  bool segmentation = false;         ///< one call sends a burst (GSO)
  bool coalescing = false;           ///< one receive can bring a burst (GRO)
  bool batching = true;          ///< delays packets to work on many: its RTT is not the network's
  bool exact_icrc = false;       ///< sees every field that the iCRC covers
  bool outer_headers = false;    ///< sees ECN and DSCP of the outermost header
  bool trimmed_packets = false;  ///< sees packets that switches have trimmed (mrc-1.0 §1.12)
  bool holds_payload = false;    ///< may read payload after transmit(): TxPacket::copy
  bool places_payload = false;   ///< may write payload to its place: RxPacket::placed
};

/// Received packets, filled by Port::receive(). Fixed capacity; allocated once.
class RxBurst {
 public:
  /// Room for `capacity` packets.
  explicit RxBurst(std::size_t capacity = 512) {
    packets_.reserve(capacity);
    origins_.reserve(capacity);
  }
  /// Forgets all packets.
  void clear() noexcept {
    packets_.clear();
    origins_.clear();
  }
  /// How many more packets it takes.
  [[nodiscard]] std::size_t room() const noexcept { return packets_.capacity() - packets_.size(); }
  /// True if there are none.
  [[nodiscard]] bool empty() const noexcept { return packets_.empty(); }
  /// Needs room() > 0.
  void push(const wire::RxPacket& packet) noexcept { packets_.push_back(packet); }
  /// The same for a datagram, whose RxPacket::origin will be a copy of `origin`.
  void push(wire::RxPacket packet, const wire::Origin& origin) noexcept {
    packet.origin = &origins_.emplace_back(origin);
    packets_.push_back(packet);
  }
  /// Removes the packets for which `gone` holds.
  template <class F>
  void erase_if(F&& gone) {
    std::erase_if(packets_, gone);
  }
  /// The packets, in order of arrival.
  [[nodiscard]] std::span<const wire::RxPacket> packets() const noexcept { return packets_; }

 private:
  std::vector<wire::RxPacket> packets_;
  std::vector<wire::Origin> origins_;  ///< of those that are datagrams
};

/// A registered memory region, as a port is told of it.
struct MemorySpan {
  std::uint32_t key = 0;            ///< L_Key and R_Key; TxSge::region
  std::uint8_t* address = nullptr;  ///< first byte
  std::uint64_t length = 0;         ///< bytes
  Access access = Access::none;     ///< rights
};

/// The contract of a port. One thread at a time, except where another is stated. Set-up calls throw
/// mrc::Error; transmit(), receive() and the other calls of the data path neither throw nor
/// allocate.
///
/// Transmission:
/// * `transmit(now, burst, groups)` sends the packets of these groups of the burst, all of its
///   plane, one group after the other, and returns how many packets it took, counted from the
///   first; the rest were not sent (port busy or down). It adds pad and iCRC, to which it adds
///   TxPacket::check_seed.
/// * The payload of a packet with a TxPacket::copy belongs to the port until `take_released()`
///   returns that number: it may read the payload in between, any number of times. A port that
///   needs this sets Capabilities::holds_payload. Payload without a number must not be read after
///   transmit(), nor must an SGE with region 0. The order of release is the port's own. A port that
///   is destroyed no longer reads anything.
///
/// Reception:
/// * `receive(now, rx)` appends what has arrived, up to rx.room(). The views stay valid until the
///   next receive() on the same port.
/// * `receive_fill()`, which a port need not have, is the part of its receive buffer that is in use
///   after the last receive(), in 1/128. The engine asks senders for less when it is high.
/// * A port whose hardware writes payload to its place in memory sets Capabilities::places_payload.
///   It says so in RxPacket::placed, and only does it in regions with relaxed_ordering. While a
///   further copy of that packet may still be written, whether or not this one was placed, the
///   packet is RxPacket::unsettled. `take_settled()` returns those of which no copy can be written
///   any more. Both together are the promise that memory does not change behind a completion.
///
/// Both take_ functions return what has accumulated since the last call, in a view that is valid
/// until the next call.
///
/// Memory and peers:
/// * `register_memory(span)` is called before a packet names the region or a peer may write to it,
///   `deregister_memory(key)` when no request uses it and no copy is held any more.
/// * `add_peer(id, route)` enters how a peer is reached, a value of the port's own type Route, and
///   returns the tag that the peer's packets will carry in RxPacket::source. It does not wait.
///   `remove_peer(id)` empties the entry.
/// * `await_route(route, patience)` waits until packets sent by that route are not lost for want of
///   a next hop, and returns why they would be, or an empty text. Any thread, beside the one that
///   uses the port.
///
/// Sleep:
/// * `arm()` is called before a thread sleeps on `poll_fd()`. False: something has arrived since
///   the last receive(); the thread must not sleep.
/// * `poll_fd()` becomes readable when something arrives, or is released or settled; -1: none.
///   `link_fd()` becomes readable when link_up() may have changed, which a receive() soon after
///   finds out, or is -1; a port with two descriptors of arrivals gives the second one here.
/// * `next_release()` is when receive() will return packets that poll_fd() does not announce: they
///   had no room in `rx`, or a fault holds them back. A past time: now; kNever: there are none.
template <class P>
concept Port = requires(P& port, const P& view, Time now, const wire::TxBurst& burst,
                        std::span<const wire::TxGroup> groups, RxBurst& rx, PeerId peer,
                        const typename P::Route& route, const MemorySpan& memory, std::uint32_t key,
                        Duration patience) {
  { port.transmit(now, burst, groups) } -> std::same_as<std::uint32_t>;
  { port.take_released() } -> std::same_as<std::span<const wire::CopyId>>;
  { port.receive(now, rx) } -> std::same_as<void>;
  { port.take_settled() } -> std::same_as<std::span<const wire::PacketName>>;
  { port.register_memory(memory) } -> std::same_as<void>;
  { port.deregister_memory(key) } -> std::same_as<void>;
  { port.add_peer(peer, route) } -> std::same_as<std::uint64_t>;
  { port.remove_peer(peer) } -> std::same_as<void>;
  { view.await_route(route, patience) } -> std::same_as<std::string>;
  { port.arm() } -> std::same_as<bool>;
  { view.link_up() } -> std::same_as<bool>;
  { view.poll_fd() } -> std::same_as<int>;
  { view.link_fd() } -> std::same_as<int>;
  { view.next_release() } -> std::same_as<Time>;
  { view.capabilities() } -> std::same_as<const Capabilities&>;
  { view.stats() } -> std::same_as<PortStats>;
};

/// The parts of the contract that a port has no use for when it copies payload within transmit()
/// and its driver places nothing: sockets, the simulator. Base of such ports.
class CopyingPort {
 public:
  /// Port concept: nothing is ever held.
  [[nodiscard]] static std::span<const wire::CopyId> take_released() noexcept { return {}; }
  /// Port concept: nothing is ever placed.
  [[nodiscard]] static std::span<const wire::PacketName> take_settled() noexcept { return {}; }
  /// Port concept: no registration is needed.
  static void register_memory(const MemorySpan&) noexcept {}
  /// Port concept.
  static void deregister_memory(std::uint32_t) noexcept {}
  /// Port concept: poll_fd() is readable as long as something is there.
  [[nodiscard]] static bool arm() noexcept { return true; }
};

}  // namespace mrc::inline v0_1::port
