// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>
#include <sys/random.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "mrc/config/environment.hpp"
#include "mrc/config/setting_source.hpp"
#include "mrc/core/system_error.hpp"
#include "mrc/device/core.hpp"
#include "mrc/device/openers.hpp"
#include "mrc/port/address.hpp"

namespace mrc::inline v0_1::detail {

/// Largest GSO message, and so the most bytes of a burst on one path.
inline constexpr std::uint32_t kMaxBurstBytes = 65'507;

/// Events that wait to be taken, most.
inline constexpr std::size_t kEvents = 4096;
/// Resolution messages that wait between two rounds, most.
inline constexpr std::uint32_t kResolutionInputs = 256;

[[nodiscard]] inline std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed))
    throw_errno("cannot get random numbers");
  return seed;
}

MRC_SETUP DeviceCore::DeviceCore(const Config& config)
    : opener_((config.validate(), make_opener(config))),
      config_(opener_->in_force(config)),
      log_(config_.log),
      guid_(random_seed()),
      planes_(open_planes()),
      engine_(engine_options()),
      default_pd_(*engine_.alloc_pd()),
      events_(kEvents),
      faults_(planes_, config_.paths),
      peers_(config_, log_, planes_, engine_),
      connector_(config_, log_, planes_, engine_, peers_, resolution_options(),
                 [this](Qpn qpn) { return info_of(qpn); }),
      rounds_(config_, log_, planes_, engine_, faults_, cq_events_, events_, connector_,
              engine_.options().start),
      progress_(config_, mutex_, planes_, engine_, rounds_, cq_events_) {
  if (!config_.faults.empty())
    set_faults(config_.faults, setting_name("faults", config_) + ": value '" + config_.faults +
                                   "' is not allowed; ");
  progress_.start();
}

MRC_SETUP DeviceCore::~DeviceCore() {
  progress_.stop();
  const std::lock_guard lock(mutex_);
  (void)rounds_.advance(monotonic_now());  // sends pending answers
}

MRC_SETUP OpenedPlanes DeviceCore::open_planes() const {
  if (const std::string unknown = unknown_variables_once(); !unknown.empty()) log_.warn(unknown);
  OpenedPlanes planes = opener_->open(config_, config_.seed != 0 ? config_.seed : guid_, log_);
  if (planes.mtu != config_.mtu)
    log_.warn("mtu lowered from " + std::to_string(config_.mtu) + " to " +
              std::to_string(planes.mtu) + ": larger packets do not fit the interfaces");
  return planes;
}

MRC_SETUP engine::EngineOptions DeviceCore::engine_options() const {
  engine::EngineOptions o;
  o.slot = planes_.slot;
  o.seed = config_.seed != 0 ? config_.seed : random_seed();
  o.start = monotonic_now();
  o.max_qps = config_.max_qps;
  o.max_cqs = config_.max_cqs;
  o.max_mrs = config_.max_mrs;
  o.max_pds = config_.max_pds;
  o.max_peers = config_.max_peers;
  o.max_outstanding = config_.max_outstanding;
  for (unsigned i = 0; i < planes_.count(); ++i) {
    const port::Capabilities& c = planes_.ports[i]->capabilities();
    if (c.holds_payload) o.holding_planes |= plane_bit(static_cast<Plane>(i));
    if (c.places_payload) o.placing_planes |= plane_bit(static_cast<Plane>(i));
  }
  if (o.holding_planes != 0) o.held_copies = engine::CopyTable::kMaxCopies;
  o.sack_threshold = config_.sack_threshold;
  o.resolution_inputs = kResolutionInputs;
  if (planes_.unconnected_probes) o.unconnected_probes = UnconnectedProbes::kQueue;
  o.trimming = config_.trim;
  o.dscp = dscp_of(config_);
  std::uint32_t burst = config_.burst;
  if (burst == 0) {  // as much as one system call takes
    burst = std::max(1u, kMaxBurstBytes / (planes_.mtu + kPacketOverhead));
    for (const auto& port : planes_.ports) burst = std::min(burst, port->capabilities().max_burst);
  }
  o.burst = burst;
  o.paths.active = config_.active_paths;
  o.paths.min_active = config_.min_active_paths;
  o.paths.loss_strikes = config_.loss_strikes;
  o.paths.probe_successes = config_.probe_successes;

  o.cc.algorithm = config_.cc;
  o.cc.fixed_window = config_.cc_fixed_window;
  cc::NsccOptions& n = o.cc.nscc;
  n.link_speed = static_cast<std::uint64_t>(config_.cc_link_speed * 1e9);
  n.base_rtt = config_.cc_base_rtt;
  n.base_rtt_floor = config_.cc_base_rtt;  // host batching makes the minimum RTT unrepresentative
  n.zero_delay = std::max<Duration>(n.zero_delay, config_.cc_base_rtt / 8);
  n.mtu = planes_.mtu + kPacketOverhead + wire::kNominalOverhead;
  if (config_.cc_target_delay.count() > 0) n.target_delay = config_.cc_target_delay;
  n.ack_gen_trigger = config_.sack_threshold;
  return o;
}

MRC_SETUP std::uint32_t DeviceCore::register_memory(void* address, std::size_t length,
                                                    Access access, PdId pd) {
  const std::lock_guard lock(mutex_);
  Result<std::uint32_t> key = engine_.register_memory(address, length, access, pd);
  if (!key)
    throw Error(key.error(), "registering " + std::to_string(length) + " bytes of memory" +
                                 (key.error() == Errc::no_resources ? ": see option max_mrs" : ""));
  if (has(access, Access::remote_write)) access = access | Access::local_write;
  const port::MemorySpan span{*key, static_cast<std::uint8_t*>(address), length, access};
  std::size_t done = 0;
  try {
    for (; done < planes_.ports.size(); ++done) planes_.ports[done]->register_memory(span);
  } catch (...) {
    while (done > 0) planes_.ports[--done]->deregister_memory(*key);
    (void)engine_.deregister_memory(*key, true);
    throw;
  }
  return *key;
}

MRC_SETUP Errc DeviceCore::deregister_memory(std::uint32_t key, bool force) noexcept {
  std::unique_lock lock(mutex_);
  const bool idle = engine_.quiet();
  const Errc e = engine_.deregister_memory(key, force);
  if (e != Errc::ok) return e;
  rounds_.after_post(monotonic_now(), idle);
  while (engine_.copies_held(key) > 0) {  // a port still reads: soon it will not
    (void)rounds_.advance(monotonic_now());
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  for (const auto& port : planes_.ports) port->deregister_memory(key);
  progress_.deadline_changed();
  return Errc::ok;
}

MRC_SETUP ResolutionOptions DeviceCore::resolution_options() const {
  ResolutionOptions o;
  o.key = {random_seed(), random_seed()};
  return o;
}

MRC_SETUP UniqueFd DeviceCore::open_cq_fd() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.open()) throw_errno("cannot open a completion queue's event descriptor");
  return fd;
}

MRC_SETUP void DeviceCore::add_cq_fd(CqId cq, UniqueFd fd, std::shared_ptr<ChannelEvents> channel) {
  const std::lock_guard lock(mutex_);
  cq_events_.add(cq, std::move(fd), std::move(channel));
}

MRC_SETUP std::shared_ptr<ChannelEvents> DeviceCore::create_channel() {
  return std::make_shared<ChannelEvents>(config_.max_cqs);
}

MRC_SETUP bool DeviceCore::poll_channel(ChannelEvents& channel, CqId& cq) noexcept {
  const std::lock_guard lock(mutex_);
  if (!channel.events.poll(cq)) return false;
  cq_events_.give(cq);
  return true;
}

MRC_SETUP void DeviceCore::acknowledge(CqId cq, unsigned events) noexcept {
  const std::lock_guard lock(mutex_);
  cq_events_.acknowledge(cq, events);
}

MRC_SETUP Errc DeviceCore::close_cq(CqId cq) noexcept {
  const std::lock_guard lock(mutex_);
  if (cq_events_.unacknowledged(cq) > 0) return Errc::in_use;
  const Errc e = engine_.destroy_cq(cq);
  if (e != Errc::ok) return e;
  cq_events_.remove(cq);
  events_.remove_if([cq](const DeviceEvent& event) {
    return event.kind == DeviceEvent::Kind::cq_overrun && event.cq == cq;
  });
  return e;
}

MRC_SETUP void DeviceCore::set_faults(std::string_view text, const std::string& source) {
  port::FaultSchedule schedule = faults_.parse(text, source);
  const std::lock_guard lock(mutex_);
  const Time now = monotonic_now();
  faults_.start(std::move(schedule), now);
  (void)rounds_.advance(now);
  progress_.deadline_changed();
}

MRC_SETUP std::vector<std::string> DeviceCore::plane_names() const {
  std::vector<std::string> names;
  for (const auto& port : planes_.ports) names.push_back(port::format_address(port->address()));
  return names;
}

MRC_DECL void DeviceCore::count_object(std::uint32_t DeviceStats::*kind, int change) noexcept {
  const std::lock_guard lock(mutex_);
  objects_.*kind += static_cast<std::uint32_t>(change);
}

MRC_SETUP DeviceStats DeviceCore::stats() {
  const std::lock_guard lock(mutex_);
  DeviceStats s = objects_;
  s.engine = engine_.stats();
  s.qps = engine_.qp_count();
  s.peers = engine_.peer_count();
  s.unconnected_probes_answered = rounds_.unconnected_probes_answered();
  s.unconnected_probes_refused = rounds_.unconnected_probes_refused();
  s.helper_rounds = progress_.helper_rounds();
  s.events_dropped = events_.dropped();
  for (unsigned i = 0; i < planes_.count(); ++i) {
    const DevicePort& port = *planes_.ports[i];
    s.planes.push_back({port::format_address(port.address()), rounds_.usable(i),
                        engine_.bad_icrc(static_cast<Plane>(i)), port.stats(), port.fault_stats()});
  }
  return s;
}

MRC_SETUP std::vector<PathReport> DeviceCore::paths(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  std::vector<PathReport> reports;
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
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
