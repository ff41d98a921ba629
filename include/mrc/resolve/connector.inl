// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>

#include "mrc/core/error.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/exchange.hpp"
#include "mrc/net/address.hpp"
#include "mrc/resolve/connector.hpp"
#include "mrc/resolve/datagrams.hpp"

namespace mrc::inline v0_1::detail {

/// Something is posted that only a peer with RemoteQp::rc can do.
[[nodiscard]] inline bool waits_for_rc(const engine::Engine& engine, Qpn qpn) noexcept {
  const engine::QueuePairState* qp = engine.find_qp(qpn);
  if (qp == nullptr) return false;
  const engine::SendQueue& q = qp->tx.queue;
  for (std::uint32_t p = q.done(); p != q.posted(); ++p)
    if (!is_write(static_cast<SendOpcode>(q.at(p).kind))) return true;
  return false;
}

Connector::Connector(const Config& config, const Log& log, OpenedPlanes& planes,
                     engine::Engine& engine, Peers& peers, PeerFilter& filter,
                     const Steering& steering, const ResolutionOptions& options,
                     std::function<ConnectionInfo(Qpn)> info,
                     std::function<PeerProfiles(Qpn)> profiles, OnAnswer on_answer)
    : config_(config),
      log_(log),
      planes_(planes),
      engine_(engine),
      peers_(peers),
      filter_(filter),
      steering_(steering),
      info_(std::move(info)),
      profiles_(std::move(profiles)),
      on_answer_(std::move(on_answer)),
      scratch_(PeerId{config.max_peers}),
      peer_ports_(config.peer_ports),
      resolution_(*this, options) {}

void Connector::start(Time now, Qpn qpn, const Destination& destination) {
  std::vector<Contact> ways = ways_to(destination);  // throws if there is none
  Entry& entry = entries_[value(qpn)];
  entry = {destination, std::move(ways), stays_on_host(destination)};
  if (config_.peer == PeerKind::mrc || config_.strict)
    presume(now, qpn, entry);
  else
    resolution_.start(now, qpn, destination);
}

void Connector::stop(Qpn qpn) noexcept {
  resolution_.stop(qpn);
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return;
  forget_doubted(qpn, at->second);
  entries_.erase(at);
}

std::optional<Destination> Connector::destination(Qpn qpn) const {
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return std::nullopt;
  return at->second.destination;
}

std::string Connector::failure(Qpn qpn) const {
  const auto at = entries_.find(value(qpn));
  return at == entries_.end() ? std::string() : at->second.failure;
}

void Connector::work(Time now) noexcept try {
  const Uncancelled connecting;  // asks the kernel for routes, say
  engine::ResolutionInput input;
  while (engine_.endpoint().poll_resolution(input)) {
    ResolutionMessage message;
    message.plane = input.plane;
    message.source = input.source;
    message.size = input.size;
    message.bytes = input.bytes;
    if (filter_.refuses(message.sender())) continue;
    note_sender(message);
    resolution_.on_message(now, message);
    send_all(now);  // at once: only so many answers may wait
  }
  if (resolution_.refused() != refused_logged_) log_floods(now);
  if (resolution_.next_deadline() > now) return;
  resolution_.on_time(now);
  send_all(now);
} catch (const std::exception& error) {  // out of memory: messages are lost, and sent again
  log_.warn(std::string("connecting by GID: ") + error.what());
}

/// Whether it answers or asks: its packets arrive.
void Connector::note_sender(const ResolutionMessage& message) {
  const auto at = entries_.find(value(wire::view_as<wire::Bth>(Bytes(message.bytes)).dqp()));
  if (at == entries_.end() || at->second.heard) return;
  const port::IpAddress from = message.sender();
  at->second.heard = is_of(at->second, from) && source_of(message.plane, from) == message.source;
}

void Connector::send_all(Time now) {
  ResolutionMessage message;
  while (resolution_.poll_message(message)) send(now, message);
}

/// At most once in ten seconds.
void Connector::log_floods(Time now) {
  if (flood_logged_ != Time::min() && now - flood_logged_ < std::chrono::seconds(10)) return;
  log_.warn("connecting by GID: " + std::to_string(resolution_.refused() - refused_logged_) +
            " questions of other devices were left without an answer, since there were too many");
  flood_logged_ = now;
  refused_logged_ = resolution_.refused();
}

// ------------------------------------------------------------------------------ ways to a device

std::vector<Contact> Connector::ways_to(const Destination& destination) const {
  const auto told = book_.others(destination.gid, slot_of(destination.qpn));
  return planes_.kind->ways(planes_, destination.gid, destination.qpn, planes_.gid_plane, told);
}

bool Connector::up(const Contact& way) const {
  return way.plane < planes_.count() && planes_.up(way.plane);
}

/// Sends a message: an answer or an offer there where it is to go; a hello over some of the ways to
/// the device, with each attempt over others, but always, or every other time, the likeliest one.
void Connector::send(Time now, ResolutionMessage& message) {
  if (message.to) return send_over(now, message, {message.plane, *message.to});
  const auto at = entries_.find(value(message.asking));
  if (at == entries_.end()) return;
  Entry& entry = at->second;
  if (message.attempt % 8 == 7) entry.ways = ways_to(entry.destination);  // more may be known
  std::vector<Contact> ways;
  std::copy_if(entry.ways.begin(), entry.ways.end(), std::back_inserter(ways),
               [this](const Contact& way) { return up(way); });
  if (ways.empty()) return;
  if (message.ways == 1) {
    const std::size_t turn = message.attempt % 2 == 0 ? 0 : message.attempt / 2 + 1;
    return send_over(now, message, ways[turn % ways.size()]);
  }
  send_over(now, message, ways.front());
  const std::size_t others = ways.size() - 1, more = message.ways - 1;
  for (std::size_t i = 0; i < std::min(others, more); ++i)
    send_over(now, message, ways[1 + ((message.attempt - 1) * more + i) % others]);
}

void Connector::send_over(Time now, ResolutionMessage& message, const Contact& way) try {
  if (!up(way)) return;
  Port& port = *planes_.ports[way.plane];
  PlanePaths paths = planes_.kind->paths_to(planes_, way.plane, way.address, {});
  std::erase_if(paths.specs,
                [&](const path::PathSpec& path) { return steering_.denies(paths.route, path); });
  if (paths.specs.empty()) return;
  message.set_sender(port.address());
  message.size = (message.size + 3) / 4 * 4;  // no pad
  const path::PathSpec& path = paths.specs[message.attempt % paths.specs.size()];
  port.add_peer(scratch_, paths.route);
  burst_.clear();
  wire::TxPacket& packet = burst_.append();
  packet.header_length = wire::kMaxTransportHeader;
  std::memcpy(packet.header.data(), message.bytes.data(), packet.header_length);
  packet.dscp = config_.expert.dscp_control;
  packet.ecn = Ecn::not_ect;
  packet.peer = scratch_;
  packet.plane = way.plane;
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

std::optional<ResolutionHost::Own> Connector::find(Qpn qpn) {
  const auto at = entries_.find(value(qpn));
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (at == entries_.end() || qp == nullptr ||
      (qp->state != QpState::rtr && qp->state != QpState::rts))
    return std::nullopt;
  Entry& entry = at->second;
  forget_doubted(qpn, entry);
  Own own{entry.destination, info_(qpn)};
  if (!entry.on_host) own.info.network_namespace = 0;
  own.heard = qp->heard;
  own.waited_for = !qp->tx.queue.empty();
  own.known = entry.known;
  own.must_answer = config_.peer == PeerKind::openmrc;
  own.can_ask = std::any_of(entry.ways.begin(), entry.ways.end(),
                            [this](const Contact& way) { return up(way); });
  return own;
}

/// A SEND to a peer that was presumed has made it unknown again.
void Connector::forget_doubted(Qpn qpn, Entry& entry) noexcept {
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (!entry.known || qp == nullptr || qp->peer != nullptr) return;
  peers_.forget_unused(entry.peer);
  entry.known = false;
}

bool Connector::belongs(const port::IpAddress& address, const Destination& destination) {
  if (address == destination.gid) return true;
  const auto ways = ways_to(destination);
  return std::any_of(ways.begin(), ways.end(),
                     [&](const Contact& way) { return way.address.ip == address; });
}

bool Connector::surely_belongs(const port::IpAddress& address, const Destination& destination) {
  if (address == destination.gid) return true;
  const auto contacts = planes_.kind->contacts(planes_, destination.gid, destination.qpn);
  const auto told = book_.others(destination.gid, slot_of(destination.qpn));
  return std::any_of(told.begin(), told.end(),
                     [&](const port::PeerAddress& other) { return other.ip == address; }) ||
         std::any_of(contacts.begin(), contacts.end(),
                     [&](const Contact& contact) { return contact.address.ip == address; });
}

Interest Connector::interest(Qpn qpn, Qpn peer, const port::IpAddress& from) {
  if (engine_.find_qp(qpn) == nullptr)
    return engine::find_datagram_qp(engine_, qpn) == nullptr ? Interest::none : Interest::known;
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end() || at->second.destination.qpn != peer) return Interest::known;
  return is_of(at->second, from) ? Interest::wanted : Interest::known;
}

/// Is it an address of the device that the entry's queue pair is connected to?
bool Connector::is_of(const Entry& entry, const port::IpAddress& address) {
  return address == entry.destination.gid ||
         std::any_of(entry.ways.begin(), entry.ways.end(),
                     [&](const Contact& way) { return way.address.ip == address; });
}

std::uint64_t Connector::source_of(Plane plane, const port::IpAddress& ip) {
  return planes_.kind->source_tag(plane, ip);
}

void Connector::on_resolved(Time now, Qpn qpn, const ConnectionInfo& peer, const Resolved& how) {
  const auto at = entries_.find(value(qpn));
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (at == entries_.end() || qp == nullptr) return;
  Entry& entry = at->second;
  book_.learn(entry.destination.gid, slot_of(entry.destination.qpn), peer.planes);
  if (qp->heard) return;  // of the right peer
  if (entry.known && !entry.presumed && entry.guid == peer.device_guid) return;  // told again
  const bool icrc = config_.icrc != port::Offload::off;
  const bool fits = peer.icrc == icrc && slot_of(peer.qpn) == peer.slot;
  if (!fits && !how.asked) return;  // nobody's offer makes a queue pair fail
  if (peer.icrc != icrc) return fail(qpn, "iCRC is on at one side only; set option icrc alike");
  if (slot_of(peer.qpn) != peer.slot) return fail(qpn, "its QPN does not belong to its slot");
  log_answer(entry, how);
  entry.presumed = false;
  ConnectionInfo info = peer;
  if (!entry.on_host) info.network_namespace = 0;  // as it was told
  attach(now, qpn, entry, info);
}

/// Messages to other hosts do not name the network namespace.
bool Connector::stays_on_host(const Destination& destination) const {
  if (planes_.network_namespace == 0) return false;
  const auto contacts = planes_.kind->contacts(planes_, destination.gid, destination.qpn);
  return std::all_of(contacts.begin(), contacts.end(), [&](const Contact& contact) {
    PeerRoute route = planes_.kind->paths_to(planes_, contact.plane, contact.address, {}).route;
    return planes_.kind->take_heads(planes_, contact.plane, contact.address, route);
  });
}

/// With the plane's zone, if it is link-local.
std::string Connector::address_of(const Contact& way) const {
  const bool known = way.plane < planes_.count();
  return port::format_local(
      {way.address.ip, known ? planes_.ports[way.plane]->zone() : std::string()});
}

/// "1 to 10.0.1.2"
std::string Connector::text_of(const Contact& way) const {
  return std::to_string(way.plane) + " to " + address_of(way);
}

/// Its destination's, with the zone of the likeliest plane that it is asked in.
std::string Connector::gid_of(const Entry& entry) const {
  for (const Contact& way : entry.ways)
    if (way.address.ip == entry.destination.gid) return address_of(way);
  return port::format_ip(entry.destination.gid);
}

/// Says by which way the device was found, if that is not the likeliest one.
void Connector::log_answer(const Entry& entry, const Resolved& how) const {
  const Contact& likeliest = entry.ways.front();
  const Contact way{how.plane, {how.from, 0}};
  if (likeliest.plane == way.plane && likeliest.address.ip == way.address.ip) return;
  log_.info("GID " + gid_of(entry) + ", queue pair " +
            std::to_string(value(entry.destination.qpn)) + ": found by plane " + text_of(way) +
            ", not by plane " + text_of(likeliest) + (up(likeliest) ? "" : ", which is down here"));
}

/// Which ways there are, for messages.
std::string Connector::asked_text(const Entry& entry) const {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(entry.ways.size(), kMost); ++i)
    text += (i == 0 ? "asked by plane " : ", plane ") + text_of(entry.ways[i]) +
            (up(entry.ways[i]) ? "" : " (down here)");
  if (entry.ways.size() > kMost)
    text += " and " + std::to_string(entry.ways.size() - kMost) + " more ways";
  return text;
}

/// What has arrived of a peer that does not answer, for messages; empty if that explains nothing.
std::string Connector::heard_text(const Entry& entry) const {
  const auto is_up = [this](const Contact& way) { return up(way); };
  if (book_.knows(entry.destination.gid) ||
      std::none_of(entry.ways.begin(), entry.ways.end(), is_up))
    return {};
  if (!entry.heard) return "; " + unheard_text(config_);
  return "; its packets arrive, but no answer to this side's: are UDP ports " +
         std::to_string(config_.udp_port) + " and up open there?";
}

bool Connector::on_silence(Time now, Qpn qpn) {
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return true;
  Entry& entry = at->second;
  if (config_.peer == PeerKind::openmrc || book_.knows(entry.destination.gid) ||
      waits_for_rc(engine_, qpn))
    return false;
  log_.warn("no OpenMRC device answers at " + gid_of(entry) +
            " so far: taken for another implementation of MRC, without verification tags, until "
            "one does (" +
            asked_text(entry) + "); option peer says which one to expect" + heard_text(entry));
  presume(now, qpn, entry);
  return true;
}

void Connector::on_unanswered(Time, Qpn qpn) {
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return;
  const Entry& entry = at->second;
  const char* what = config_.peer == PeerKind::openmrc ? ", and option peer wants one"
                     : book_.knows(entry.destination.gid)
                         ? " any more, as one did before"
                         : ", and a SEND, READ or atomic that waits needs one";
  fail(qpn, "no OpenMRC device answers there" + std::string(what) + "; " + asked_text(entry) +
                heard_text(entry));
}

bool Connector::accepts(Time now, const wire::RxPacket& packet) noexcept try {
  const Qpn qpn = wire::view_as<wire::Bth>(packet.bytes).dqp();
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return false;
  Entry& entry = at->second;
  if (!entry.known) {
    const bool theirs = source_of(packet.plane, entry.destination.gid) == packet.source;
    entry.heard = entry.heard || theirs;
    if (config_.peer != PeerKind::any || !resolution_.unanswered(qpn) || !theirs ||
        book_.knows(entry.destination.gid) || waits_for_rc(engine_, qpn))
      return false;
    if (!config_.strict)
      log_.warn("plain MRC comes before an OpenMRC device answers at " + gid_of(entry) +
                ": taken for another implementation of MRC, without verification tags; option "
                "peer says which one to expect");
    presume(now, qpn, entry);
  }
  return entry.known;
} catch (const std::exception& error) {  // out of memory: the packet is lost, and sent again
  log_.warn(std::string("connecting by GID: ") + error.what());
  return false;
}

void Connector::on_refused(Time, Qpn qpn, const std::string& why) {
  fail(qpn, why);
}

/// Takes the peer for another implementation of MRC.
void Connector::presume(Time now, Qpn qpn, Entry& entry) {
  entry.presumed = config_.peer == PeerKind::any && !config_.strict;
  attach(now, qpn, entry, plain_peer(entry.destination));
}

/// A peer of which nothing is known but GID and QPN: MRC's defaults (mrc-1.0 §7.3, §2.4).
ConnectionInfo Connector::plain_peer(const Destination& destination) const {
  ConnectionInfo info = foreign_peer(destination.qpn, {}, {});
  info.device_guid = planes_.kind->source_tag(0, destination.gid);
  info.icrc = config_.icrc != port::Offload::off;
  for (const Contact& contact : planes_.kind->contacts(planes_, destination.gid, destination.qpn)) {
    if (info.planes.size() <= contact.plane) info.planes.resize(contact.plane + std::size_t{1});
    const auto port = peer_ports_.find(destination.gid);  // without a slot: only OpenMRC has some
    info.planes[contact.plane] = {contact.address.ip, port.value_or(config_.udp_port)};
  }
  return info;
}

void Connector::attach(Time now, Qpn qpn, Entry& entry, const ConnectionInfo& peer) try {
  const engine::QueuePairState* qp = engine_.find_qp(qpn);
  if (qp == nullptr || qp->heard) return;  // the present peer is the right one
  const bool had = qp->peer != nullptr;
  const PeerId before = qp->remote.peer;
  const PeerProfiles profiles = profiles_(qpn);
  auto id = peers_.find(peer, profiles.ids);
  if (!id) id = peers_.add(peer, peers_.make_candidate(peer, profiles));
  RemoteQp remote = remote_of(peer, *id);
  remote.mtu = peers_.agreed_mtu_with(peer, qp->rtr_mtu);
  remote.presumed = entry.presumed;
  if (config_.peer != PeerKind::mrc && !config_.strict)
    remote.heard_by = now + config_.connect_timeout;
  const Errc e = engine_.resolve(now, qpn, remote);
  if (e != Errc::ok) {
    peers_.forget_unused(*id);
    if (e == Errc::incompatible) fail(qpn, "its limits are 0: " + to_string(peer));
    return;
  }
  if (had) peers_.forget_unused(before);
  peers_.log_tags(*qp, peer);
  entry.known = true;
  entry.peer = *id;
  entry.guid = peer.device_guid;
} catch (const std::exception& error) {
  fail(qpn, error.what());
}

void Connector::fail(Qpn qpn, const std::string& why) {
  const auto at = entries_.find(value(qpn));
  if (at == entries_.end()) return;
  Entry& entry = at->second;
  entry.failure =
      gid_of(entry) + ", queue pair " + std::to_string(value(entry.destination.qpn)) + ": " + why;
  (void)engine_.fail(qpn, QpErrorCause::unresolved);
}

void AddressBook::learn(const port::IpAddress& gid, std::uint8_t slot,
                        std::span<const port::PeerAddress> planes) {
  if (told_.size() >= kMost && !told_.contains({gid, slot})) told_.clear();
  std::vector<port::PeerAddress>& others = told_[{gid, slot}];
  others.clear();
  std::copy_if(planes.begin(), planes.end(), std::back_inserter(others),
               [](const port::PeerAddress& plane) { return plane.udp_port != 0; });
}

std::span<const port::PeerAddress> AddressBook::others(const port::IpAddress& gid,
                                                       std::uint8_t slot) const noexcept {
  const auto at = told_.find({gid, slot});
  if (at == told_.end()) return {};
  return at->second;
}

bool AddressBook::knows(const port::IpAddress& gid) const noexcept {
  const auto at = told_.lower_bound({gid, std::uint8_t{0}});
  return at != told_.end() && at->first.first == gid;
}

}  // namespace mrc::inline v0_1::detail
