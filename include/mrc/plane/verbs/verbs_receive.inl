// SPDX-License-Identifier: Apache-2.0
// VerbsPort: receiving.
#pragma once

#include <algorithm>
#include <utility>

#include "mrc/plane/verbs/verbs_port.hpp"
#include "mrc/wire/endian.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

/// Receives the packets that fault injection lets through.
struct VerbsPort::Sink {
  VerbsPort& port;
  Time now;
  RxBurst& rx;
  [[nodiscard]] bool full() const noexcept { return rx.room() == 0; }
  void deliver(const RawPacket& raw) noexcept {
    wire::RxPacket packet = raw.facts;
    packet.bytes = raw.bytes;
    // Only here, where the packet is handed on: the engine must learn of it before it settles.
    if (raw.to_port != 0 && !port.settle(now, raw, packet)) return;
    ++port.stats_.rx_packets;
    port.stats_.rx_bytes += packet.bytes.size() + packet.placed + wire::kIcrcSize;
    port.stats_.rx_placed += packet.placed > 0;
    rx.push(packet);
  }
};

void VerbsPort::receive(Time now, RxBurst& rx) noexcept {
  const std::lock_guard lock(mutex_);
  Sink sink{*this, now, rx};
  headers_used_ = 0;
  if (faults_.active()) [[unlikely]]
    faults_.release(now, sink);
  if (queues_ == nullptr) return;
  if (receive_memory_ != queues_->receive_memory()) receive_memory_ = queues_->receive_memory();
  for (const std::uint32_t buffer : handed_out_) queues_->give_back(buffer);
  handed_out_.clear();
  queues_->refill();
  queues_->take_sent(released_);
  if (uc_) receive_placed(now, sink);
  std::array<VerbsArrival, 64> arrivals;
  while (!sink.full()) {
    // A message of headers can bring many packets.
    const std::size_t each = uc_ ? kJoinedAtOnce : 1;
    const std::size_t wanted = std::clamp<std::size_t>(rx.room() / each, 1, arrivals.size());
    const std::size_t count = queues_->take_arrived(std::span(arrivals).first(wanted));
    if (count > 0) ++stats_.rx_calls;
    for (std::size_t i = 0; i < count; ++i) {
      handed_out_.push_back(arrivals[i].buffer);
      take_in(now, arrivals[i], sink);
    }
    if (count < wanted) break;
  }
  if (queues_->failed()) [[unlikely]]
    look();
}

// --- By UD --------------------------------------------------------------------------------------

void VerbsPort::take_in(Time now, const VerbsArrival& arrival, Sink& sink) noexcept {
  const auto immediate = UdImmediate::of(arrival.immediate);
  RawPacket packet;
  wire::RxPacket& facts = packet.facts;
  if (const auto origin = wire::read_grh(arrival.message.first(wire::kGrhSize))) {
    packet.from = origin->source;
    facts.source = source_tag(origin->source);
    facts.ecn = wire::ecn_of(origin->traffic_class);
  }
  if (immediate.kind == UdKind::headers) return take_headers(arrival, packet.from, sink);
  const MutableBytes message = arrival.message.subspan(wire::kGrhSize);
  MutableBytes rest = message;
  if (immediate.kind == UdKind::retransmission) {
    UcOrigins origins;
    const std::size_t prefix = read_uc_origins(rest, origins);
    packet.to_port = static_cast<std::uint16_t>(prefix);
    packet.flow_label = arrival.source;
    rest = prefix == 0 ? MutableBytes{} : rest.subspan(prefix);
  }
  if ((immediate.kind != UdKind::packet && immediate.kind != UdKind::retransmission) ||
      immediate.header_length < sizeof(wire::Bth) ||
      rest.size() < kUdCheckSize + immediate.header_length) {
    ++stats_.rx_malformed;
    return;
  }
  const MutableBytes transport = rest.subspan(kUdCheckSize);
  // What settle() reads stays in front of it.
  packet.bytes = immediate.kind == UdKind::packet ? transport : message;
  facts.udp_length =
      static_cast<std::uint32_t>(transport.size() + wire::kIcrcSize + sizeof(wire::Udp));
  facts.entropy = Ev{immediate.path};
  facts.plane = options_.plane;
  const std::uint32_t check = wire::view_as<wire::Be32>(rest);
  if (options_.icrc)
    facts.check = check - wire::crc32(0, Bytes(transport).first(immediate.header_length));
  if (faults_.active()) [[unlikely]]
    faults_.receive(now, packet, sink);
  else
    sink.deliver(packet);
}

/// A retransmission is handed on: can an earlier copy of it still be written? False: it must not be
/// handed on now; it will come again.
bool VerbsPort::settle(Time now, const RawPacket& raw, wire::RxPacket& packet) noexcept {
  packet.bytes = Bytes(raw.bytes).subspan(raw.to_port + kUdCheckSize);
  if (!uc_) return true;  // nothing was ever placed here
  const auto source = sources_.find(source_of(raw.from, raw.flow_label));
  if (source == sources_.end()) return false;
  VerbsPlacement* placement = source->second->placement.get();
  // Without a placement, all queue pairs that it could have come by are gone, or will be soon.
  if (placement == nullptr) return !source->second->closing;
  UcOrigins origins;
  (void)read_uc_origins(raw.bytes, origins);
  const wire::Bth& bth = wire::view_as<wire::Bth>(packet.bytes);
  const wire::PacketName name{bth.dqp(), bth.psn()};
  switch (placement->receiver.retransmitted(origins.all(), name, now)) {
    case UcVerdict::settled:
      return true;
    case UcVerdict::drop:
      return false;
    case UcVerdict::unsettled:
      break;
  }
  packet.unsettled = true;
  ++stats_.rx_unsettled;
  if (!std::exchange(placement->waiting, true)) uc_->waiting.push_back(source->second);
  look();  // it resets the path if that brings nothing
  return true;
}

// --- Placed by the device -----------------------------------------------------------------------

void VerbsPort::receive_placed(Time now, Sink& sink) noexcept {
  std::erase_if(uc_->in_flight, [this](VerbsSession* session) {
    VerbsUcSend& sender = *session->placement->sender;
    sender.take_sent(released_);
    return !(session->placement->in_flight = sender.busy());
  });
  std::array<VerbsUcArrival, 64> arrivals;
  while (!sink.full()) {
    const std::size_t wanted = std::min(arrivals.size(), sink.rx.room());
    const std::size_t count = uc_->receive->take_arrived(std::span(arrivals).first(wanted));
    for (const VerbsUcArrival& arrival : std::span(arrivals).first(count)) {
      const auto at = uc_->receivers.find(arrival.qpn);
      if (at == uc_->receivers.end()) continue;  // of a path that was reset
      VerbsPlacement& placement = *at->second.session->placement;
      const std::uint16_t path = at->second.path;
      const UcJoined* joined = placement.receiver.arrived(path, placement.receivers[path].epoch,
                                                          arrival.seq, arrival.length, now);
      if (joined != nullptr) deliver_joined(*joined, *at->second.session, sink);
      if (placement.receiver.broken() && !placement.refused) [[unlikely]] {
        placement.refused = true;
        ++stats_.peers_refused;
        look();
      }
    }
    if (count < wanted) break;
  }
}

void VerbsPort::take_headers(const VerbsArrival& arrival, const IpAddress& from,
                             Sink& sink) noexcept {
  const Bytes message = Bytes(arrival.message).subspan(wire::kGrhSize);
  const auto source = sources_.find(source_of(from, arrival.source));
  if (source == sources_.end() || !source->second->placement ||
      message.size() < VerbsPlacement::kIncarnationSize)
    return;
  VerbsSession& session = *source->second;
  if (wire::view_as<wire::Be32>(message) != session.incarnation) return;
  UcHeadersReader reader(message.subspan(VerbsPlacement::kIncarnationSize));
  UcHeader header;
  while (reader.next(header))
    if (const UcJoined* joined = session.placement->receiver.header(header))
      deliver_joined(*joined, session, sink);
  if (reader.malformed()) ++stats_.rx_malformed;
}

/// One that does not fit is lost to the engine: it will be sent again.
void VerbsPort::deliver_joined(const UcJoined& joined, const VerbsSession& session,
                               Sink& sink) noexcept {
  if (sink.full() || headers_used_ == headers_.size()) return;
  auto& header = headers_[headers_used_++];
  std::copy(joined.header.begin(), joined.header.end(), header.begin());
  RawPacket raw;
  raw.bytes = MutableBytes(header).first(joined.header.size());
  raw.from = session.address.ip;
  wire::RxPacket& packet = raw.facts;
  packet.source = source_tag(session.address.ip);
  packet.udp_length = static_cast<std::uint32_t>(joined.header.size() + joined.payload_length +
                                                 wire::kIcrcSize + sizeof(wire::Udp));
  packet.entropy = Ev{joined.path};
  packet.plane = options_.plane;
  packet.placed = joined.payload_length;
  if (options_.icrc) packet.check = joined.check - wire::crc32(0, joined.header);
  if (faults_.active()) [[unlikely]]
    faults_.receive(sink.now, raw, sink);
  else
    sink.deliver(raw);
}

}  // namespace mrc::inline v0_1::port
