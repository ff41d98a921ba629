// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/baseline/roce_host.hpp"

#include <algorithm>
#include <cstring>

namespace mrc::inline v0_1::sim::baseline {

RoceHost::RoceHost(Network& network, unsigned number, const RoceHostSettings& settings,
                   std::uint64_t seed)
    : network_(network), number_(number), settings_(settings), random_(seed) {
  (void)RcSender(settings.sender);  // throws here rather than when a flow is opened
  first_qpn_ = 0x100 + 2 * random_.below(1u << 21);
  node_ = network.add_node(*this);
}

void RoceHost::attach(const Fabric& fabric) {
  settings_.reaction.line_rate =
      static_cast<std::uint64_t>(fabric.settings().host_gbps * 1e9 + 0.5);
  (void)DcqcnReactionPoint(settings_.reaction);
  for (unsigned p = 0; p < fabric.settings().planes; ++p)
    outlets_.push_back({.link = fabric.host_up(number_, p)});
}

// --- queue pairs --------------------------------------------------------------------------------

std::uint32_t RoceHost::connect(RoceHost& from, RoceHost& to, std::uint32_t context) {
  const auto index = static_cast<std::uint32_t>(from.senders_.size());
  const Qpn local = from.qpn(index, false), remote = to.qpn(to.receivers_.size(), true);
  const std::uint16_t port = roce_source_port(local, remote);
  const auto plane = static_cast<std::uint8_t>(port % from.outlets_.size());
  RcSenderOptions sender = from.settings_.sender;
  RcReceiverOptions receiver = to.settings_.receiver;
  sender.first_psn = receiver.first_psn = Psn{from.random_.below(1u << 24)};
  from.senders_.push_back({.way = {remote, to.number_, port, plane},
                           .sender = RcSender(sender),
                           .reaction = DcqcnReactionPoint(from.settings_.reaction),
                           .context = context});
  to.receivers_.push_back({{local, from.number_, port, plane}, RcReceiver(receiver), context});
  return index;
}

Errc RoceHost::post(std::uint32_t index, std::uint64_t message, std::uint32_t bytes, bool notify) {
  const Errc error = senders_[index].sender.post(message, bytes, notify);
  if (error == Errc::ok) update(index);
  return error;
}

// --- events -------------------------------------------------------------------------------------

void RoceHost::on_packet(LinkId, PacketId id) {
  const Packet& p = network_.packets()[id];
  RoceFrame frame;
  std::uint64_t* bad = nullptr;
  if (p.corrupted)
    bad = &stats_.bad_icrc;
  else if (p.trimmed)
    bad = &stats_.trimmed;
  else if (parse_roce_frame(Bytes(p.head.data(), p.head_length), frame) != RoceError::none)
    bad = &stats_.malformed;
  network_.drop(id, dead_         ? PacketFate::dead_host
                    : p.corrupted ? PacketFate::corrupted
                                  : PacketFate::arrived);
  if (dead_) return;
  const std::uint32_t place = mrc::value(frame.header.dqp) - first_qpn_;  // wraps: out of range
  const std::uint32_t index = place / 2;
  const bool data = roce_is_write(frame.header.opcode);
  const bool known = place % 2 == data && index < (data ? receivers_.size() : senders_.size());
  if (bad == nullptr && !known) bad = &stats_.malformed;
  if (bad != nullptr) {
    ++*bad;
    return;
  }
  if (data)
    on_data(frame, receivers_[index]);
  else
    on_answer(frame.header, index);
  work();
}

void RoceHost::on_data(const RoceFrame& frame, Receiver& r) {
  const bool marked = frame.ecn == Ecn::ce;
  stats_.marked += marked;
  const std::int32_t ahead = frame.header.psn - r.receiver.expected();
  stats_.duplicates += ahead < 0;
  stats_.out_of_order += ahead > 0;
  stats_.accepted += ahead == 0;
  if (ahead == 0) stats_.received_bytes += frame.header.payload;
  const RcReply reply = r.receiver.on_packet(network_.now(), rc_packet(frame.header), marked);
  if (reply.cnp) {
    ++stats_.control_packets;
    emit(r.way, cnp_header(r.way.remote), TrafficClass::control, kCnpDscp, Ecn::not_ect);
  }
  if (reply.kind != RcReply::Kind::none) {
    ++stats_.control_packets;
    emit(r.way, roce_header(reply, r.way.remote), settings_.answers, kRoceDscp, Ecn::not_ect);
  }
  if (reply.delivered && application_ != nullptr)
    application_->on_delivered(r.context, reply.delivery);
}

void RoceHost::on_answer(const RoceHeader& header, std::uint32_t index) {
  Sender& s = senders_[index];
  if (header.opcode == RoceOpcode::cnp) {
    if (settings_.dcqcn) s.reaction.on_cnp(network_.now());
  } else if (header.syndrome == wire::Syndrome::psn_sequence_error) {
    s.sender.on_nak(network_.now(), header.psn);
  } else {
    s.sender.on_ack(network_.now(), header.psn);
  }
  update(index);
}

void RoceHost::on_timer(std::uint32_t index) {
  Sender& s = senders_[index];
  if (dead_ || s.alarm != network_.now()) return;
  s.alarm = kNever;
  update(index);
  work();
}

// --- sending ------------------------------------------------------------------------------------

/// After an input to a sender: advances its timers and determines what it waits for.
void RoceHost::update(std::uint32_t index) {
  Sender& s = senders_[index];
  const Time now = network_.now();
  const std::uint64_t timeouts = s.sender.stats().timeouts;
  s.sender.on_timer(now);
  stats_.timeouts += s.sender.stats().timeouts - timeouts;
  if (settings_.dcqcn) {
    s.reaction.advance(now);
    s.sender.set_rate(s.reaction.limited() ? s.reaction.rate() : 0);
  }
  for (RcCompletion c; s.sender.poll_completion(c);) done_.push_back({s.context, c});
  if (!s.in_line) plan(index);
}

/// Appends a sender to its port's list if it has something to send, else sets its alarm. A sender
/// in the list needs no alarm, even while the port is paused.
void RoceHost::plan(std::uint32_t index) {
  Sender& s = senders_[index];
  Time due = s.sender.next_deadline();
  if (due <= network_.now()) {
    Outlet& outlet = outlets_[s.way.plane];
    (outlet.head == kNone ? outlet.head : senders_[outlet.tail].next) = index;
    outlet.tail = index;
    s.next = kNone;
    s.in_line = true;
    return;
  }
  // A rising rate lets a packet go earlier; without packets it is irrelevant.
  if (settings_.dcqcn && due != kNever) due = std::min(due, s.reaction.next_deadline());
  if (due >= s.alarm) return;
  s.alarm = due;
  network_.wake(node_, due, index);
}

/// Sends one packet per listed sender, round robin, until the port is full or the list empty.
void RoceHost::transmit(Outlet& outlet) {
  const Link& link = network_[outlet.link];
  while (outlet.head != kNone && link.queued() < settings_.nic_queue) {
    const std::uint32_t index = outlet.head;
    Sender& s = senders_[index];
    outlet.head = s.next;
    update(index);
    s.in_line = false;
    RcPacket packet;
    if (s.sender.poll(network_.now(), packet)) {
      ++(packet.retransmission ? stats_.retransmitted : stats_.data_packets);
      emit(s.way, roce_header(packet, s.way.remote), TrafficClass::data, kRoceDscp,
           settings_.dcqcn ? Ecn::ect0 : Ecn::not_ect);
      if (settings_.dcqcn) {
        s.reaction.on_send(s.sender.wire_bytes(packet), network_.now());
        s.sender.set_rate(s.reaction.limited() ? s.reaction.rate() : 0);
      }
    }
    plan(index);
  }
}

void RoceHost::work() {
  // Re-entered by calls from the application's callbacks.
  if (dead_ || working_) return;
  working_ = true;
  for (;;) {
    for (Outlet& outlet : outlets_) transmit(outlet);
    if (done_.empty()) break;
    const Done done = done_.front();
    done_.pop_front();
    if (application_ != nullptr) application_->on_completion(done.context, done.completion);
  }
  working_ = false;
}

void RoceHost::emit(const Way& way, const RoceHeader& header, TrafficClass traffic,
                    std::uint8_t dscp, Ecn ecn) {
  const PacketId id = network_.packets().take();
  Packet& p = network_.packets()[id];
  wire::Envelope envelope;
  envelope.source = Fabric::address(number_, way.plane);
  envelope.destination = Fabric::address(way.peer, way.plane);
  envelope.source_port = way.source_port;
  envelope.dscp = dscp;
  envelope.ecn = ecn;
  p.payload.clear();
  p.head_length = static_cast<std::uint16_t>(build_roce_headers(p.head, envelope, header));
  p.length = static_cast<std::uint32_t>(roce_packet_size(envelope, header));
  p.inner_ip = 0;
  p.udp = sizeof(wire::Ipv6);
  p.traffic = traffic;
  p.trimmed = p.corrupted = false;
  p.ingress = kNoLink;
  network_.launch(outlets_[way.plane].link, id, roce_is_write(header.opcode));
}

RoceHeader roce_header(const RcPacket& packet, Qpn dqp) noexcept {
  RoceHeader h;
  if (packet.first && packet.last)
    h.opcode = packet.notify ? RoceOpcode::write_only_imm : RoceOpcode::write_only;
  else if (packet.last)
    h.opcode = packet.notify ? RoceOpcode::write_last_imm : RoceOpcode::write_last;
  else
    h.opcode = packet.first ? RoceOpcode::write_first : RoceOpcode::write_middle;
  h.ack_request = packet.ack_request;
  h.dqp = dqp;
  h.psn = packet.psn;
  h.payload = packet.payload;
  if (roce_has_reth(h.opcode)) {
    h.va = packet.message;
    h.dma_length = packet.message_bytes;
  }
  if (roce_has_immediate(h.opcode)) h.immediate = static_cast<std::uint32_t>(packet.message);
  return h;
}

RoceHeader roce_header(const RcReply& reply, Qpn dqp) noexcept {
  RoceHeader h;
  h.opcode = RoceOpcode::acknowledge;
  h.dqp = dqp;
  h.psn = reply.psn;
  h.syndrome =
      reply.kind == RcReply::Kind::nak ? wire::Syndrome::psn_sequence_error : wire::Syndrome::ack;
  h.msn = reply.msn;
  return h;
}

std::size_t build_roce(MutableBytes out, const RoceHeader& h) noexcept {
  constexpr std::uint8_t kBecn = 0x40;  // byte 4 of BTH in RoCE: FECN 7, BECN 6
  const std::size_t size = roce_header_size(h.opcode);
  if (size == 0 || out.size() < size) return 0;
  std::uint8_t* at = out.data();
  const auto put = [&at](const auto& header) {
    std::memcpy(at, &header, sizeof header);
    at += sizeof header;
  };
  wire::Bth bth;
  bth.op = static_cast<std::uint8_t>(h.opcode);
  bth.set_pad(roce_pad(h.payload));
  bth.set_ack_request(h.ack_request);
  bth.set_dqp(h.dqp);
  bth.set_psn(h.psn);
  if (h.opcode == RoceOpcode::cnp) bth.variant_reserved = kBecn;
  put(bth);
  if (roce_has_reth(h.opcode)) put(wire::Reth{h.va, h.rkey, h.dma_length});
  if (roce_has_immediate(h.opcode)) put(wire::ImmDt{h.immediate});
  if (h.opcode == RoceOpcode::acknowledge)
    put(wire::Aeth{static_cast<std::uint8_t>(h.syndrome), h.msn});
  if (h.opcode == RoceOpcode::cnp) put(CnpPayload{});
  return size;
}

RoceError parse_roce(Bytes head, std::size_t transport_size, RoceHeader& out) noexcept {
  out = {};
  if (head.size() < sizeof(wire::Bth)) return RoceError::too_short;
  const auto& bth = wire::view_as<wire::Bth>(head);
  if (bth.tver() != 0) return RoceError::bad_version;
  const auto op = static_cast<RoceOpcode>(bth.op);
  const std::size_t size = roce_header_size(op);
  if (size == 0) return RoceError::unknown_opcode;
  if (head.size() < size || transport_size < size + bth.pad() + wire::kIcrcSize)
    return RoceError::too_short;
  const std::size_t payload = transport_size - size - bth.pad() - wire::kIcrcSize;
  if (payload > 0xFFFF || bth.pad() != roce_pad(payload)) return RoceError::bad_length;
  out.opcode = op;
  out.ack_request = bth.ack_request();
  out.dqp = bth.dqp();
  out.psn = bth.psn();
  out.payload = static_cast<std::uint32_t>(payload);
  Bytes rest = head.subspan(sizeof(wire::Bth));
  if (!roce_is_write(op)) {
    if (payload != 0) return RoceError::bad_length;
    if (op == RoceOpcode::cnp) return RoceError::none;
    const auto& aeth = wire::view_as<wire::Aeth>(rest);
    out.syndrome = aeth.code();
    out.msn = aeth.msn;
    return RoceError::none;
  }
  if (roce_has_reth(op)) {
    const auto& reth = wire::view_as<wire::Reth>(rest);
    out.va = reth.va;
    out.rkey = reth.rkey;
    out.dma_length = reth.dma_length;
    rest = rest.subspan(sizeof(wire::Reth));
  }
  if (roce_has_immediate(op)) out.immediate = wire::view_as<wire::ImmDt>(rest).immediate;
  // Only a message of one packet can be empty or fill its RETH's length.
  const bool only = roce_has_reth(op) && roce_is_last(op);
  const bool good = only                            ? out.dma_length == payload
                    : op == RoceOpcode::write_first ? payload > 0 && out.dma_length > payload
                                                    : payload > 0;
  return good ? RoceError::none : RoceError::bad_length;
}

RoceError parse_roce_frame(Bytes l3, RoceFrame& out) noexcept {
  out = {};
  if (l3.empty()) return RoceError::too_short;
  std::size_t at = 0, after_ip = 0;  // start of UDP, and bytes from there by the IP length
  if ((l3[0] >> 4) == 6) {
    at = sizeof(wire::Ipv6);
    if (l3.size() < at) return RoceError::too_short;
    const auto& ip = wire::view_as<wire::Ipv6>(l3);
    if (ip.next_header != wire::kNextUdp) return RoceError::bad_envelope;
    out.source = ip.source;
    out.destination = ip.destination;
    out.ecn = ip.ecn();
    after_ip = ip.payload_length;
  } else if ((l3[0] >> 4) == 4) {
    if (l3.size() < sizeof(wire::Ipv4)) return RoceError::too_short;
    const auto& ip = wire::view_as<wire::Ipv4>(l3);
    at = ip.header_length();
    if (at < sizeof(wire::Ipv4) || ip.total_length < at || ip.protocol != wire::kNextUdp ||
        (ip.flags_fragment & wire::Ipv4::kFragmentMask) != 0)
      return RoceError::bad_envelope;
    out.source = wire::map_ipv4(ip.source);
    out.destination = wire::map_ipv4(ip.destination);
    out.ecn = ip.ecn();
    after_ip = ip.total_length - at;
  } else {
    return RoceError::bad_envelope;
  }
  if (l3.size() < at + sizeof(wire::Udp)) return RoceError::too_short;
  const auto& udp = wire::view_as<wire::Udp>(l3.subspan(at));
  if (udp.destination_port != wire::kUdpPort || udp.length != after_ip ||
      after_ip < sizeof(wire::Udp))
    return RoceError::bad_envelope;
  out.source_port = udp.source_port;
  out.size = at + after_ip;
  if (l3.size() > out.size) l3 = l3.first(out.size);  // padding of the link
  return parse_roce(l3.subspan(at + sizeof(wire::Udp)), after_ip - sizeof(wire::Udp), out.header);
}

}  // namespace mrc::inline v0_1::sim::baseline
