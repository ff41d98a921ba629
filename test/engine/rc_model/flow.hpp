// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/rc_model/model.hpp"
#include "support/engine_pair.hpp"

namespace mrc::test::rc {

/// What requests name beside the buffers of their flow, on the side of the responder.
struct Shore {
  CqId send_cq{}, receive_cq{};
  alignas(8) std::uint64_t counter = 0;  ///< atomics of all flows to this side count here
  std::uint32_t counter_key = 0;
  std::set<std::uint64_t> counted;  ///< what they have found there
  Buffer locked;                    ///< memory of which a right, or the domain, is wrong
  std::uint32_t no_write = 0, no_read = 0, no_atomic = 0, other_domain = 0;  ///< its keys
};

/// Receives that all queue pairs of a side share. A slot is posted again once it was used.
struct SharedReceives {
  SrqId srq{};
  std::vector<std::vector<Slice>> slots;
  Buffer inbox;
  std::uint32_t key = 0;
  std::vector<bool> posted;
};

/// What a completion is about, in its wr_id.
struct WrId {
  bool receive = false, shared = false;
  std::uint32_t connection = 0, index = 0;

  [[nodiscard]] static WrId of(std::uint64_t id) {
    return {(id >> 63) != 0, (id >> 62 & 1) != 0, static_cast<std::uint32_t>(id >> 32 & 0xFFFF),
            static_cast<std::uint32_t>(id)};
  }
  [[nodiscard]] std::uint64_t id() const {
    return std::uint64_t{receive} << 63 | std::uint64_t{shared} << 62 |
           std::uint64_t{connection} << 32 | index;
  }
};

/// Two engines run one flow of a program: posts its requests and receives, and compares what comes
/// of them with the model. Throws Mismatch.
class FlowRun {
 public:
  /// The ends of its connection, by side.
  struct Ends {
    std::array<Qpn, 2> qpn;
    std::array<Shore*, 2> shore;
    std::array<bool, 2> signal_all;
    unsigned reads_in_flight;  ///< READs and atomics, most
  };

  FlowRun(EnginePair& pair, const Flow& flow, unsigned side, std::uint32_t connection,
          const Ends& ends, std::uint64_t seed)
      : pair_(pair),
        flow_(flow),
        side_(side),
        connection_(connection),
        ends_(ends),
        expected_(execute(flow)),
        memory_(flow.before),
        inbox_(flow.inbox, kFill),
        random_(seed) {
    memory_.target.insert(memory_.target.end(), kGuard, kFill);
    const auto order = flow.relaxed ? Access::relaxed_ordering : Access::none;
    source_key_ = register_at(side, memory_.source, memory_.source.size(), Access::none);
    landing_key_ =
        register_at(side, memory_.landing, memory_.landing.size(), Access::local_write | order);
    inbox_key_ = register_at(1 - side, inbox_, inbox_.size(), Access::local_write | order);
    target_key_ =
        register_at(1 - side, memory_.target, flow.before.target.size(),
                    Access::remote_write | Access::remote_read | Access::remote_atomic | order);
  }
  FlowRun(const FlowRun&) = delete;
  FlowRun& operator=(const FlowRun&) = delete;

  /// Posts some of what is left to post.
  void post();
  /// A completion of a request.
  void on_sent(const Completion& c);
  /// A completion of a receive; `inbox` and `room` are its memory.
  void on_received(const Completion& c, Buffer& inbox, const std::vector<Slice>& room);
  void on_received(const Completion& c);
  /// A packet of either side, before the network touches it.
  void on_packet(unsigned from, Bytes bytes);
  /// Nothing more can come.
  [[nodiscard]] bool finished() const;
  /// When nothing more can come: states, memory.
  void check() const;

  [[nodiscard]] const Flow& flow() const { return flow_; }
  [[nodiscard]] bool in_error(unsigned side) const { return qp(side).state == QpState::err; }
  [[nodiscard]] std::string text() const {
    const std::string wrong = flow_.fails ? ", wrong is " + std::to_string(*flow_.fails) : "";
    return name() + ": posted " + std::to_string(posted_) + " of " +
           std::to_string(flow_.ops.size()) + wrong + ", complete " + std::to_string(done_) +
           ", delivered " + std::to_string(delivered_) + " of " +
           std::to_string(expected_.deliveries.size()) + ", receives posted " +
           std::to_string(receives_posted_) + ", flushed " + std::to_string(flushed_) +
           ", requester " + to_string(qp(side_).state) + " (" + to_string(qp(side_).cause) +
           "), responder " + to_string(qp(1 - side_).state) + " (" +
           to_string(qp(1 - side_).cause) + ")";
  }

 private:
  static constexpr std::size_t kGuard = 64;  ///< bytes after the target that nobody may touch

  [[nodiscard]] std::uint32_t register_at(unsigned side, Buffer& bytes, std::size_t length,
                                          Access access) {
    if (bytes.empty()) bytes.resize(8);
    return pair_.register_memory(side, bytes.data(), std::max<std::size_t>(length, 8), access);
  }
  [[nodiscard]] const engine::QueuePairState& qp(unsigned side) const {
    return *pair_[side].find_qp(ends_.qpn[side]);
  }
  [[nodiscard]] std::string name() const {
    return "connection " + std::to_string(connection_) + " from side " + std::to_string(side_);
  }
  [[nodiscard]] std::string name(std::size_t i) const {
    return name() + ", request " + std::to_string(i) + " (" + flow_.ops[i].text() + ")";
  }
  [[nodiscard]] bool signaled(std::size_t i) const {
    return flow_.ops[i].flags.signaled || ends_.signal_all[side_];
  }

  void post_receives();
  [[nodiscard]] Errc post_request(std::size_t index);
  [[nodiscard]] RemoteAddress remote_of(const Op& op);
  void settle_before(std::size_t index);
  void settle(std::size_t index);
  void settle_counter(const Op& op, std::size_t index);
  void look_at_target(std::size_t end);
  void check_states() const;
  void check_target() const;
  void check_landing() const;
  /// The first request that need not have been executed: that which failed, or the first that was
  /// not posted. Without a failed one the queue pair may be in ERR all the same: what was
  /// acknowledged before that succeeds, even if its completion has to wait for a port.
  [[nodiscard]] std::size_t first_open() const { return failed_.value_or(posted_); }

  EnginePair& pair_;
  const Flow& flow_;
  unsigned side_;  ///< of the requester
  std::uint32_t connection_;
  Ends ends_;
  Outcome expected_;
  Memory memory_;
  Buffer inbox_;
  Random random_;
  std::uint32_t source_key_ = 0, landing_key_ = 0, inbox_key_ = 0, target_key_ = 0;
  std::size_t posted_ = 0, done_ = 0;
  std::size_t receives_posted_ = 0, delivered_ = 0, flushed_ = 0;
  std::size_t looked_at_ = 0;          ///< requests whose target was looked at
  std::optional<std::size_t> failed_;  ///< the first request that failed
  std::optional<std::uint64_t> last_counted_;
  std::set<std::uint16_t> asked_, answered_;  ///< READs and atomics, by number
};

}  // namespace mrc::test::rc
