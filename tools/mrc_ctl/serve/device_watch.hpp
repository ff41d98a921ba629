// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "mrc_ctl/devices.hpp"
#include "mrc_ctl/serve/errand.hpp"
#include "mrc_ctl/serve/snapshot.hpp"

namespace mrc::ctl_tool {

/// The state of a device that has greeted, within the limits of DeviceWatch; `now` has what its
/// greeting says. Throws mrc::Error.
[[nodiscard]] DeviceSnapshot read_device(RemoteDevice& device, DeviceSnapshot now);

/// Brings those that count (devices.hpp) to the front, and returns them.
[[nodiscard]] std::span<const DeviceSnapshot> counting(const Options& o,
                                                       std::vector<DeviceSnapshot>& devices);

/// A device that is asked for its state again and again, over one connection and by a thread of its
/// own: one that is stopped delays nobody else. Any thread.
class DeviceWatch {
 public:
  /// Of a device; further ones are not shown, since whatever listens at a socket is not trusted.
  static constexpr std::size_t kMostPaths = 16'384, kMostPeers = 4096, kMostQueuePairs = 65'536;

  /// `o` must outlive it.
  DeviceWatch(const Options& o, control::SocketFile file);

  /// Begins to ask the device, unless the thread still waits for it.
  void ask();
  /// Waits for its answers; but not for those of a device that gave none the last time.
  void wait(Time deadline);

  /// What it has said last. `up`: and in time.
  [[nodiscard]] DeviceSnapshot state() const;
  /// Events since the last call, with their fields as sent.
  [[nodiscard]] std::vector<Json> take_events();
  /// Whether the options select it, as far as is known.
  [[nodiscard]] bool selected() const;
  /// Another user's, who has not let us in.
  [[nodiscard]] bool forbidden() const;
  /// The socket has nobody behind it any more.
  [[nodiscard]] bool gone() const;
  [[nodiscard]] const control::SocketFile& file() const { return file_; }

 private:
  void collect();
  void connect();
  void read_events();
  void fail(const std::string& why);

  const Options& options_;
  const control::SocketFile file_;
  std::unique_ptr<RemoteDevice> device_;  ///< of the errand's thread, as the next two
  bool greeted_ = false;
  std::uint64_t newest_event_ = 0;

  mutable std::mutex mutex_;  ///< of what follows
  DeviceSnapshot state_;
  std::vector<Json> events_;
  bool selected_ = true, forbidden_ = false, gone_ = false;
  bool asked_ = false;

  bool patient_ = true;  ///< of the asking thread
  Errand errand_;
};

}  // namespace mrc::ctl_tool
