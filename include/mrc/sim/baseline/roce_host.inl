// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/sim/baseline/roce_host.hpp"

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

}  // namespace mrc::inline v0_1::sim::baseline
