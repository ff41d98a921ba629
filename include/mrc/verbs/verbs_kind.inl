// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/verbs/verbs_kind.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/plane/udp_kind.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::detail {

/// See make_verbs_kind(). Peers are reached over the port's paths, once their ports have said how.
class VerbsKind final : public PlaneKind {
 public:
  explicit VerbsKind(const Config& config) {
    if (config.verbs == "all") return;
    naming_variables(config, {"verbs"}, [&] { planes_ = port::parse_verbs_planes(config.verbs); });
    if (planes_.size() > kMaxPlanes)
      throw Error(Errc::invalid_argument, "verbs names " + std::to_string(planes_.size()) +
                                              " planes, more than " + std::to_string(kMaxPlanes));
  }
  [[nodiscard]] Config in_force(const Config& config) const override {
    Config out = config;
    out.paths = std::min(out.paths, port::VerbsPortOptions::kMaxPaths);
    return out;
  }
  [[nodiscard]] std::vector<Contact> contacts(const OpenedPlanes&, const port::IpAddress& gid,
                                              Qpn) const override {
    throw Error(Errc::unreachable,
                "GID " + port::format_ip(gid) +
                    ": verbs planes need the peer's ConnectionInfo, which names its queue pairs; "
                    "an address alone reaches peers on UDP planes only");
  }
  [[nodiscard]] PlanePaths paths_to(const OpenedPlanes& own, Plane plane,
                                    const port::PeerAddress& peer, Bytes data) const override {
    PlanePaths out;
    if (data.empty()) return out;
    for (const port::PortPath& path : own.ports[plane]->paths())
      out.specs.push_back({path.ev, plane, path.port_path});
    out.active = out.specs.size();
    out.route = PeerRoute(port::VerbsPort::Route{peer, port::decode_verbs_contact(data)});
    return out;
  }
  /// An EV of a profile is the number of a path of the port.
  [[nodiscard]] path::PathSpec path_of(const OpenedPlanes& own, path::EvMode mode,
                                       const ExpandedEv& ev, std::uint16_t) const override {
    if (mode == path::EvMode::srv6)
      throw Error(Errc::unsupported, "verbs ports do not encapsulate packets, as SRv6 EVs need");
    for (const port::PortPath& path : own.ports[ev.plane]->paths())
      if (value(path.ev) == value(ev.name)) return {path.ev, ev.plane, path.port_path};
    throw Error(Errc::unsupported, "EV " + std::to_string(value(ev.name)) +
                                       " is none of verbs plane " + std::to_string(ev.plane) +
                                       ", whose EVs are its paths' numbers, 0 to " +
                                       std::to_string(own.ports[ev.plane]->paths().size() - 1));
  }
  [[nodiscard]] std::string why_none() const override {
    return "its planes are not on RDMA devices (option verbs)";
  }
  [[nodiscard]] OpenedPlanes open(const Config& config, std::optional<std::uint8_t> slot,
                                  const Log& log) override {
    OpenedPlanes planes;
    naming_variables(config, {"verbs", "paths", "udp_port", "slot"}, [&] {
      if (planes_.empty()) planes_ = port::all_verbs_planes();
      open_ports(planes, config, slot, log);
    });
    return planes;
  }

 private:
  void open_ports(OpenedPlanes& planes, const Config& config, std::optional<std::uint8_t> slot,
                  const Log& log) const {
    std::vector<port::VerbsDevice> devices;
    std::vector<port::LocalAddress> addresses;
    for (const port::VerbsPlaneName& name : planes_) {
      devices.push_back(port::open_verbs_device(name));
      addresses.push_back({devices.back().address, ""});
    }
    port::SlotClaim claim = port::claim_slot(addresses, config.udp_port, slot);
    planes.slot = claim.slot;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      port::VerbsDevice& device = devices[i];
      port::VerbsPortOptions o;
      set_shared_options(o, config, static_cast<Plane>(i), claim.slot);
      o.device = {device.name, device.port, device.address};
      o.paths = config.paths;
      o.placement = config.placement;
      o.warn = [log, i](const std::string& line) {
        log.warn("plane " + std::to_string(i) + ": " + line);
      };
      log.info("plane " + std::to_string(i) + ": RDMA device " + device.name + " port " +
               std::to_string(device.port) + ", address " + port::format_ip(device.address) +
               ", path MTU " + std::to_string(device.path_mtu) + ", " + std::to_string(o.paths) +
               " paths, each a UD queue pair with a flow label of its own");
      planes.adopt(
          std::make_unique<port::VerbsPort>(o, std::move(device), std::move(claim.sockets[i])),
          config, log);
    }
  }

  std::vector<port::VerbsPlaneName> planes_;  ///< empty: all there are when first opened
};

std::unique_ptr<PlaneKind> make_verbs_kind(const Config& config) {
  return std::make_unique<VerbsKind>(config);
}

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1::port {

VerbsKeeper::VerbsKeeper(VerbsPort& port)
    : port_(port),
      control_(std::make_unique<VerbsControl>(port, port.control_)),
      thread_([this] { run(); }) {}

VerbsKeeper::~VerbsKeeper() {
  stop_ = true;
  port_.look();
  thread_.join();
  close_parked();
}

void VerbsKeeper::run() {
  Time next_look = Time::min();
  Time next_work = Time::min();
  while (await(port_.enabled_ ? std::min(next_look, next_work) : next_work)) {
    Time now = monotonic_now();
    const bool up = port_.up_.load();
    const bool enabled = port_.enabled_.load();
    if (up) drain_events();
    if (up && !(enabled && healthy(now))) take_down();
    if (!enabled) {
      control_->discard();
      port_.note_silent();
      next_look = now;  // at once when it is enabled
      next_work = now + kLookUp;
      continue;
    }
    if (!port_.up_.load() && now >= next_look) bring_up();
    next_work = control_->work(now);
    now = monotonic_now();
    next_look = now + (port_.up_.load() ? kLookUp : kLookDown);
  }
}

/// Waits for VerbsPort::look(), a message, an event of the device or the time. False: the port is
/// being closed.
bool VerbsKeeper::await(Time until) noexcept {
  // Only this thread replaces the port's queues, so that it may read them without the lock.
  const VerbsQueues* queues = port_.queues_;
  std::array<pollfd, 3> fds{
      {{port_.look_.fd(), POLLIN, 0}, {port_.control_.fd(), POLLIN, 0}, {-1, POLLIN, 0}}};
  if (queues != nullptr) fds[2].fd = queues->device().context->async_fd;
  const Duration left = until - std::min(until, monotonic_now());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, kLookUp));
  (void)::poll(fds.data(), fds.size(), static_cast<int>(ms.count()));
  std::uint64_t count = 0;
  (void)!::read(port_.look_.fd(), &count, sizeof count);
  return !stop_;
}

/// Events need only be taken: what they tell is looked at anyway.
void VerbsKeeper::drain_events() noexcept {
  ibv_async_event event{};
  while (VerbsLibrary::get().get_async_event(port_.queues_->device().context.get(), &event) == 0)
    VerbsLibrary::get().ack_async_event(&event);
}

bool VerbsKeeper::healthy(Time now) noexcept {
  const VerbsDevice& device = port_.queues_->device();
  const VerbsPresence presence = look_at(device);
  if (!presence.active || presence.gid_index != device.gid_index) return false;
  {
    const std::lock_guard lock(port_.mutex_);
    if (port_.queues_->failed()) return false;
    if (port_.uc_ && port_.uc_->receive->failed()) return false;
  }
  if (now < next_list_) return true;
  next_list_ = now + kLookList;
  return verbs_device_listed(device);
}

void VerbsKeeper::take_down() noexcept {
  parked_ = port_.go_down();
  std::vector<wire::CopyId> copies;
  control_->leave_device(copies);
  parked_.queues->stop(copies);
  port_.release(copies);
}

void VerbsKeeper::bring_up() noexcept {
  if (parked_.queues && !verbs_device_listed(parked_.queues->device())) close_parked();
  if (!parked_.queues) return reopen();
  const VerbsDevice& device = parked_.queues->device();
  const VerbsPresence presence = look_at(device);
  if (!presence.active || presence.gid_index < 0) return;
  // A shared queue that has failed stays so.
  const bool sound = !parked_.uc || !parked_.uc->failed();
  if (presence.gid_index == device.gid_index && sound && parked_.queues->restart())
    return port_.come_up(std::move(parked_), false);
  close_parked();
  reopen();
}

void VerbsKeeper::close_parked() noexcept {
  if (!parked_.queues) return;
  port_.addresses_->use(nullptr);
  parked_.uc.reset();
  parked_.queues.reset();
}

void VerbsKeeper::reopen() noexcept {
  try {
    VerbsPlaneName plane = port_.options_.device;
    plane.address = port_.address_.ip;
    VerbsParts parts;
    parts.queues =
        std::make_unique<VerbsQueues>(port_.options_, open_verbs_device(plane), port_.qkey_);
    if (port_.uc_) parts.uc = std::make_unique<VerbsUcReceive>(*parts.queues);
    port_.addresses_->use(parts.queues.get());
    port_.come_up(std::move(parts), true);
  } catch (const std::exception&) {  // not there yet: tried again
  }
}

namespace detail {

[[nodiscard]] inline std::uint32_t random_number() {
  return static_cast<std::uint32_t>(mrc::detail::random_seed());
}

/// Whether two states say the same, whatever their numbers.
[[nodiscard]] inline bool same_content(const VerbsState& a, const VerbsState& b) noexcept {
  return a.generation == b.generation && a.incarnation == b.incarnation && a.refused == b.refused &&
         a.qkey == b.qkey && a.paths == b.paths;
}

/// The number of the state after `last`; 0: the session's first one. Numbers of former sessions
/// with the same peer are older.
[[nodiscard]] inline std::uint32_t next_version(std::uint32_t last, Time now) noexcept {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  const std::uint32_t next = last != 0 ? last + 1 : static_cast<std::uint32_t>(ms.count());
  return next != 0 ? next : 1;
}

}  // namespace detail

Time VerbsControl::work(Time now) noexcept {
  Time next = kNever;
  try {
    read(now);
    close_unused();
    std::vector<VerbsSession*> sessions;  // only this thread removes any
    {
      const std::lock_guard lock(port_.mutex_);
      for (const auto& session : port_.sessions_) sessions.push_back(session.second.get());
    }
    for (VerbsSession* session : sessions) {
      try {
        serve(*session, now);
      } catch (const Error& error) {
        put_off_placement(*session, error.what(), now);
      }
      const std::lock_guard lock(port_.mutex_);
      next = std::min(next, next_of(*session));
    }
  } catch (const std::exception&) {  // out of memory, or the device is about to go: tried again
    next = now + kLastPause;
  }
  return next;
}

Time VerbsControl::next_of(const VerbsSession& session) noexcept {
  Time next =
      session.owes_echo || session.own.version != session.echoed ? session.next_state : kNever;
  for (const auto& query : session.queries) next = std::min(next, query.second.next);
  if (session.placement) next = std::min(next, session.placement->receiver.next_deadline());
  return next;
}

// --- Messages -----------------------------------------------------------------------------------

void VerbsControl::read(Time now) {
  std::array<std::uint8_t, kMaxVerbsMessage + 1> datagram;
  for (int i = 0; i < kMaxRead; ++i) {
    const ssize_t n = ::recv(socket_.fd(), datagram.data(), datagram.size(), MSG_DONTWAIT);
    if (n < 0) return;
    if (const auto message = decode_verbs_message({datagram.data(), static_cast<std::size_t>(n)}))
      take(*message, now);
  }
}

void VerbsControl::discard() const noexcept {
  std::uint8_t byte = 0;
  for (int i = 0; i < kMaxRead && ::recv(socket_.fd(), &byte, 1, MSG_DONTWAIT) >= 0; ++i) {
  }
}

void VerbsControl::take(const VerbsMessage& message, Time now) {
  VerbsSession* session = nullptr;
  {
    const std::lock_guard lock(port_.mutex_);
    const auto at = port_.sessions_.find(message.from);
    // Who knows both tokens is the peer, or somebody that both sides have told them.
    if (message.to != port_.token_ || at == port_.sessions_.end()) return;
    session = at->second.get();
  }
  switch (message.type) {
    case VerbsMessageType::state:
      return take_state(*session, message.state, now);
    case VerbsMessageType::key_query:
      return answer_query(*session, message.key);
    case VerbsMessageType::key_answer:
      return take_answer(*session, message);
  }
}

void VerbsControl::take_state(VerbsSession& session, const VerbsState& state, Time now) {
  const std::lock_guard lock(port_.mutex_);
  if (state.echo == session.own.version) session.echoed = state.echo;
  if (state.ask) {
    session.owes_echo = true;
    session.next_state = now;
  }
  if (session.peer.version != 0 &&
      static_cast<std::int32_t>(state.version - session.peer.version) <= 0)
    return;
  const bool moved = session.peer.version == 0 || state.generation != session.peer.generation;
  const bool anew = session.peer.version == 0 || state.incarnation != session.peer.incarnation;
  if (session.peer.version != 0 && state.sender != session.peer.sender) session.renew = true;
  session.peer = state;
  session.qkey = state.qkey;
  session.qpns.clear();
  for (const VerbsState::Path& path : state.paths) session.qpns.push_back(path.ud);
  port_.enter_source(session);
  if (session.placement && moved) session.placement->keys.clear();
  if (anew && port_.uc_) port_.uc_->sender.add_peer(session.number, now);
  if (session.placement && state.refused) session.placement->refused = true;
}

void VerbsControl::answer_query(VerbsSession& session, std::uint32_t key) {
  VerbsMessage answer;
  answer.type = VerbsMessageType::key_answer;
  answer.key = key;
  {
    const std::lock_guard lock(port_.mutex_);
    if (port_.queues_ == nullptr) return;  // asked again
    if (!port_.regions_.contains(key) && ++session.wrong_keys > VerbsSession::kMaxWrongKeys) return;
    answer.device_key = port_.queues_->remote_key(key).value_or(0);
    answer.generation = port_.generation_;
  }
  send(session, answer);
}

void VerbsControl::take_answer(VerbsSession& session, const VerbsMessage& message) {
  const std::lock_guard lock(port_.mutex_);
  if (session.queries.erase(message.key) == 0 || !session.placement ||
      message.generation != session.peer.generation)
    return;
  auto& keys = session.placement->keys;
  if (keys.size() >= VerbsSession::kMaxKeys) keys.clear();
  keys[message.key] = message.device_key;
}

void VerbsControl::send(const VerbsSession& session, VerbsMessage message) const {
  message.to = session.token;
  message.from = port_.token_;
  const std::vector<std::uint8_t> datagram = encode(message);
  const SocketAddress to(session.address.ip, session.address.udp_port, 0);
  // What does not leave is sent again.
  (void)::sendto(socket_.fd(), datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                 &to.any, to.length);
}

void VerbsControl::send_state(VerbsSession& session, Time now) {
  VerbsMessage message;
  {
    const std::lock_guard lock(port_.mutex_);
    VerbsState state;
    state.generation = port_.generation_;
    state.incarnation = session.incarnation;
    state.sender = session.sender;
    state.refused = session.placement && session.placement->refused;
    state.qkey = port_.qkey_;
    for (std::size_t i = 0; i < port_.qpns_.size(); ++i) {
      VerbsState::Path path{port_.qpns_[i], 0, 0};
      if (session.placement && session.placement->receivers[i].qp) {
        const VerbsPlacement::Receiver& receiver = session.placement->receivers[i];
        path.uc = receiver.qp->qp_num;
        path.epoch = receiver.epoch;
      }
      state.paths.push_back(path);
    }
    const bool changed = session.own.version == 0 || !detail::same_content(state, session.own);
    if (!changed && !session.owes_echo && session.own.version == session.echoed) return;
    if (!changed && now < session.next_state) return;
    state.version = changed ? detail::next_version(session.own.version, now) : session.own.version;
    session.own = state;
    state.echo = session.peer.version;
    state.ask = state.version != session.echoed;
    session.owes_echo = false;
    session.pause = changed ? kFirstPause : std::min(2 * session.pause, kLastPause);
    session.next_state = now + session.pause;
    message.state = std::move(state);
  }
  send(session, message);
}

void VerbsControl::send_queries(VerbsSession& session, Time now) {
  std::vector<std::uint32_t> due;
  {
    const std::lock_guard lock(port_.mutex_);
    for (auto at = session.queries.begin(); at != session.queries.end();) {
      auto& [key, query] = *at;
      if (query.next > now) {
        ++at;
      } else if (query.tries == VerbsSession::kMaxTries) {
        at = session.queries.erase(at);  // asked again when it is wanted again
      } else {
        query.next = now + kFirstPause * (1 << query.tries++);
        due.push_back(key);
        ++at;
      }
    }
  }
  for (const std::uint32_t key : due) {
    VerbsMessage query;
    query.type = VerbsMessageType::key_query;
    query.key = key;
    send(session, query);
  }
}

// --- Sessions and their queue pairs -------------------------------------------------------------

void VerbsControl::close_unused() {
  std::vector<std::unique_ptr<VerbsSession>> closed;
  std::vector<wire::CopyId> copies;
  {
    const std::lock_guard lock(port_.mutex_);
    for (auto at = port_.sessions_.begin(); at != port_.sessions_.end();) {
      if (at->second->uses > 0) {
        ++at;
        continue;
      }
      port_.forget_session(*at->second, copies);
      closed.push_back(std::move(at->second));
      at = port_.sessions_.erase(at);
    }
  }
  for (auto& session : closed) destroy(std::move(session->placement));
  closed.clear();
  port_.release(copies);
}

void VerbsControl::leave_device(std::vector<wire::CopyId>& copies) noexcept {
  std::vector<VerbsSession*> sessions;  // only this thread removes any
  {
    const std::lock_guard lock(port_.mutex_);
    for (auto& [token, session] : port_.sessions_) {
      session->handles.reset();
      sessions.push_back(session.get());
    }
  }
  for (VerbsSession* session : sessions) drop_placement(*session, copies);
}

/// The session begins without UC paths again. Appends the copies that they might have read.
void VerbsControl::drop_placement(VerbsSession& session,
                                  std::vector<wire::CopyId>& copies) noexcept {
  std::unique_ptr<VerbsPlacement> placement;
  {
    const std::lock_guard lock(port_.mutex_);
    session.renew = false;
    if (!session.placement) return;
    port_.detach(session, copies);
    session.incarnation = detail::random_number();
    session.closing = true;
    placement = std::move(session.placement);
  }
  destroy(std::move(placement));
  const std::lock_guard lock(port_.mutex_);
  session.closing = false;
}

/// Once its queue pairs are gone, nothing of what they might have brought can be written.
void VerbsControl::destroy(std::unique_ptr<VerbsPlacement> placement) noexcept {
  if (!placement) return;
  placement->sender.reset();
  for (std::uint16_t path = 0; path < placement->receivers.size(); ++path) {
    VerbsPlacement::Receiver& receiver = placement->receivers[path];
    retire(std::move(receiver.qp));
    (void)placement->receiver.reset(path, ++receiver.epoch);
  }
  const auto settled = placement->receiver.take_settled();
  const std::lock_guard lock(port_.mutex_);
  port_.settled_late_.insert(port_.settled_late_.end(), settled.begin(), settled.end());
  port_.wake();
}

/// The device is about to go away, and is tried again, or it has no more queue pairs.
void VerbsControl::put_off_placement(VerbsSession& session, const std::string& why, Time now) {
  {
    const std::lock_guard lock(port_.mutex_);
    session.next_placement = now + kLastPause;
    if (++session.failures < VerbsSession::kMaxTries) return;
    session.placement_wanted = false;
    if (session.placement) session.placement->refused = true;
  }
  if (port_.options_.warn)
    port_.options_.warn("payload for " + format_address(session.address) +
                        " goes by UD from now on: " + why);
}

void VerbsControl::serve(VerbsSession& session, Time now) {
  bool renew = session.renew;
  {
    const std::lock_guard lock(port_.mutex_);
    renew = renew || (session.placement && session.placement->sender->failed());
  }
  if (renew) {
    std::vector<wire::CopyId> copies;
    drop_placement(session, copies);
    port_.release(copies);
  }
  bool placement = false;
  const bool up = port_.up_;
  bool refused = false;
  {
    const std::lock_guard lock(port_.mutex_);
    refused = session.placement && session.placement->refused;
    if (up && !session.handles) session.handles = port_.addresses_->find(session.address.ip);
    placement = up && session.handles && session.placement_wanted &&
                now >= session.next_placement && !refused;
  }
  if (placement) {
    make_placement(session);
    for (std::uint16_t path = 0; path < port_.options_.paths; ++path) {
      make_receiver(session, path);
      make_sender(session, path);
    }
    reset_paths(session, now);
    session.failures = 0;
  } else if (up && refused) {
    refuse(session);
  }
  send_state(session, now);
  send_queries(session, now);
}

void VerbsControl::make_placement(VerbsSession& session) {
  if (session.placement) return;  // only this thread makes one
  auto placement = std::make_unique<VerbsPlacement>(port_.options_.paths);
  placement->sender = std::make_unique<VerbsUcSend>(*port_.queues_, port_.options_.paths);
  const std::lock_guard lock(port_.mutex_);
  session.placement = std::move(placement);
}

void VerbsControl::make_receiver(VerbsSession& session, std::uint16_t path) {
  if (session.placement->receivers[path].qp) return;
  auto qp = new_receiver(session, path);
  const std::lock_guard lock(port_.mutex_);
  port_.uc_->receivers[qp->qp_num] = {&session, path};
  session.placement->receivers[path].qp = std::move(qp);
}

/// With a number that none has had lately.
VerbsHandle<ibv_qp> VerbsControl::new_receiver(const VerbsSession& session, std::uint16_t path) {
  const Time now = monotonic_now();
  std::erase_if(retired_, [&](const auto& entry) { return now - entry.second > kRetired; });
  std::vector<VerbsHandle<ibv_qp>> spares;  // kept until the end, lest they come again
  while (spares.size() <= kMaxSpares) {
    auto qp = port_.uc_->receive->make_receiver(address_of(session, path));
    if (!retired_.contains(qp->qp_num)) return qp;
    spares.push_back(std::move(qp));
  }
  throw Error(Errc::no_resources, "RDMA device " + port_.queues_->device().name +
                                      " gives new queue pairs the numbers of former ones");
}

void VerbsControl::retire(VerbsHandle<ibv_qp> qp) noexcept {
  if (!qp) return;
  try {
    retired_[qp->qp_num] = monotonic_now();
  } catch (const std::bad_alloc&) {  // devices seldom give a number again at once
  }
}

ibv_ah_attr VerbsControl::address_of(const VerbsSession& session,
                                     std::uint16_t path) const noexcept {
  return verbs_address_of(port_.queues_->device(), session.address.ip, path,
                          wire::make_tos(port_.options_.dscp.no_trim, Ecn::ect0));
}

/// The peer has told of a receiver that no queue pair here sends to.
void VerbsControl::make_sender(VerbsSession& session, std::uint16_t path) {
  VerbsPlacement& placement = *session.placement;
  VerbsState::Path at;
  {
    const std::lock_guard lock(port_.mutex_);
    if (path < session.peer.paths.size()) at = session.peer.paths[path];
    if (at.uc == 0 || placement.connected[path] == at.uc) return;
  }
  auto qp = placement.sender->make_sender(address_of(session, path), at.uc);
  std::vector<wire::CopyId> copies;
  {
    const std::lock_guard lock(port_.mutex_);
    qp = placement.sender->exchange(path, std::move(qp), copies);
    placement.connected[path] = at.uc;
    (void)port_.uc_->sender.restart(session.number, path, at.epoch);
  }
  qp.reset();
  port_.release(copies);
}

/// Packets wait for a path that brings nothing any more.
void VerbsControl::reset_paths(VerbsSession& session, Time now) {
  VerbsPlacement& placement = *session.placement;
  std::uint64_t paths = 0;
  {
    const std::lock_guard lock(port_.mutex_);
    paths = placement.receiver.wants_reset(now);
    if (placement.receiver.broken()) placement.refused = true;
  }
  for (std::uint16_t path = 0; path < port_.options_.paths; ++path) {
    if ((paths >> path & 1) == 0) continue;
    VerbsPlacement::Receiver& receiver = placement.receivers[path];
    VerbsHandle<ibv_qp> former;
    {
      const std::lock_guard lock(port_.mutex_);
      if (receiver.qp) port_.uc_->receivers.erase(receiver.qp->qp_num);
      former = std::move(receiver.qp);
    }
    retire(std::move(former));  // from here on, nothing that was sent to it is written
    bool refused = false;
    {
      const std::lock_guard lock(port_.mutex_);
      refused = placement.refused;
      ++receiver.epoch;
      (void)placement.receiver.reset(path, receiver.epoch);
    }
    port_.wake();
    if (!refused) make_receiver(session, path);
  }
}

/// No more UC with this peer: what it may still write is over when its paths are reset.
void VerbsControl::refuse(VerbsSession& session) {
  VerbsPlacement& placement = *session.placement;
  std::vector<wire::CopyId> copies;
  std::vector<VerbsHandle<ibv_qp>> senders, receivers;
  {
    const std::lock_guard lock(port_.mutex_);
    for (std::uint16_t path = 0; path < port_.options_.paths; ++path) {
      if (placement.sender->ready(path))
        senders.push_back(placement.sender->exchange(path, nullptr, copies));
      if (!placement.receivers[path].qp) continue;
      port_.uc_->receivers.erase(placement.receivers[path].qp->qp_num);
      receivers.push_back(std::move(placement.receivers[path].qp));
    }
  }
  if (senders.empty() && receivers.empty()) return;
  senders.clear();
  for (auto& qp : receivers) retire(std::move(qp));
  port_.release(copies);
  const std::lock_guard lock(port_.mutex_);
  for (std::uint16_t path = 0; path < port_.options_.paths; ++path)
    (void)placement.receiver.reset(path, ++placement.receivers[path].epoch);
  port_.wake();
}

}  // namespace mrc::inline v0_1::port
