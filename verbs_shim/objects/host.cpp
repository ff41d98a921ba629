// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/host.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "mrc/host/modules.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/completion_queue.hpp"
#include "verbs_shim/objects/context.hpp"
#include "verbs_shim/objects/queue_pair.hpp"
#include "verbs_shim/transport/linger.hpp"

namespace mrc_verbs {

namespace {

/// The device of this process. Never destroyed: programs may still call while they exit.
struct Shared {
  std::mutex mutex;
  std::weak_ptr<Host> host;
};

Shared*& shared() {
  static Shared* instance = [] {
    // A child begins anew: the device stays the parent's, and the lock may be held for ever.
    (void)::pthread_atfork(nullptr, nullptr, [] { shared() = new Shared; });
    return new Shared;
  }();
  return instance;
}

/// All zero if it is neither IPv4 nor IPv6.
mrc::port::IpAddress ip_of(const sockaddr& address) {
  mrc::port::IpAddress ip{};
  if (address.sa_family == AF_INET6) {
    std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, ip.size());
  } else if (address.sa_family == AF_INET) {
    ip[10] = ip[11] = 0xFF;
    std::memcpy(&ip[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  }
  return ip;
}

/// By which peers may reach this host. Throws mrc::Error if there is none.
mrc::port::IpAddress default_route() {
  const mrc::port::IpAddress address = mrc::port::default_route_address();
  if (mrc::port::is_loopback(address))
    fail(ENODEV,
         "no default route, so the address by which peers can reach this host is not known; "
         "set MRC_PLANES to addresses or interfaces, or to loopback:1 for tests on this host");
  return address;
}

ibv_mtu largest_mtu(std::uint32_t bytes) {
  if (bytes >= 4096) return IBV_MTU_4096;
  if (bytes >= 2048) return IBV_MTU_2048;
  if (bytes >= 1024) return IBV_MTU_1024;
  return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

}  // namespace

std::shared_ptr<Host> Host::open() {
  Shared& place = *shared();
  const std::lock_guard lock(place.mutex);
  if (auto host = place.host.lock()) return host;
  Settings settings = read_settings();
  if (settings.planes_by_default) (void)default_route();
  auto host = std::make_shared<Host>(std::move(settings));
  Linger::at_exit();
  place.host = host;
  return host;
}

mrc::port::IpAddress Host::first_plane() {
  if (const auto host = current()) return host->first_plane_;
  const Settings settings = read_settings();
  if (settings.planes_by_default) return default_route();
  return mrc::detail::make_plane_kind(settings.config)->first_address(settings.config);
}

std::shared_ptr<Host> Host::current() {
  Shared& place = *shared();
  const std::lock_guard lock(place.mutex);
  return place.host.lock();
}

bool Host::anything_received() {
  bool any = false;
  each_qp([&](Qp& qp) { any = any || qp.transport().answers(); });
  return any;
}

Host::Host(Settings settings)
    : settings_(std::move(settings)),
      device_(settings_.config),
      active_mtu_(largest_mtu(device_.default_attributes().mtu)) {
  first_plane_ = mrc::port::parse_address(device_.plane_names().front()).ip;
  was_up_ = port_up();
}

ibv_gid Host::gid() const noexcept {
  const auto address = device_.gid();
  ibv_gid gid;
  std::memcpy(gid.raw, address.data(), sizeof gid.raw);
  return gid;
}

__be64 Host::guid_of(const mrc::port::IpAddress& first_plane) noexcept {
  // The address, mixed: the lower half alone is the same for many IPv6 hosts. Locally administered.
  std::uint64_t half[2];
  std::memcpy(half, first_plane.data(), sizeof half);
  const std::uint64_t mixed = (half[0] * 0x9E3779B97F4A7C15u) ^ (half[1] * 0xD6E8FEB86659FD93u);
  std::uint8_t bytes[8];
  std::memcpy(bytes, &mixed, sizeof bytes);
  if (mrc::port::is_v4(first_plane)) {
    const std::uint8_t plain[8] = {0, 'M', 'R', 'C', 0, 0, 0, 0};
    std::memcpy(bytes, plain, 4);
    std::memcpy(bytes + 4, first_plane.data() + 12, 4);
  }
  bytes[0] = static_cast<std::uint8_t>((bytes[0] & 0xFC) | 2);
  __be64 guid;
  std::memcpy(&guid, bytes, sizeof guid);
  return guid;
}

std::string Host::device_folder(const mrc::port::IpAddress& address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::string folder;
  for (const ifaddrs* i = all; i != nullptr && folder.empty(); i = i->ifa_next) {
    if (i->ifa_addr == nullptr || ip_of(*i->ifa_addr) != address) continue;
    const std::string interface = std::string("/sys/class/net/") + i->ifa_name;
    for (const std::string& link : {interface + "/device", interface}) {
      char path[PATH_MAX];
      if (folder.empty() && ::realpath(link.c_str(), path) != nullptr) folder = path;
    }
  }
  ::freeifaddrs(all);
  return folder;
}

bool Host::port_up() const {
  const mrc::DeviceStats stats = device_.stats();
  return std::any_of(stats.planes.begin(), stats.planes.end(),
                     [](const mrc::PlaneStats& plane) { return plane.up; });
}

bool Host::plane_up(unsigned plane) const {
  const mrc::DeviceStats stats = device_.stats();
  return stats.planes.at(plane).up;
}

void Host::add(Context& context) {
  const std::lock_guard lock(mutex_);
  contexts_.push_back(&context);
}
bool Host::remove(Context& context) {
  const std::lock_guard lock(mutex_);
  std::erase(contexts_, &context);
  return contexts_.empty();
}
void Host::add(Cq& cq, mrc::CqId id) {
  const std::lock_guard lock(mutex_);
  cqs_[id] = &cq;
}
void Host::remove(mrc::CqId id) {
  const std::lock_guard lock(mutex_);
  cqs_.erase(id);
}
void Host::add(Srq& srq, mrc::SrqId id) {
  const std::lock_guard lock(mutex_);
  srqs_[id] = &srq;
}
void Host::remove(mrc::SrqId id) {
  const std::lock_guard lock(mutex_);
  srqs_.erase(id);
}
void Host::add(Qp& qp, mrc::Qpn qpn) {
  const std::lock_guard lock(mutex_);
  qps_[mrc::value(qpn)] = &qp;
}
void Host::remove(mrc::Qpn qpn) {
  const std::lock_guard lock(mutex_);
  qps_.erase(mrc::value(qpn));
}

// ------------------------------------------------------------------------------------- events

namespace {

/// What InfiniBand reports of a queue pair that failed: errors of the responder, which no
/// completion tells of, and those of the device. A requester's error completes a request.
bool event_of(mrc::QpErrorCause cause, ibv_event_type& type) {
  using Cause = mrc::QpErrorCause;
  switch (cause) {
    case Cause::bad_key:
    case Cause::bad_bounds:
    case Cause::bad_access:
    case Cause::bad_pd:
      type = IBV_EVENT_QP_ACCESS_ERR;
      return true;
    case Cause::bad_request:
    case Cause::bad_rqmsn:
    case Cause::bad_atomic:
    case Cause::receive_too_short:
    case Cause::wimm_overflow:
    case Cause::no_receive:
      type = IBV_EVENT_QP_REQ_ERR;
      return true;
    case Cause::cq_overrun:
    case Cause::memory_withdrawn:
      type = IBV_EVENT_QP_FATAL;
      return true;
    default:
      return false;
  }
}

}  // namespace

void Host::dispatch() {
  const std::lock_guard lock(mutex_);
  mrc::DeviceEvent event;
  while (device_.poll_event(event)) dispatch(event);
}

void Host::dispatch(const mrc::DeviceEvent& event) {
  using Kind = mrc::DeviceEvent::Kind;
  ibv_async_event out{};
  switch (event.kind) {
    case Kind::qp_error: {
      const auto at = qps_.find(mrc::value(event.qpn));
      if (at == qps_.end()) return;
      at->second->on_error(event.cause);
      out.element.qp = &at->second->qp_base;
      if (event_of(event.cause, out.event_type)) at->second->context().events().push(out);
      return;
    }
    case Kind::cq_overrun: {
      const auto at = cqs_.find(event.cq);
      if (at == cqs_.end()) return;
      out.element.cq = at->second->base();
      out.event_type = IBV_EVENT_CQ_ERR;
      at->second->owner().events().push(out);
      return;
    }
    case Kind::srq_limit: {
      const auto at = srqs_.find(event.srq);
      if (at == srqs_.end()) return;
      out.element.srq = at->second;
      out.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
      at->second->owner().events().push(out);
      return;
    }
    case Kind::last_wqe: {
      const auto at = qps_.find(mrc::value(event.qpn));
      if (at == qps_.end()) return;
      out.element.qp = &at->second->qp_base;
      out.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
      at->second->context().events().push(out);
      return;
    }
    case Kind::plane_down:
    case Kind::plane_up: {
      const bool up = port_up();
      if (up != was_up_) tell(Ports::one, 1, up);
      was_up_ = up;
      return tell(Ports::planes, event.plane + 1, event.kind == Kind::plane_up);
    }
  }
}

void Host::tell(Ports ports, int port, bool up) {
  ibv_async_event event{};
  event.element.port_num = port;
  event.event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  for (Context* context : contexts_)
    if (context->ports() == ports) context->events().push(event);
}

}  // namespace mrc_verbs
