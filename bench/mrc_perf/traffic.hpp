// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/containers.hpp"
#include "session.hpp"

/// The two halves of the bandwidth tests, and their flow control.
///
/// Each queue pair has a ring of places. Message k goes from place k mod n of the sender to place k
/// mod n of the receiver. Without --check the content is not read, so places are reused freely.
/// With --check a place is free again when the receiver has verified its content and reported that:
///
/// * The receiver learns of messages from completions: in write_imm from each message's own, in
///   write from a note (an empty write with immediate) after every few messages. The immediate is
///   the number of messages so far, and since a write with immediate is delivered after everything
///   before it (mrc-1.0 §2.8), all of those are in memory.
/// * It responds with credits: the number of messages processed, written into the sender's memory.
///
/// Writes with immediate need posted receives, so write_imm uses credits without --check too.
namespace mrc::perf {

/// Largest piece of work between two rounds of progress, in bytes.
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
  /// After stop(): continues for `messages` more on each queue pair.
  void resume(std::uint64_t messages) noexcept;
  /// Posts as much as possible. Returns true if it posted anything. Throws Failure.
  bool step();
  /// Posts no more messages, except what completes those in flight.
  void stop();
  /// Whether everything posted has completed.
  [[nodiscard]] bool drained() const noexcept;
  void on_completion(const RequestId& id);

  /// What posting waits for, as text; empty if nothing.
  [[nodiscard]] std::string waiting_for();
  [[nodiscard]] const Totals& completed() const noexcept { return completed_; }
  [[nodiscard]] std::uint64_t posted_messages() const noexcept { return posted_; }

 private:
  struct Queue {
    std::uint64_t limit = 0;  ///< number of the first message that is not to be sent
    std::uint64_t posted = 0, completed = 0, credited = 0, noted = 0;
    std::uint64_t filled = 0;  ///< bytes of the next message that already hold their pattern
    std::uint32_t unsignaled = 0;
    std::uint32_t notes = 0;  ///< notes not completed
  };

  [[nodiscard]] bool has_room(std::uint32_t q, Queue& queue, std::uint64_t more) noexcept;
  [[nodiscard]] bool fill(std::uint32_t q, Queue& queue, std::uint64_t number) noexcept;
  bool post_some(std::uint32_t q, Queue& queue);
  bool post_note(std::uint32_t q, Queue& queue);
  bool close(std::uint32_t q, Queue& queue);
  /// Throws Failure unless ok or queue_full.
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
  std::optional<TokenBucket> pace_;  ///< of --rate, by messages
  std::uint32_t first_ = 0;          ///< queue pair that the next step begins with
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
  /// Verifies some of the arrived messages and sends due credits. Returns true if it did anything.
  bool step();

  /// Messages processed since start(); unknown (0) in write without --check.
  [[nodiscard]] const Totals& received() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t checked_bytes() const noexcept { return checked_bytes_; }
  [[nodiscard]] std::uint64_t errors() const noexcept { return errors_; }
  /// The first error as text; empty if there was none.
  [[nodiscard]] const std::string& first_error() const noexcept { return first_error_; }

 private:
  struct Queue {
    std::uint64_t arrived = 0, verified = 0, credited = 0;
    std::uint64_t offset = 0;  ///< bytes of the next message already verified
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
  /// Number of rounds with progress.
  [[nodiscard]] std::uint64_t moves() const noexcept { return moves_; }

  Sender sender;
  Receiver receiver;

 private:
  void take(std::span<const Completion> completions);

  Session& session_;
  std::array<Completion, 64> completions_;
  unsigned idle_rounds_ = 0;
  std::uint64_t moves_ = 0;
};

}  // namespace mrc::perf
