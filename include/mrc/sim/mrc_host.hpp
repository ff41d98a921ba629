// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
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

}  // namespace mrc::inline v0_1::sim
