// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/port/address.hpp"
#include "mrc/port/port_stats.hpp"
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
  bool exact_icrc = false;           ///< sees every field that the iCRC covers
  bool outer_headers = false;        ///< sees ECN and DSCP of the outermost header
};

/// Received packets, filled by Port::receive(). Fixed capacity; allocated once.
class RxBurst {
 public:
  /// Room for `capacity` packets.
  explicit RxBurst(std::size_t capacity = 512) { packets_.reserve(capacity); }
  /// Forgets all packets.
  void clear() noexcept { packets_.clear(); }
  /// How many more packets it takes.
  [[nodiscard]] std::size_t room() const noexcept { return packets_.capacity() - packets_.size(); }
  /// True if there are none.
  [[nodiscard]] bool empty() const noexcept { return packets_.empty(); }
  /// Needs room() > 0.
  void push(const wire::RxPacket& packet) noexcept { packets_.push_back(packet); }
  /// The packets, in order of arrival.
  [[nodiscard]] std::span<const wire::RxPacket> packets() const noexcept { return packets_; }

 private:
  std::vector<wire::RxPacket> packets_;
};

/// The contract of a port. One thread at a time.
///
/// * `transmit(now, burst, groups)` sends the packets of these groups of the burst, all of its
///   plane, one group after the other, and returns how many packets it took, counted from the
///   first; the rest were not sent (port busy or down). Payload memory is no longer needed when it
///   returns. It adds pad and iCRC.
/// * `receive(now, rx)` appends what has arrived, up to rx.room(). The views stay valid until the
///   next receive() on the same port.
/// * `add_peer(id, address)` fills the address table and returns the tag that the peer's packets
///   will carry in RxPacket::source. `remove_peer(id)` empties the entry.
/// * `poll_fd()` becomes readable when something arrives, or is -1. `link_fd()` becomes readable
///   when link_up() may have changed, which a receive() soon after finds out, or is -1.
/// * `next_release()` is when receive() will return packets that poll_fd() does not announce: they
///   had no room in `rx`, or a fault holds them back. A past time: now; kNever: there are none.
template <class P>
concept Port = requires(P& port, const P& view, Time now, const wire::TxBurst& burst,
                        std::span<const wire::TxGroup> groups, RxBurst& rx, PeerId peer,
                        const PeerAddress& address) {
  { port.transmit(now, burst, groups) } -> std::same_as<std::uint32_t>;
  { port.receive(now, rx) } -> std::same_as<void>;
  { port.add_peer(peer, address) } -> std::same_as<std::uint64_t>;
  { port.remove_peer(peer) } -> std::same_as<void>;
  { view.link_up() } -> std::same_as<bool>;
  { view.poll_fd() } -> std::same_as<int>;
  { view.link_fd() } -> std::same_as<int>;
  { view.next_release() } -> std::same_as<Time>;
  { view.capabilities() } -> std::same_as<const Capabilities&>;
  { view.stats() } -> std::same_as<PortStats>;
};

}  // namespace mrc::inline v0_1::port
