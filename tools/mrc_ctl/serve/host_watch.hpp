// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "mrc_ctl/serve/device_watch.hpp"
#include "mrc_ctl/serve/fabric_map.hpp"
#include "mrc_ctl/serve/kept_events.hpp"
#include "mrc_ctl/serve/slow_paths.hpp"

namespace mrc::ctl_tool {

/// The devices of this host. Nothing is asked of them unless somebody asks for a snapshot. Any
/// thread.
class HostWatch {
 public:
  /// Events that a snapshot has: so many of devices that count, and of others.
  static constexpr std::size_t kEventsOfSnapshot = 100;

  /// `o` must outlive it. Throws json_file::FileError if a description is given and wrong.
  explicit HostWatch(const Options& o);

  /// The state of all devices, at most kFresh old. A device that does not answer delays it by
  /// Options::patience, and only when it is noticed first.
  [[nodiscard]] std::shared_ptr<const HostSnapshot> snapshot();
  /// The events after number `since`, oldest first, of those that are kept.
  [[nodiscard]] Json events_since(std::uint64_t since);
  /// Takes a plane of a device out of use, or lets it be used again. Throws mrc::Error:
  /// Errc::not_found if there is no such device, others with what it says.
  void set_plane(const std::string& device, unsigned plane, bool enabled);

 private:
  static constexpr Duration kFresh = std::chrono::milliseconds(200);
  /// Whether the socket is another user's, and its path: those of others are asked last.
  using Place = std::pair<bool, std::string>;

  void find_sockets();
  [[nodiscard]] HostSnapshot collect();

  const Options& options_;
  std::mutex mutex_;  ///< of all that follows
  std::optional<FabricMap> fabric_;
  SlowPaths slow_;
  std::map<Place, std::unique_ptr<DeviceWatch>> watches_;
  KeptEvents events_;
  std::shared_ptr<const HostSnapshot> newest_;
  Time newest_at_{};
};

}  // namespace mrc::ctl_tool
