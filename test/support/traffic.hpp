// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "support/engine_pair.hpp"

/// A workload between two engines that checks everything that can be checked: contents, order,
/// completions, and that nothing is read or written after its message completed.
namespace mrc::test {

struct TrafficOptions {
  unsigned queue_pairs = 1;         ///< each sends in both directions if `both`
  unsigned messages = 100;          ///< per queue pair and direction
  std::uint32_t max_size = 50'000;  ///< bytes; sizes are random, zero included
  double immediates = 0.5;          ///< share of writes with immediate
  double signaled = 0.7;
  bool both = false;
  bool relaxed = true;  ///< memory with relaxed ordering
  QpCapacity capacity{.send = 32, .receive = 64, .send_sges = 3, .inline_bytes = 64};
  QpAttributes attributes{};
  std::uint32_t near_wrap = 1u << 24;  ///< first PSNs are among the last so many
};

class Traffic {
 public:
  Traffic(EnginePair& pair, const TrafficOptions& options, std::uint64_t seed);

  /// Posts and polls until everything is done. False if it is not within `limit`.
  bool run(Duration limit);
  /// One round of posting and polling; for tests that step by themselves.
  void work();
  [[nodiscard]] bool finished() const;
  /// Nothing was written twice, and the accounts are empty.
  void check();
  [[nodiscard]] Qpn qpn(unsigned flow = 0) const { return flows_[flow].qpn; }
  [[nodiscard]] Qpn peer_qpn(unsigned flow = 0) const { return flows_[flow].peer_qpn; }
  [[nodiscard]] std::uint64_t completed() const;

 private:
  struct Message {
    std::uint64_t id;
    std::uint64_t offset;  ///< in both buffers
    std::uint32_t length;
    std::uint32_t immediate;
    bool with_immediate;
    bool signaled;
    bool verified;
  };
  /// One direction of one queue pair.
  struct Flow {
    unsigned side;
    Qpn qpn, peer_qpn;
    CqId send_cq, receive_cq;  ///< receive_cq: on the other side
    std::unique_ptr<std::uint8_t[]> source, target;
    std::unique_ptr<std::uint8_t[]> sent;  ///< what source holds until the application gets it back
    std::size_t filled = 0;  ///< bytes of them, from the start: what the largest messages would
                             ///< need is a multiple of what messages do need
    Random contents{0};
    std::uint32_t lkey, rkey;
    std::vector<Message> all;
    std::vector<std::size_t> wimms;  ///< indices into all
    std::uint64_t offset = 0;
    std::size_t completed = 0, next_received = 0;
    std::size_t barrier = 0;  ///< messages that a received immediate vouches for
  };

  void open();

  /// Gives the first `bytes` of a flow's memory their contents.
  static void fill(Flow& f, std::size_t bytes);

  void post(Flow& f);
  std::vector<Sge> cut(Flow& f, const Message& m);

  void poll(Flow& f);
  /// The request is complete: the application uses the memory for something else.
  static void take_back(Flow& f, const Message& m);
  /// The message is in place. Then its bytes are turned around: a late write would show.
  void verify(Flow& f, Message& m);
  [[nodiscard]] static bool untouched(const Flow& f, const Message& m);

  EnginePair& pair_;
  TrafficOptions options_;
  Random random_;
  std::deque<Flow> flows_;
};

/// Runs traffic until so many messages are complete; false: not within `limit`.
inline bool run_to(EnginePair& pair, Traffic& traffic, std::uint64_t messages, Duration limit) {
  return pair.run_for(limit, [&] {
    traffic.work();
    return traffic.completed() >= messages;
  });
}

}  // namespace mrc::test
