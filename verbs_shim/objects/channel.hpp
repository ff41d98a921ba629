// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/objects/async_events.hpp"
#include "verbs_shim/objects/context.hpp"

namespace mrc_verbs {

class Cq;

/// A completion channel. Its descriptor is readable while there are events. Any thread.
class Channel : public ibv_comp_channel {
 public:
  /// Throws mrc::Error.
  explicit Channel(Context& owner);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] static Channel& of(ibv_comp_channel* verbs) noexcept {
    return *static_cast<Channel*>(verbs);
  }
  [[nodiscard]] mrc::CompletionChannel& channel() noexcept { return channel_; }

  /// The oldest event: which queue has completions. Sleeps until there is one, unless the program
  /// has set O_NONBLOCK: then null, and errno is EAGAIN. A cancellation point, where no event is
  /// lost.
  Cq* next();
  /// Nobody sleeps in next() any more: null, and errno is EINVAL.
  void end_waits() noexcept { bell_.end_waits(); }
  /// One event of the queue when this descriptor is readable, or at once if it is.
  void arm(int descriptor, Cq& cq);
  /// The queue goes: its events vanish.
  void forget(Cq& cq);

 private:
  /// What makes an event once.
  struct Armed {
    int descriptor;
    Cq* cq;
  };

  [[gnu::noinline]] Cq* take() noexcept;  // see Doorbell::wait()
  Cq* take_armed();

  Context& owner_;
  mrc::CompletionChannel channel_;
  Doorbell bell_;
  std::mutex mutex_;
  std::vector<Armed> armed_;
};

}  // namespace mrc_verbs
