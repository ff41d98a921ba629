// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "session.hpp"

/// The bandwidth tests' two halves, and how they keep from overrunning each other.
///
/// Each queue pair has a ring of places. Message k goes from place k mod n of the sender to place
/// k mod n of the receiver. Without --check nobody looks, so places are used again at will. With
/// it a place is free again when the receiver has verified what is in it and has said so:
///
/// * The receiver learns of messages from completions: in write_imm from each message's own, in
///   write from a note (an empty write with immediate) after every few messages. The immediate is
///   the number of messages so far, and since a write with immediate is delivered after everything
///   before it (mrc-1.0 §2.8), all of those are in memory.
/// * It answers with credits: the number of messages dealt with, written into the sender's memory.
///
/// Writes with immediate need posted receives, so write_imm uses credits without --check too.
namespace mrc::perf {

/// Longest piece of work between two rounds of progress, in bytes.
inline constexpr std::uint64_t kSlice = 256 << 10;

/// Totals of one direction since the last start().
struct Totals {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

/// Layout of the rings for one message size.
struct Ring {
  std::uint64_t size = 0;
  std::size_t stride = 0;
  std::uint32_t places = 1;
  std::uint32_t batch = 1;  ///< messages per note and per credit

  Ring() = default;
  Ring(const Session& session, std::uint64_t message_size);
  [[nodiscard]] std::size_t offset(std::uint64_t number) const noexcept {
    return static_cast<std::size_t>(number % places) * stride;
  }
};

/// Posts messages on all queue pairs in turn. One thread.
class Sender {
 public:
  explicit Sender(Session& session);

  /// Begins a run; everything of the last one must have been delivered and verified.
  void start(std::uint64_t size);
  /// After stop(): goes on, for `messages` more on each queue pair.
  void resume(std::uint64_t messages) noexcept;
  /// Posts what there is room for. Returns true if it did anything. Throws Failure.
  bool step();
  /// Posts no more messages, but what completes those that are under way.
  void stop();
  /// True when everything posted has completed.
  [[nodiscard]] bool drained() const noexcept;
  void on_completion(const RequestId& id);

  /// What has to come before more can be posted, in words; empty if nothing has.
  [[nodiscard]] std::string waiting_for();
  [[nodiscard]] const Totals& completed() const noexcept { return completed_; }
  [[nodiscard]] std::uint64_t posted_messages() const noexcept { return posted_; }

 private:
  struct Queue {
    std::uint64_t limit = 0;  ///< number of the first message that is not to be sent
    std::uint64_t posted = 0, completed = 0, credited = 0, noted = 0;
    std::uint64_t filled = 0;  ///< bytes of the next message to fill that hold their pattern
    std::uint32_t unsignaled = 0;
    std::uint32_t notes = 0;  ///< notes not completed
  };

  [[nodiscard]] bool has_room(std::uint32_t q, Queue& queue, std::uint64_t more) noexcept;
  [[nodiscard]] bool fill(std::uint32_t q, Queue& queue, std::uint64_t number) noexcept;
  bool post_some(std::uint32_t q, Queue& queue);
  bool post_note(std::uint32_t q, Queue& queue);
  bool close(std::uint32_t q, Queue& queue);
  /// Throws Failure unless ok or merely full.
  void check(Errc error, std::uint32_t q) const;

  Session& session_;
  Parameters p_;
  bool credits_;
  bool notes_;
  Ring ring_;
  std::uint32_t window_ = 0;         ///< messages not completed, per queue pair
  std::uint32_t credit_window_ = 0;  ///< messages not credited, per queue pair
  std::uint32_t signal_every_ = 1;
  std::uint64_t posted_ = 0;
  bool stopped_ = true;
  Totals completed_;
  std::vector<Queue> queues_;
};

/// Takes completions of arrived messages, verifies and credits them. One thread.
class Receiver {
 public:
  explicit Receiver(Session& session);

  void start(std::uint64_t size);
  void on_completion(const Completion& completion, std::uint32_t q);
  void on_credit_sent() noexcept { credit_under_way_ = false; }
  /// Verifies some of what has arrived and sends due credits. Returns true if it did anything.
  bool step();

  /// Messages dealt with since start(); unknown (0) in write without --check.
  [[nodiscard]] const Totals& received() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t checked_bytes() const noexcept { return checked_bytes_; }
  [[nodiscard]] std::uint64_t errors() const noexcept { return errors_; }
  /// The first error in words; empty if there was none.
  [[nodiscard]] const std::string& first_error() const noexcept { return first_error_; }

 private:
  struct Queue {
    std::uint64_t arrived = 0, verified = 0, credited = 0;
    std::uint64_t offset = 0;  ///< bytes of the next message that are verified already
  };

  bool verify_some(std::uint32_t q, Queue& queue);
  void credit();
  void add_error(std::uint64_t bytes, std::string text);

  Session& session_;
  Parameters p_;
  bool active_;
  Ring ring_;
  Totals received_;
  std::uint64_t checked_bytes_ = 0, errors_ = 0;
  std::string first_error_;
  bool credit_due_ = false, credit_under_way_ = false;
  std::vector<Queue> queues_;
};

/// Both halves and the completion queue that they share. One thread.
class Traffic {
 public:
  explicit Traffic(Session& session);

  /// One round: completions, then both halves. Throws Failure when a queue pair has failed.
  void step();
  /// Rounds that did anything.
  [[nodiscard]] std::uint64_t moves() const noexcept { return moves_; }

  Sender sender;
  Receiver receiver;

 private:
  bool poll();

  Session& session_;
  std::array<Completion, 64> completions_;
  unsigned idle_rounds_ = 0;
  std::uint64_t moves_ = 0;
};

}  // namespace mrc::perf
