// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "mrc/net/interface.hpp"
#include "mrc/net/socket.hpp"
#include "mrc/plane/verbs/verbs_addresses.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Flow label of a path: never 0, which some devices take for "none", and different in the bits
/// that they make a source port of (the low 14, mixed with the upper 6).
[[nodiscard]] constexpr std::uint32_t label_of(std::uint16_t path) noexcept {
  return (path + 1u) & 0x3FFFu;
}

/// Makes the kernel look for the link address of `ip`, and waits a moment. A device that has to
/// look for it itself takes a second.
inline void find_neighbour(const IpAddress& own, const IpAddress& ip) {
  const Socket socket = make_udp_socket({own, {}});
  const Interface interface = find_interface(socket, {own, {}});
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, interface.name.c_str(),
                     static_cast<socklen_t>(interface.name.size()));
  constexpr std::uint16_t kDiscard = 9;
  const SocketAddress to(ip, kDiscard, interface.index);
  (void)::sendto(socket.fd(), nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, &to.any, to.length);
  std::this_thread::sleep_for(std::chrono::milliseconds(8));
}

}  // namespace detail

ibv_ah_attr verbs_address_of(const VerbsDevice& device, const IpAddress& ip, std::uint16_t path,
                             std::uint8_t traffic_class) noexcept {
  ibv_ah_attr a{};
  a.is_global = 1;
  a.port_num = device.port;
  a.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index);
  a.grh.hop_limit = 64;
  a.grh.flow_label = detail::label_of(path);
  a.grh.traffic_class = traffic_class;
  std::memcpy(a.grh.dgid.raw, ip.data(), ip.size());
  return a;
}

VerbsAddresses::VerbsAddresses(std::uint16_t paths, const wire::DscpMap& dscp,
                               std::function<void()> on_ready)
    : paths_(paths), dscp_(dscp), on_ready_(std::move(on_ready)), thread_([this] { run(); }) {}

VerbsAddresses::~VerbsAddresses() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void VerbsAddresses::use(const VerbsQueues* queues) {
  std::unique_lock lock(mutex_);
  queues_ = nullptr;
  changed_.wait(lock, [this] { return !busy_; });
  for (auto& [ip, entry] : entries_) {
    entry.address.reset();
    entry.retry = Time::min();
  }
  queues_ = queues;
  changed_.notify_all();
}

void VerbsAddresses::want(const IpAddress& ip) {
  const std::lock_guard lock(mutex_);
  ++entries_[ip].wanted;
  changed_.notify_all();
}

void VerbsAddresses::forget(const IpAddress& ip) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(ip);
  if (at != entries_.end() && --at->second.wanted == 0) entries_.erase(at);
}

std::shared_ptr<const VerbsAddress> VerbsAddresses::find(const IpAddress& ip) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(ip);
  return at == entries_.end() ? nullptr : at->second.address;
}

std::string VerbsAddresses::wait(const IpAddress& ip, Duration patience) {
  want(ip);
  std::string failure;
  {
    std::unique_lock lock(mutex_);
    const auto known = [&] {
      const Entry& entry = entries_[ip];
      return entry.address != nullptr || !entry.failure.empty();
    };
    if (!changed_.wait_for(lock, patience, known))
      failure = "its link address is not known yet";
    else if (!entries_[ip].address)
      failure = entries_[ip].failure;
  }
  forget(ip);
  return failure;
}

void VerbsAddresses::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Time now = monotonic_now();
    const auto due = [&](const auto& item) {
      return item.second.address == nullptr && item.second.retry <= now;
    };
    const auto next = std::find_if(entries_.begin(), entries_.end(), due);
    if (queues_ == nullptr || next == entries_.end()) {
      changed_.wait_for(lock, kRetry / 4);
      continue;
    }
    const IpAddress ip = next->first;
    const VerbsQueues& queues = *queues_;
    busy_ = true;
    lock.unlock();
    std::string failure;
    std::shared_ptr<const VerbsAddress> address;
    try {
      detail::find_neighbour(queues.device().address, ip);
      address = make(queues, ip, failure);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    lock.lock();
    busy_ = false;
    const auto entry = entries_.find(ip);
    const bool good = address != nullptr;
    if (entry != entries_.end() && queues_ == &queues) {
      entry->second.address = std::move(address);
      entry->second.failure = failure;
      entry->second.retry = monotonic_now() + kRetry;
    }
    address.reset();  // while use() still waits
    changed_.notify_all();
    if (!good) continue;
    lock.unlock();
    on_ready_();
    lock.lock();
  }
}

std::shared_ptr<const VerbsAddress> VerbsAddresses::make(const VerbsQueues& queues,
                                                         const IpAddress& ip,
                                                         std::string& failure) const {
  const VerbsDevice& device = queues.device();
  auto address = std::make_shared<VerbsAddress>();
  for (std::uint16_t path = 0; path < paths_; ++path) {
    for (const bool control : {false, true}) {
      const std::uint8_t dscp = control ? dscp_.control : dscp_.no_trim;
      ibv_ah_attr attributes = verbs_address_of(
          device, ip, path, wire::make_tos(dscp, control ? Ecn::not_ect : Ecn::ect0));
      errno = 0;
      address->handles.emplace_back(VerbsLibrary::get().create_ah(queues.pd(), &attributes));
      if (address->handles.back()) continue;
      const int error = errno != 0 ? errno : EINVAL;
      failure = "RDMA device " + device.name + " cannot address " + format_ip(ip) + ": " +
                std::generic_category().message(error) +
                (error == ETIMEDOUT ? " (nobody has this address on its network)" : "");
      return nullptr;
    }
  }
  return address;
}

}  // namespace mrc::inline v0_1::port
