// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>

#include "mrc/engine/context.hpp"
#include "mrc/host/lane.hpp"

namespace mrc::inline v0_1::detail {

std::vector<QpReport> Lane::queue_pairs(std::size_t& at, std::size_t most) {
  constexpr std::size_t kReports = 8, kPlaces = 512;  // some microseconds
  std::vector<QpReport> reports;
  reports.reserve(kReports);
  const std::size_t enough = std::min(most, kReports);
  const std::lock_guard lock(mutex_);
  const Time now = monotonic_now();
  const std::size_t end = std::min(engine_.qp_places(), at + kPlaces);
  for (; at < end && reports.size() < enough; ++at)
    if (const engine::QueuePairState* qp = engine_.qp_at(at))
      reports.push_back(report_of(*qp, now));
  return reports;
}

std::optional<QpReport> Lane::report(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) return std::nullopt;
  return report_of(*qp, monotonic_now());
}

QpReport Lane::report_of(const engine::QueuePairState& qp, Time now) {
  QpReport r;
  r.lane = index_;
  r.qpn = qp.qpn;
  r.state = to_string(qp.state);
  if (qp.state == QpState::err) r.error = peers_.error_text(qp);
  r.rc = qp.rc;
  if (qp.peer != nullptr) r.peer = value(qp.peer->id);
  if (qp.state != QpState::reset && qp.state != QpState::init) r.remote_qpn = qp.remote.qpn;
  const engine::WaitsFor waits = engine::waits_for(qp, now);
  r.waits_for = to_string(waits);
  if (waits != engine::WaitsFor::nothing)
    r.silent_ns = static_cast<std::uint64_t>(engine::silence(qp, now).count());
  r.unfinished = qp.waiting();
  r.stats = engine_.qp_stats(qp);
  return r;
}

std::vector<PeerReport> Lane::peers(std::size_t first, std::size_t most) {
  const std::lock_guard lock(mutex_);
  std::vector<PeerReport> reports;
  peers_.add_to(reports, index_, first, most);
  return reports;
}

std::vector<PathReport> Lane::paths(PeerId peer, std::size_t first, std::size_t most) {
  const std::lock_guard lock(mutex_);
  const engine::Peer* found = engine_.find_peer(peer);
  if (found == nullptr) return {};
  return paths_of(*found, first, most);
}

std::vector<PathReport> Lane::paths(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr || qp->peer == nullptr) return {};
  return paths_of(*qp->peer, 0, qp->peer->paths.size());
}

std::vector<PathReport> Lane::paths_of(const engine::Peer& peer, std::size_t first,
                                       std::size_t most) {
  std::vector<PathReport> reports;
  const path::PathSet& set = peer.paths;
  const std::size_t size = set.size();
  for (std::size_t n = first; n < size && n - first < most; ++n) {
    const auto i = static_cast<path::PathIndex>(n);
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
    r.rtt_ns = st.rtt_ns;
    reports.push_back(std::move(r));
  }
  return reports;
}

}  // namespace mrc::inline v0_1::detail
