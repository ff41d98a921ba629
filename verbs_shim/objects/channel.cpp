// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/channel.hpp"

#include <poll.h>
#include <pthread.h>

#include "mrc/core/unique_fd.hpp"
#include "verbs_shim/objects/completion_queue.hpp"

namespace mrc_verbs {

Channel::Channel(Context& owner)
    : ibv_comp_channel{},
      owner_(owner),
      channel_(owner.device().create_channel()),
      bell_(channel_.fd()) {
  context = &owner.context;
  fd = bell_.fd();
}

Cq* Channel::next() {
  ::pthread_testcancel();  // also if there are events
  for (;;) {
    if (Cq* cq = take(); cq != nullptr) return cq;
    if (!bell_.wait(-1)) return nullptr;
  }
}

/// Counts the event while the queue can't vanish: who destroys it waits until it is acknowledged.
Cq* Channel::take() noexcept {
  const mrc::Uncancelled taking;
  Cq* found = nullptr;
  const auto give = [&](Cq& cq) {
    ::pthread_mutex_lock(&cq.mutex);
    ++cq.comp_events_given;
    ::pthread_mutex_unlock(&cq.mutex);
    found = &cq;
  };
  if (const auto id = channel_.poll()) {
    owner_.host().with_cq(*id, [&](Cq& cq) {
      cq.queue()->acknowledge();  // the program's acknowledgements are counted in Cq
      give(cq);
    });
    return found;
  }
  const std::lock_guard lock(mutex_);
  if (Cq* cq = take_armed(); cq != nullptr) give(*cq);
  return found;
}

/// Under the lock.
Cq* Channel::take_armed() {
  for (auto at = armed_.begin(); at != armed_.end(); ++at) {
    pollfd ready{at->descriptor, POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) continue;
    Cq* cq = at->cq;
    bell_.forget(at->descriptor);
    armed_.erase(at);
    return cq;
  }
  return nullptr;
}

void Channel::arm(int descriptor, Cq& cq) {
  const std::lock_guard lock(mutex_);
  for (const Armed& armed : armed_)
    if (armed.cq == &cq) return;
  bell_.watch(descriptor);
  armed_.push_back({descriptor, &cq});
}

void Channel::forget(Cq& cq) {
  const std::lock_guard lock(mutex_);
  std::erase_if(armed_, [&](const Armed& armed) {
    if (armed.cq != &cq) return false;
    bell_.forget(armed.descriptor);
    return true;
  });
}

}  // namespace mrc_verbs
