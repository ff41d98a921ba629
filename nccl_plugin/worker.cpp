// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/worker.hpp"

#include <pthread.h>
#include <signal.h>

namespace mrc_nccl {

namespace {
constexpr auto kLookAtPeers = std::chrono::milliseconds(2);
constexpr auto kLookAtDevices = std::chrono::milliseconds(50);
}  // namespace

void Worker::start() {
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "mrc-nccl");
}

void Worker::linger(std::unique_ptr<Endpoint> endpoint) {
  endpoint->channel.finish();
  {
    const std::lock_guard lock(mutex_);
    lingering_.push_back({std::move(endpoint), mrc::monotonic_now() + kLinger});
  }
  wake_.notify_one();
}

void Worker::watch(std::shared_ptr<Nic> nic) {
  const std::lock_guard lock(mutex_);
  watches_.emplace_back(std::move(nic));
}

void Worker::finish() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  lingering_.clear();
  watches_.clear();
}

void Worker::run() noexcept {
  std::unique_lock lock(mutex_);
  while (!stop_ || !lingering_.empty()) {
    for (NicWatch& watch : watches_) watch.report(log_);
    look_at_lingering();
    if (!lingering_.empty())
      wake_.wait_for(lock, kLookAtPeers);
    else if (!stop_)
      wake_.wait_for(lock, kLookAtDevices);
  }
}

void Worker::look_at_lingering() noexcept {
  const mrc::Time now = mrc::monotonic_now();
  lingering_.remove_if([now](Lingering& entry) {
    return now >= entry.until || entry.endpoint->channel.look() == Channel::State::ended;
  });
}

}  // namespace mrc_nccl
