// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "mrc/mrc.hpp"
#include "verbs_shim/context.hpp"

namespace mrc_verbs {

/// What outlives the program's objects for a short time. A program that has received its last
/// message destroys its queue pair, or ends, and the acknowledgement may have been lost: its peer
/// would repeat the message to nobody, and report an error. So queue pairs that have nothing else
/// to do answer for a while after they were destroyed. All functions: any thread.
class Linger {
 public:
  /// How long, and how much longer a program takes to end because of it, at most.
  static constexpr std::chrono::milliseconds kTime{200};

  /// The program has destroyed a queue pair. `idle`: it may linger; it has received something, else
  /// nobody waits for it. If not, acknowledgements that are due leave before it goes.
  static void retire(std::shared_ptr<Host> host, std::unique_ptr<mrc::QueuePair> qp, bool idle,
                     std::shared_ptr<mrc::CompletionQueue> send,
                     std::shared_ptr<mrc::CompletionQueue> receive, std::shared_ptr<PdHandle> pd);
  /// Ends all that linger, now: what they use is needed.
  static void end();
  /// Ends those whose time is over.
  static void end_old();
  /// When the program ends, those that linger have their time.
  static void at_exit();

  /// What `make` returns; if there is no room for it, because of those that linger, they end first.
  template <class Make>
  static auto with_room(Make&& make) {
    end_old();
    try {
      return make();
    } catch (const mrc::Error& error) {
      if (error.code() != mrc::Errc::no_resources) throw;
    }
    end();
    return make();
  }
};

}  // namespace mrc_verbs
