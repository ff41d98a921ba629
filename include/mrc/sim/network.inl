// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/network.hpp"

namespace mrc::inline v0_1::sim {

LinkId Network::add_link(NodeId from, NodeId to, const LinkSettings& settings, std::string name,
                         std::uint32_t from_port, std::uint32_t to_port) {
  Link link;
  link.from = from;
  link.to = to;
  link.from_port = from_port;
  link.to_port = to_port;
  if (!(settings.gbps > 0) || settings.delay < Duration::zero())
    throw Error(Errc::invalid_argument, "link " + name + ": rate and delay must be positive");
  link.settings = settings;
  link.fs_per_byte = fs_per_byte(settings.gbps);
  link.name = std::move(name);
  links_.push_back(std::move(link));
  return LinkId{static_cast<std::uint32_t>(links_.size() - 1)};
}

void Network::share_buffer(std::span<const LinkId> queues, std::uint64_t bytes, double alpha) {
  buffers_.push_back({bytes, 0, alpha});
  for (const LinkId id : queues) at(id).buffer = static_cast<std::int32_t>(buffers_.size() - 1);
}

// --- queues
// ---------------------------------------------------------------------------------------

void Network::push(Link::Fifo& queue, PacketId id) noexcept {
  Packet& p = packets_[id];
  p.next = kNoPacket;
  if (queue.empty())
    queue.head = id;
  else
    packets_[queue.tail].next = id;
  queue.tail = id;
  queue.bytes += p.wire_length();
}

PacketId Network::pop(Link::Fifo& queue) noexcept {
  const PacketId id = queue.head;
  const Packet& p = packets_[id];
  queue.head = p.next;
  if (queue.empty()) queue.tail = kNoPacket;
  queue.bytes -= p.wire_length();
  return id;
}

/// Whether the packet's current class has room for it.
bool Network::has_room(const Link& link, const Packet& packet) const noexcept {
  const QueueSettings& q = link.settings.queue;
  const bool data = packet.traffic == TrafficClass::data;
  const std::uint64_t depth = data ? link.data.bytes : link.control.bytes;
  std::uint64_t limit = data ? q.data_limit : q.control_limit;
  if (link.buffer >= 0) {
    const SharedBuffer& b = buffers_[static_cast<std::size_t>(link.buffer)];
    if (b.used + packet.wire_length() > b.size) return false;
    if (data) limit = static_cast<std::uint64_t>(b.alpha * static_cast<double>(b.size - b.used));
  }
  return depth + packet.wire_length() <= limit;
}

/// Admission of a packet that has to be queued: marks or trims it. False: no room.
bool Network::admit(Link& link, Packet& packet) {
  if (has_room(link, packet)) {
    if (packet.traffic == TrafficClass::data) mark(link, packet);
    return true;
  }
  const QueueSettings& q = link.settings.queue;
  const std::uint8_t dscp = packet.outer().dscp();
  if (packet.traffic != TrafficClass::data || q.overflow != Overflow::trim ||
      (dscp != q.trimmable_dscp && dscp != q.retransmit_dscp))
    return false;
  packet.trim(q.trimmed_dscp);
  if (!has_room(link, packet)) return false;
  ++link.stats.trimmed;
  end(packet, PacketFate::trimmed);
  return true;
}

void Network::mark(Link& link, Packet& packet) {
  const QueueSettings& q = link.settings.queue;
  const std::uint64_t depth = link.data.bytes;
  if (q.ecn_max == 0 || depth <= q.ecn_min || packet.outer().ecn() == Ecn::not_ect) return;
  if (depth < q.ecn_max) {
    const double share =
        static_cast<double>(depth - q.ecn_min) / static_cast<double>(q.ecn_max - q.ecn_min);
    if (!random_.chance(share * q.ecn_probability)) return;
  }
  packet.mark_ce();
  ++link.stats.marked;
}

/// Updates buffer accounting, and pauses or resumes the link by which a packet arrived.
void Network::account(const Link& link, const Packet& packet, bool enters) {
  if (link.buffer >= 0) {
    SharedBuffer& b = buffers_[static_cast<std::size_t>(link.buffer)];
    b.used += enters ? packet.wire_length() : -std::uint64_t{packet.wire_length()};
  }
  const PfcSettings& pfc = pfc_[value(link.from)];
  if (pfc.xoff == 0 || packet.ingress == kNoLink || packet.traffic != TrafficClass::data) return;
  Link& in = at(packet.ingress);
  in.buffered += enters ? packet.wire_length() : -std::uint64_t{packet.wire_length()};
  const bool pause = in.pausing ? in.buffered > pfc.xon : in.buffered >= pfc.xoff;
  if (pause == in.pausing) return;
  in.pausing = pause;
  events_.post(now() + in.settings.delay, EventKind::link_pause, value(packet.ingress), pause);
}

void Network::send(LinkId id, PacketId packet) {
  Link& link = at(id);
  Packet& p = packets_[packet];
  if (!link.up) {
    ++link.stats.refused;
    if (p.length > p.head_length + wire::kIcrcSize) {
      ++link.stats.refused_data;
      link.stats.last_refused = now();
    }
    return drop(packet, PacketFate::link_down);
  }
  const bool waits = now_ns() * kFsPerNs < link.busy_until || link.queued() != 0 ||
                     (link.paused && p.traffic == TrafficClass::data);
  if (!waits) return transmit(id, link, packet);
  if (!admit(link, p)) {
    ++link.stats.dropped;
    return drop(packet, PacketFate::overflow);
  }
  account(link, p, true);
  if (p.traffic == TrafficClass::control)
    push(link.control, packet);
  else {
    push(link.data, packet);
    link.stats.max_queue = std::max(link.stats.max_queue, link.data.bytes);
  }
  schedule(id, link);
}

/// Posts the next event to serve the queue, if one is needed.
void Network::schedule(LinkId id, Link& link) {
  const bool waiting = !link.control.empty() || (!link.data.empty() && !link.paused);
  if (link.scheduled || !waiting) return;
  link.scheduled = true;
  const std::int64_t free = (link.busy_until + kFsPerNs - 1) / kFsPerNs;
  events_.post(Time{Duration{std::max(free, now_ns())}}, EventKind::link_free, value(id),
               link.epoch);
}

void Network::transmit(LinkId id, Link& link, PacketId packet) {
  Packet& p = packets_[packet];
  // It may have become free within the current nanosecond: rounding errors must not add up.
  const std::int64_t now_fs = now_ns() * kFsPerNs;
  const std::int64_t start = link.busy_until > now_fs - kFsPerNs ? link.busy_until : now_fs;
  link.busy_until = start + p.wire_length() * link.fs_per_byte;
  ++link.stats.packets;
  link.stats.bytes += p.wire_length();
  p.link_epoch = link.epoch;
  const std::int64_t sent = (link.busy_until + kFsPerNs - 1) / kFsPerNs;
  events_.post(Time{Duration{sent}} + link.settings.delay, EventKind::link_rx, value(id),
               value(packet));
}

void Network::on_link_free(LinkId id, std::uint32_t epoch) {
  Link& link = at(id);
  if (epoch != link.epoch) return;  // sent before the link went down
  link.scheduled = false;
  Link::Fifo* queue = !link.control.empty()                ? &link.control
                      : !link.data.empty() && !link.paused ? &link.data
                                                           : nullptr;
  if (queue == nullptr) return;
  const PacketId packet = pop(*queue);
  account(link, packets_[packet], false);
  transmit(id, link, packet);
  schedule(id, link);
  nodes_[value(link.from)]->on_link_ready(id);
}

void Network::on_link_rx(LinkId id, PacketId packet) {
  Link& link = at(id);
  Packet& p = packets_[packet];
  const bool cut = p.link_epoch != link.epoch;
  if (cut || (link.loss > 0 && random_.chance(link.loss))) {
    ++link.stats.lost;
    return drop(packet, cut ? PacketFate::link_down : PacketFate::loss_rate);
  }
  if (link.corruption > 0 && random_.chance(link.corruption)) {
    ++link.stats.corrupted;
    p.corrupted = true;
  }
  p.ingress = id;
  nodes_[value(link.to)]->on_packet(id, packet);
}

void Network::on_pause(LinkId id, bool pause) {
  Link& link = at(id);
  if (link.paused == pause) return;
  link.paused = pause;
  if (pause) {
    ++link.stats.pauses;
    link.paused_at = now();
  } else {
    link.stats.paused += now() - link.paused_at;
    schedule(id, link);
  }
}

// --- faults
// ---------------------------------------------------------------------------------------

void Network::empty_queue(Link& link, Link::Fifo& queue, std::uint64_t& counter) {
  while (!queue.empty()) {
    const PacketId packet = pop(queue);
    account(link, packets_[packet], false);
    ++counter;
    drop(packet, PacketFate::link_down);
  }
}

void Network::set_link_up(LinkId id, bool up) {
  Link& link = at(id);
  if (link.up == up) return;
  link.up = up;
  if (!up) {
    empty_queue(link, link.control, link.stats.lost);
    empty_queue(link, link.data, link.stats.lost);
    ++link.epoch;
    link.scheduled = false;
    link.busy_until = 0;
    on_pause(id, false);
  } else if (link.pausing) {
    on_pause(id, true);
  }
  nodes_[value(link.from)]->on_link_state(id, up);
  nodes_[value(link.to)]->on_link_state(id, up);
}

// --- running
// --------------------------------------------------------------------------------------

void Network::dispatch(const Event& event) {
  const LinkId link{event.target};
  switch (event.kind) {
    case EventKind::link_free:
      return on_link_free(link, event.argument);
    case EventKind::link_rx:
      return on_link_rx(link, PacketId{event.argument});
    case EventKind::link_pause:
      return on_pause(link, event.argument != 0);
    case EventKind::node_timer:
      return nodes_[event.target]->on_timer(event.argument);
    case EventKind::call: {
      const auto what = std::move(calls_[event.target]);
      calls_[event.target] = nullptr;
      free_calls_.push_back(event.target);
      return what();
    }
  }
}

/// Prefetches what the next event will use: links and packets are scattered in memory, and a run is
/// memory-bound.
void Network::prefetch() const noexcept {
  const Event next = events_.upcoming();
  if (next.kind != EventKind::link_rx) return;
  const auto* link = reinterpret_cast<const char*>(&links_[next.target]);
  __builtin_prefetch(link);
  __builtin_prefetch(link + 64);
  const auto* packet = reinterpret_cast<const char*>(&packets_[PacketId{next.argument}]);
  __builtin_prefetch(packet);
  __builtin_prefetch(packet + 64);
  __builtin_prefetch(packet + 128);
}

void Network::run_until(Time limit) {
  if (limit > kLatest && limit != kNever)
    throw Error(Errc::invalid_argument, "a simulation can't go beyond 9,000 s");
  stopped_ = false;
  while (!stopped_) {
    const auto next = events_.pop(limit);
    if (!next) break;
    const Event& event = *next;
    prefetch();
    ++count_;
    const std::uint64_t word = static_cast<std::uint64_t>(event.when.time_since_epoch().count()) ^
                               std::uint64_t{event.target} << 40 ^
                               std::uint64_t{event.argument} << 20 ^
                               static_cast<std::uint64_t>(event.kind) << 60;
    digest_ = std::rotl((digest_ ^ word) * 0x9E3779B97F4A7C15u, 29);
    dispatch(event);
  }
  if (!stopped_ && limit != kNever) events_.pass_to(limit);
}

}  // namespace mrc::inline v0_1::sim
