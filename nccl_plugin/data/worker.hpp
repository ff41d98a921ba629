// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "nccl_plugin/data/endpoint.hpp"
#include "nccl_plugin/log.hpp"
#include "nccl_plugin/setup/nic_watch.hpp"

namespace mrc_nccl {

/// A thread for what must go on while NCCL does not call: queue pairs whose connection was closed
/// answer their peers for a while, so that these learn that all has come; and what happens to
/// planes and paths gets into the log.
///
/// Any thread.
class Worker {
 public:
  /// How long a closed queue pair answers at most.
  static constexpr mrc::Duration kLinger = std::chrono::milliseconds(200);
  /// How long one that is closed sends again, at most, what NCCL counts as done: several of the
  /// longest pauses between two attempts.
  static constexpr mrc::Duration kDelivery = std::chrono::seconds(5);

  explicit Worker(const Log& log) : log_(log) {}
  /// As finish().
  ~Worker() { finish(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Starts the thread. Throws std::system_error.
  void start();
  /// Keeps the endpoint until the peer has closed its side, kLinger at most. One that owes delivery
  /// is kept until that is done, kDelivery at most, and tells the peer only then that it ends.
  void linger(std::unique_ptr<Endpoint> endpoint);
  /// Reports what happens to this device from now on.
  void watch(std::shared_ptr<Nic> nic);
  /// Waits for lingering queue pairs, as long as they may, and ends the thread. What comes later
  /// does not linger.
  void finish() noexcept;

 private:
  struct Lingering {
    std::unique_ptr<Endpoint> endpoint;
    mrc::Time until;
  };

  void run() noexcept;
  void take_over(std::list<Lingering>& over) noexcept;

  const Log& log_;
  std::mutex watching_;  // of the next; held while lines are written
  std::vector<NicWatch> watches_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::list<Lingering> lingering_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mrc_nccl
