// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/device/device_port.hpp"
#include "mrc/device/fabric_settings.hpp"
#include "mrc/device/probe_responder.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/exchange/connection_info.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/port/fault_schedule.hpp"
#include "mrc/port/socket.hpp"
#include "mrc/stats.hpp"

namespace mrc::inline v0_1::detail {

/// Bytes that a port adds to the payload at most: headers, pad, iCRC.
inline constexpr std::uint32_t kPacketOverhead = 12 + 4 + 4 + 16 + 4 + 3 + 4;

/// A mutex that tells whether someone waits for it, so that a thread that takes it again and again
/// can let others in between.
class CourteousMutex {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  void unlock() { mutex_.unlock(); }
  /// To be called without the lock: lets those who wait go first.
  void let_others_in() const noexcept {
    while (waiting_.load(std::memory_order_relaxed) > 0) std::this_thread::yield();
  }

 private:
  std::mutex mutex_;
  std::atomic<int> waiting_{0};
};

/// What is behind a Device and its handles: ports, one engine, and who makes them progress.
///
/// Progress. A round is: receive from every port, timers, transmit. Whoever polls makes it: the
/// application's polling thread (which transmits first, see advance_out_first()), or a thread that
/// sleeps in CompletionQueue::wait(). While nobody does, the helper thread takes over, and
/// otherwise it stays away: it neither watches the sockets nor takes the lock, so a polling
/// application never meets it.
///
/// Thread contract: any thread. One mutex guards everything; it is taken once per call, not per
/// packet.
class DeviceCore {
 public:
  explicit DeviceCore(const Config& config);
  ~DeviceCore();
  DeviceCore(const DeviceCore&) = delete;
  DeviceCore& operator=(const DeviceCore&) = delete;

  [[nodiscard]] const Config& config() const noexcept { return config_; }

  /// Runs f(engine, now) under the lock.
  template <class F>
  auto with_engine(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(*engine_, monotonic_now());
  }
  /// The same for calls that may give something to send, which is sent at once if nothing else is
  /// under way, else with the next round; or that may complete requests.
  template <class F>
  auto with_doorbell(F&& f) noexcept;

  // device/core_progress.hpp
  /// One round by a thread that polls. True if anything moved.
  bool poll() noexcept;
  std::size_t poll_cq(CqId cq, std::span<Completion> out) noexcept;
  std::size_t wait_cq(CqId cq, int fd, std::span<Completion> out, Duration timeout) noexcept;
  Errc arm_cq(CqId cq) noexcept;

  // device/core_connect.hpp
  [[nodiscard]] ConnectionInfo local_info(Qpn qpn);
  void connect(Qpn qpn, const ConnectionInfo& peer);
  Errc close_qp(Qpn qpn) noexcept;
  Errc reset_qp(Qpn qpn) noexcept;
  [[nodiscard]] std::string error_text(Qpn qpn);

  // device/core_objects.hpp
  [[nodiscard]] QpAttributes default_attributes() const noexcept;
  void add_cq_fd(CqId cq, int fd);
  Errc close_cq(CqId cq) noexcept;
  /// `source` goes before the words of an error, if the text is not an argument of the caller's.
  void set_faults(std::string_view text, const std::string& source = {});
  [[nodiscard]] std::vector<std::string> plane_names();
  [[nodiscard]] unsigned plane_count() const noexcept {
    return static_cast<unsigned>(ports_.size());
  }
  [[nodiscard]] DeviceStats stats();
  [[nodiscard]] std::vector<PathReport> paths(Qpn qpn);
  [[nodiscard]] PdId default_pd() const noexcept { return default_pd_; }
  void count_object(std::uint32_t DeviceStats::*kind, int change) noexcept;

 private:
  /// A remote device that queue pairs of this one are connected to.
  struct KnownPeer {
    PeerId id{};
    std::string name;  ///< its addresses, for messages
  };
  /// A thread asleep in wait_cq(), in a list through the stacks of those threads.
  struct Sleeper {
    int fd;      ///< eventfd that ends its sleep
    Time until;  ///< when it wakes by itself
    Sleeper* next;
  };

  // device/core_open.hpp
  void open_udp_ports();
  void adopt(DevicePort port);
  void set_shared(port::PortOptions& options, Plane plane) const;
  void open_engine();
  void start_helper();
  void log(LogLevel level, const std::string& line) const;

  // device/core_progress.hpp
  bool advance(Time now) noexcept;
  bool advance_out_first(Time now) noexcept;
  void leave(Time now, bool work) noexcept;
  bool take_in(Time now) noexcept;
  [[nodiscard]] bool usable(unsigned plane) noexcept;
  /// Something is left to send, or a port that was busy is to be tried again.
  [[nodiscard]] bool wants_to_send(Time now) const noexcept { return work_left_ || now >= retry_; }
  bool send(Time now) noexcept;
  bool receive(Time now) noexcept;
  bool transmit(Time now) noexcept;
  void transmit(Time now, Plane plane, std::span<const wire::TxGroup> groups) noexcept;
  void hand_out_events() noexcept;
  void apply_faults(Time now) noexcept;
  void check_faults(const port::FaultSchedule& schedule, const std::string& source) const;
  [[nodiscard]] Time next_deadline() const noexcept;
  void sleep(int fd, Time until) noexcept;
  void sleep_in_list(int fd, Time until, std::unique_lock<CourteousMutex>& lock) noexcept;
  void note_use(Time now) noexcept {
    last_use_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  [[nodiscard]] bool in_use(Time now) const noexcept;
  [[nodiscard]] Duration nap(Time now, unsigned before) noexcept;
  void wake_helper() noexcept;
  void wake_for(Time deadline) noexcept;
  void run_helper() noexcept;

  // device/core_fabric.hpp
  void open_fabric_ports();
  void answer_unconnected_probes(Time now, DevicePort& port) noexcept;
  [[nodiscard]] std::vector<fabric::Path> fabric_paths(Plane plane,
                                                       const port::PeerAddress& peer) const;

  // device/core_connect.hpp
  [[nodiscard]] PeerId find_or_add_peer(const ConnectionInfo& info);
  [[nodiscard]] PlanePaths paths_to(Plane plane, const port::PeerAddress& peer) const;
  void enter_peer(PeerId id, Plane plane, const port::PeerAddress& peer,
                  std::vector<port::PacketRoute> routes);
  void forget_unused_peer(PeerId peer) noexcept;

  const std::optional<fabric::Description> fabric_;  ///< option fabric
  const fabric::Host* self_ = nullptr;               ///< this host, in fabric_
  const Config config_;                              ///< with what fabric_ has to say
  std::uint64_t guid_ = 0;
  std::uint8_t slot_ = 0;
  port::Socket slot_claim_;  ///< of packet ports
  std::uint32_t mtu_ = 0;    ///< of the configuration, or what the ports can carry
  std::vector<std::unique_ptr<DevicePort>> ports_;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<ProbeResponder> probe_responder_;       ///< with fabric_
  std::unordered_map<std::uint64_t, KnownPeer> peers_;  ///< by device_guid
  PdId default_pd_{};
  std::vector<int> cq_fds_;  ///< eventfd of each completion queue
  DeviceStats objects_;      ///< only its counts of objects and of unconnected probes
  wire::TxBurst tx_;
  port::RxBurst rx_;
  std::vector<std::vector<wire::TxGroup>> by_plane_;  ///< of the burst that is being sent
  PlaneMask planes_up_ = 0;
  PlaneMask too_small_ = 0;  ///< planes of which it was said that their MTU is
  PlaneMask busy_ = 0;       ///< ports that took no more, until retry_
  Time retry_ = kNever;
  port::FaultSchedule faults_;
  Time faults_start_{};
  Time fault_change_ = kNever;
  std::size_t few_packets_ = 16;  ///< in a burst: a program is taken to wait for each
  bool work_left_ = false;        ///< the last round left something to send
  bool armed_ = false;            ///< a queue was armed, and not polled since
  Sleeper* sleepers_ = nullptr;

  CourteousMutex mutex_;
  port::Socket wake_up_;                               ///< eventfd that ends the helper's sleep
  std::atomic<std::int64_t> last_use_{INT64_MIN / 2};  ///< when the application polled last
  std::atomic<int> waiters_{0};                        ///< application threads in wait_cq()
  std::atomic<std::int64_t> helper_sleeps_until_{0};
  std::atomic<std::uint64_t> helper_rounds_{0};
  std::atomic<bool> helper_parked_{false};
  std::atomic<bool> stop_{false};
  std::thread helper_;
};

}  // namespace mrc::inline v0_1::detail

#include "mrc/device/core_connect.hpp"
#include "mrc/device/core_fabric.hpp"
#include "mrc/device/core_objects.hpp"
#include "mrc/device/core_open.hpp"
#include "mrc/device/core_progress.hpp"
