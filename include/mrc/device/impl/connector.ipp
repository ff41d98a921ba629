// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/device/connector.hpp"
#include "mrc/exchange/foreign_peer.hpp"
#include "mrc/port/address.hpp"

namespace mrc::inline v0_1::detail {

MRC_SETUP Connector::Connector(const Config& config, const Log& log, OpenedPlanes& planes,
                               engine::Engine& engine, Peers& peers, PeerFilter& filter,
                               const ResolutionOptions& options,
                               std::function<ConnectionInfo(Qpn)> info,
                               std::function<PeerProfiles(Qpn)> profiles)
    : config_(config),
      log_(log),
      planes_(planes),
      engine_(engine),
      peers_(peers),
      filter_(filter),
      info_(std::move(info)),
      profiles_(std::move(profiles)),
      scratch_(PeerId{config.max_peers}),
      peer_ports_(config.peer_ports),
      resolution_(*this, options) {}

MRC_SETUP void Connector::start(Time now, Qpn qpn, const Destination& destination) {
  (void)planes_.paths->contacts(destination.gid, destination.qpn);  // throws if there is no way
  entries_[value(qpn)] = {destination, false, 0, {}};
  if (config_.peer == PeerKind::mrc || config_.strict)
    on_silence(now, qpn);
  else
    resolution_.start(now, qpn, destination);
}

MRC_SETUP void Connector::stop(Qpn qpn) noexcept {
  resolution_.stop(qpn);
  entries_.erase(value(qpn));
}

MRC_SETUP std::optional<Destination> Connector::destination(Qpn qpn) const {
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return std::nullopt;
  return at->second.destination;
}

MRC_SETUP std::string Connector::failure(Qpn qpn) const {
  const auto at = entries_.find(value(qpn));
  return at == entries_.end() ? std::string() : at->second.failure;
}

MRC_SETUP void Connector::work(Time now) noexcept try {
  engine::ResolutionInput input;
  while (engine_.poll_resolution(input)) {
    ResolutionMessage message;
    message.plane = input.plane;
    message.source = input.source;
    message.size = input.size;
    message.bytes = input.bytes;
    if (!filter_.refuses(message.sender())) resolution_.on_message(now, message);
  }
  if (resolution_.next_deadline() > now) return;
  resolution_.on_time(now);
  ResolutionMessage message;
  while (resolution_.poll_message(message)) send(now, message);
} catch (const std::exception& error) {  // out of memory: messages are lost, and sent again
  log_.warn(std::string("connecting by GID: ") + error.what());
}

/// Sends a message on one of the ways to where it is to go: with each attempt on another.
MRC_SETUP void Connector::send(Time now, ResolutionMessage& message) try {
  Contact contact;
  if (message.to) {
    contact = {message.plane, *message.to};
  } else {
    const auto& bth = wire::view_as<wire::Bth>(Bytes(message.bytes));
    const auto contacts = planes_.paths->contacts(message.gid, bth.dqp());
    // Every other time in the first plane, whose address is this device's GID for others.
    const std::size_t turn = message.attempt % 2 == 0 ? 0 : message.attempt / 2 + 1;
    contact = contacts[turn % contacts.size()];
    for (const Contact& c : contacts)
      if (message.via && c.plane == *message.via) contact = c;
  }
  if (contact.plane >= planes_.count()) return;
  DevicePort& port = *planes_.ports[contact.plane];
  const PlanePaths paths = planes_.paths->paths_to(contact.plane, contact.address, {});
  if (paths.specs.empty() || !port.link_up()) return;
  message.set_sender(port.address());
  message.size = (message.size + 3) / 4 * 4;  // no pad
  const path::PathSpec& path = paths.specs[message.attempt % paths.specs.size()];
  port.add_peer(scratch_, paths.route);
  burst_.clear();
  wire::TxPacket& packet = burst_.append();
  packet.header_length = wire::kMaxTransportHeader;
  std::memcpy(packet.header.data(), message.bytes.data(), packet.header_length);
  packet.dscp = config_.dscp_control;
  packet.ecn = Ecn::not_ect;
  packet.peer = scratch_;
  packet.plane = contact.plane;
  packet.entropy = path.ev;
  packet.port_path = path.port_path;
  burst_.add_sge(message.bytes.data() + packet.header_length,
                 static_cast<std::uint32_t>(message.size - packet.header_length), 0);
  burst_.commit();
  (void)port.transmit(now, burst_, burst_.groups());
  port.remove_peer(scratch_);
} catch (const Error&) {  // of an address that cannot be a peer's: nobody waits for that answer
}

// ---------------------------------------------------------------------- what resolution says

MRC_SETUP std::optional<ResolutionHost::Own> Connector::find(Qpn qpn) {
  const auto at = entries_.find(value(qpn));
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (at == entries_.end() || qp == nullptr ||
      (qp->state != QpState::rtr && qp->state != QpState::rts))
    return std::nullopt;
  return Own{at->second.destination, info_(qpn), qp->heard, !qp->tx.queue.empty()};
}

MRC_SETUP bool Connector::belongs(const port::IpAddress& address, const Destination& destination) {
  const auto contacts = planes_.paths->contacts(destination.gid, destination.qpn);
  return std::any_of(contacts.begin(), contacts.end(),
                     [&](const Contact& contact) { return contact.address.ip == address; });
}

MRC_SETUP std::uint64_t Connector::source_of(Plane plane, const port::IpAddress& ip) {
  return planes_.paths->source_tag(plane, ip);
}

MRC_SETUP void Connector::on_resolved(Time now, Qpn qpn, const ConnectionInfo& peer, bool asked) {
  const auto at = entries_.find(value(qpn));
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (at == entries_.end() || qp == nullptr || qp->heard) return;  // it has the right peer
  Entry& entry = at->second;
  if (entry.known && entry.guid == peer.device_guid) return;  // told again
  const bool fits = peer.icrc == config_.icrc && slot_of(peer.qpn) == peer.slot;
  if (!fits && !asked) return;  // nobody's offer makes a queue pair fail
  if (peer.icrc != config_.icrc)
    return fail(qpn, "iCRC is on at one side only; set option icrc alike");
  if (slot_of(peer.qpn) != peer.slot) return fail(qpn, "its QPN does not belong to its slot");
  attach(now, qpn, entry, peer);
}

MRC_SETUP void Connector::on_silence(Time now, Qpn qpn) {
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return;
  if (config_.peer == PeerKind::openmrc)
    return fail(qpn, "no OpenMRC device answers there, and option peer wants one");
  take_for_foreign(now, qpn, at->second, "no OpenMRC device answers");
}

/// Another implementation of MRC, unless option peer says what peers are: then nothing is logged.
MRC_SETUP void Connector::take_for_foreign(Time now, Qpn qpn, Entry& entry,
                                           const std::string& why) {
  const std::string where = port::format_ip(entry.destination.gid);
  if (config_.peer == PeerKind::any && !config_.strict)
    log_.warn(why + " at " + where +
              ": taken for another implementation of MRC, without verification tags; option peer "
              "says which one to expect");
  attach(now, qpn, entry, plain_peer(entry.destination));
}

MRC_SETUP bool Connector::accepts(Time now, const wire::RxPacket& packet) noexcept try {
  const Qpn qpn = wire::view_as<wire::Bth>(packet.bytes).dqp();
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return false;
  Entry& entry = at->second;
  if (!entry.known) {
    if (config_.peer != PeerKind::any || !resolution_.unanswered(qpn) ||
        source_of(packet.plane, entry.destination.gid) != packet.source)
      return false;
    take_for_foreign(now, qpn, entry, "plain MRC comes before an OpenMRC device answers");
  }
  return entry.known;
} catch (const std::exception& error) {  // out of memory: the packet is lost, and sent again
  log_.warn(std::string("connecting by GID: ") + error.what());
  return false;
}

MRC_SETUP void Connector::on_refused(Time, Qpn qpn, const std::string& why) {
  fail(qpn, why);
}

/// A peer of which nothing is known but GID and QPN: MRC's defaults (mrc-1.0 §7.3, §2.4).
MRC_SETUP ConnectionInfo Connector::plain_peer(const Destination& destination) const {
  ConnectionInfo info = foreign_peer(destination.qpn, {}, {});
  info.device_guid = planes_.paths->source_tag(0, destination.gid);
  info.icrc = config_.icrc;
  for (const Contact& contact : planes_.paths->contacts(destination.gid, destination.qpn)) {
    if (info.planes.size() <= contact.plane) info.planes.resize(contact.plane + std::size_t{1});
    const auto port = peer_ports_.find(destination.gid);  // without a slot: only OpenMRC has some
    info.planes[contact.plane] = {contact.address.ip, port.value_or(config_.udp_port)};
  }
  return info;
}

MRC_SETUP void Connector::attach(Time now, Qpn qpn, Entry& entry, const ConnectionInfo& peer) try {
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr || qp->heard) return;  // the present peer is the right one
  const bool had = qp->peer != nullptr;
  const PeerId before = qp->remote.peer;
  const PeerProfiles profiles = profiles_(qpn);
  auto id = peers_.find(peer, profiles.ids);
  if (!id) id = peers_.add(peer, peers_.make_candidate(peer, profiles));
  RemoteQp remote = remote_of(peer, *id);
  remote.mtu = peers_.agreed_mtu_with(peer, qp->rtr_mtu);
  const Errc e = engine_.resolve(now, qpn, remote);
  if (e != Errc::ok) {
    peers_.forget_unused(*id);
    if (e == Errc::incompatible) fail(qpn, "its limits are 0: " + to_string(peer));
    return;
  }
  if (had) peers_.forget_unused(before);
  peers_.log_tags(*qp, peer);
  entry.known = true;
  entry.guid = peer.device_guid;
} catch (const std::exception& error) {
  fail(qpn, error.what());
}

MRC_SETUP void Connector::fail(Qpn qpn, const std::string& why) {
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return;
  const Destination& d = at->second.destination;
  at->second.failure =
      port::format_ip(d.gid) + ", queue pair " + std::to_string(value(d.qpn)) + ": " + why;
  (void)engine_.fail(qpn, QpErrorCause::unresolved);
}

}  // namespace mrc::inline v0_1::detail
