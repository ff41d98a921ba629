// SPDX-License-Identifier: Apache-2.0
// DeviceCore: attributes, event descriptors, faults and statistics.
#pragma once

#include <algorithm>

#include "mrc/device/core.hpp"

namespace mrc::inline v0_1::detail {

inline QpAttributes DeviceCore::default_attributes() const noexcept {
  QpAttributes a;
  a.mtu = mtu_;
  a.mpr = config_.mpr;
  a.mpr_dest = config_.mpr_dest;
  a.max_wimm = config_.max_wimm;
  a.max_wimm_dest = config_.max_wimm_dest;
  a.timeout = config_.timeout;
  a.retry_linear = config_.retry_linear;
  a.retry_exponential = config_.retry_exponential;
  a.dynamic_mpr = config_.dynamic_mpr;
  a.trim_nack = config_.trim;
  return a;
}

inline void DeviceCore::add_cq_fd(CqId cq, int fd) {
  const std::lock_guard lock(mutex_);
  const auto i = static_cast<std::uint32_t>(cq);
  if (i >= cq_fds_.size()) cq_fds_.resize(i + 1, -1);
  cq_fds_[i] = fd;
}

inline Errc DeviceCore::close_cq(CqId cq) noexcept {
  const std::lock_guard lock(mutex_);
  const Errc e = engine_->destroy_cq(cq);
  if (e == Errc::ok) cq_fds_[static_cast<std::uint32_t>(cq)] = -1;
  return e;
}

/// What this device can't do is refused here, where the caller sees it, and not when it is due.
inline void DeviceCore::check_faults(const port::FaultSchedule& schedule,
                                     const std::string& source) const {
  for (const port::TargetedFault& fault : schedule.all()) {
    const auto fail = [&](Errc code, const std::string& why) {
      throw Error(code, source + "fault '" + port::to_string(fault.target) + "': " + why);
    };
    const auto& [plane, path] = fault.target;
    if (plane && *plane >= plane_count())
      fail(Errc::invalid_argument, "the device has no such plane; the last one is plane=" +
                                       std::to_string(plane_count() - 1) +
                                       " (option 'planes' makes more)");
    if (path && *path >= config_.paths)
      fail(Errc::invalid_argument, "the device has no such path; the last one is path=" +
                                       std::to_string(config_.paths - 1) +
                                       " (option 'paths' makes more)");
    if (path && !port::works_outbound(fault.spec))
      fail(Errc::unsupported,
           "on a path, which is the sending side's, only loss, blackhole and down work; give the "
           "others to the whole plane");
  }
}

inline void DeviceCore::set_faults(std::string_view text, const std::string& source) {
  port::FaultSchedule parsed = port::FaultSchedule::parse(text);
  check_faults(parsed, source);
  const std::lock_guard lock(mutex_);
  faults_ = std::move(parsed);
  faults_start_ = monotonic_now();
  apply_faults(faults_start_);
  (void)advance(faults_start_);
  wake_for(next_deadline());
}

inline std::vector<std::string> DeviceCore::plane_names() {
  std::vector<std::string> names;
  for (const auto& port : ports_) names.push_back(port::format_address(port->address()));
  return names;
}

inline void DeviceCore::count_object(std::uint32_t DeviceStats::*kind, int change) noexcept {
  const std::lock_guard lock(mutex_);
  objects_.*kind += static_cast<std::uint32_t>(change);
}

inline DeviceStats DeviceCore::stats() {
  const std::lock_guard lock(mutex_);
  DeviceStats s = objects_;
  s.engine = engine_->stats();
  s.qps = engine_->qp_count();
  s.peers = engine_->peer_count();
  s.helper_rounds = helper_rounds_.load(std::memory_order_relaxed);
  for (unsigned i = 0; i < ports_.size(); ++i)
    s.planes.push_back({port::format_address(ports_[i]->address()), usable(i), ports_[i]->stats(),
                        ports_[i]->fault_stats()});
  return s;
}

inline std::vector<PathReport> DeviceCore::paths(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  std::vector<PathReport> reports;
  const engine::QueuePairState* qp = engine_->find_qp(qpn);
  if (qp == nullptr || qp->peer == nullptr) return reports;
  const path::PathSet& set = qp->peer->paths;
  for (path::PathIndex i = 0; i < set.size(); ++i) {
    const path::PathSpec spec = set[i];
    const path::PathStats st = set.stats(i);
    PathReport r;
    r.ev = spec.ev;
    r.plane = spec.plane;
    r.port_path = spec.port_path;
    r.state =
        set.health(i) == path::Health::assumed_bad ? "assumed_bad" : path::to_string(set.health(i));
    r.active = set.active(i);
    r.packets = st.sent_packets;
    r.bytes = st.sent_bytes;
    r.delivered = st.delivered;
    r.marks = st.marks;
    r.trims = st.trims;
    r.losses = st.losses;
    r.timeouts = st.timeouts;
    r.probes_sent = st.probes_sent;
    r.probes_answered = st.probes_answered;
    r.times_bad = st.times_bad;
    reports.push_back(std::move(r));
  }
  return reports;
}

}  // namespace mrc::inline v0_1::detail
