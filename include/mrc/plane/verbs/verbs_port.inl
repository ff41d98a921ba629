// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/plane/verbs/verbs_keeper.hpp"
#include "mrc/plane/verbs/verbs_port.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

inline void watch(const UniqueFd& epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll.fd(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw_errno("cannot watch a completion channel");
}

/// What a device sees of a fault: packets that are damaged or cut fail its check.
[[nodiscard]] inline FaultSpec as_seen_by_device(FaultSpec spec) noexcept {
  double arrives = 1 - spec.loss;
  for (double* rate : {&spec.corrupt, &spec.trim, &spec.trim_last_hop})
    arrives *= 1 - std::exchange(*rate, 0);
  spec.loss = 1 - arrives;
  return spec;
}

}  // namespace detail

VerbsPort::VerbsPort(VerbsPortOptions options, VerbsDevice device, Socket control)
    : Port(options.fault_seed, options.fault_slots),
      options_((options.check(), std::move(options))),
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
  set_fault(options_.faults);
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
  return faults_.next_release();
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

// --- Faults -------------------------------------------------------------------------------------

void VerbsPort::set_fault(const FaultSpec& spec) {
  faults_.set(detail::as_seen_by_device(spec));
}

void VerbsPort::set_path_fault(std::uint16_t port_path, const FaultSpec& spec) {
  faults_.set_outbound(port_path, detail::as_seen_by_device(spec));
}

}  // namespace mrc::inline v0_1::port
