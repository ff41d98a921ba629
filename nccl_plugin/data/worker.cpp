// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/data/worker.hpp"

#include <pthread.h>
#include <signal.h>

namespace mrc_nccl {

namespace {
constexpr auto kLookAtPeers = std::chrono::milliseconds(2);
constexpr auto kLookAtDevices = std::chrono::milliseconds(50);
}  // namespace

void Worker::start() {
  thread_ = std::thread([this] { run(); });
}

void Worker::linger(std::unique_ptr<Endpoint> endpoint) {
  const bool owes = endpoint->owes_delivery;
  if (!owes) endpoint->channel.finish();
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    lingering_.push_back(
        {std::move(endpoint), mrc::monotonic_now() + (owes ? kDelivery : kLinger)});
  }
  wake_.notify_one();
}

void Worker::watch(std::shared_ptr<Nic> nic) {
  const std::lock_guard lock(watching_);
  watches_.emplace_back(std::move(nic));
}

void Worker::finish() noexcept {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    thread = std::move(thread_);
  }
  wake_.notify_one();
  if (thread.joinable()) thread.join();
}

void Worker::run() noexcept {
  // Signals are for the program's own threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  pthread_setname_np(pthread_self(), "mrc-nccl");

  for (bool more = true; more;) {
    {
      const std::lock_guard lock(watching_);
      for (NicWatch& watch : watches_) watch.report(log_);
    }
    std::list<Lingering> over;  // ends after the lock: closing devices takes time
    std::unique_lock lock(mutex_);
    take_over(over);
    if (!lingering_.empty())
      wake_.wait_for(lock, kLookAtPeers);
    else if (!stop_)
      wake_.wait_for(lock, kLookAtDevices);
    more = !stop_ || !lingering_.empty();
  }
  const std::lock_guard lock(watching_);
  watches_.clear();
}

/// Those that need not linger any more.
void Worker::take_over(std::list<Lingering>& over) noexcept {
  const mrc::Time now = mrc::monotonic_now();
  for (auto entry = lingering_.begin(); entry != lingering_.end();) {
    const auto next = std::next(entry);
    Endpoint& endpoint = *entry->endpoint;
    if (now >= entry->until || endpoint.channel.look() == Channel::State::ended ||
        (endpoint.owes_delivery && endpoint.delivered()))
      over.splice(over.end(), lingering_, entry);
    entry = next;
  }
}

}  // namespace mrc_nccl
