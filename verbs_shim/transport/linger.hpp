// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "mrc/mrc.hpp"
#include "verbs_shim/objects/context.hpp"

namespace mrc_verbs {

/// What outlives the program's objects for a short time. A program that has received its last
/// message destroys its queue pair, or ends, and the acknowledgement may have been lost: its peer
/// would repeat the message to nobody, and report an error. So queue pairs that have nothing else
/// to do answer for a while after they were destroyed. All functions: any thread.
class Linger {
 public:
  /// How long, and how much longer a program takes to end because of it, at most.
  static constexpr std::chrono::milliseconds kTime{200};

  /// A queue pair, after what it uses: members are destroyed from the last to the first.
  struct Parts {
    std::shared_ptr<Host> host;
    std::shared_ptr<PdHandle> pd;
    std::shared_ptr<mrc::CompletionQueue> send, receive;
    std::shared_ptr<mrc::SharedReceiveQueue> srq;  ///< or null
    std::unique_ptr<mrc::QueuePair> qp;
  };
  /// The program has destroyed a queue pair: from now on it accepts nothing new. `idle`: it may
  /// linger; if it has received nothing, nobody waits for it, and it does not. Acknowledgements
  /// that are due leave in any case.
  static void retire(Parts parts, bool idle);
  /// Ends all that linger, now: what they use is needed.
  static void end();
  /// Ends those whose time is over.
  static void end_old();
  /// The program has closed the device: those that linger have their time, and the device ends with
  /// them. Until the program closes it, nobody minds if they stay longer.
  static void finish();
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
