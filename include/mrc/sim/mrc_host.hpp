// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mrc/engine/engine.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/network.hpp"
#include "mrc/stats.hpp"

namespace mrc::inline v0_1::sim {

/// Memory in which ports assemble received packets. Shared by all ports of a simulation, to stay in
/// the cache: a packet is processed before the next one arrives.
using FrameBuffer = std::vector<std::uint8_t>;

/// Settings of a simulated NIC port.
struct PortSettings {
  wire::DscpMap dscp{};             ///< DSCP per packet class
  std::uint32_t mtu = 4096;         ///< largest payload
  bool carry_payload = false;       ///< real payload and iCRC instead of lengths only
  std::uint64_t queue = 12 * 1024;  ///< bytes queued in the NIC from which on it is busy
};

/// A NIC port in a simulated fabric. It has the calls of port::Port that a simulated host makes,
/// not virtual, since a simulation makes one for each packet. It builds whole packets from an
/// engine's bursts, source routed according to the fabric (mrc-1.0 §1.1, §3.1, §4), and parses
/// received ones. One thread at a time, that of its network.
class Port {
 public:
  /// The port of a host in a plane. Network and fabric must outlive it.
  Port(Network& network, const Fabric& fabric, unsigned host, unsigned plane,
       const PortSettings& settings, FrameBuffer& frame)
      : network_(network),
        fabric_(fabric),
        host_(host),
        plane_(plane),
        settings_(settings),
        frame_(frame),
        out_(fabric.host_up(host, plane)),
        format_(fabric.settings().forwarding == Forwarding::stev ? wire::EvFormat::stev
                                                                 : wire::EvFormat::udp) {
    capabilities_.max_packet = settings.mtu + static_cast<std::uint32_t>(wire::kMaxTransportHeader);
    capabilities_.exact_icrc = capabilities_.outer_headers = true;
    capabilities_.trimmed_packets = true;
    parse_.dscp = settings.dscp;
    parse_.check_icrc = settings.carry_payload;
    const std::size_t largest = kMaxHead + settings.mtu + wire::kMaxPad + wire::kIcrcSize;
    if (frame_.size() < largest) frame_.resize(largest);
  }

  // --- as port::Port
  // ------------------------------------------------------------------------------

  /// Sends all packets of the groups; the host has looked at free().
  std::uint32_t transmit(Time, const wire::TxBurst& burst, std::span<const wire::TxGroup> groups) {
    std::uint32_t taken = 0;
    for (const wire::TxGroup& group : groups) {
      for (const wire::TxPacket& p : burst.packets(group)) send(p, burst.sges(p));
      taken += group.count;
    }
    return taken;
  }
  /// Appends the packet of the last deliver(), if it is valid.
  void receive(Time, port::RxBurst& rx);
  /// `address.ip` is Fabric::address() of a host in this plane.
  std::uint64_t add_peer(PeerId peer, const port::PeerAddress& address) {
    if (peers_.size() <= mrc::value(peer)) peers_.resize(mrc::value(peer) + 1);
    Peer& p = peers_[mrc::value(peer)];
    p.address = address.ip;
    const unsigned to = host_of(address.ip);
    if (fabric_.settings().forwarding == Forwarding::srv6) {
      p.route = fabric_.route(host_, to, plane_, 0);
      p.over_t1 = fabric_.uplinks() > 1 && fabric_.t0_of(host_) != fabric_.t0_of(to);
    }
    return tag(address.ip);
  }
  /// Forgets a peer's address.
  void remove_peer(PeerId peer) { peers_[mrc::value(peer)] = {}; }
  /// Whether its link is up.
  [[nodiscard]] bool link_up() const noexcept {
    return network_[out_].up && network_[fabric_.host_down(host_, plane_)].up;
  }
  /// Properties of the port.
  [[nodiscard]] const port::Capabilities& capabilities() const noexcept { return capabilities_; }
  /// Counters.
  [[nodiscard]] port::PortStats stats() const noexcept { return stats_; }

  // --- for the host

  /// Whether the NIC accepts packets: its outgoing link is up, and it has less than
  /// PortSettings::queue bytes queued, data and control. (Under PFC, control here waits behind
  /// paused data.)
  [[nodiscard]] bool free() const noexcept {
    const Link& out = network_[out_];
    return out.up && out.queued() < settings_.queue;
  }
  /// A packet arrived; the next receive() returns it.
  void deliver(PacketId packet) noexcept { arrived_ = packet; }

 private:
  struct Peer {
    wire::IpAddress address{};
    wire::IpAddress route{};  ///< with uplink 0
    bool over_t1 = false;     ///< the route has a T1 in its second uSID
  };

  [[nodiscard]] static unsigned host_of(const wire::IpAddress& a) noexcept {
    unsigned number = 0;
    for (unsigned i = 12; i < 16; ++i) number = number << 8 | a[i];
    return number - 1;
  }
  /// Unique for each host and plane.
  [[nodiscard]] static std::uint64_t tag(const wire::IpAddress& a) noexcept {
    return std::uint64_t{host_of(a)} << 8 | a[11] | std::uint64_t{1} << 40;
  }

  void send(const wire::TxPacket& tx, std::span<const wire::TxSge> sges);
  [[nodiscard]] wire::Envelope envelope(const wire::TxPacket& tx) const noexcept;

  Network& network_;
  const Fabric& fabric_;
  unsigned host_, plane_;
  PortSettings settings_;
  FrameBuffer& frame_;
  LinkId out_;
  wire::EvFormat format_;
  wire::ParseOptions parse_;
  std::vector<Peer> peers_;
  PacketId arrived_ = kNoPacket;
  port::Capabilities capabilities_;
  port::PortStats stats_;
};

/// Settings of simulated hosts that run MRC.
struct HostSettings {
  engine::EngineOptions engine{.max_qps = 4096,  ///< engine parameters
                               .max_cqs = 8,
                               .max_mrs = 64,
                               .max_pds = 4,
                               .max_peers = 2048,
                               .max_outstanding = 16 * 1024,
                               .control_queue = 4096,
                               .deferred_stores = 1024,
                               .reverse_probe_floor = Duration{1}};  // mrc-1.0 §3.6: once per RTT
  std::uint32_t mtu = 4096;             ///< largest payload of a packet, bytes
  unsigned paths_per_plane = 0;         ///< EVs; 0: all uplinks (srv6, stev) or 16 (udp)
  std::uint64_t nic_queue = 12 * 1024;  ///< bytes queued in a NIC port before it is busy
  bool carry_payload = false;           ///< carry real bytes and iCRC (needed to check contents)
  Duration carrier_delay{1000};         ///< delay until a host detects that its link is down or up
};

/// A host that runs the MRC engine on simulated ports: moves packets between the two, drives the
/// engine's timers and passes completions to the application. One thread at a time.
class MrcHost : public Node {
 public:
  /// The application on the host. Called for engine events, from within simulation events.
  class Application {
   public:
    virtual ~Application() = default;
    /// A work request has completed.
    virtual void on_completion(MrcHost& host, const Completion& completion) = 0;
    /// A queue pair has gone to the error state.
    virtual void on_qp_error(MrcHost& host, Qpn qpn) = 0;
  };

  /// `number`: its index among the hosts of the fabric.
  MrcHost(Network& network, unsigned number, const HostSettings& settings, std::uint64_t seed);

  /// Creates its ports. The fabric must outlive it.
  void attach(const Fabric& fabric, FrameBuffer& frame);
  /// Sets the receiver of completions.
  void set_application(Application* application) noexcept { application_ = application; }

  /// Index among the hosts of the fabric.
  [[nodiscard]] unsigned number() const noexcept { return number_; }
  /// Its node in the network.
  [[nodiscard]] NodeId node() const noexcept { return node_; }
  /// The engine.
  [[nodiscard]] engine::Engine& engine() noexcept { return *engine_; }
  /// The engine.
  [[nodiscard]] const engine::Engine& engine() const noexcept { return *engine_; }
  /// Ports, one per plane.
  [[nodiscard]] const std::vector<std::unique_ptr<Port>>& ports() const noexcept { return ports_; }
  /// Protection domain of all its objects.
  [[nodiscard]] PdId pd() const noexcept { return pd_; }
  /// The completion queue of all its queue pairs.
  [[nodiscard]] CqId cq() const noexcept { return cq_; }

  /// The engine's peer for another host; created at the first call. Throws mrc::Error.
  PeerId peer(unsigned host);
  /// Sends what calls to the engine from outside of events have queued.
  void work();
  /// Makes the host hang: its links stay up, but it neither sends nor receives any more.
  void kill() noexcept { dead_ = true; }

  void on_packet(LinkId in, PacketId packet) override;
  void on_link_ready(LinkId) override { work(); }
  void on_link_state(LinkId link, bool up) override;
  void on_timer(std::uint32_t token) override;

 private:
  bool complete();
  bool transmit();
  void set_timer();

  Network& network_;
  unsigned number_;
  HostSettings settings_;
  NodeId node_;
  const Fabric* fabric_ = nullptr;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::int64_t> peers_;  // by host; -1: none
  Application* application_ = nullptr;
  wire::TxBurst burst_;
  port::RxBurst rx_{4};
  PdId pd_{};
  CqId cq_{};
  Time timer_ = kNever;
  std::uint32_t timer_token_ = 0;
  bool working_ = false;
  bool dead_ = false;
};

}  // namespace mrc::inline v0_1::sim
