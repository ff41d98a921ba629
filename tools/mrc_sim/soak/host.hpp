// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "mrc/sim/mrc_host.hpp"

namespace mrc::soak {

using namespace sim;

/// A host whose application has a completion queue of the minimum depth, and polls it after each
/// event or with a delay. Counts packets sent to it after its death.
class SoakHost : public MrcHost {
 public:
  using Reader = std::function<void(const Completion&)>;

  SoakHost(Network& network, unsigned number, const HostSettings& settings, std::uint64_t seed,
           Duration poll_delay)
      : MrcHost(network, number, settings, seed), net_(network), poll_delay_(poll_delay) {}

  /// Creates the queue, whose completions go to `reader`.
  void make_queue(std::uint32_t depth, Reader reader) {
    const auto cq = engine().create_cq(depth);
    if (!cq) throw Error(cq.error(), "soak: completion queue");
    queue_ = cq.value();
    reader_ = std::move(reader);
  }
  [[nodiscard]] CqId queue() const noexcept { return queue_; }

  void kill_now() noexcept {
    killed_ = true;
    kill();
  }
  [[nodiscard]] bool killed() const noexcept { return killed_; }
  /// Packets that arrived after its death.
  [[nodiscard]] std::uint64_t swallowed() const noexcept { return swallowed_; }

  void on_packet(LinkId in, PacketId packet) override {
    swallowed_ += killed_;
    MrcHost::on_packet(in, packet);
    look();
  }
  void on_timer(std::uint32_t token) override {
    MrcHost::on_timer(token);
    look();
  }

 private:
  void look() {
    if (killed_ || looking_) return;
    if (poll_delay_ == Duration::zero()) return drain();
    looking_ = true;
    net_.call_at(net_.now() + poll_delay_, [this] {
      looking_ = false;
      drain();
    });
  }
  void drain() {
    if (killed_) return;
    std::array<Completion, 8> done;
    bool any = false;
    while (const std::size_t n = engine().poll_cq(queue_, done)) {
      any = true;
      for (std::size_t i = 0; i < n; ++i) reader_(done[i]);
    }
    if (any) work();
  }

  Network& net_;
  Duration poll_delay_;
  Reader reader_;
  CqId queue_{};
  std::uint64_t swallowed_ = 0;
  bool killed_ = false, looking_ = false;
};

}  // namespace mrc::soak
