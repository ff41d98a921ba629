// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "mrc/api/option_table.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/host/lane.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1::detail {

/// Largest GSO message, and so the most bytes of a burst on one path.
inline constexpr std::uint32_t kMaxBurstBytes = 65'507;

/// Packets that a port brings at once for queue pairs whose peer is not known, most.
inline constexpr std::uint32_t kEarlyPackets = 256;
/// See engine::EngineOptions::ack_delay. Longer than the pauses between small messages of a
/// program that waits for each, shorter than anybody notices when one is lost.
inline constexpr Duration kAckDelay = std::chrono::microseconds(200);
/// Resolution messages that wait between two rounds, most.
inline constexpr std::uint32_t kResolutionInputs = 256;

/// Packets that may arrive in parts at a time.
inline constexpr std::uint32_t kPartPlaces = 256;

/// How many processors this thread may use.
[[nodiscard]] unsigned allowed_processors() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());  // more than the set has room for
}

unsigned wanted_lanes(const Config& config) noexcept {
  return config.lanes > 0 ? config.lanes : std::min(allowed_processors(), kMaxLanes);
}

Lane::Lane(const LaneSurroundings& around, unsigned index, std::optional<std::uint8_t> slot)
    : index_(index),
      config_(around.config),
      log_(around.log),
      guid_(around.guid),
      kind_(around.kind),
      events_(around.events),
      profiles_(around.profiles),
      ev_events_(around.ev_events),
      singly_logged_(around.singly_logged),
      planes_(open_planes(slot)),
      engine_(engine_options()),
      faults_(planes_, config_.paths),
      filter_(config_, log_),
      steering_(kind_),
      peers_(config_, log_, planes_, engine_, filter_, steering_),
      endpoint_requests_(config_, planes_, engine_, filter_),
      connector_(
          config_, log_, planes_, engine_, peers_, filter_, steering_, resolution_options(),
          [this](Qpn qpn) { return info_of(qpn); }, [this](Qpn qpn) { return profiles_of(qpn); },
          [this](std::uint64_t question, const Contact& from) {
            datagram_routes_.on_answer(question, from);
          }),
      datagram_routes_(config_, planes_, engine_, connector_, filter_, steering_),
      rounds_(config_, log_, planes_, engine_, faults_, around.cq_events, around.events, connector_,
              filter_, steering_,
              {[this] { report_path_events(); },
               [this](Time now) {
                 if (steering_.refresh()) apply_steering(now);
               }},
              engine_.options().start, index),
      progress_(config_, mutex_, planes_, engine_, rounds_) {}

Lane::~Lane() {
  progress_.stop();
  if (fork_.forked()) return;
  const std::lock_guard lock(mutex_);
  (void)rounds_.advance(monotonic_now());
  engine_.send_held_acks();
  (void)rounds_.send(monotonic_now());  // sends pending answers
}

/// Another seed in each lane, with room for those of its planes.
std::uint64_t Lane::apart(std::uint64_t seed) const noexcept {
  return seed + std::uint64_t{index_} * kMaxPlanes;
}

/// The ports' notes are the same in all lanes; those of the first are logged.
OpenedPlanes Lane::open_planes(std::optional<std::uint8_t> slot) const {
  const Log silent(LogLevel::off);
  const Log& log = index_ == 0 ? log_ : silent;
  if (const std::string unknown = unknown_variables_once(); !unknown.empty()) log.warn(unknown);
  OpenedPlanes planes =
      kind_.open(config_, slot, apart(config_.seed != 0 ? config_.seed : guid_), log);
  planes.kind = &kind_;
  const std::uint32_t wanted =
      config_.mtu != 0 ? planes.wanted_mtu : std::min(planes.wanted_mtu, kLargestMrcMtu);
  if (planes.mtu < wanted)
    log.warn("mtu lowered from " + std::to_string(wanted) + " to " + std::to_string(planes.mtu) +
             (config_.strict
                  ? ": the largest that fits the interfaces and that option strict allows"
                  : ": larger packets do not fit the interfaces"));
  return planes;
}

engine::EngineOptions Lane::engine_options() const {
  engine::EngineOptions o;
  o.slot = planes_.slot;
  o.seed = config_.seed != 0 ? apart(config_.seed) : random_seed();
  o.secret = random_key();  // whatever the seed is
  o.planes = static_cast<PlaneMask>((std::uint64_t{1} << planes_.count()) - 1);
  o.icrc = config_.icrc != port::Offload::off;
  o.start = monotonic_now();
  o.max_qps = config_.max_qps;
  o.max_cqs = config_.max_cqs;
  o.max_srqs = config_.max_srqs;
  o.max_mrs = config_.max_mrs;
  o.max_pds = config_.max_pds;
  o.max_peers = config_.max_peers;
  o.max_outstanding = config_.expert.max_outstanding;
  for (unsigned i = 0; i < planes_.count(); ++i) {
    const port::Capabilities& c = planes_.ports[i]->capabilities();
    if (c.segmentation) o.segmenting_planes |= plane_bit(static_cast<Plane>(i));
    if (c.holds_payload) o.holding_planes |= plane_bit(static_cast<Plane>(i));
    if (c.places_payload) o.placing_planes |= plane_bit(static_cast<Plane>(i));
  }
  if (o.holding_planes != 0) o.held_copies = engine::CopyTable::kMaxCopies;
  o.sack_threshold = config_.expert.sack_threshold;
  if (config_.peer == PeerKind::any && !config_.strict) o.early_packets = kEarlyPackets;
  o.resolution_inputs = config_.strict ? 0 : kResolutionInputs;
  // A NIC that places payload must know of each transmission of a packet what it carries.
  const bool nics = (o.placing_planes | o.holding_planes) != 0;
  if (!config_.strict && !nics) o.part_places = kPartPlaces;
  o.largest_payload = planes_.mtu;
  // Each of these probes reaches all slots of a host: one lane answers for all.
  if (index_ == 0 && kind_.knows_strangers()) o.unconnected_requests = PlaneKind::kStrangers;
  o.trimming = config_.trim != port::Offload::off;
  o.dscp = dscp_of(config_);
  std::uint32_t burst = config_.expert.burst;
  if (burst == 0) {  // as much as one system call takes
    const std::uint32_t mtu = std::min(planes_.mtu, kLargestMrcMtu);
    burst = std::max(1u, kMaxBurstBytes / (mtu + kPacketOverhead));
    if (mtu != planes_.mtu) o.burst_bytes = kMaxBurstBytes;  // small packets: as many as ever
    for (const auto& port : planes_.ports) burst = std::min(burst, port->capabilities().max_burst);
  }
  o.burst = burst;
  o.peers_stop = burst > 1 && !config_.strict;    // ports that batch are sockets
  if (o.peers_stop) o.ack_delay = kAckDelay;      // where each packet takes microseconds
  constexpr std::uint32_t kLeastIdleProbes = 25;  // of many lanes, few have idle peers
  o.idle_probes = std::max(kLeastIdleProbes, o.idle_probes / wanted_lanes(config_));
  o.paths.active = config_.active_paths;
  o.paths.min_active = config_.min_active_paths;
  o.paths.loss_strikes = config_.expert.loss_strikes;
  o.paths.probe_successes = config_.expert.probe_successes;

  o.cc.algorithm = config_.cc;
  o.cc.fixed_window = config_.cc_fixed_window;
  cc::NsccOptions& n = o.cc.nscc;
  n.link_speed = static_cast<std::uint64_t>(config_.cc_link_speed * 1e9);
  n.base_rtt = config_.cc_base_rtt;
  // Host batching makes the minimum RTT unrepresentative.
  const auto batches = [](const auto& port) { return port->capabilities().batching; };
  if (std::any_of(planes_.ports.begin(), planes_.ports.end(), batches))
    n.base_rtt_floor = config_.cc_base_rtt;
  n.zero_delay = std::max<Duration>(n.zero_delay, config_.cc_base_rtt / 8);
  n.mtu = planes_.mtu + kPacketOverhead + wire::kNominalOverhead;
  if (config_.cc_target_delay.count() > 0) n.target_delay = config_.cc_target_delay;
  n.ack_gen_trigger = config_.expert.sack_threshold;
  return o;
}

ResolutionOptions Lane::resolution_options() const {
  ResolutionOptions o;
  o.key = random_key();
  o.patience = config_.connect_timeout;
  o.silence = std::min<Duration>(o.silence, o.patience / 5);
  return o;
}

std::uint32_t Lane::register_memory(void* address, std::size_t length, Access access, PdId pd,
                                    std::optional<std::uint32_t> wanted) {
  const std::lock_guard lock(mutex_);
  Result<std::uint32_t> key = engine_.register_memory(address, length, access, pd, wanted);
  if (!key)
    throw Error(key.error(), "registering " + std::to_string(length) + " bytes of memory" +
                                 (key.error() == Errc::no_resources ? ": see option max_mrs" : ""));
  const port::MemorySpan span{*key, static_cast<std::uint8_t*>(address), length, in_force(access)};
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

void Lane::release_memory(std::uint32_t key) noexcept {
  std::unique_lock lock(mutex_);
  rounds_.after_post(monotonic_now(), engine_.quiet());
  while (engine_.copies_held(key) > 0) {  // a port still reads: soon it will not
    (void)rounds_.advance(monotonic_now());
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  for (const auto& port : planes_.ports) port->deregister_memory(key);
  progress_.deadline_changed();
}

void Lane::follow(std::shared_ptr<HostRules> host) noexcept {
  const std::lock_guard lock(mutex_);
  steering_.follow(std::move(host));
  steering_.refresh();
  steered();
}

/// Peers are told by the round, over the planes that are left.
void Lane::steered() noexcept {
  const Time now = monotonic_now();
  apply_steering(now);
  (void)rounds_.advance(now);
  progress_.deadline_changed();
}

/// Takes planes and paths out of use, or uses them again, as steering says.
void Lane::apply_steering(Time now) noexcept {
  if (steering_.stale()) steering_.refresh();  // older profiles would replace those of others
  const PlaneMask known = engine_.options().planes;
  const PlaneMask changed = (planes_.disabled ^ steering_.planes_down()) & known;
  planes_.disabled ^= changed;
  for (unsigned i = 0; i < planes_.count(); ++i)
    if ((changed >> i & 1) != 0) planes_.ports[i]->set_enabled(planes_.enabled(i));
  follow_profiles(now);
  peers_.deny_paths(now);
  datagram_routes_.deny_paths();
}

PlaneState Lane::plane_state(unsigned plane) noexcept {
  const std::lock_guard lock(mutex_);
  return {planes_.enabled(plane), rounds_.usable(plane)};
}

void Lane::start_faults(port::FaultSchedule schedule) {
  const std::lock_guard lock(mutex_);
  const Time now = monotonic_now();
  faults_.start(std::move(schedule), now);
  (void)rounds_.advance(now);
  progress_.deadline_changed();
}

void Lane::add_to(DeviceStats& stats, bool peers) {
  const std::lock_guard lock(mutex_);
  LaneStats lane;
  lane.slot = planes_.slot;
  lane.qps = engine_.qp_count() + engine_.datagram_qp_count();
  lane.peers = engine_.peer_count();
  lane.helper_rounds = progress_.helper_rounds();
  lane.engine = engine_.stats();
  stats.qps += lane.qps;
  stats.peers += lane.peers;
  stats.helper_rounds += lane.helper_rounds;
  add_counters(stats.engine, lane.engine);
  stats.peers_refused += filter_.refused();
  if (peers) peers_.add_to(stats.connected, index_);
  stats.unconnected_probes_answered += rounds_.unconnected_probes_answered();
  stats.unconnected_probes_refused += rounds_.unconnected_probes_refused();
  stats.resolutions_answered += connector_.answers();
  stats.resolutions_refused += connector_.refused();
  stats.lanes.push_back(lane);
  for (unsigned i = 0; i < planes_.count(); ++i) {
    const Port& port = *planes_.ports[i];
    if (i == stats.planes.size()) {
      PlaneStats& fresh = stats.planes.emplace_back();
      fresh.address = port::format_local({port.address().ip, port.zone()}, port.address().udp_port);
      fresh.up = rounds_.usable(i);
      fresh.enabled = planes_.enabled(i);
      fresh.times_down = rounds_.times_down(i);
    }
    PlaneStats& plane = stats.planes[i];
    plane.rx_disabled += rounds_.rx_disabled(i);
    plane.rx_bad_icrc += engine_.bad_icrc(static_cast<Plane>(i));
    add_counters(plane.port, port.stats());
    add_counters(plane.faults, port.fault_stats());
  }
}

}  // namespace mrc::inline v0_1::detail
