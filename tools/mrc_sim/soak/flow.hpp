// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc_sim/soak/host.hpp"
#include "mrc_sim/soak/memory.hpp"
#include "mrc_sim/soak/setup.hpp"

namespace mrc::soak {

/// One end of a connection.
struct SoakEnd {
  SoakHost* host = nullptr;
  Qpn qpn{};
  SoakMemory* memory = nullptr;  ///< memory that the peer writes to
  std::uint32_t rkey = 0;
  std::vector<std::uint8_t>* sources = nullptr;  ///< memory that the host sends from
  std::uint32_t lkey = 0;
  std::uint64_t receives_posted = 0, receives_done = 0;
  bool failed = false;

  [[nodiscard]] const engine::QueuePairState& qp() const { return *host->engine().find_qp(qpn); }
  [[nodiscard]] QpStats stats() const { return host->engine().qp_stats(qp()); }
  [[nodiscard]] bool in_error() const { return qp().state == QpState::err; }
};

/// The messages from one end of a connection to the other: posts them and checks all results.
/// Failed checks throw SoakFailure.
class SoakFlow {
 public:
  SoakFlow(std::string name, SoakEnd& from, SoakEnd& to, std::vector<SoakMessage> messages,
           std::uint64_t seed, SoakSabotage& sabotage)
      : name_(std::move(name)),
        from_(from),
        to_(to),
        messages_(std::move(messages)),
        random_(seed),
        sabotage_(sabotage) {
    for (std::uint32_t i = 0; i < messages_.size(); ++i)
      if (messages_[i].consumes()) consumers_.push_back(i);
  }

  /// Posts the next receive at the receiver; that of a SEND has the place of the message.
  void post_receive();
  /// Posts released messages while there is room.
  void post(Time now);
  /// A completion of a message at the sender.
  void on_sent(const Completion& c);
  /// A completion of a receive at the receiver.
  void on_received(const Completion& c);
  /// No further progress is possible. `patient`: retries are unlimited.
  [[nodiscard]] bool over(bool patient) const;
  /// At the end: checks the queue pairs' counters and the contents of memory. `reverse`: the flow
  /// in the other direction, whose responses go in this one; null if there is none.
  void audit(std::uint32_t mtu, const SoakFlow* reverse) const;

  [[nodiscard]] const std::vector<SoakMessage>& messages() const noexcept { return messages_; }
  /// All messages have arrived, and both ends have been notified.
  [[nodiscard]] bool complete() const noexcept {
    return !flushing_ && completed_ == messages_.size() && received_ == consumers_.size();
  }
  [[nodiscard]] std::size_t completed() const noexcept { return completed_; }
  [[nodiscard]] SoakHost& sender() const noexcept { return *from_.host; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Current state, for reports.
  [[nodiscard]] std::string text() const;

  bool closed = false;  ///< over() was true

 private:
  [[nodiscard]] std::string message(std::size_t i) const {
    return name_ + " message " + std::to_string(i);
  }
  /// The side where the message has its place, and the one with the bytes that go there.
  [[nodiscard]] SoakEnd& target_of(const SoakMessage& m) const {
    return m.answered() ? from_ : to_;
  }
  [[nodiscard]] std::uint8_t* source_of(const SoakMessage& m) const {
    return (m.answered() ? to_ : from_).sources->data() + m.source;
  }
  [[nodiscard]] std::vector<Sge> cut(const SoakMessage& m);
  void verify(std::size_t i);
  void finish(std::size_t i);
  void check_success(const Completion& c) const;
  [[nodiscard]] bool sabotaged(SoakSabotage kind);

  std::string name_;
  SoakEnd& from_;
  SoakEnd& to_;
  std::vector<SoakMessage> messages_;
  std::vector<std::uint32_t> consumers_;  // messages that consume a receive
  std::size_t posted_ = 0, completed_ = 0, received_ = 0;
  std::size_t vouched_ = 0;  // messages whose arrival the completion of a receive implies
  bool flushing_ = false;    // an error completion arrived
  Random random_;
  SoakSabotage& sabotage_;
};

}  // namespace mrc::soak
