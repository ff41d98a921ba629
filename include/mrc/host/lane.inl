// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/host/lane.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <thread>
#include <utility>

#include "mrc/core/random.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/options.hpp"
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

unsigned wanted_lanes(const Config& config) noexcept {
  if (config.lanes > 0) return config.lanes;
  cpu_set_t set;
  const unsigned processors = sched_getaffinity(0, sizeof set, &set) == 0
                                  ? static_cast<unsigned>(CPU_COUNT(&set))
                                  : std::thread::hardware_concurrency();  // more than `set` has
  return std::clamp(processors, 1u, kMaxLanes);
}

Lane::Lane(const LaneSurroundings& around, unsigned index, std::optional<std::uint8_t> slot)
    : index_(index),
      around_(around),
      planes_(open_planes(slot)),
      engine_(engine_options()),
      filter_(around_.config, around_.log),
      steering_(around_.administration != nullptr ? around_.administration->make_steering()
                                                  : std::make_unique<Steering>()),
      peers_(parts()),
      rounds_(parts(), *this, engine_.options().start),
      progress_(parts(), mutex_, rounds_) {
  const auto make = resolver_maker.load();
  if (make == nullptr) return;
  resolver_ = make(*this);
  rounds_.serve(*resolver_);
}

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
  const Log& log = index_ == 0 ? around_.log : silent;
  if (const std::string unknown = unknown_variables_once(); !unknown.empty()) log.warn(unknown);
  OpenedPlanes planes = around_.kind.open(around_.config, slot, log);
  planes.kind = &around_.kind;
  const std::uint32_t wanted =
      around_.config.mtu != 0 ? planes.wanted_mtu : std::min(planes.wanted_mtu, kLargestMrcMtu);
  if (planes.mtu < wanted)
    log.warn("mtu lowered from " + std::to_string(wanted) + " to " + std::to_string(planes.mtu) +
             (around_.config.strict
                  ? ": the largest that fits the interfaces and that option strict allows"
                  : ": larger packets do not fit the interfaces"));
  return planes;
}

engine::EngineOptions Lane::engine_options() const {
  engine::EngineOptions o;
  o.slot = planes_.slot;
  o.seed = around_.config.seed != 0 ? apart(around_.config.seed) : random_seed();
  o.secret = random_key();  // whatever the seed is
  o.planes = static_cast<PlaneMask>((std::uint64_t{1} << planes_.count()) - 1);
  o.icrc = around_.config.icrc != port::Offload::off;
  o.start = monotonic_now();
  o.max_qps = around_.config.max_qps;
  o.max_cqs = around_.config.max_cqs;
  o.max_srqs = around_.config.max_srqs;
  o.max_mrs = around_.config.max_mrs;
  o.max_pds = around_.config.max_pds;
  o.max_peers = around_.config.max_peers;
  o.max_outstanding = around_.config.expert.max_outstanding;
  for (unsigned i = 0; i < planes_.count(); ++i) {
    const port::Capabilities& c = planes_.ports[i]->capabilities();
    if (c.segmentation) o.segmenting_planes |= plane_bit(static_cast<Plane>(i));
    if (c.holds_payload) o.holding_planes |= plane_bit(static_cast<Plane>(i));
    if (c.places_payload) o.placing_planes |= plane_bit(static_cast<Plane>(i));
  }
  if (o.holding_planes != 0) o.held_copies = engine::CopyTable::kMaxCopies;
  o.sack_threshold = around_.config.expert.sack_threshold;
  const bool resolves = resolver_maker.load() != nullptr && !around_.config.strict;
  if (around_.config.peer == PeerKind::any && resolves) o.early_packets = kEarlyPackets;
  o.resolution_inputs = resolves ? kResolutionInputs : 0;
  // A NIC that places payload must know of each transmission of a packet what it carries.
  const bool nics = (o.placing_planes | o.holding_planes) != 0;
  if (!around_.config.strict && !nics) o.part_places = kPartPlaces;
  o.largest_payload = planes_.mtu;
  // Each of these probes reaches all slots of a host: one lane answers for all.
  if (index_ == 0 && around_.kind.knows_strangers()) o.unconnected_requests = PlaneKind::kStrangers;
  o.trimming = around_.config.trim != port::Offload::off;
  o.dscp = dscp_of(around_.config);
  std::uint32_t burst = around_.config.expert.burst;
  if (burst == 0) {  // as much as one system call takes
    const std::uint32_t mtu = std::min(planes_.mtu, kLargestMrcMtu);
    burst = std::max(1u, kMaxBurstBytes / (mtu + kPacketOverhead));
    if (mtu != planes_.mtu) o.burst_bytes = kMaxBurstBytes;  // small packets: as many as ever
    for (const auto& port : planes_.ports) burst = std::min(burst, port->capabilities().max_burst);
  }
  o.burst = burst;
  o.peers_stop = burst > 1 && !around_.config.strict;  // ports that batch are sockets
  if (o.peers_stop) o.ack_delay = kAckDelay;           // where each packet takes microseconds
  constexpr std::uint32_t kLeastIdleProbes = 25;       // of many lanes, few have idle peers
  o.idle_probes = std::max(kLeastIdleProbes, o.idle_probes / wanted_lanes(around_.config));
  o.paths.active = around_.config.active_paths;
  o.paths.min_active = around_.config.min_active_paths;
  o.paths.loss_strikes = around_.config.expert.loss_strikes;
  o.paths.probe_successes = around_.config.expert.probe_successes;

  o.cc.algorithm = around_.config.cc;
  o.cc.fixed_window = around_.config.cc_fixed_window;
  cc::NsccOptions& n = o.cc.nscc;
  n.link_speed = static_cast<std::uint64_t>(around_.config.cc_link_speed * 1e9);
  n.base_rtt = around_.config.cc_base_rtt;
  // Host batching makes the minimum RTT unrepresentative.
  const auto batches = [](const auto& port) { return port->capabilities().batching; };
  if (std::any_of(planes_.ports.begin(), planes_.ports.end(), batches))
    n.base_rtt_floor = around_.config.cc_base_rtt;
  n.zero_delay = std::max<Duration>(n.zero_delay, around_.config.cc_base_rtt / 8);
  n.mtu = planes_.mtu + kPacketOverhead + wire::kNominalOverhead;
  if (around_.config.cc_target_delay.count() > 0) n.target_delay = around_.config.cc_target_delay;
  n.ack_gen_trigger = around_.config.expert.sack_threshold;
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

/// Peers are told by the round, over the planes that are left.
void Lane::steered() noexcept {
  const Time now = monotonic_now();
  apply_steering(now);
  (void)rounds_.advance(now);
  progress_.deadline_changed();
}

/// Takes planes and paths out of use, or uses them again, as steering says.
void Lane::apply_steering(Time now) noexcept {
  if (steering_->stale())
    (void)steering_->refresh();  // older profiles would replace those of others
  const PlaneMask known = engine_.options().planes;
  const PlaneMask changed = (planes_.disabled ^ (planes_down_ | steering_->planes_down())) & known;
  planes_.disabled ^= changed;
  for (unsigned i = 0; i < planes_.count(); ++i)
    if ((changed >> i & 1) != 0) planes_.ports[i]->set_enabled(planes_.enabled(i));
  if (around_.administration != nullptr) around_.administration->follow(*this, now);
  peers_.deny_paths(now);
  if (resolver_) resolver_->deny_paths();
}

PlaneState Lane::plane_state(unsigned plane) noexcept {
  const std::lock_guard lock(mutex_);
  return {planes_.enabled(plane), rounds_.usable(plane)};
}

void Lane::set_planes_down(PlaneMask planes) noexcept {
  const std::lock_guard lock(mutex_);
  planes_down_ = planes;
  steered();
}

void Lane::start_faults(std::unique_ptr<LaneService> faults) noexcept {
  const std::lock_guard lock(mutex_);
  if (faults_) rounds_.dismiss(*faults_);
  faults_ = std::move(faults);
  rounds_.serve(*faults_);
  (void)rounds_.advance(monotonic_now());
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
  if (peers) peers_.add_to(stats.connected);
  stats.unconnected_probes_answered += rounds_.counts().unconnected_answered;
  stats.unconnected_probes_refused += rounds_.counts().unconnected_refused;
  if (resolver_) resolver_->add_to(stats);
  stats.lanes.push_back(lane);
  for (unsigned i = 0; i < planes_.count(); ++i) {
    const Port& port = *planes_.ports[i];
    if (i == stats.planes.size()) {
      PlaneStats& fresh = stats.planes.emplace_back();
      fresh.address = port::format_local({port.address().ip, port.zone()}, port.address().udp_port);
      fresh.up = rounds_.usable(i);
      fresh.enabled = planes_.enabled(i);
      fresh.times_down = rounds_.counts().times_down[i];
    }
    PlaneStats& plane = stats.planes[i];
    plane.rx_disabled += rounds_.counts().rx_disabled[i];
    plane.rx_bad_icrc += engine_.bad_icrc(static_cast<Plane>(i));
    add_counters(plane.port, port.stats());
    if (port.impairment() != nullptr) add_counters(plane.faults, port.impairment()->stats());
  }
}

// Lane: queue pairs, from ConnectionInfo to their end.

QpAttributes Lane::default_attributes() const noexcept {
  QpAttributes a;
  a.mtu = planes_.mtu;
  a.mpr = around_.config.mpr;
  a.mpr_dest = around_.config.mpr_dest;
  a.max_wimm = around_.config.max_wimm;
  a.max_wimm_dest = around_.config.max_wimm_dest;
  a.timeout = around_.config.timeout;
  a.retry_linear = around_.config.retry_linear;
  a.retry_exponential = around_.config.retry_exponential;
  a.dynamic_mpr = around_.config.dynamic_mpr;
  a.trim_nack = around_.config.trim != port::Offload::off;
  a.max_rd_atomic = around_.config.max_rd_atomic;
  a.max_rd_atomic_dest = around_.config.max_rd_atomic_dest;
  a.rnr_retry = around_.config.rnr_retry;
  a.min_rnr_timer = around_.config.min_rnr_timer;
  return around_.config.strict ? strict_attributes(a) : a;
}

ConnectionInfo Lane::local_info(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  return info_of(qpn);
}

ConnectionInfo Lane::info_of(Qpn qpn) const {
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  const QpAttributes& a = qp->attributes;
  ConnectionInfo info;
  info.foreign = false;
  info.solicited = true;
  info.device_guid = around_.guid;
  info.qpn = qpn;
  info.start_psn = *engine_.start_psn(qpn);
  info.tag = qp->tag.bits();
  info.mtu = qp->state == QpState::rtr || qp->state == QpState::rts ? qp->rtr_mtu : a.mtu;
  info.mtu_multiples = around_.config.peer != PeerKind::mrc;
  if (!info.mtu_multiples) info.mtu = std::bit_floor(info.mtu);
  info.mpr_dest = a.mpr_dest;
  info.max_wimm_dest = a.max_wimm_dest;
  info.dynamic_mpr = a.dynamic_mpr;
  // Where a port does not see what switches have trimmed, peers had better not let them trim.
  const auto sees_trims = [](const auto& port) { return port->capabilities().trimmed_packets; };
  info.trim_nack = a.trim_nack && (around_.config.trim == port::Offload::on ||
                                   std::ranges::all_of(planes_.ports, sees_trims));
  info.rc = a.rc;
  info.max_rd_atomic_dest = a.rc ? a.max_rd_atomic_dest : std::uint8_t{0};
  info.icrc = around_.config.icrc != port::Offload::off;
  info.network_namespace = planes_.network_namespace;
  info.parts = engine_.options().part_places > 0;
  info.slot = planes_.slot;
  info.receive_window = UINT64_MAX;
  for (const auto& port : planes_.ports) {
    info.planes.push_back(port->address());
    info.port_data.push_back(port->connection_data());
    info.receive_window = std::min(info.receive_window, port->capabilities().receive_buffer);
  }
  while (!info.port_data.empty() && info.port_data.back().empty()) info.port_data.pop_back();
  info.receive_window = std::max<std::uint64_t>(
      info.receive_window / around_.config.expert.receive_shares, 2 * a.mtu);
  if (around_.config.strict) return strict_info(std::move(info));
  return info;
}

/// How long connecting by ConnectionInfo waits for next hops, in total.
inline constexpr Duration kRouteTime = std::chrono::milliseconds(20);

/// The queue pair, which must be in that state. `doing` begins the text of the error.
const engine::QueuePairState& Lane::in_state(Qpn qpn, QpState state,
                                             const std::string& doing) const {
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  if (qp->state != state)
    throw Error(Errc::invalid_state, doing + ": it is in " + to_string(qp->state) +
                                         "; only one in " + to_string(state) + " can");
  return *qp;
}

/// Throws mrc::Error if devices that say this can't be connected to.
void Lane::check_peer(const ConnectionInfo& info, const std::string& doing) const {
  if (info.icrc != (around_.config.icrc != port::Offload::off))
    throw Error(Errc::incompatible, doing + ": iCRC is on at one side only; set option icrc alike");
}

void Lane::connect(Qpn qpn, const ConnectionInfo& info) {
  const std::string doing = "connecting queue pair to " + to_string(info);
  {
    const std::lock_guard lock(mutex_);
    (void)in_state(qpn, QpState::reset, doing);
    check_peer(info, doing);
    enter_init(qpn, doing);
  }
  try {
    QpChange change;
    change.state = QpState::rtr;
    change.connection = info;
    modify(qpn, change);
    change = {};
    change.state = QpState::rts;
    modify(qpn, change);
  } catch (...) {
    (void)reset_qp(qpn);
    throw;
  }
}

void Lane::modify(Qpn qpn, const QpChange& change) {
  const std::string doing =
      "queue pair " + std::to_string(value(qpn)) + " to " + to_string(change.state);
  const bool rtr = change.state == QpState::rtr;
  const bool to_rtr = change.destination || change.connection || change.receive_psn || change.mtu ||
                      change.rtr != RtrAttributes{};
  if ((to_rtr && !rtr) || (change.rts != RtsAttributes{} && change.state != QpState::rts) ||
      (change.profiles && change.state != QpState::init))
    throw Error(Errc::invalid_argument, doing + ": an attribute of another step is set");
  engine::check(doing, engine::out_of_range(
                           engine::with(engine::with(QpAttributes{}, change.rtr), change.rts)));
  if (rtr) return change.connection ? connect_to(qpn, change, doing) : resolve(qpn, change, doing);
  std::unique_lock lock(mutex_);
  Errc e = Errc::ok;
  switch (change.state) {
    case QpState::init:
      (void)in_state(qpn, QpState::reset, doing);
      to_init(qpn, change.profiles, doing);
      break;
    case QpState::rts:
      (void)in_state(qpn, QpState::rtr, doing);
      e = engine_.to_rts(qpn, monotonic_now(), change.rts);
      break;
    case QpState::err:
      e = engine_.to_error(qpn);
      rounds_.after_post(monotonic_now(), false);
      break;
    default:
      lock.unlock();
      e = reset_qp(qpn);
      lock.lock();
      break;
  }
  progress_.deadline_changed();
  if (e != Errc::ok) throw Error(e, doing);
}

/// With those profiles, or those of the last time; keeps them if they can't be used.
void Lane::to_init(Qpn qpn, const std::optional<QpProfiles>& wanted, const std::string& doing) {
  if (!wanted) return enter_init(qpn, doing);
  check_profiles(*wanted, doing);
  QpProfiles& profiles = chosen_[value(qpn)].profiles;
  const QpProfiles before = std::exchange(profiles, *wanted);
  try {
    enter_init(qpn, doing);
  } catch (...) {
    profiles = before;
    throw;
  }
}

void Lane::connect_to(Qpn qpn, const QpChange& change, const std::string& doing) {
  const ConnectionInfo info =
      around_.config.strict ? strict_info(*change.connection) : *change.connection;
  if (change.destination)
    throw Error(Errc::invalid_argument, doing + ": give a destination or a connection, not both");
  check_peer(info, doing);
  std::unique_lock lock(mutex_);
  (void)in_state(qpn, QpState::init, doing);
  const PeerId peer = peer_for(lock, qpn, info, doing);
  RemoteQp remote = remote_of(info, peer);
  const QpAttributes& own = engine_.find_qp(qpn)->attributes;
  // Between OpenMRC devices the peer may send from RTR on, before its program names a PSN.
  if (!remote.rc || !own.rc) remote.start_psn = change.receive_psn.value_or(info.start_psn);
  remote.mtu = change.mtu.value_or(0);
  if (remote.mtu == 0) remote.mtu = peers_.agreed_mtu_with(info, own.mtu);
  const bool fits = remote.mtu == peers_.agreed_mtu_with(info, remote.mtu);
  const Errc e = fits ? engine_.to_rtr(qpn, remote, change.rtr) : Errc::incompatible;
  if (e != Errc::ok) {
    peers_.forget_unused(peer);
    throw Error(e, doing + ", connecting to " + to_string(info));
  }
  peers_.log_tags(*engine_.find_qp(qpn), info);
  progress_.deadline_changed();
}

/// The peer of a queue pair in INIT. Other queue pairs go on while next hops are looked up: then
/// the lock is not held for a while.
PeerId Lane::peer_for(std::unique_lock<CourteousMutex>& lock, Qpn qpn, const ConnectionInfo& info,
                      const std::string& doing) {
  const PeerProfiles profiles = profiles_of(qpn);
  if (const auto known = peers_.find(info, profiles.ids)) return *known;
  lock.unlock();
  Peers::Candidate candidate = peers_.make_candidate(info, profiles);
  peers_.await_routes(candidate, kRouteTime);
  lock.lock();
  (void)in_state(qpn, QpState::init, doing);
  const PeerProfiles now = profiles_of(qpn);
  if (const auto known = peers_.find(info, now.ids)) return *known;
  if (now.evs != profiles.evs || now.ids != profiles.ids)  // changed meanwhile
    candidate = peers_.make_candidate(info, now);
  return peers_.add(info, candidate);
}

void Lane::resolve(Qpn qpn, const QpChange& change, const std::string& doing) {
  if (!change.destination || !change.receive_psn)
    throw Error(Errc::invalid_argument,
                doing + ": it needs a connection, or a destination and a receive PSN");
  if (!resolver_) throw lacking(doing + ", connecting by GID", "connecting by GID", "resolve");
  const Destination& destination = *change.destination;
  if (value(destination.qpn) < kFirstUserQpn || value(destination.qpn) > 0xFFFFFF)
    throw Error(Errc::invalid_argument, doing + ": the destination's QPN is reserved or too large");
  filter_.check(destination.gid);
  const std::lock_guard lock(mutex_);
  (void)in_state(qpn, QpState::init, doing);
  (void)planes_.kind->contacts(planes_, destination.gid,
                               destination.qpn);  // throws if there is no way
  RemoteQp remote;
  remote.qpn = destination.qpn;
  remote.start_psn = *change.receive_psn;
  remote.mtu = change.mtu.value_or(0);
  if (const Errc e = engine_.to_rtr_unresolved(qpn, remote, change.rtr); e != Errc::ok)
    throw Error(e, doing + (e == Errc::incompatible ? ": the MTU is larger than its own" : ""));
  resolver_->start(monotonic_now(), qpn, destination);
  resolver_->work(monotonic_now());
  rounds_.after_post(monotonic_now(), false);
  progress_.deadline_changed();
}

QpInfo Lane::query(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) throw Error(Errc::not_found, "this queue pair was closed");
  QpInfo info;
  info.state = qp->state;
  info.cause = qp->cause;
  info.pd = qp->init.pd;
  info.capacity = qp->init.capacity;
  info.attributes = qp->attributes;
  info.signal_all = qp->init.signal_all;
  info.sends = qp->tx.queue.taken();
  if (qp->init.srq) info.srq = device_srq(index_, *qp->init.srq);
  info.send_psn = qp->start_psn;
  if (const auto chosen = chosen_.find(value(qpn)); chosen != chosen_.end())
    info.profiles = chosen->second.profiles;
  if (qp->state == QpState::rtr || qp->state == QpState::rts || qp->state == QpState::err) {
    info.receive_psn = qp->remote.start_psn;
    info.mtu = qp->mtu;
    info.remote_qpn = qp->remote.qpn;
  }
  const auto destination = resolver_ ? resolver_->destination(qpn) : std::nullopt;
  if (destination) info.gid = destination->gid;
  info.resolving = qp->peer == nullptr && destination &&
                   (qp->state == QpState::rtr || qp->state == QpState::rts);
  return info;
}

template <class F>
Errc Lane::disconnect(Qpn qpn, F&& f) noexcept {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) return Errc::not_found;
  const bool connected = qp->peer != nullptr;
  const PeerId peer = qp->remote.peer;
  if (resolver_) resolver_->stop(qpn);
  const Errc e = f();
  if (connected) peers_.forget_unused(peer);
  progress_.deadline_changed();
  return e;
}

Errc Lane::close_qp(Qpn qpn) noexcept {
  return disconnect(qpn, [&] {
    (void)rounds_.advance(monotonic_now());
    engine_.send_held_ack(qpn);
    (void)rounds_.send(monotonic_now());  // sends pending acknowledgements
    around_.events.remove_if([qpn](const DeviceEvent& event) {
      return event.qpn == qpn && (event.kind == DeviceEvent::Kind::qp_error ||
                                  event.kind == DeviceEvent::Kind::last_wqe);
    });
    const Errc e = engine_.destroy_qp(qpn);
    release_profiles(qpn);
    chosen_.erase(value(qpn));
    return e;
  });
}

Errc Lane::reset_qp(Qpn qpn) noexcept {
  return disconnect(qpn, [&] {
    engine_.send_held_ack(qpn);
    (void)rounds_.send(monotonic_now());  // the peer waits for answers
    const Errc e = engine_.to_reset(qpn);
    if (e == Errc::ok) release_profiles(qpn);
    return e;
  });
}

std::string Lane::error_text(Qpn qpn) {
  const std::lock_guard lock(mutex_);
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr) return {};
  const std::string why = resolver_ ? resolver_->failure(qpn) : std::string();
  return peers_.error_text(*qp) + (why.empty() || qp->state != QpState::err ? "" : ": " + why);
}

std::vector<QpReport> Lane::queue_pairs(std::size_t& at, std::size_t most) {
  constexpr std::size_t kReports = 8, kPlaces = 512;  // some microseconds
  std::vector<QpReport> reports;
  reports.reserve(kReports);
  const std::size_t enough = std::min(most, kReports);
  const std::lock_guard lock(mutex_);
  const Time now = monotonic_now();
  const std::size_t end = std::min(engine_.context().objects.qp_places(), at + kPlaces);
  for (; at < end && reports.size() < enough; ++at)
    if (const engine::QueuePairState* qp = engine_.context().objects.qp_at(at))
      reports.push_back(report(*qp, now));
  return reports;
}

QpReport Lane::report(const engine::QueuePairState& qp, Time now) const {
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

// Lane: calls that wait.

/// Between two rounds. The helper receives meanwhile, if there is one.
void Lane::nap(Time end) const noexcept {
  const Time until = std::min(end, monotonic_now() + kLook);
  std::array<pollfd, Progress::kMaxFds> fds;
  const std::size_t n = around_.config.helper ? 0 : progress_.watch(fds.data());
  Progress::sleep({fds.data(), n}, until);
}

// Lane: profiles of its queue pairs, and events of its paths.

void Lane::check_profiles(const QpProfiles& wanted, const std::string& doing) const {
  if (wanted != QpProfiles{} && around_.administration == nullptr)
    throw lacking(doing + ", with profiles", "administration", "control");
}

void Lane::set_profiles(Qpn qpn, const QpProfiles& profiles) {
  const std::lock_guard lock(mutex_);
  chosen_[value(qpn)].profiles = profiles;
}

/// From RESET to INIT, with the profiles that were chosen, which stay ONLINE from now on. Throws
/// mrc::Error. Under the lock.
void Lane::enter_init(Qpn qpn, const std::string& doing) {
  Chosen& chosen = chosen_[value(qpn)];
  const EvTablePtr evs = profiles_of(qpn).evs;
  for (std::size_t i = 0; evs && i < evs->entries.size(); ++i)
    (void)planes_.kind->path_of(planes_, evs->format, evs->entries[i].expanded,
                                static_cast<std::uint16_t>(i));  // throws if this lane has none
  if (around_.administration != nullptr) around_.administration->acquire(chosen.profiles);
  chosen.held = true;
  const Errc e = engine_.to_init(qpn);
  if (e == Errc::ok) return;
  release_profiles(qpn);
  throw Error(e, doing);
}

void Lane::release_profiles(Qpn qpn) noexcept {
  const auto at = chosen_.find(value(qpn));
  if (at == chosen_.end() || !std::exchange(at->second.held, false)) return;
  if (around_.administration != nullptr) around_.administration->release(at->second.profiles);
}

/// Under the lock.
PeerProfiles Lane::profiles_of(Qpn qpn) const {
  const auto at = chosen_.find(value(qpn));
  if (at == chosen_.end() || around_.administration == nullptr) return {};
  PeerProfiles out;
  out.ids = at->second.profiles;
  if (out.ids.ev) out.evs = around_.administration->table(*out.ids.ev);
  if (out.ids.cc) out.cc = around_.administration->cc_options(*out.ids.cc);
  return out;
}

void Lane::report_path_events() noexcept {
  engine_.take_narrow_changes(
      [this](const engine::Peer& peer, PlaneMask changed) { peers_.report_narrow(peer, changed); });
  engine_.take_narrow_paths([this](const engine::Peer& peer, path::PathIndex path) {
    if (narrow_paths_logged_ == kMostNarrowPathsLogged) return;
    ++narrow_paths_logged_;
    peers_.report_narrow_path(peer, path);
  });
  engine_.take_piece_changes([this](const engine::Peer& peer, PlaneMask changed) {
    const PlaneMask singly = changed & peer.pieces.singly();
    // The first time: later trials find the same, and so do other lanes.
    const PlaneMask first = singly & ~around_.singly_logged.fetch_or(singly);
    if (first != 0) peers_.report_singly(peer, first);
  });
  const PlaneMask singly = engine_.planes_sent_singly();
  for (unsigned i = 0; i < planes_.count(); ++i)
    planes_.ports[i]->send_singly((singly >> i & 1) != 0);
  engine_.take_path_events([this](const engine::Peer& peer, const path::PathEvent& event) {
    if (around_.administration != nullptr)
      around_.administration->on_path_event(*this, peer, event);
  });
}

}  // namespace mrc::inline v0_1::detail
