// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/rc_model/flow.hpp"
#include "engine/rc_model/program.hpp"

namespace mrc::test::rc {

/// Two engines run a program, and all that they do is compared with the model. Throws Mismatch.
class ProgramRun {
 public:
  /// `program` must outlive it.
  ProgramRun(EnginePair& pair, const Program& program, std::uint64_t seed)
      : pair_(pair), random_(seed) {
    for (unsigned side = 0; side < 2; ++side) open(side, program);
    for (std::uint32_t i = 0; i < program.connections.size(); ++i) connect(program, i);
    pair_.tap = [this](unsigned side, const wire::TxPacket&, const auto& bytes) {
      for (auto& flow : flows_) flow->on_packet(side, bytes);
    };
  }
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;
  ~ProgramRun() { pair_.tap = nullptr; }

  /// Posts and polls until nothing more can come. False if it is not within `limit`.
  bool run(Duration limit) {
    return pair_.run_for(limit, [this] {
      work();
      return finished();
    });
  }
  /// When nothing more can come.
  void check() {
    pair_.run_for(std::chrono::milliseconds(200));  // stragglers
    poll(0);
    poll(1);
    for (const auto& flow : flows_) flow->check();
    for (unsigned side = 0; side < 2; ++side) check(side);
  }
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const auto& flow : flows_) out += flow->text() + "\n";
    return out;
  }

 private:
  void open(unsigned side, const Program& program);
  void connect(const Program& program, std::uint32_t index);
  void work() {
    for (unsigned side = 0; side < 2; ++side) {
      post_shared(side);
      poll(side);
    }
    for (auto& flow : flows_) flow->post();
  }
  [[nodiscard]] bool finished() const {
    for (const auto& flow : flows_)
      if (!flow->finished()) return false;
    return true;
  }
  void post_shared(unsigned side);
  void poll(unsigned side);
  void complete(unsigned side, const Completion& c);
  void check(unsigned side);
  [[nodiscard]] FlowRun& flow(unsigned side, std::uint32_t connection) {
    return *flows_[connection * 2 + side];
  }

  EnginePair& pair_;
  Random random_;
  std::array<Shore, 2> shores_;
  std::array<std::unique_ptr<SharedReceives>, 2> shared_;
  std::vector<std::array<Qpn, 2>> qpns_;
  std::vector<std::unique_ptr<FlowRun>> flows_;  ///< by connection, then by side
  std::array<std::set<Qpn>, 2> last_wqe_;        ///< queue pairs with this event
};

}  // namespace mrc::test::rc
