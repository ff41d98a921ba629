// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/intrusive/list.hpp>

#include "mrc/core/types.hpp"
#include "mrc/engine/object_tables.hpp"
#include "mrc/engine/peer.hpp"
#include "mrc/engine/queue_pair.hpp"

namespace mrc::inline v0_1::engine {

/// The queue pairs with packets to send, in service order: peers round robin (`peers` here), and
/// for each peer its queue pairs round robin (Peer::ready).
///
/// A blocked peer (congestion window, no plane) leaves the queue, its queue pairs stay in
/// Peer::ready; wake() puts the peer back. A queue pair that finds the pool of packet records empty
/// goes to Peer::starved until wake_starved().
///
/// Inputs: update() and wake() from every part that makes sending possible. Output: Scheduler takes
/// peers out. Calls no other part.
class ReadyQueue {
 public:
  /// `objects` must outlive this object.
  explicit ReadyQueue(ObjectTables& objects) : objects_(objects) {}

  /// Adds a queue pair if it has a packet that its own windows admit (mrc-1.0 §2.4, §2.8), and
  /// wakes its peer. Harmless in any state.
  void update(QueuePairState& qp) noexcept;
  /// Removes a queue pair.
  static void remove(QueuePairState& qp) noexcept {
    qp.ready_hook.unlink();
    qp.starved = false;
  }

  /// Something that may have blocked this peer has changed.
  void wake(Peer& peer) noexcept {
    if (!peer.ready.empty() && !peer.hook.is_linked()) peers_.push_back(peer);
  }
  /// Something that may have blocked all peers has changed: a port, or the record pool.
  void wake_all() noexcept;
  /// Packet records may have become free.
  void wake_starved() noexcept {
    if (starved_) wake_all();
  }
  /// The record pool is empty: the queue pair can't send until records become free.
  void note_starved(QueuePairState& qp) noexcept { starved_ = qp.starved = true; }

  /// Window exemption: lets the queue pair send one packet although congestion window and planes
  /// are full, and serves it before the queue pairs that wait for the window.
  static void exempt(QueuePairState& qp) noexcept;
  /// The same for the peer's waiting queue pairs with nothing in flight, at most once per `timeout`
  /// of silence. Called when a queue pair that uses the window times out: those that wait for the
  /// window then detect a dead peer at the same time, and not one after the other.
  void exempt_waiting(Time now, Peer& peer, Duration timeout) noexcept;

  /// True if no peer is to be served.
  [[nodiscard]] bool empty() const noexcept { return peers_.empty(); }
  /// Number of peers to be served; counts them.
  [[nodiscard]] std::size_t size() const noexcept { return peers_.size(); }
  /// Takes the first peer out; needs !empty().
  [[nodiscard]] Peer& pop() noexcept {
    Peer& peer = peers_.front();
    peers_.pop_front();
    return peer;
  }
  /// Returns a peer that was taken out, first in line.
  void push_front(Peer& peer) noexcept { peers_.push_front(peer); }
  /// Returns a peer that was taken out, last in line.
  void push_back(Peer& peer) noexcept { peers_.push_back(peer); }

 private:
  using PeerList =
      intrusive::list<Peer, intrusive::member_hook<Peer, decltype(Peer::hook), &Peer::hook>,
                      intrusive::constant_time_size<false>>;

  ObjectTables& objects_;
  PeerList peers_;
  bool starved_ = false;  // some Peer::starved may be non-empty; see wake_starved()
};

}  // namespace mrc::inline v0_1::engine
