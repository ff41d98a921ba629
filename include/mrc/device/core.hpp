// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/config/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/device/connector.hpp"
#include "mrc/device/courteous_mutex.hpp"
#include "mrc/device/cq_events.hpp"
#include "mrc/device/event_queue.hpp"
#include "mrc/device/faults.hpp"
#include "mrc/device/log.hpp"
#include "mrc/device/peers.hpp"
#include "mrc/device/planes.hpp"
#include "mrc/device/progress.hpp"
#include "mrc/device/qp_change.hpp"
#include "mrc/device/rounds.hpp"
#include "mrc/device/stats.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/exchange/connection_info.hpp"

namespace mrc::inline v0_1::detail {

/// What is behind a Device and its handles. Owns configuration, planes, engine and lock, and the
/// parts that work on them: Rounds (one round of progress), Progress (which thread makes it),
/// Peers, Faults, CqEvents. Its methods lock and pass on.
///
/// Thread contract: any thread. One mutex guards everything; it is taken once per call, not per
/// packet.
class DeviceCore {
 public:
  /// Throws mrc::Error.
  explicit DeviceCore(const Config& config);
  ~DeviceCore();
  DeviceCore(const DeviceCore&) = delete;
  DeviceCore& operator=(const DeviceCore&) = delete;

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] Progress& progress() noexcept { return progress_; }

  /// Runs f(engine, now) under the lock.
  template <class F>
  auto with_engine(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(engine_, monotonic_now());
  }
  /// As with_engine(), for calls that may queue packets or complete requests. Packets leave at once
  /// if the engine was idle, else with the next round.
  template <class F>
  auto with_doorbell(F&& f) noexcept {
    const std::lock_guard lock(mutex_);
    const Time now = monotonic_now();
    const bool idle = engine_.quiet();
    const auto result = f(engine_, now);
    rounds_.after_post(now, idle);
    progress_.deadline_changed();
    return result;
  }

  // --- Queue pairs (impl/connect.ipp)
  [[nodiscard]] QpAttributes default_attributes() const noexcept;
  [[nodiscard]] ConnectionInfo local_info(Qpn qpn);
  void connect(Qpn qpn, const ConnectionInfo& peer);
  void modify(Qpn qpn, const QpChange& change);
  [[nodiscard]] QpInfo query(Qpn qpn);
  Errc close_qp(Qpn qpn) noexcept;
  Errc reset_qp(Qpn qpn) noexcept;
  [[nodiscard]] std::string error_text(Qpn qpn);

  // --- Memory regions
  /// Registers with the engine and all ports. Throws mrc::Error.
  [[nodiscard]] std::uint32_t register_memory(void* address, std::size_t length, Access access,
                                              PdId pd);
  /// As Engine::deregister_memory(), and returns when no port reads the memory any more.
  Errc deregister_memory(std::uint32_t key, bool force) noexcept;

  // --- Completion queues
  /// Opens a completion queue's event descriptor. Throws mrc::Error.
  [[nodiscard]] static UniqueFd open_cq_fd();
  void add_cq_fd(CqId cq, UniqueFd fd, std::shared_ptr<ChannelEvents> channel);
  [[nodiscard]] std::shared_ptr<ChannelEvents> create_channel();
  /// The next event of a channel, for the application. False if there is none.
  bool poll_channel(ChannelEvents& channel, CqId& cq) noexcept;
  void acknowledge(CqId cq, unsigned events) noexcept;
  Errc close_cq(CqId cq) noexcept;

  // --- Events
  [[nodiscard]] int event_fd() const noexcept { return events_.fd(); }
  bool poll_event(DeviceEvent& event) noexcept {
    const std::lock_guard lock(mutex_);
    return events_.poll(event);
  }

  [[nodiscard]] port::IpAddress gid() const noexcept { return planes_.ports[0]->address().ip; }
  [[nodiscard]] PdId default_pd() const noexcept { return default_pd_; }
  /// Adds to a count of objects in the statistics.
  void count_object(std::uint32_t DeviceStats::*kind, int change) noexcept;

  /// `source` is the setting that the text comes from, put in front of error texts; empty for an
  /// argument of the caller's.
  void set_faults(std::string_view text, const std::string& source = {});
  [[nodiscard]] unsigned plane_count() const noexcept { return planes_.count(); }
  [[nodiscard]] std::vector<std::string> plane_names() const;
  [[nodiscard]] DeviceStats stats();
  [[nodiscard]] std::vector<PathReport> paths(Qpn qpn);

 private:
  [[nodiscard]] OpenedPlanes open_planes() const;
  [[nodiscard]] engine::EngineOptions engine_options() const;
  [[nodiscard]] ResolutionOptions resolution_options() const;
  // impl/connect.ipp
  [[nodiscard]] ConnectionInfo info_of(Qpn qpn) const;
  [[nodiscard]] const engine::QueuePairState& in_state(Qpn qpn, QpState state,
                                                       const std::string& doing) const;
  void check_peer(const ConnectionInfo& info, const std::string& doing) const;
  void connect_to(Qpn qpn, const QpChange& change, const std::string& doing);
  void resolve(Qpn qpn, const QpChange& change, const std::string& doing);
  /// Ends the connection of a queue pair with f(qpn), and forgets the peer if it was the last.
  template <class F>
  Errc disconnect(Qpn qpn, F&& f) noexcept;

  const std::unique_ptr<PlaneOpener> opener_;
  const Config config_;  ///< in force: the user's, completed by the opener
  const Log log_;
  const std::uint64_t guid_;  ///< names this device to its peers
  OpenedPlanes planes_;
  engine::Engine engine_;
  const PdId default_pd_;
  CqEvents cq_events_;
  EventQueue<DeviceEvent> events_;
  DeviceStats objects_;  ///< only its counts of objects
  Faults faults_;
  Peers peers_;
  Connector connector_;
  Rounds rounds_;
  CourteousMutex mutex_;
  Progress progress_;
};

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/device/impl/connect.ipp"
#include "mrc/device/impl/core.ipp"
#endif
