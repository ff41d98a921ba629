// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mrc/engine/engine.hpp"
#include "mrc/sim/port.hpp"

namespace mrc::inline v0_1::sim {

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

inline MrcHost::MrcHost(Network& network, unsigned number, const HostSettings& settings,
                        std::uint64_t seed)
    : network_(network),
      number_(number),
      settings_(settings),
      // Small, so that no port gets much more than it has room for.
      burst_(std::max(4u, settings.engine.burst), std::max(4u, settings.engine.burst) * 64) {
  engine::EngineOptions options = settings.engine;
  options.seed = seed;
  options.start = network.now();
  engine_ = std::make_unique<engine::Engine>(options);
  const auto pd = engine_->alloc_pd();
  const auto cq = engine_->create_cq(4 * 1024);
  if (!pd || !cq) throw Error(pd ? cq.error() : pd.error(), "simulated host");
  pd_ = pd.value();
  cq_ = cq.value();
  node_ = network.add_node(*this);
}

inline void MrcHost::attach(const Fabric& fabric, FrameBuffer& frame) {
  fabric_ = &fabric;
  const PortSettings port{settings_.engine.dscp, settings_.mtu, settings_.carry_payload,
                          settings_.nic_queue};
  for (unsigned p = 0; p < fabric.settings().planes; ++p)
    ports_.push_back(std::make_unique<Port>(network_, fabric, number_, p, port, frame));
  peers_.assign(fabric.settings().hosts, -1);
}

inline PeerId MrcHost::peer(unsigned host) {
  if (peers_.at(host) >= 0) return PeerId{static_cast<std::uint32_t>(peers_[host])};
  const FabricSettings& f = fabric_->settings();
  engine::PeerSpec spec;
  spec.slot = settings_.engine.slot;
  // The engine numbers peers from 0 in order of creation.
  const PeerId id{engine_->peer_count()};
  unsigned paths = fabric_->paths(number_, host);
  if (f.forwarding == Forwarding::udp) paths = 16;
  if (settings_.paths_per_plane != 0 && f.forwarding == Forwarding::udp)
    paths = settings_.paths_per_plane;
  else if (settings_.paths_per_plane != 0)
    paths = std::min(paths, settings_.paths_per_plane);
  for (unsigned p = 0; p < f.planes; ++p) {
    spec.planes |= plane_bit(static_cast<Plane>(p));
    spec.source_tags[p] = ports_[p]->add_peer(id, {Fabric::address(host, p), wire::kUdpPort});
  }
  for (unsigned u = 0; u < paths; ++u)
    for (unsigned p = 0; p < f.planes; ++p)
      spec.paths.push_back(
          {fabric_->ev(p, u), static_cast<Plane>(p), static_cast<std::uint16_t>(u)});
  const auto made = engine_->add_peer(spec);
  if (!made || made.value() != id) throw Error(Errc::no_resources, "simulated host: peer");
  peers_[host] = mrc::value(id);
  return id;
}

inline void MrcHost::on_packet(LinkId in, PacketId packet) {
  if (dead_) return network_.drop(packet);
  Port& port = *ports_[network_[in].to_port];
  port.deliver(packet);
  rx_.clear();
  port.receive(network_.now(), rx_);
  if (rx_.empty()) return;
  engine_->receive(network_.now(), rx_.packets());
  work();
}

inline void MrcHost::on_link_state(LinkId link, bool) {
  const Link& l = network_[link];
  const auto plane = static_cast<Plane>(l.from == node_ ? l.from_port : l.to_port);
  network_.call_at(network_.now() + settings_.carrier_delay, [this, plane] {
    if (dead_) return;
    engine_->set_plane_up(network_.now(), plane, ports_[plane]->link_up());
    work();
  });
}

inline void MrcHost::on_timer(std::uint32_t token) {
  if (dead_ || token != timer_token_) return;
  timer_ = kNever;
  engine_->on_time(network_.now());
  work();
}

inline void MrcHost::set_timer() {
  const Time due = engine_->next_deadline();
  if (due >= timer_) return;
  timer_ = due;
  network_.wake(node_, due, ++timer_token_);
}

/// Passes the engine's completions on. True if there were any.
inline bool MrcHost::complete() {
  bool any = false;
  std::array<Completion, 16> done;
  while (const std::size_t n = engine_->poll_cq(cq_, done)) {
    any = true;
    for (std::size_t i = 0; i < n && application_ != nullptr; ++i)
      application_->on_completion(*this, done[i]);
  }
  engine::Engine::Event event;
  while (engine_->poll_event(event)) {
    if (event.kind != engine::Engine::Event::Kind::qp_error) continue;
    any = true;
    if (application_ != nullptr) application_->on_qp_error(*this, event.qpn);
  }
  return any;
}

/// Sends packets to ports with room. True if the engine may have more.
inline bool MrcHost::transmit() {
  PlaneMask free = 0;
  for (std::size_t p = 0; p < ports_.size(); ++p)
    if (ports_[p]->free()) free |= plane_bit(static_cast<Plane>(p));
  burst_.clear();
  engine_->poll_transmit(network_.now(), free, burst_);
  for (const wire::TxGroup& group : burst_.groups())
    ports_[group.plane]->transmit(network_.now(), burst_, {&group, 1});
  return !burst_.empty();
}

inline void MrcHost::work() {
  // Re-entered by calls from the application's callbacks.
  if (dead_ || working_) return;
  working_ = true;
  do {
    while (transmit()) {
    }
  } while (complete());
  working_ = false;
  set_timer();
}

}  // namespace mrc::inline v0_1::sim
