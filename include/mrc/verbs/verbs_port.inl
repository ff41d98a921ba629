// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/verbs/verbs_port.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/verbs/verbs_kind.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

inline void watch(const UniqueFd& epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll.fd(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw_errno("cannot watch a completion channel");
}

}  // namespace detail

VerbsPort::VerbsPort(VerbsPortOptions options, VerbsDevice device, Socket control)
    : options_((options.check(), std::move(options))),
      control_(std::move(control)),
      address_{device.address, bound_port(control_)},
      token_(mrc::detail::random_seed()),
      qkey_(static_cast<std::uint32_t>(mrc::detail::random_seed()) & 0x7FFF'FFFFu),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      look_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!events_.open() || !wake_.open() || !look_.open())
    throw_errno("cannot open an event descriptor");
  using mrc::detail::SystemCall;
  mrc::detail::require(
      {SystemCall::poll, SystemCall::recvfrom, SystemCall::read, SystemCall::write});
  detail::watch(events_, wake_.fd());
  for (std::uint16_t i = 0; i < options_.paths; ++i) paths_.push_back({Ev{i}, i});
  VerbsParts parts;
  parts.queues = std::make_unique<VerbsQueues>(options_, std::move(device), qkey_);
  const VerbsQueues& queues = *parts.queues;
  std::uint32_t room = std::min<std::uint32_t>(queues.device().path_mtu, kUdMaxMessage);
  if (options_.placement) {
    parts.uc = std::make_unique<VerbsUcReceive>(queues);
    UcSenderOptions sender;
    sender.paths = options_.paths;
    uc_.emplace(sender);
    headers_.resize(kMaxJoined);
    room -= static_cast<std::uint32_t>(uc_origins_size(options_.paths));  // of retransmissions
  }
  capabilities_.max_packet = room;
  capabilities_.max_burst = VerbsQueues::kChain;
  capabilities_.receive_buffer = queues.receive_depth() * kUdMaxMessage / kBufferShare;
  capabilities_.exact_icrc = true;  // the device's own
  capabilities_.drops_damaged = true;
  capabilities_.holds_payload = true;
  capabilities_.places_payload = options_.placement;
  released_.reserve(std::size_t{4} * options_.paths * options_.send_depth);
  taken_.reserve(released_.capacity());
  handed_out_.reserve(queues.receive_depth());
  addresses_ = std::make_unique<VerbsAddresses>(options_.paths, options_.dscp, [this] {
    wake();
    look();
  });
  addresses_->use(&queues);
  come_up(std::move(parts), true);
  keeper_ = std::make_unique<VerbsKeeper>(*this);
}

VerbsPort::~VerbsPort() {
  if (fork_.forked()) {
    leave_to_parent();
    return;
  }
  keeper_.reset();
  std::vector<wire::CopyId> copies;
  for (auto& [token, session] : sessions_) detach(*session, copies);
  sessions_.clear();
  const VerbsParts parts = go_down();
  addresses_->use(nullptr);
  addresses_.reset();
}

/// The threads do not exist here, and the device's objects are the parent's.
void VerbsPort::leave_to_parent() noexcept {
  (void)keeper_.release();
  (void)addresses_.release();
  (void)parts_.uc.release();
  (void)parts_.queues.release();
  for (auto& [token, session] : sessions_) (void)session.release();
}

// --- Up and down --------------------------------------------------------------------------------

void VerbsPort::come_up(VerbsParts parts, bool fresh) noexcept {
  renew_regions(*parts.queues);
  {
    const std::lock_guard lock(mutex_);
    try {
      detail::watch(events_, parts.queues->event_fd());
    } catch (const Error&) {  // without it, arrivals are found by polling
    }
    if (fresh) {
      handed_out_.clear();
      ++generation_;
    }
    qpns_ = parts.queues->qpns();
    parts_ = std::move(parts);
    queues_ = parts_.queues.get();
    if (uc_) uc_->receive = parts_.uc.get();
    // Those that were registered since.
    for (const auto& [key, span] : regions_)
      if (!queues_->has_region(key)) (void)try_region(*queues_, span);
    up_ = true;
  }
  wake();
}

VerbsParts VerbsPort::go_down() noexcept {
  const std::lock_guard lock(mutex_);
  up_ = false;
  if (queues_ != nullptr) {
    (void)::epoll_ctl(events_.fd(), EPOLL_CTL_DEL, queues_->event_fd(), nullptr);
    doorbells_ += queues_->doorbells();
  }
  queues_ = nullptr;
  if (uc_) uc_->receive = nullptr;
  wake();
  return std::move(parts_);
}

void VerbsPort::set_enabled(bool enabled) noexcept {
  std::unique_lock lock(mutex_);
  silent_ = false;
  enabled_ = enabled;
  look();
  if (!enabled) silenced_.wait(lock, [this] { return silent_; });
}

void VerbsPort::note_silent() noexcept {
  const std::lock_guard lock(mutex_);
  if (enabled_) return;
  silent_ = true;
  silenced_.notify_all();
}

void VerbsPort::release(const std::vector<wire::CopyId>& copies) noexcept {
  if (copies.empty()) return;
  const std::lock_guard lock(mutex_);
  released_.insert(released_.end(), copies.begin(), copies.end());
  wake();
}

/// Makes the regions of queues that come up those of the port.
void VerbsPort::renew_regions(VerbsQueues& queues) noexcept {
  std::vector<MemorySpan> wanted;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& region : regions_) wanted.push_back(region.second);
    for (const std::uint32_t key : queues.regions())
      if (!regions_.contains(key)) queues.remove_region(key);
  }
  for (const MemorySpan& span : wanted)
    if (!queues.has_region(span.key)) (void)try_region(queues, span);
}

/// False: its payload is copied.
bool VerbsPort::try_region(VerbsQueues& queues, const MemorySpan& span) noexcept {
  try {
    queues.add_region(span);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void VerbsPort::wake() const noexcept {
  const std::uint64_t one = 1;
  (void)uncancelled::write(wake_.fd(), &one, sizeof one);
}

void VerbsPort::look() const noexcept {
  const std::uint64_t one = 1;
  (void)uncancelled::write(look_.fd(), &one, sizeof one);
}

// --- Memory and peers ---------------------------------------------------------------------------

void VerbsPort::register_memory(const MemorySpan& span) {
  const std::lock_guard lock(mutex_);
  if (queues_ != nullptr) queues_->add_region(span);
  regions_[span.key] = span;
}

void VerbsPort::deregister_memory(std::uint32_t key) noexcept {
  const std::lock_guard lock(mutex_);
  if (queues_ != nullptr) queues_->remove_region(key);
  regions_.erase(key);
}

std::uint64_t VerbsPort::add_peer(PeerId id, const Route& route) {
  if (is_v4(route.address.ip) != is_v4(address_.ip))
    throw Error(Errc::unreachable, "peer " + format_address(route.address) + " and local address " +
                                       format_ip(address_.ip) + " are of different IP versions");
  if (route.contact.qpns.empty())
    throw Error(Errc::incompatible,
                "peer " + format_address(route.address) + " has no verbs port in this plane");
  const std::lock_guard lock(mutex_);
  VerbsSession& session = session_of(route);
  ++session.uses;
  if (Peer* former = peers_.find(id)) leave_session(*former);
  peers_.claim(id).session = &session;
  look();
  return source_tag(route.address.ip);
}

void VerbsPort::remove_peer(PeerId id) noexcept {
  const std::lock_guard lock(mutex_);
  if (Peer* peer = peers_.find(id)) leave_session(*peer);
  peers_.remove(id);
}

VerbsSession& VerbsPort::session_of(const Route& route) {
  std::unique_ptr<VerbsSession>& entry = sessions_[route.contact.token];
  if (entry) return *entry;
  entry = std::make_unique<VerbsSession>();
  entry->address = route.address;
  entry->token = route.contact.token;
  if (free_sessions_.empty()) free_sessions_.push_back(PeerId{next_session_++});
  entry->number = free_sessions_.back();
  free_sessions_.pop_back();
  entry->placement_wanted = uc_ && route.contact.placement;
  entry->qkey = route.contact.qkey;
  entry->qpns = route.contact.qpns;
  entry->incarnation = static_cast<std::uint32_t>(mrc::detail::random_seed());
  entry->sender = static_cast<std::uint32_t>(mrc::detail::random_seed());
  enter_source(*entry);
  addresses_->want(route.address.ip);
  return *entry;
}

/// The keeper's thread closes sessions that nobody uses.
void VerbsPort::leave_session(Peer& peer) noexcept {
  if (peer.session == nullptr) return;
  --std::exchange(peer.session, nullptr)->uses;
  look();
}

void VerbsPort::enter_source(VerbsSession& session) {
  std::erase_if(sources_, [&](const auto& source) { return source.second == &session; });
  for (const std::uint32_t qpn : session.qpns)
    sources_[source_of(session.address.ip, qpn)] = &session;
}

void VerbsPort::forget_session(VerbsSession& session, std::vector<wire::CopyId>& copies) noexcept {
  detach(session, copies);
  std::erase_if(sources_, [&](const auto& source) { return source.second == &session; });
  if (uc_) uc_->sender.forget(session.number);
  free_sessions_.push_back(session.number);
  addresses_->forget(session.address.ip);
}

void VerbsPort::detach(VerbsSession& session, std::vector<wire::CopyId>& copies) noexcept {
  if (!session.placement) return;
  const UcReceiverStats& uc = session.placement->receiver.stats();
  stats_.path_resets += uc.resets;
  stats_.late_writes += uc.late_writes;
  if (session.placement->sender) session.placement->sender->give_up(copies);
  std::erase_if(uc_->receivers,
                [&](const auto& receiver) { return receiver.second.session == &session; });
  std::erase(uc_->touched, &session);
  std::erase(uc_->in_flight, &session);
  std::erase(uc_->waiting, &session);
  session.placement->in_flight = session.placement->touched = session.placement->waiting = false;
}

std::string VerbsPort::await_route(const PeerRoute& route, Duration patience) const {
  return addresses_->wait(route.as<Route>().address.ip, patience);
}

std::vector<std::uint8_t> VerbsPort::connection_data() const {
  const std::lock_guard lock(mutex_);
  VerbsContact contact;
  contact.token = token_;
  contact.qkey = qkey_;
  contact.path_mtu = static_cast<std::uint16_t>(capabilities_.max_packet);
  contact.placement = options_.placement;
  contact.qpns = qpns_;
  return encode(contact);
}

std::span<const wire::CopyId> VerbsPort::take_released() noexcept {
  const std::lock_guard lock(mutex_);
  taken_.clear();
  std::swap(taken_, released_);
  return taken_;
}

std::span<const wire::PacketName> VerbsPort::take_settled() noexcept {
  settled_.clear();
  if (!uc_) return settled_;
  const std::lock_guard lock(mutex_);
  std::swap(settled_, settled_late_);
  std::erase_if(uc_->waiting, [this](VerbsSession* session) {
    UcReceiver& receiver = session->placement->receiver;
    const auto settled = receiver.take_settled();
    settled_.insert(settled_.end(), settled.begin(), settled.end());
    return !(session->placement->waiting = receiver.unsettled() > 0);
  });
  return settled_;
}

bool VerbsPort::arm() noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  (void)uncancelled::read(wake_.fd(), &count, sizeof count);
  bool quiet = released_.empty() && settled_late_.empty();
  if (queues_ == nullptr) return quiet;
  quiet = queues_->arm() && quiet;
  if (uc_) {
    quiet = uc_->receive->arm() && quiet;
    for (VerbsSession* session : uc_->in_flight) {
      session->placement->sender->arm();
      session->placement->sender->take_sent(released_);
    }
  }
  return quiet && released_.empty();
}

Time VerbsPort::next_release() const noexcept {
  return next_impaired();
}

PortStats VerbsPort::stats() const noexcept {
  const std::lock_guard lock(mutex_);
  PortStats stats = stats_;
  stats.tx_calls = doorbells_ + (queues_ != nullptr ? queues_->doorbells() : 0);
  for (const auto& [token, session] : sessions_) {
    if (!session->placement) continue;
    const UcReceiverStats& uc = session->placement->receiver.stats();
    stats.path_resets += uc.resets;
    stats.late_writes += uc.late_writes;
  }
  return stats;
}

// VerbsPort: receiving.

/// Receives the packets that the impairment lets through.
struct VerbsPort::Sink final : PacketSink {
  Sink(VerbsPort& p, Time time, RxBurst& burst) noexcept : port(p), now(time), rx(burst) {}
  VerbsPort& port;
  Time now;
  RxBurst& rx;
  [[nodiscard]] bool full() const noexcept override { return rx.room() == 0; }
  void deliver(const RawPacket& raw) noexcept override {
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
  if (Impairment* const by = impaired()) [[unlikely]]
    by->release(now, sink);
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
  if (Impairment* const by = impaired()) [[unlikely]]
    by->receive(now, packet, sink);
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
  if (Impairment* const by = impaired()) [[unlikely]]
    by->receive(sink.now, raw, sink);
  else
    sink.deliver(raw);
}

// VerbsPort: sending.

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
      count_refused(group.count);
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
  const bool vanishes = impaired() != nullptr && impairment()->vanishes(packet.port_path);
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
