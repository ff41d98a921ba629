// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/sim/event_queue.hpp"
#include "mrc/sim/packet.hpp"

namespace mrc::inline v0_1::sim {

/// What became of a data packet that a host has sent: of its payload, since the headers of a
/// trimmed packet go on. Every copy has one fate, or is still under way.
enum class PacketFate : std::uint8_t {
  arrived,    ///< whole at a host
  trimmed,    ///< at a full queue
  overflow,   ///< dropped at a full queue
  loss_rate,  ///< by a link's loss rate
  link_down,  ///< in flight or queued on a link that went down, or sent onto one that was down
  corrupted,  ///< arrived with a wrong bit and was discarded
  no_route,   ///< by a switch without a route to its destination
  dead_host,  ///< arrived at a host that hangs
};
/// Number of fates.
inline constexpr std::size_t kFates = 8;
/// "link down"
[[nodiscard]] constexpr const char* to_string(PacketFate fate) noexcept {
  constexpr std::array<const char*, kFates> kNames{"arrived",   "trimmed",   "overflow",
                                                   "loss rate", "link down", "corrupted",
                                                   "no route",  "dead host"};
  return kNames[static_cast<std::size_t>(fate)];
}

/// The account of all data packets of a network, copies sent again included. It is kept by links
/// and ports, independently of what the hosts count, so that each can be checked by the other.
class Ledger {
 public:
  /// A host sent a data packet.
  void send() noexcept { ++sent_; }
  /// This became of one.
  void end(PacketFate fate) noexcept { ++ended_[static_cast<std::size_t>(fate)]; }

  /// Data packets sent.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  /// Of these, those with this fate.
  [[nodiscard]] std::uint64_t operator[](PacketFate fate) const noexcept {
    return ended_[static_cast<std::size_t>(fate)];
  }
  /// Of these, those that have not arrived and never will.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return ended() - (*this)[PacketFate::arrived];
  }
  /// Of these, those in queues or on links.
  [[nodiscard]] std::uint64_t under_way() const noexcept { return sent_ - ended(); }

 private:
  [[nodiscard]] std::uint64_t ended() const noexcept {
    return std::accumulate(ended_.begin(), ended_.end(), std::uint64_t{0});
  }

  std::uint64_t sent_ = 0;
  std::array<std::uint64_t, kFates> ended_{};
};

/// Index of a node: host or switch.
enum class NodeId : std::uint32_t {};
/// The index itself.
[[nodiscard]] constexpr std::uint32_t value(NodeId id) noexcept {
  return static_cast<std::uint32_t>(id);
}

/// Treatment of a data packet that arrives at a full queue.
enum class Overflow : std::uint8_t {
  drop,  ///< tail drop
  trim,  ///< trim to headers, then control class (mrc-1.0 §1.12); only packets of trimmable classes
};

/// The queue of a link. Sizes in bytes on the wire.
struct QueueSettings {
  std::uint64_t data_limit = 512 * 1024;      ///< of the data class; unused with a shared buffer
  std::uint64_t control_limit = 1024 * 1024;  ///< of the control class
  /// ECN marking of the data class at arrival, by queue length in bytes: never below ecn_min, with
  /// a probability rising to ecn_probability at ecn_max, always above. ecn_max 0: no marking.
  std::uint64_t ecn_min = 0;
  std::uint64_t ecn_max = 0;           ///< see ecn_min
  double ecn_probability = 1;          ///< at ecn_max
  Overflow overflow = Overflow::drop;  ///< treatment at a full data queue
  std::uint8_t trimmable_dscp = 4;     ///< class that may be trimmed
  std::uint8_t retransmit_dscp = 8;    ///< retransmissions, which may be trimmed
  std::uint8_t trimmed_dscp = 12;      ///< DSCP of a trimmed packet
};

/// One direction of a cable.
struct LinkSettings {
  Duration delay{500};  ///< propagation and the forwarding time of the receiving node, in ns
  double gbps = 100;    ///< rate in Gb/s
  QueueSettings queue;  ///< its queue
};

/// Counters of a link and its queue.
struct LinkStats {
  std::uint64_t packets = 0;       ///< sent
  std::uint64_t bytes = 0;         ///< sent, on the wire
  std::uint64_t marked = 0;        ///< ECN CE set here
  std::uint64_t trimmed = 0;       ///< trimmed here
  std::uint64_t dropped = 0;       ///< queue full
  std::uint64_t lost = 0;          ///< by the loss rate, or as the link went down
  std::uint64_t refused = 0;       ///< arrived while the link was down
  std::uint64_t corrupted = 0;     ///< had a bit flipped
  std::uint64_t max_queue = 0;     ///< largest data queue, bytes
  std::uint64_t pauses = 0;        ///< number of pauses by flow control
  Duration paused{};               ///< total pause time
  std::uint64_t refused_data = 0;  ///< refused packets with payload (neither probes nor responses)
  Time last_refused{};             ///< arrival of the last refused packet with payload
};

/// One direction of a cable with its queue and its fault injection state. Owned and moved by
/// Network.
struct alignas(64) Link {
  /// A linked list of packets.
  struct Fifo {
    PacketId head = kNoPacket;  ///< first packet
    PacketId tail = kNoPacket;  ///< last packet
    std::uint64_t bytes = 0;    ///< on the wire
    /// Whether there are no packets.
    [[nodiscard]] bool empty() const noexcept { return head == kNoPacket; }
  };

  // Fields used for every packet come first.
  std::int64_t busy_until = 0;   ///< femtoseconds
  std::int64_t fs_per_byte = 0;  ///< femtoseconds; 10,000 at 800 Gb/s
  Fifo control;                  ///< queue of the control class
  Fifo data;                     ///< queue of the data class
  NodeId from{};                 ///< sending node
  NodeId to{};                   ///< receiving node
  std::uint32_t to_port = 0;     ///< index among the ports of the receiving node
  std::uint32_t from_port = 0;   ///< index among the ports of the sending node
  std::int32_t buffer = -1;      ///< shared buffer of the sending switch; -1: none
  std::uint32_t epoch =
      0;           ///< incremented when the link goes down: packets of older epochs are lost
  bool up = true;  ///< carries packets
  bool scheduled = false;      ///< a link_free event is posted
  bool paused = false;         ///< flow control stops the data class
  bool pausing = false;        ///< the receiving node has requested the pause
  double loss = 0;             ///< probability per packet
  double corruption = 0;       ///< probability per packet
  LinkSettings settings;       ///< as created
  LinkStats stats;             ///< counters
  std::uint64_t buffered = 0;  ///< bytes in the receiving switch that arrived by this link (PFC)
  Time paused_at{};            ///< start of the current pause
  double slow = 1;             ///< divisor of the rate
  std::string name;            ///< "h3.p0>p0t0-1"

  /// Bytes in both queues.
  [[nodiscard]] std::uint64_t queued() const noexcept { return control.bytes + data.bytes; }
};

class Network;

/// A host or a switch. Called by the network, in virtual time.
class Node {
 public:
  virtual ~Node() = default;
  /// A packet has arrived on link `in`. The node owns it now and must send or drop it.
  virtual void on_packet(LinkId in, PacketId packet) = 0;
  /// The queue of outgoing link `out` has become shorter.
  virtual void on_link_ready(LinkId) {}
  /// A link that starts or ends here went down or up.
  virtual void on_link_state(LinkId, bool) {}
  /// A timer set with Network::wake() expired.
  virtual void on_timer(std::uint32_t) {}
};

/// Priority flow control of a switch, per incoming link (IEEE 802.1Qbb), on the data class.
struct PfcSettings {
  std::uint64_t xoff = 0;  ///< bytes buffered from a link that pause it; 0: no flow control
  std::uint64_t xon = 0;   ///< bytes at which it is resumed
};

/// A buffer shared by the queues of a switch. A data queue may use `alpha` times the free space.
struct SharedBuffer {
  std::uint64_t size = 0;  ///< bytes
  std::uint64_t used = 0;  ///< bytes
  double alpha = 1;        ///< factor
};

/// Nodes, links and the events that move packets over them, in virtual time. A run is determined by
/// the seed and the calls; digest() distinguishes runs. One thread at a time; several networks are
/// independent.
class Network {
 public:
  /// An empty network; the seed determines random losses and marks.
  explicit Network(std::uint64_t seed) : random_(seed) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // --- Building ---------------------------------------------------------------------------------

  /// Adds a node, which must live as long as the network runs.
  NodeId add_node(Node& node) {
    nodes_.push_back(&node);
    pfc_.emplace_back();
    return NodeId{static_cast<std::uint32_t>(nodes_.size() - 1)};
  }
  /// `from_port`, `to_port`: port indices at the nodes at its ends (Link).
  LinkId add_link(NodeId from, NodeId to, const LinkSettings& settings, std::string name,
                  std::uint32_t from_port = 0, std::uint32_t to_port = 0);
  /// Makes the queues of these links share a buffer of `bytes` bytes, of which a data queue may use
  /// `alpha` times the free space.
  void share_buffer(std::span<const LinkId> queues, std::uint64_t bytes, double alpha);
  /// Sets flow control of a node towards its incoming links.
  void set_pfc(NodeId node, const PfcSettings& pfc) { pfc_[value(node)] = pfc; }

  // --- For nodes
  // ----------------------------------------------------------------------------------

  /// Virtual time.
  [[nodiscard]] Time now() const noexcept { return events_.now(); }
  /// The packets.
  [[nodiscard]] PacketStore& packets() noexcept { return packets_; }
  /// For hosts: sends a packet of their own. `data`: the ledger follows it.
  void launch(LinkId out, PacketId packet, bool data) {
    packets_[packet].data = data;
    if (data) ledger_.send();
    send(out, packet);
  }
  /// Enqueues a packet at a link; the network owns it from here on and may mark, trim or drop it.
  void send(LinkId out, PacketId packet);
  /// Frees a packet, which ends like this.
  void drop(PacketId packet, PacketFate fate) noexcept {
    end(packets_[packet], fate);
    packets_.give_back(packet);
  }
  /// Calls on_timer(token) at `when`. Cannot be cancelled: nodes ignore outdated timers.
  void wake(NodeId node, Time when, std::uint32_t token) {
    events_.post(std::max(when, now()), EventKind::node_timer, value(node), token);
  }
  /// Runs `what` at `when`: for faults, traffic and samples, not for per-packet events.
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

  /// Sets a link's state. When it goes down, queued and in-flight packets are lost; both ends are
  /// notified.
  void set_link_up(LinkId link, bool up);
  /// Sets the probability (0 .. 1) that a packet on the link is lost.
  void set_loss(LinkId link, double loss) { at(link).loss = loss; }
  /// Sets the probability (0 .. 1) that a packet on the link has a bit flipped.
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

  /// Runs until `limit`, at most 9,000 s, or until stop() is called, where time then stands.
  /// kNever: until there are no more events.
  void run_until(Time limit);
  /// Makes run_until() return after the current event.
  void stop() noexcept { stopped_ = true; }
  /// Whether there are no events.
  [[nodiscard]] bool idle() const noexcept { return events_.empty(); }

  // --- Getters ----------------------------------------------------------------------------------

  /// A link by its id.
  [[nodiscard]] const Link& operator[](LinkId id) const noexcept { return links_[value(id)]; }
  /// Number of links.
  [[nodiscard]] std::size_t link_count() const noexcept { return links_.size(); }
  /// All links, by id.
  [[nodiscard]] const std::vector<Link>& links() const noexcept { return links_; }
  /// What became of the data packets that were sent.
  [[nodiscard]] const Ledger& ledger() const noexcept { return ledger_; }
  /// Number of events so far.
  [[nodiscard]] std::uint64_t events() const noexcept { return count_; }
  /// Hash over all events so far: time, place and packet number.
  [[nodiscard]] std::uint64_t digest() const noexcept { return digest_; }

 private:
  static constexpr std::int64_t kFsPerNs = 1'000'000;
  /// Limit set by 64-bit femtoseconds.
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
  void end(Packet& packet, PacketFate fate) noexcept {
    if (!packet.data) return;
    packet.data = false;
    ledger_.end(fate);
  }

  EventQueue events_;
  PacketStore packets_;
  Random random_;
  std::vector<Node*> nodes_;
  std::vector<PfcSettings> pfc_;  // by node
  std::vector<Link> links_;
  std::vector<SharedBuffer> buffers_;
  std::vector<std::function<void()>> calls_;
  std::vector<std::uint32_t> free_calls_;
  Ledger ledger_;
  std::uint64_t count_ = 0;
  std::uint64_t digest_ = 0;
  bool stopped_ = false;
};

}  // namespace mrc::inline v0_1::sim
