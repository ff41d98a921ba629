// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/types.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/verbs/uc.hpp"
#include "mrc/verbs/verbs_port.hpp"

namespace mrc::inline v0_1::detail {

/// Planes on RDMA devices: one per element of option verbs. Peers are reached by what their ports
/// say in ConnectionInfo::port_data. Throws mrc::Error if the option can't be read.
[[nodiscard]] std::unique_ptr<PlaneKind> make_verbs_kind(const Config& config);

}  // namespace mrc::inline v0_1::detail

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

/// The slow side of a verbs port: tells peer ports how this one is reached, over a UDP socket,
/// makes and replaces the queue pairs of UC paths, and asks for peers' keys. Messages can get lost:
/// both sides repeat their state until it is echoed.
///
/// In the thread of VerbsKeeper, which alone makes and destroys what it uses of the device. It
/// takes the port's lock for short times, and never while it calls the device.
class VerbsControl {
 public:
  static constexpr Duration kFirstPause = std::chrono::milliseconds(5);   ///< between repetitions
  static constexpr Duration kLastPause = std::chrono::milliseconds(500);  ///< it doubles up to this
  /// A number of a receiving queue pair is not used again for this long: what is still under way to
  /// the former one must not be taken for the new one's.
  static constexpr Duration kRetired = std::chrono::seconds(5);
  static constexpr int kMaxRead = 256;  ///< messages that are read before anything else is done
  /// Queue pairs that are made to find one with a number of its own.
  static constexpr std::size_t kMaxSpares = 256;

  /// `socket`: where peers send to. Both outlive it.
  VerbsControl(VerbsPort& port, const Socket& socket) : port_(port), socket_(socket) {}

  /// Reads messages, and does what is due. When to call it again, at the latest.
  [[nodiscard]] Time work(Time now) noexcept;
  /// Drops the messages that have come: the port is disabled. They are sent again later.
  void discard() const noexcept;
  /// The device goes away: destroys everything that is on it, and appends the copies that it might
  /// still have read.
  void leave_device(std::vector<wire::CopyId>& copies) noexcept;

 private:
  void read(Time now);
  void take(const VerbsMessage& message, Time now);
  void take_state(VerbsSession& session, const VerbsState& state, Time now);
  void answer_query(VerbsSession& session, std::uint32_t key);
  void take_answer(VerbsSession& session, const VerbsMessage& message);
  void close_unused();
  void serve(VerbsSession& session, Time now);
  void drop_placement(VerbsSession& session, std::vector<wire::CopyId>& copies) noexcept;
  void destroy(std::unique_ptr<VerbsPlacement> placement) noexcept;
  void make_placement(VerbsSession& session);
  void make_receiver(VerbsSession& session, std::uint16_t path);
  [[nodiscard]] VerbsHandle<ibv_qp> new_receiver(const VerbsSession& session, std::uint16_t path);
  /// Destroys a receiving queue pair.
  void retire(VerbsHandle<ibv_qp> qp) noexcept;
  void make_sender(VerbsSession& session, std::uint16_t path);
  void reset_paths(VerbsSession& session, Time now);
  void refuse(VerbsSession& session);
  void put_off_placement(VerbsSession& session, const std::string& why, Time now);
  [[nodiscard]] ibv_ah_attr address_of(const VerbsSession& session,
                                       std::uint16_t path) const noexcept;
  void send_state(VerbsSession& session, Time now);
  void send_queries(VerbsSession& session, Time now);
  void send(const VerbsSession& session, VerbsMessage message) const;
  [[nodiscard]] static Time next_of(const VerbsSession& session) noexcept;

  VerbsPort& port_;
  const Socket& socket_;
  std::unordered_map<std::uint32_t, Time> retired_;  ///< numbers of queue pairs: since when
};

}  // namespace mrc::inline v0_1::port
