// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/verbs/verbs_queues.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

/// The address handles of one peer address: one per path, with a flow label of its own, and traffic
/// class. Devices derive a packet's UDP source port, by which networks tell paths apart, from the
/// flow label or from the queue pair; here both differ.
struct VerbsAddress {
  /// Of [2 * path] data and [2 * path + 1] control packets.
  std::vector<VerbsHandle<ibv_ah>> handles;

  /// The handle for packets of that path.
  [[nodiscard]] ibv_ah* of(std::uint16_t path, bool control) const noexcept {
    return handles[2 * std::size_t{path} + (control ? 1 : 0)].get();
  }
};

/// How packets of a path to that address leave the device.
[[nodiscard]] ibv_ah_attr verbs_address_of(const VerbsDevice& device, const IpAddress& ip,
                                           std::uint16_t path, std::uint8_t traffic_class) noexcept;

/// Makes address handles, in a thread of its own: a device waits for the neighbour's link address,
/// about a second when nobody answers. What failed is tried again every kRetry.
///
/// Any thread, except where stated.
class VerbsAddresses {
 public:
  static constexpr Duration kRetry = std::chrono::seconds(1);  ///< see above

  /// `on_ready` is called by its thread whenever an address has become known.
  VerbsAddresses(std::uint16_t paths, const wire::DscpMap& dscp, std::function<void()> on_ready);
  VerbsAddresses(const VerbsAddresses&) = delete;
  VerbsAddresses& operator=(const VerbsAddresses&) = delete;
  /// Ends the thread.
  ~VerbsAddresses();

  /// Makes handles on that device from now on, for all addresses that were asked for; null: on
  /// none. Waits until the thread no longer uses the former device (up to about a second). Handles
  /// that find() returned must be given up before the device is closed.
  void use(const VerbsQueues* queues);
  /// Keeps handles of `ip` from now on: counts how often it is asked for.
  void want(const IpAddress& ip);
  /// The inverse of want().
  void forget(const IpAddress& ip) noexcept;
  /// The handles, or null while there are none.
  [[nodiscard]] std::shared_ptr<const VerbsAddress> find(const IpAddress& ip) const noexcept;
  /// Waits up to `patience` for the handles of an address, which is wanted meanwhile. Why there are
  /// none, or an empty text.
  [[nodiscard]] std::string wait(const IpAddress& ip, Duration patience);

 private:
  struct Entry {
    unsigned wanted = 0;
    std::shared_ptr<const VerbsAddress> address;
    std::string failure;
    Time retry = Time::min();
  };

  void run();
  [[nodiscard]] std::shared_ptr<const VerbsAddress> make(const VerbsQueues& queues,
                                                         const IpAddress& ip,
                                                         std::string& failure) const;

  const std::uint16_t paths_;
  const wire::DscpMap dscp_;
  const std::function<void()> on_ready_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<IpAddress, Entry> entries_;
  const VerbsQueues* queues_ = nullptr;
  bool busy_ = false;  ///< the thread uses `queues_` without the lock
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mrc::inline v0_1::port
