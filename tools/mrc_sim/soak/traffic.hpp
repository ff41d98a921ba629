// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "mrc_sim/soak/flow.hpp"

namespace mrc::soak {

/// The hosts of a soak run and the messages between them. Stops the network when all messages have
/// come to an end.
class SoakTraffic : private MrcHost::Application {
 public:
  /// Makes the hosts; then the fabric is built on nodes(), and start() begins.
  SoakTraffic(Network& network, const SoakSetup& setup, SoakSabotage sabotage);
  [[nodiscard]] const std::vector<NodeId>& nodes() const noexcept { return nodes_; }
  /// `faults`: what queue pairs may break by.
  void start(const Fabric& fabric, const FaultSchedule& faults);

  /// The host hangs from now on.
  void kill(unsigned host);
  /// All flows have come to an end.
  [[nodiscard]] bool done() const noexcept { return open_ == 0; }
  /// Flows that have not, and where they stand.
  [[nodiscard]] std::string stuck() const;

  [[nodiscard]] const std::vector<std::unique_ptr<SoakHost>>& hosts() const noexcept {
    return hosts_;
  }
  [[nodiscard]] const std::deque<SoakFlow>& flows() const noexcept { return flows_; }
  [[nodiscard]] unsigned failed() const noexcept { return failed_; }
  /// Checks contents and counters of all flows.
  void audit() const;

 private:
  /// What a queue pair of a host has to do with: its end, and the flows out and in.
  struct Use {
    SoakEnd* end = nullptr;
    SoakFlow* out = nullptr;
    SoakFlow* in = nullptr;
    const QpAttributes* attributes = nullptr;
    SoakEnd* peer = nullptr;
  };

  void on_completion(MrcHost&, const Completion&) override {}  // in its own queue there is none
  void on_qp_error(MrcHost& host, Qpn qpn) override;
  void read(unsigned host, const Completion& c);
  void lay_out(Random& random);
  void make_queues();
  void connect(std::size_t number);
  void add_flow(std::size_t number, unsigned side);
  void release();
  void check_error(const Use& use, QpErrorCause cause) const;
  void update(SoakFlow* flow);
  [[nodiscard]] Use& use_of(unsigned host, Qpn qpn);

  Network& network_;
  SoakSetup setup_;  // its messages get their places here
  SoakSabotage sabotage_;
  std::vector<NodeId> nodes_;
  std::vector<std::unique_ptr<SoakHost>> hosts_;
  FrameBuffer frame_;
  std::deque<SoakMemory> memories_;                 // by host
  std::vector<std::vector<std::uint8_t>> sources_;  // by host
  std::vector<std::uint32_t> lkeys_, rkeys_;        // by host
  std::deque<std::array<SoakEnd, 2>> ends_;         // by connection
  std::deque<SoakFlow> flows_;
  std::vector<std::uint32_t> flow_of_;  // 2 x connection + side: flow, or none
  std::vector<std::unordered_map<std::uint32_t, Use>> uses_;  // by host and QPN
  Time first_fault_ = kNever, last_fault_{};
  std::size_t open_ = 0;
  unsigned failed_ = 0;
};

}  // namespace mrc::soak
