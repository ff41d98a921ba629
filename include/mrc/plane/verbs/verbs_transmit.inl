// SPDX-License-Identifier: Apache-2.0
// VerbsPort: sending.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "mrc/plane/sendable.hpp"
#include "mrc/plane/verbs/verbs_port.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

[[nodiscard]] inline const wire::Bth& bth_of(const wire::TxPacket& packet) noexcept {
  return wire::view_as<wire::Bth>({packet.header.data(), packet.header_length});
}

}  // namespace detail

std::uint32_t VerbsPort::transmit(Time now, const wire::TxBurst& burst,
                                  std::span<const wire::TxGroup> groups) noexcept {
  const std::lock_guard lock(mutex_);
  std::uint32_t taken = 0;
  for (const wire::TxGroup& group : groups) {
    if (!link_up()) {
      if (faults_.down()) faults_.count_refused(group.count);
      stats_.tx_errors += group.count;
      break;
    }
    const std::uint32_t n = send_group(now, burst, burst.packets(group));
    taken += n;
    if (n < group.count) break;
  }
  if (uc_ && !uc_->touched.empty()) finish_placing();
  return taken;
}

/// Packets that go nowhere count as taken: their payload is not read.
void VerbsPort::forget(std::span<const wire::TxPacket> packets) noexcept {
  for (const wire::TxPacket& packet : packets)
    if (packet.copy != wire::CopyId::none) released_.push_back(packet.copy);
}

std::uint32_t VerbsPort::send_group(Time now, const wire::TxBurst& burst,
                                    std::span<const wire::TxPacket> packets) noexcept {
  const std::uint16_t path = packets.front().port_path;
  const Peer* peer = peers_.find(packets.front().peer);
  VerbsSession* session = peer != nullptr ? peer->session : nullptr;
  if (session != nullptr && !session->handles)
    session->handles = addresses_->find(session->address.ip);
  const auto count = static_cast<std::uint32_t>(packets.size());
  if (session == nullptr || !session->handles || path >= paths_.size()) {
    stats_.tx_errors += count;
    forget(packets);
    return count;
  }
  if (session->placement) {
    auto& sender = *session->placement->sender;
    if (sender.ready(path) && sender.room(path) <= packets.size()) sender.take_sent(released_);
  }
  // Those that do not go by UD split the group.
  std::size_t first = 0;
  const auto send_before = [&](std::size_t end) {
    const auto part = packets.subspan(first, end - first);
    return part.empty() ? 0 : send(now, burst, part, *session, path);
  };
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const Way way = way_of(now, burst, packets[i], *session);
    if (way == Way::ud) continue;
    const std::uint32_t sent = send_before(i);
    if (sent < i - first || way == Way::busy) {
      if (way == Way::busy) stats_.tx_busy += packets.size() - i;
      return static_cast<std::uint32_t>(first) + sent;
    }
    first = i + 1;
    if (way == Way::placed) {
      if (place(now, burst, packets[i], *session)) continue;
      first = i;  // by UD after all
      continue;
    }
    ++(way == Way::lost ? stats_.tx_packets : stats_.tx_errors);
    forget(packets.subspan(i, 1));
  }
  return static_cast<std::uint32_t>(first) + send_before(packets.size());
}

/// A packet that is sent for the first time may be placed by the peer's device.
VerbsPort::Way VerbsPort::way_of(Time now, const wire::TxBurst&, const wire::TxPacket& packet,
                                 VerbsSession& session) noexcept {
  if (!sendable(packet, capabilities_.max_packet)) [[unlikely]]
    return Way::impossible;
  const bool vanishes = faults_.active() && faults_.vanishes(packet.port_path);
  const wire::Bth& bth = detail::bth_of(packet);
  const bool first = uc_ && wire::is_data(bth.opcode()) && !bth.rtx();
  // With headers on their way anyway, a small one costs no message more.
  const auto worth = [&](const VerbsPlacement& placement) {
    return packet.payload_length >= kMinPlaced ||
           (packet.payload_length > 0 && !placement.headers.empty());
  };
  if (first && session.placement && !vanishes && worth(*session.placement) && packet.pad == 0 &&
      wire::is_write(bth.opcode()) && session.placement->sender->ready(packet.port_path) &&
      !session.placement->refused)
    return session.placement->sender->room(packet.port_path) > 0 ? Way::placed : Way::busy;
  if (first) (void)uc_->sender.remember(packet.owner, bth.psn(), nullptr, now);
  return vanishes ? Way::lost : Way::ud;
}

// --- By UD --------------------------------------------------------------------------------------

std::uint32_t VerbsPort::send(Time now, const wire::TxBurst& burst,
                              std::span<const wire::TxPacket> packets, VerbsSession& session,
                              std::uint16_t path) noexcept {
  // A message of headers must fit behind them.
  if (queues_->room(path) <= packets.size()) queues_->take_sent(released_);
  const std::uint32_t room = queues_->room(path);
  const auto fitting =
      packets.first(std::min<std::size_t>(packets.size(), room > 0 ? room - 1 : 0));
  const std::uint32_t sent = queues_->send(burst, fitting, path, [&](const wire::TxPacket& packet) {
    return target_of(now, packet, session);
  });
  for (const wire::TxPacket& packet : packets.first(sent))
    stats_.tx_bytes += packet.transport_length();
  stats_.tx_packets += sent;
  stats_.tx_busy += packets.size() - sent;
  if (queues_->failed()) [[unlikely]]
    look();
  return sent;
}

/// Where a packet goes. A retransmission says which writes may have carried it before.
VerbsTarget VerbsPort::target_of(Time now, const wire::TxPacket& packet,
                                 VerbsSession& session) noexcept {
  const std::uint16_t path = packet.port_path;
  VerbsTarget target{session.handles->of(path, packet.dscp == options_.dscp.control),
                     session.qpns[path % session.qpns.size()],
                     session.qkey,
                     UdKind::packet,
                     {}};
  const wire::Bth& bth = detail::bth_of(packet);
  if (!uc_ || !wire::is_data(bth.opcode()) || !bth.rtx() || !uc_->sender.knows(session.number))
    return target;
  UcOrigins origins;
  origins.count = 0;
  UcName name;
  switch (uc_->sender.origin(packet.owner, bth.psn(), session.number, now, name)) {
    case UcOriginKind::none:
      return target;
    case UcOriginKind::name:
      origins.add(name);
      break;
    case UcOriginKind::unknown:
      uc_->sender.barrier(session.number, origins);
      break;
  }
  const std::size_t size = write_uc_origins(prefix_, origins.all());
  if (size == 0) return target;  // no path was used
  if (session.placement)
    for (const UcName& origin : origins.all()) mark(session, origin.path);
  target.kind = UdKind::retransmission;
  target.prefix = Bytes(prefix_).first(size);
  return target;
}

// --- Placed by the peer's device ----------------------------------------------------------------

/// finish_placing() has something to do for the session.
void VerbsPort::touch(VerbsSession& session) noexcept {
  if (!std::exchange(session.placement->touched, true)) uc_->touched.push_back(&session);
}

/// The path is to bring something later soon.
void VerbsPort::mark(VerbsSession& session, std::uint16_t path) noexcept {
  touch(session);
  session.placement->marked |= std::uint64_t{1} << path;
}

/// 0: the peer's device may not write there, or it is not known yet.
std::uint32_t VerbsPort::device_key(VerbsSession& session, std::uint32_t key) noexcept {
  const auto at = session.placement->keys.find(key);
  if (at != session.placement->keys.end()) return at->second;
  if (session.queries.size() < VerbsSession::kMaxQueries && session.queries.try_emplace(key).second)
    look();
  return 0;
}

/// Prepares the write of a packet and its header. False: it has to go by UD.
bool VerbsPort::place(Time now, const wire::TxBurst& burst, const wire::TxPacket& packet,
                      VerbsSession& session) noexcept {
  VerbsPlacement& placement = *session.placement;
  const wire::WriteView view = wire::view_write({packet.header.data(), packet.header_length});
  const std::uint16_t path = packet.port_path;
  const Psn psn = view.bth->psn();
  std::array<ibv_sge, VerbsUcSend::kMaxPieces> pieces;
  const std::uint32_t rkey = device_key(session, view.reth->rkey);
  const std::size_t count = rkey == 0 ? 0 : queues_->locate(burst.sges(packet), pieces);
  if (count == 0 || !uc_->sender.knows(session.number)) {
    (void)uc_->sender.remember(packet.owner, psn, nullptr, now);
    return false;
  }
  const UcName name = uc_->sender.assign(session.number, path);
  UcHeader header;
  header.name = name;
  header.payload_length = static_cast<std::uint16_t>(packet.payload_length);
  header.header = {packet.header.data(), packet.header_length};
  header.check = wire::crc32(0, header.header) + packet.check_seed;
  touch(session);
  bool good = uc_->sender.remember(packet.owner, psn, &name, now);
  if (good && !placement.headers.append(header)) {
    send_headers(session, path);
    good = placement.headers.append(header);
  }
  if (!good) {
    uc_->sender.take_back(session.number, name);
    return false;
  }
  placement.prepared |= std::uint64_t{1} << path;
  placement.sender->add(path, {pieces.data(), count}, view.reth->va, rkey, name.seq, packet.copy);
  ++stats_.tx_placed;
  ++stats_.tx_packets;
  stats_.tx_bytes += packet.transport_length();
  return true;
}

void VerbsPort::send_headers(VerbsSession& session, std::uint16_t path) noexcept {
  VerbsPlacement& placement = *session.placement;
  if (!placement.headers.empty() && queues_->room(path) > 0) {
    const VerbsTarget target{session.handles->of(path, false),
                             session.qpns[path % session.qpns.size()],
                             session.qkey,
                             UdKind::headers,
                             {}};
    const wire::Be32 incarnation = session.peer.incarnation;
    std::memcpy(placement.message.data(), &incarnation, sizeof incarnation);
    (void)queues_->send_bytes(
        Bytes(placement.message).first(sizeof incarnation + placement.headers.size()), path,
        target);
  }  // without them, the packets count as lost
  placement.headers.clear();
}

/// Sends what place() and mark() have prepared.
void VerbsPort::finish_placing() noexcept {
  for (VerbsSession* session : uc_->touched) {
    VerbsPlacement& placement = *session->placement;
    VerbsUcSend& sender = *placement.sender;
    for (std::uint64_t marked = std::exchange(placement.marked, 0); marked != 0;
         marked &= marked - 1) {
      const auto path = static_cast<std::uint16_t>(std::countr_zero(marked));
      if (!sender.ready(path) || sender.room(path) == 0) continue;
      const UcName name = uc_->sender.assign(session->number, path);
      sender.add(path, {}, 0, 0, name.seq, wire::CopyId::none);
      placement.prepared |= std::uint64_t{1} << path;
      ++stats_.tx_markers;
    }
    std::uint16_t path = 0;
    for (std::uint64_t prepared = std::exchange(placement.prepared, 0); prepared != 0;
         prepared &= prepared - 1) {
      path = static_cast<std::uint16_t>(std::countr_zero(prepared));
      (void)sender.post(path);
      ++doorbells_;
    }
    if (session->handles) send_headers(*session, path);
    if (!std::exchange(placement.in_flight, true)) uc_->in_flight.push_back(session);
    placement.touched = false;
    if (sender.failed()) [[unlikely]]
      look();
  }
  uc_->touched.clear();
}

}  // namespace mrc::inline v0_1::port
