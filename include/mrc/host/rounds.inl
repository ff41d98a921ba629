// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/host/rounds.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <fstream>
#include <string>
#include <utility>

#include "mrc/host/lane.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::detail {

/// Bursts that one round sends at most before it receives again.
inline constexpr unsigned kBurstsPerRound = 4;
/// Ports are read more than once in a round that begins so long after the one before,
inline constexpr Duration kPause = std::chrono::microseconds(500);
/// while one of them brings so many packets, which may not have been all,
inline constexpr std::size_t kManyPackets = 8;
/// and so often at most, since a peer may send faster than this side reads.
inline constexpr unsigned kReadsAfterPause = 16;
/// A process that ran out of its processor quota has no round for so long, at least;
inline constexpr Duration kQuotaPause = std::chrono::milliseconds(10);
/// the quota is looked at so often, at most.
inline constexpr Duration kQuotaLookEvery = std::chrono::seconds(1);
/// Links are looked at this often while packets come, and in every round in which none do.
inline constexpr Duration kWatchEvery = std::chrono::microseconds(5);
/// A port that was busy is tried again after this long.
inline constexpr Duration kBusyRetry = std::chrono::microseconds(50);

Rounds::Rounds(const LaneParts& parts, Lane& owner, Time start)
    : lane_(parts),
      owner_(owner),
      tx_(std::max<std::size_t>(parts.planes.burst, wire::parts_of(parts.planes.mtu))),
      by_plane_(parts.planes.count()) {
  counts_.rx_disabled.resize(parts.planes.count());
  counts_.times_down.resize(parts.planes.count());
  for (auto& groups : by_plane_) groups.reserve(tx_.room());
  for (unsigned i = 0; i < lane_.planes.count(); ++i) {
    const auto plane = static_cast<Plane>(i);
    if (lane_.planes.up(i))
      planes_up_ |= plane_bit(plane);
    else
      lane_.engine.set_plane_up(start, plane, false);
  }
  if (!reports_planes()) next_quota_look_ = kNever;
  choose_gid_plane();
}

bool Rounds::advance(Time now) noexcept {
  const bool moved = take_in(now);
  return send(now) || moved;
}

bool Rounds::advance_out_first(Time now) noexcept {
  const bool moved = wants_to_send(now) && send(now);
  const bool came = take_in(now);
  work_left_ = work_left_ || lane_.engine.has_output();
  return moved || came;
}

bool Rounds::send(Time now) noexcept {
  const std::uint64_t before = moved_;
  work_left_ = transmit(now);
  signal_events();
  return moved_ != before;
}

void Rounds::after_post(Time now, bool idle) noexcept {
  work_left_ = !idle || transmit(now);
  signal_events();
}

Time Rounds::next_deadline() const noexcept {
  if (work_left_) return Time::min();
  Time next = std::min(lane_.engine.next_deadline(), retry_);
  for (const LaneService* service : services_) next = std::min(next, service->next_deadline());
  for (const auto& port : lane_.planes.ports) next = std::min(next, port->next_release());
  return next;
}

/// Everything of a round but transmission. True if there were packets.
bool Rounds::take_in(Time now) noexcept {
  if (lane_.steering.stale()) [[unlikely]]
    owner_.refresh_steering(now);
  for (LaneService* service : services_) service->begin(now);
  const bool moved = receive(now);
  for (LaneService* service : services_) service->work(now);
  // Only after all ports are read: packets still queued in a socket must not be judged lost.
  lane_.engine.review_losses(now);
  // A program may wait for what came. Links can wait for the next round, which is near.
  watch_due_ = moved && now - last_watch_ <= kWatchEvery;
  if (!watch_due_) {
    last_watch_ = now;
    watch_links(now);
  }
  if (lane_.engine.next_deadline() <= now) lane_.engine.on_time(now);
  signal_events();
  return moved;
}

/// After a pause more may wait than one reading brings. What is still in a socket must be taken
/// neither for lost, here, nor for missing, in the answers to the peer.
bool Rounds::receive(Time now) noexcept {
  const Duration pause = now - std::exchange(last_round_, now);
  if (pause > kQuotaPause && now >= next_quota_look_) [[unlikely]]
    look_for_quota(now);
  const bool paused = pause > kPause;
  bool any = receive_once(now);
  for (unsigned n = 0; paused && more_waits_ && n < kReadsAfterPause; ++n) {
    if (lane_.engine.endpoint().has_resolution())  // it keeps but so many
      for (LaneService* service : services_) service->work(now);
    any = receive_once(now) || any;
  }
  return any;
}

bool Rounds::receive_once(Time now) noexcept {
  bool any = false;
  more_waits_ = false;
  const PlaneMask with_payload =
      lane_.engine.options().holding_planes | lane_.engine.options().placing_planes;
  for (unsigned i = 0; i < lane_.planes.count(); ++i) {
    Port& port = *lane_.planes.ports[i];
    rx_.clear();
    port.receive(now, rx_);
    if (!lane_.planes.enabled(i)) [[unlikely]] {
      counts_.rx_disabled[i] += rx_.packets().size();
      rx_.clear();
    }
    if (!lane_.filter.everybody()) [[unlikely]]
      rx_.erase_if([this](const wire::RxPacket& packet) {
        return packet.origin != nullptr &&
               wire::is_datagram(wire::view_as<wire::Bth>(packet.bytes).opcode()) &&
               lane_.filter.refuses(packet.origin->source);
      });
    if (lane_.config.expert.cc_receiver_penalty)
      lane_.engine.set_receive_fill(static_cast<Plane>(i), port.receive_fill());
    if (!rx_.empty()) {
      any = true;
      moved_ += rx_.packets().size();
      more_waits_ = more_waits_ || rx_.packets().size() >= kManyPackets;
      lane_.engine.receive(now, rx_.packets());
      if (!lane_.engine.early().empty()) [[unlikely]]
        take_early(now);
      if (lane_.engine.options().unconnected_requests > 0)
        answer_strangers(now, static_cast<Plane>(i));
    }
    if ((with_payload >> i & 1) != 0) any = take_back(now, port, static_cast<Plane>(i)) || any;
  }
  return any;
}

/// The first packets of peers that are another implementation of MRC, and did not wait.
void Rounds::take_early(Time now) noexcept {
  std::size_t taken = 0;
  for (const wire::RxPacket& packet : lane_.engine.early()) {
    const auto accepts = [&](LaneService* service) { return service->accepts(now, packet); };
    if (std::none_of(services_.begin(), services_.end(), accepts)) continue;
    lane_.engine.receive(now, {&packet, 1});
    ++taken;
  }
  lane_.engine.forget_early(taken);
}

/// Tells the engine of payload that the port no longer reads or writes.
bool Rounds::take_back(Time now, Port& port, Plane plane) noexcept {
  const auto released = port.take_released();
  if (!released.empty()) lane_.engine.on_released(released);
  const auto settled = port.take_settled();
  if (!settled.empty()) lane_.engine.on_settled(now, plane, settled);
  return !released.empty() || !settled.empty();
}

bool Rounds::arm() noexcept {
  bool quiet = !watch_due_;
  for (const auto& port : lane_.planes.ports) quiet = port->arm() && quiet;
  return quiet;
}

void Rounds::answer_strangers(Time now, Plane plane) noexcept {
  wire::UnconnectedRequest request;
  while (lane_.engine.endpoint().poll_unconnected_request(request))
    ++(lane_.planes.kind->answer_stranger(now, lane_.planes, request)
           ? counts_.unconnected_answered
           : counts_.unconnected_refused);
  lane_.planes.kind->flush_answers(now, lane_.planes, plane);
}

/// Nobody made progress for a while. Was that the kernel?
void Rounds::look_for_quota(Time now) noexcept try {
  next_quota_look_ = now + kQuotaLookEvery;
  const auto throttled = throttled_.look();
  if (!throttled) return;
  next_quota_look_ = kNever;
  if (!ThrottleWatch::first_to_tell()) return;
  lane_.log.warn(
      "the kernel has stopped this process " + std::to_string(throttled->times) + " times, for " +
      std::to_string(throttled->time / std::chrono::milliseconds(1)) + " ms, since control group " +
      throttled->group.string() +
      " has used up its processor time; packets wait meanwhile: raise its quota (cpu.max, or "
      "cpu.cfs_quota_us), or give it whole processors");
} catch (const std::exception&) {  // out of memory: it is looked at again, or nobody tells
}

/// Tells the engine of planes that came or went; receive() has refreshed the ports' link states.
void Rounds::watch_links(Time now) noexcept {
  const std::uint32_t full = lane_.planes.mtu + kPacketOverhead;
  for (unsigned i = 0; i < lane_.planes.count(); ++i) {
    const Port& port = *lane_.planes.ports[i];
    const std::uint32_t room = port.capabilities().max_packet;
    // Each has no effect if nothing has changed.
    lane_.engine.set_plane_narrow(now, static_cast<Plane>(i), room < full);
    lane_.engine.set_plane_up(now, static_cast<Plane>(i),
                              lane_.planes.up(i) && room >= std::min(full, wire::kMaxPart));
    const bool up = usable(i);
    if (up == ((planes_up_ >> i & 1) != 0)) continue;
    planes_up_ ^= plane_bit(static_cast<Plane>(i));
    counts_.times_down[i] += !up;
    if (!reports_planes()) continue;
    DeviceEvent event;
    event.kind = up ? DeviceEvent::Kind::plane_up : DeviceEvent::Kind::plane_down;
    event.plane = static_cast<Plane>(i);
    lane_.events.push(event);
  }
  choose_gid_plane();
}

/// The GID's plane stays the same while it is up, or while none is.
void Rounds::choose_gid_plane() noexcept {
  if (planes_up_ == 0 || (planes_up_ & plane_bit(lane_.planes.gid_plane)) != 0) return;
  lane_.planes.gid_plane = static_cast<Plane>(std::countr_zero(planes_up_));
  gid_plane_.store(lane_.planes.gid_plane, std::memory_order_relaxed);
}

bool Rounds::usable(unsigned plane) noexcept {
  const Port& port = *lane_.planes.ports[plane];
  if (!lane_.planes.up(plane)) return false;
  const std::uint32_t room = port.capabilities().max_packet;
  const PlaneMask bit = plane_bit(static_cast<Plane>(plane));
  if (lane_.planes.mtu + kPacketOverhead <= room) {
    too_small_ &= ~bit;
    return true;
  }
  if (reports_planes() && (too_small_ & bit) == 0)
    lane_.log.warn("plane " + std::to_string(plane) + ": the interface's MTU leaves " +
                   std::to_string(room) + " bytes for a packet, needed are " +
                   std::to_string(lane_.planes.mtu + kPacketOverhead) +
                   "; it carries data only if no other plane does, in smaller packets, until it is "
                   "raised with `ip link set`");
  too_small_ |= bit;
  return false;
}

/// True if there is more to send than one round sends.
bool Rounds::transmit(Time now) noexcept {
  if (now >= retry_) {
    busy_ = 0;
    retry_ = kNever;
  }
  for (unsigned n = 0; n < kBurstsPerRound; ++n) {
    if (lane_.steering.stale()) [[unlikely]]
      owner_.refresh_steering(now);
    tx_.clear();
    lane_.engine.poll_transmit(now, ~(busy_ | lane_.planes.disabled), tx_);
    if (tx_.empty()) return false;
    // Each group or plane costs a system call, and the engine puts control packets in front. In
    // small bursts data goes first, since a program waits for it. In large ones sockets may fill
    // up, and control packets that are refused are lost, so these go first.
    const auto groups = tx_.groups();
    const std::size_t begin = tx_.size() <= lane_.planes.few_packets ? tx_.control_groups() : 0;
    for (auto& of_plane : by_plane_) of_plane.clear();
    for (const auto part : {groups.subspan(begin), groups.first(begin)})
      for (const wire::TxGroup& group : part) by_plane_[group.plane].push_back(group);
    for (std::size_t plane = 0; plane < by_plane_.size(); ++plane)
      if (!by_plane_[plane].empty()) transmit(now, static_cast<Plane>(plane), by_plane_[plane]);
  }
  return true;
}

void Rounds::transmit(Time now, Plane plane, std::span<const wire::TxGroup> groups) noexcept {
  std::uint32_t taken = lane_.planes.ports[plane]->transmit(now, tx_, groups);
  moved_ += taken;
  for (const wire::TxGroup& group : groups) {
    const std::uint32_t sent = std::min(taken, group.count);
    taken -= sent;
    if (sent == group.count) continue;
    lane_.engine.on_untransmitted(now, tx_.packets(group).subspan(sent));
    busy_ |= plane_bit(plane);
    retry_ = now + kBusyRetry;
  }
}

void Rounds::signal_events() noexcept {
  if (lane_.engine.has_path_events()) owner_.report_path_events();
  using Kind = engine::Engine::Event::Kind;
  engine::Engine::Event event;
  while (lane_.engine.poll_event(event)) {
    if (event.kind == Kind::completion || event.kind == Kind::cq_overrun) {
      const bool solicited = event.solicited || event.kind == Kind::cq_overrun;
      const Arm again = lane_.cq_events.signal(event.cq, solicited);
      if (again != Arm::none) (void)lane_.engine.arm_cq(event.cq, again);
    }
    if (event.kind != Kind::completion) report(event);
  }
}

/// Tells the application.
void Rounds::report(const engine::Engine::Event& event) noexcept {
  using Kind = engine::Engine::Event::Kind;
  DeviceEvent out;
  switch (event.kind) {
    case Kind::cq_overrun:
      out.kind = DeviceEvent::Kind::cq_overrun;
      out.cq = event.cq;
      break;
    case Kind::qp_error:
      out.kind = DeviceEvent::Kind::qp_error;
      out.qpn = event.qpn;
      out.cause = event.cause;
      break;
    case Kind::srq_limit:
      out.kind = DeviceEvent::Kind::srq_limit;
      out.srq = device_srq(lane_.index, event.srq);
      break;
    case Kind::last_wqe:
      out.kind = DeviceEvent::Kind::last_wqe;
      out.qpn = event.qpn;
      break;
    case Kind::completion:
      return;
  }
  lane_.events.push(out);
}

/// What the kernel has counted of a group; nothing if it has no such file.
[[nodiscard]] std::optional<ThrottleWatch::Throttled> read_throttled(
    const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.stat");
  std::optional<ThrottleWatch::Throttled> result;
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (!result) result = ThrottleWatch::Throttled{group, 0, {}};
    if (name == "nr_throttled") result->times = value;
    if (name == "throttled_usec") result->time = std::chrono::microseconds(value);
    if (name == "throttled_time") result->time = Duration(value);
  }
  return result;
}

ThrottleWatch::ThrottleWatch(const std::filesystem::path& groups,
                             const std::filesystem::path& own) {
  std::ifstream file(own);
  // NUMBER:CONTROLLERS:PATH; version 2 has no controllers, and is mounted at the root, or, beside
  // version 1, has no quotas.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    std::filesystem::path mount = groups;
    if (controllers.find(",cpu,") != std::string::npos)
      mount /= "cpu";
    else if (controllers != ",,")
      continue;
    // In a container the path may be that of the host, where only its end, or nothing, exists.
    std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (;; path = path.parent_path()) {
      if (auto counted = read_throttled(path.empty() ? mount : mount / path))
        before_.push_back(*std::move(counted));
      if (path.empty()) break;
    }
  }
}

std::optional<ThrottleWatch::Throttled> ThrottleWatch::look() const {
  for (const Throttled& before : before_) {
    auto now = read_throttled(before.group);
    if (!now || now->times <= before.times) continue;
    now->times -= before.times;
    now->time -= before.time;
    return now;
  }
  return std::nullopt;
}

bool ThrottleWatch::first_to_tell() noexcept {
  static std::atomic<bool> told = false;
  return !told.exchange(true);
}

}  // namespace mrc::inline v0_1::detail
