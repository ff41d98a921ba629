// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
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
#include "mrc/device/cq_events.hpp"
#include "mrc/device/ev_events.hpp"
#include "mrc/device/event_queue.hpp"
#include "mrc/device/lane.hpp"
#include "mrc/device/lanes.hpp"
#include "mrc/device/log.hpp"
#include "mrc/device/planes.hpp"
#include "mrc/device/profiles.hpp"
#include "mrc/device/stats.hpp"

namespace mrc::inline v0_1::detail {

/// What is behind a Device and its handles: the lanes, and the objects that serve all of them.
/// Protection domains, memory keys and completion queues have the same number in the engine of each
/// lane. Queue pairs belong to a Lane, and their handles talk to it.
///
/// Thread contract: any thread. Order of locks: those of this class, those of the lanes in the
/// order of their numbers, those of events.
class DeviceCore {
 public:
  /// Throws mrc::Error.
  explicit DeviceCore(const Config& config);
  /// With planes of another kind than the configuration names. Throws mrc::Error.
  DeviceCore(const Config& config, std::unique_ptr<PlaneOpener> opener);
  DeviceCore(const DeviceCore&) = delete;
  DeviceCore& operator=(const DeviceCore&) = delete;

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] Lanes& lanes() noexcept { return lanes_; }

  // --- Protection domains
  [[nodiscard]] PdId default_pd() const noexcept { return default_pd_; }
  /// Throws mrc::Error at the limit.
  [[nodiscard]] PdId alloc_pd();
  Errc dealloc_pd(PdId pd) noexcept;

  // --- Memory regions
  /// Registers with the engines and all ports. Throws mrc::Error.
  [[nodiscard]] std::uint32_t register_memory(void* address, std::size_t length, Access access,
                                              PdId pd);
  /// As Engine::deregister_memory(), and returns when no port reads the memory any more.
  Errc deregister_memory(std::uint32_t key, bool force) noexcept;

  // --- Completion queues
  /// A completion queue and its event descriptor.
  struct Cq {
    CqId id{};
    int fd = -1;
  };
  /// Throws mrc::Error.
  [[nodiscard]] Cq create_cq(std::uint32_t depth, std::shared_ptr<ChannelEvents> channel);
  [[nodiscard]] bool cq_overrun(CqId cq) noexcept;
  Errc close_cq(CqId cq) noexcept;
  [[nodiscard]] std::shared_ptr<ChannelEvents> create_channel();
  [[nodiscard]] CqEvents& cq_events() noexcept { return cq_events_; }

  // --- Queue pairs
  /// A queue pair and the lane that it belongs to.
  struct Qp {
    Lane* lane = nullptr;
    Qpn qpn{};
  };
  /// In that lane, or the one with the fewest; with those attributes in place of `init.attributes`,
  /// or the lane's defaults; with those profiles from INIT on. Throws mrc::Error.
  [[nodiscard]] Qp create_qp(engine::QpInit init, const std::optional<QpAttributes>& attributes,
                             std::optional<unsigned> lane, const QpProfiles& profiles);

  // --- Profiles (impl/core_profiles.ipp); all but the getters throw mrc::Error
  void change_format_profile(ProfileId id, const FormatProfileChange& change);
  void change_ev_profile(ProfileId id, const EvProfileChange& change);
  void change_cc_profile(ProfileId id, const CcProfileChange& change);
  [[nodiscard]] EvProfileInfo ev_profile(ProfileId id);
  [[nodiscard]] Profiles& profiles() noexcept { return profiles_; }
  [[nodiscard]] EvEvents& ev_events() noexcept { return ev_events_; }

  [[nodiscard]] EventQueue<DeviceEvent>& events() noexcept { return events_; }
  [[nodiscard]] port::IpAddress gid() const noexcept {
    return lanes_[0].planes().ports[0]->address().ip;
  }
  [[nodiscard]] unsigned plane_count() const noexcept { return lanes_[0].planes().count(); }
  [[nodiscard]] std::vector<std::string> plane_names() const;
  [[nodiscard]] DeviceStats stats();

  /// `source` is the setting that the text comes from, put in front of error texts; empty for an
  /// argument of the caller's.
  void set_faults(std::string_view text, const std::string& source = {});

 private:
  void open_profiles();
  void check_ev(path::EvMode mode, const ExpandedEv& ev) const;

  const std::unique_ptr<PlaneOpener> opener_;
  const Config config_;  ///< in force: the user's, completed by the opener
  const Log log_;
  const std::uint64_t guid_;  ///< names this device to its peers
  CqEvents cq_events_;
  EventQueue<DeviceEvent> events_;
  Profiles profiles_;
  EvEvents ev_events_;
  std::mutex changing_profiles_;  ///< held until a change has reached all lanes
  std::mutex objects_;            ///< held while objects of all lanes come and go
  std::mutex placing_;            ///< held while a queue pair gets its lane
  std::atomic<std::uint32_t> pds_{0}, mrs_{0}, cqs_{0};
  Lanes lanes_;
  const PdId default_pd_;
};

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/device/impl/core.ipp"
#include "mrc/device/impl/core_profiles.ipp"
#endif
