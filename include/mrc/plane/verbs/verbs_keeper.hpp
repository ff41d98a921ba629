// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "mrc/core/types.hpp"
#include "mrc/plane/verbs/verbs_uc.hpp"

namespace mrc::inline v0_1::port {

class VerbsControl;
class VerbsPort;

/// The thread of a verbs port that watches its device and keeps it open. It takes the port down
/// when a queue pair fails, the device's port or address is gone, or the device is no longer
/// listed, and brings it up again when all is there: in place, or, if the device or the index of
/// its address is another one, with new queue pairs. A device that is removed is closed, without
/// which the removal would wait for this process.
///
/// What devices tell by events is also looked at now and then: some tell nothing (Soft-RoCE says
/// nothing when it is removed). VerbsPort::look() makes it look at once.
class VerbsKeeper {
 public:
  static constexpr Duration kLookUp = std::chrono::milliseconds(100);    ///< at port and address
  static constexpr Duration kLookList = std::chrono::milliseconds(500);  ///< at the list of devices
  static constexpr Duration kLookDown = std::chrono::milliseconds(50);   ///< while the port is down

  /// The port, which outlives the thread, is up.
  explicit VerbsKeeper(VerbsPort& port);
  VerbsKeeper(const VerbsKeeper&) = delete;
  VerbsKeeper& operator=(const VerbsKeeper&) = delete;
  /// Ends the thread.
  ~VerbsKeeper();

 private:
  void run();
  [[nodiscard]] bool await(Time until) noexcept;
  void drain_events() noexcept;
  [[nodiscard]] bool healthy(Time now) noexcept;
  void take_down() noexcept;
  void bring_up() noexcept;
  void close_parked() noexcept;
  void reopen() noexcept;

  VerbsPort& port_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<VerbsControl> control_;
  VerbsParts parked_;  ///< stopped queues of a port that is down
  Time next_list_ = Time::min();
  std::thread thread_;
};

}  // namespace mrc::inline v0_1::port
