// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/random.hpp"
#include "mrc/sim/event_queue.hpp"
#include "mrc/sim/link.hpp"
#include "mrc/sim/packet.hpp"

namespace mrc::inline v0_1::sim {

class Network;

/// Something with links: a host or a switch. Called by the network, in virtual time.
class Node {
 public:
  virtual ~Node() = default;
  /// A packet has come in by link `in`. The node owns it now: it sends it on or gives it back.
  virtual void on_packet(LinkId in, PacketId packet) = 0;
  /// The queue of outgoing link `out` has become shorter.
  virtual void on_link_ready(LinkId) {}
  /// A link that starts or ends here went down or came up.
  virtual void on_link_state(LinkId, bool) {}
  /// The time asked for with Network::wake().
  virtual void on_timer(std::uint32_t) {}
};

/// Priority flow control of a switch, per incoming link (IEEE 802.1Qbb), on the data class.
struct PfcSettings {
  std::uint64_t xoff = 0;  ///< bytes buffered from a link that make it stop; 0: no flow control
  std::uint64_t xon = 0;   ///< and that release it
};

/// A buffer that the queues of a switch share. A data queue may hold `alpha` times what is free.
struct SharedBuffer {
  std::uint64_t size = 0, used = 0;
  double alpha = 1;
};

/// Nodes, links and the events that move packets over them, in virtual time. A run follows from
/// the seed and the calls alone; digest() tells two runs apart. One thread at a time; several
/// networks are independent.
class Network {
 public:
  explicit Network(std::uint64_t seed) : random_(seed) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // --- Building ---------------------------------------------------------------------------------

  /// The node must live as long as the network runs.
  NodeId add_node(Node& node) {
    nodes_.push_back(&node);
    pfc_.emplace_back();
    return NodeId{static_cast<std::uint32_t>(nodes_.size() - 1)};
  }
  /// `from_port`, `to_port`: what the nodes at its ends call it (Link).
  LinkId add_link(NodeId from, NodeId to, const LinkSettings& settings, std::string name,
                  std::uint32_t from_port = 0, std::uint32_t to_port = 0);
  /// The queues of these links share a buffer of so many bytes, in which a data queue may hold
  /// `alpha` times what is free.
  void share_buffer(std::span<const LinkId> queues, std::uint64_t bytes, double alpha);
  /// Flow control of a node towards the links that come in.
  void set_pfc(NodeId node, const PfcSettings& pfc) { pfc_[value(node)] = pfc; }

  // --- For nodes
  // ----------------------------------------------------------------------------------

  [[nodiscard]] Time now() const noexcept { return events_.now(); }
  [[nodiscard]] PacketStore& packets() noexcept { return packets_; }
  /// Puts a packet in the queue of a link; the network owns it from here on. It may be marked,
  /// trimmed or dropped there.
  void send(LinkId out, PacketId packet);
  void drop(PacketId packet) noexcept { packets_.give_back(packet); }
  /// on_timer(token) at `when`. Cannot be taken back: nodes ignore what is out of date.
  void wake(NodeId node, Time when, std::uint32_t token) {
    events_.post(std::max(when, now()), EventKind::node_timer, value(node), token);
  }
  /// Runs `what` at `when`: faults, traffic, samples. Not for what happens per packet.
  void call_at(Time when, std::function<void()> what) {
    std::uint32_t slot = static_cast<std::uint32_t>(calls_.size());
    if (free_calls_.empty())
      calls_.push_back(std::move(what));
    else {
      slot = free_calls_.back();
      free_calls_.pop_back();
      calls_[slot] = std::move(what);
    }
    events_.post(std::max(when, now()), EventKind::call, slot);
  }

  // --- Faults ---------------------------------------------------------------------------------

  /// What waits for a link that goes down, and what is on it, is lost; both ends are told.
  void set_link_up(LinkId link, bool up);
  /// Probabilities (0 .. 1) that a packet on the link is lost or gets a bit turned over.
  void set_loss(LinkId link, double loss) { at(link).loss = loss; }
  void set_corruption(LinkId link, double probability) { at(link).corruption = probability; }
  /// Divides the rate by `factor` >= 1. Throws mrc::Error.
  void set_slow(LinkId link, double factor) {
    if (!(factor >= 1))
      throw Error(Errc::invalid_argument, "a link can't be slowed by less than 1");
    Link& l = at(link);
    l.slow = factor;
    l.fs_per_byte = fs_per_byte(l.settings.gbps / factor);
  }

  // --- Running ----------------------------------------------------------------------------------

  /// Runs until `limit`, at most 9,000 s, or until stop() is called. Time stands at `limit` or at
  /// the stop then. kNever: until nothing is left to happen.
  void run_until(Time limit);
  void stop() noexcept { stopped_ = true; }
  [[nodiscard]] bool idle() const noexcept { return events_.empty(); }

  // --- Getters ----------------------------------------------------------------------------------

  [[nodiscard]] const Link& operator[](LinkId id) const noexcept { return links_[value(id)]; }
  [[nodiscard]] std::size_t link_count() const noexcept { return links_.size(); }
  [[nodiscard]] const std::vector<Link>& links() const noexcept { return links_; }
  /// Events so far.
  [[nodiscard]] std::uint64_t events() const noexcept { return count_; }
  /// Depends on every event so far: its time, place and packet number.
  [[nodiscard]] std::uint64_t digest() const noexcept { return digest_; }

 private:
  static constexpr std::int64_t kFsPerNs = 1'000'000;
  /// Femtoseconds fill 64 bits soon after.
  static constexpr Time kLatest{std::chrono::seconds(9000)};

  [[nodiscard]] static std::int64_t fs_per_byte(double gbps) noexcept {
    return static_cast<std::int64_t>(8'000'000.0 / gbps + 0.5);
  }
  [[nodiscard]] Link& at(LinkId id) noexcept { return links_[value(id)]; }
  [[nodiscard]] std::int64_t now_ns() const noexcept { return now().time_since_epoch().count(); }

  void dispatch(const Event& event);
  void prefetch() const noexcept;
  void on_link_free(LinkId id, std::uint32_t epoch);
  void on_link_rx(LinkId id, PacketId packet);
  void on_pause(LinkId id, bool pause);
  [[nodiscard]] bool has_room(const Link& link, const Packet& packet) const noexcept;
  bool admit(Link& link, Packet& packet);
  void mark(Link& link, Packet& packet);
  void transmit(LinkId id, Link& link, PacketId packet);
  void schedule(LinkId id, Link& link);
  void account(const Link& link, const Packet& packet, bool enters);
  void empty_queue(Link& link, Link::Fifo& queue, std::uint64_t& counter);
  void push(Link::Fifo& queue, PacketId id) noexcept;
  PacketId pop(Link::Fifo& queue) noexcept;

  EventQueue events_;
  PacketStore packets_;
  Random random_;
  std::vector<Node*> nodes_;
  std::vector<PfcSettings> pfc_;  // by node
  std::vector<Link> links_;
  std::vector<SharedBuffer> buffers_;
  std::vector<std::function<void()>> calls_;
  std::vector<std::uint32_t> free_calls_;
  std::uint64_t count_ = 0;
  std::uint64_t digest_ = 0;
  bool stopped_ = false;
};

}  // namespace mrc::inline v0_1::sim

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/sim/impl/network.ipp"
#endif
