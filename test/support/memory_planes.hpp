// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/host/device_core.hpp"
#include "mrc/plane/plane.hpp"

/// Planes in memory: whole devices of one process, connected by no network. For tests of devices
/// that need no sockets, and to measure what a device costs without them. Also an example of what
/// another kind of port has to bring: a port, and a kind that opens such ports and
/// knows how peers are reached.
namespace mrc::test {

/// Where packets wait for a port that receives. Any thread.
class Inbox {
 public:
  struct Packets {
    std::vector<std::uint8_t> bytes;
    std::vector<wire::RxPacket> facts;  ///< with views of `bytes` once they are taken
    std::vector<std::size_t> lengths;
  };
  static constexpr std::size_t kMost = 16'384;  ///< packets

  Inbox() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  /// Appends packets, whose payload is sges_of(packet). Returns how many there was room for.
  template <class SgesOf>
  std::uint32_t put(std::span<const wire::TxPacket> packets, const SgesOf& sges_of,
                    wire::RxPacket facts) {
    const std::lock_guard lock(mutex_);
    std::uint32_t taken = 0;
    for (const wire::TxPacket& p : packets) {
      if (waiting_.facts.size() == kMost) break;
      const std::size_t before = waiting_.bytes.size();
      const auto append = [&](const std::uint8_t* data, std::size_t n) {
        waiting_.bytes.insert(waiting_.bytes.end(), data, data + n);
      };
      append(p.header.data(), p.header_length);
      for (const wire::TxSge& sge : sges_of(p)) append(sge.data, sge.length);
      waiting_.bytes.insert(waiting_.bytes.end(), p.pad, std::uint8_t{0});
      waiting_.lengths.push_back(waiting_.bytes.size() - before);
      facts.udp_length = p.transport_length() + 8;
      facts.entropy = p.entropy;
      facts.ecn = p.ecn;
      facts.check = p.check_seed;
      waiting_.facts.push_back(facts);
      ++taken;
    }
    const std::uint64_t one = 1;
    if (std::exchange(armed_, false)) (void)!::write(event_.fd(), &one, sizeof one);
    return taken;
  }
  /// Exchanges what waits for an empty buffer.
  void take(Packets& packets) {
    packets.bytes.clear();
    packets.facts.clear();
    packets.lengths.clear();
    {
      const std::lock_guard lock(mutex_);
      std::swap(packets, waiting_);
      if (signalled_) {
        std::uint64_t count = 0;
        (void)!::read(event_.fd(), &count, sizeof count);
        signalled_ = false;
      }
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < packets.facts.size(); ++i) {
      packets.facts[i].bytes = {packets.bytes.data() + at, packets.lengths[i]};
      at += packets.lengths[i];
    }
  }
  /// The next packet makes fd() readable. False: there is one already.
  [[nodiscard]] bool arm() {
    const std::lock_guard lock(mutex_);
    if (!waiting_.facts.empty()) return false;
    armed_ = signalled_ = true;
    return true;
  }
  [[nodiscard]] int fd() const { return event_.fd(); }

 private:
  std::mutex mutex_;
  Packets waiting_;
  bool armed_ = false;
  bool signalled_ = false;  ///< fd() may be readable
  UniqueFd event_;
};

/// Who has which address. Any thread.
class MemoryNetwork {
 public:
  /// Ports that hold payload neither read it nor give it back meanwhile.
  std::atomic<bool> stalled{false};
  /// What all ports say of their receive buffers, in 1/128.
  std::atomic<std::uint32_t> fill{0};

  /// Packets with this EV get lost from now on, or no longer.
  void set_dead(Ev ev, bool dead) {
    const std::lock_guard lock(mutex_);
    if (dead)
      dead_.insert(ev);
    else
      dead_.erase(ev);
    any_dead_ = !dead_.empty();
  }
  [[nodiscard]] bool dead(Ev ev) {
    if (!any_dead_) return false;
    const std::lock_guard lock(mutex_);
    return dead_.contains(ev);
  }

  /// Null if somebody has it already.
  [[nodiscard]] std::shared_ptr<Inbox> open(const port::PeerAddress& address) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<Inbox>& entry = inboxes_[{address.ip, address.udp_port}];
    if (!entry.expired()) return nullptr;
    auto inbox = std::make_shared<Inbox>();
    entry = inbox;
    return inbox;
  }
  /// Null if nobody has it.
  [[nodiscard]] std::shared_ptr<Inbox> find(const port::PeerAddress& address) {
    const std::lock_guard lock(mutex_);
    const auto at = inboxes_.find({address.ip, address.udp_port});
    return at == inboxes_.end() ? nullptr : at->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<port::IpAddress, std::uint16_t>, std::weak_ptr<Inbox>> inboxes_;
  std::set<Ev> dead_;
  std::atomic<bool> any_dead_{false};
};

/// `holds`: it reads payload later than it takes the packet, as NICs do.
class MemoryPort final : public port::CopyingPort {
 public:
  struct Route {
    port::PeerAddress address;
    std::vector<std::uint8_t> data;  ///< the peer's connection_data(), if that is known
  };
  static constexpr std::uint16_t kPaths = 4;

  MemoryPort(std::shared_ptr<MemoryNetwork> network, port::PeerAddress address, Plane plane,
             std::shared_ptr<Inbox> inbox, bool holds)
      : network_(std::move(network)), address_(address), inbox_(std::move(inbox)) {
    capabilities_.max_packet = 65'536;
    capabilities_.max_burst = 64;
    capabilities_.receive_buffer = 8 << 20;
    capabilities_.holds_payload = holds;
    facts_.plane = plane;
    facts_.source = port::source_tag(address.ip);
    for (std::uint16_t i = 0; i < kPaths; ++i) paths_[i] = {Ev{i}, i};
  }

  // --- port::Port
  std::uint32_t transmit(Time, const wire::TxBurst& burst,
                         std::span<const wire::TxGroup> groups) noexcept override {
    std::uint32_t taken = 0;
    for (const wire::TxGroup& group : groups) {
      const auto peer = static_cast<std::size_t>(burst.packets(group).front().peer);
      const auto inbox = peer < peers_.size() ? peers_[peer].lock() : nullptr;
      const auto packets = burst.packets(group);
      std::uint32_t n = group.count;
      if (capabilities_.holds_payload)
        for (const wire::TxPacket& p : packets) hold(p, burst.sges(p), inbox);
      else if (inbox && !network_->dead(packets.front().entropy))  // else into the void
        n = inbox->put(
            packets, [&](const wire::TxPacket& p) { return burst.sges(p); }, facts_);
      taken += n;
      stats_.tx_packets += n;
      if (n < group.count) break;
    }
    return taken;
  }
  std::span<const wire::CopyId> take_released() noexcept override {
    released_.clear();
    if (network_->stalled) return released_;
    for (Held& h : held_) {
      const auto sges = [&](const wire::TxPacket&) { return std::span<const wire::TxSge>(h.sges); };
      if (const auto inbox = h.inbox.lock()) inbox->put({&h.packet, 1}, sges, facts_);
      if (h.packet.copy != wire::CopyId::none) released_.push_back(h.packet.copy);
    }
    held_.clear();
    return released_;
  }
  void receive(Time, port::RxBurst& rx) noexcept override {
    if (given_ == packets_.facts.size()) {
      inbox_->take(packets_);
      given_ = 0;
    }
    for (; given_ < packets_.facts.size() && rx.room() > 0; ++given_)
      rx.push(packets_.facts[given_]);
    stats_.rx_packets += rx.packets().size();
  }
  std::uint64_t add_peer(PeerId peer, const port::PeerRoute& to) override {
    const Route& route = to.as<Route>();
    const auto index = static_cast<std::size_t>(peer);
    if (index >= peers_.size()) peers_.resize(index + 1);
    // Who was told the wrong thing reaches nobody.
    const bool right = route.data.empty() || route.data == data_of(route.address);
    peers_[index] = right ? network_->find(route.address) : nullptr;
    return port::source_tag(route.address.ip);
  }
  void remove_peer(PeerId peer) noexcept override {
    if (static_cast<std::size_t>(peer) < peers_.size())
      peers_[static_cast<std::size_t>(peer)].reset();
  }
  bool arm() noexcept override { return given_ == packets_.facts.size() && inbox_->arm(); }
  [[nodiscard]] bool link_up() const noexcept override { return true; }
  [[nodiscard]] int poll_fd() const noexcept override { return inbox_->fd(); }
  [[nodiscard]] int link_fd() const noexcept override { return -1; }
  [[nodiscard]] Time next_release() const noexcept override {
    const bool soon = given_ < packets_.facts.size() || (!held_.empty() && !network_->stalled);
    return soon ? Time::min() : kNever;
  }
  [[nodiscard]] port::PortStats stats() const noexcept override { return stats_; }
  [[nodiscard]] std::uint32_t receive_fill() const noexcept override { return network_->fill; }
  [[nodiscard]] std::vector<std::uint8_t> connection_data() const override {
    return data_of(address_);
  }
  [[nodiscard]] std::span<const port::PortPath> paths() const noexcept override { return paths_; }
  [[nodiscard]] port::PeerAddress address() const noexcept override { return address_; }

 private:
  /// Something that nobody but the port itself can know.
  [[nodiscard]] static std::vector<std::uint8_t> data_of(const port::PeerAddress& address) {
    return {0xDA, address.ip[14], address.ip[15], static_cast<std::uint8_t>(address.udp_port)};
  }
  struct Held {
    wire::TxPacket packet;
    std::vector<wire::TxSge> sges;
    std::vector<std::uint8_t> inlined;  ///< payload that must be read at once
    std::weak_ptr<Inbox> inbox;
  };
  void hold(const wire::TxPacket& p, std::span<const wire::TxSge> sges,
            const std::shared_ptr<Inbox>& inbox) {
    Held h{p, {sges.begin(), sges.end()}, {}, inbox};
    if (p.copy == wire::CopyId::none) {
      for (const wire::TxSge& sge : sges)
        h.inlined.insert(h.inlined.end(), sge.data, sge.data + sge.length);
      h.sges = {{h.inlined.data(), static_cast<std::uint32_t>(h.inlined.size()), 0}};
    }
    held_.push_back(std::move(h));
  }

  std::shared_ptr<MemoryNetwork> network_;
  std::vector<Held> held_;
  std::vector<wire::CopyId> released_;
  port::PeerAddress address_;
  std::shared_ptr<Inbox> inbox_;
  Inbox::Packets packets_;
  std::size_t given_ = 0;
  wire::RxPacket facts_;
  std::vector<std::weak_ptr<Inbox>> peers_;
  std::array<port::PortPath, kPaths> paths_;
  port::PortStats stats_;
};

/// Planes of host number `host` in memory, as many as the configuration names. Peers are reached by
/// their address, over all paths.
class MemoryKind : public detail::PlaneKind {
 public:
  MemoryKind(std::shared_ptr<MemoryNetwork> network, std::uint8_t host, bool holds = false)
      : network_(std::move(network)), host_(host), holds_(holds) {}

  [[nodiscard]] detail::OpenedPlanes open(const Config& config, std::optional<std::uint8_t> wanted,
                                          const detail::Log& log) override {
    detail::OpenedPlanes planes;
    const unsigned first = wanted.value_or(1), last = wanted.value_or(255);
    const std::size_t count = config.plane_list().size();
    for (unsigned slot = first; slot <= last; ++slot) {
      auto inbox = network_->open(address(0, slot));
      if (!inbox) continue;  // of another lane or process
      planes.slot = static_cast<std::uint8_t>(slot);
      for (std::size_t i = 0; i < count; ++i) {
        const auto own = address(i, slot);
        if (i > 0) inbox = network_->open(own);
        planes.adopt(std::make_unique<MemoryPort>(network_, own, static_cast<Plane>(i),
                                                  std::move(inbox), holds_),
                     config, log);
      }
      return planes;
    }
    throw Error(Errc::no_resources, "all slots are in use");
  }

  [[nodiscard]] std::vector<detail::Contact> contacts(const detail::OpenedPlanes& own,
                                                      const port::IpAddress& gid,
                                                      Qpn qpn) const override {
    std::vector<detail::Contact> contacts;
    for (unsigned i = 0; i < own.count(); ++i) {
      port::PeerAddress address{gid, slot_of(qpn)};
      address.ip.back() = static_cast<std::uint8_t>(i);
      contacts.push_back({static_cast<Plane>(i), address});
    }
    return contacts;
  }
  [[nodiscard]] detail::PlanePaths paths_to(const detail::OpenedPlanes&, Plane plane,
                                            const port::PeerAddress& peer,
                                            Bytes data) const override {
    detail::PlanePaths out;
    for (std::uint16_t i = 0; i < MemoryPort::kPaths; ++i) out.specs.push_back({Ev{i}, plane, i});
    out.active = out.specs.size();
    out.route = port::PeerRoute(MemoryPort::Route{peer, {data.begin(), data.end()}});
    return out;
  }
  /// Every EV of a profile will do: it only travels along.
  [[nodiscard]] path::PathSpec path_of(const detail::OpenedPlanes&, path::EvMode,
                                       const detail::ExpandedEv& ev,
                                       std::uint16_t index) const override {
    return {ev.name, ev.plane, static_cast<std::uint16_t>(index % MemoryPort::kPaths)};
  }
  [[nodiscard]] std::string why_none() const override { return "none"; }

 private:
  [[nodiscard]] port::PeerAddress address(std::size_t plane, unsigned slot) const {
    port::PeerAddress a{{}, static_cast<std::uint16_t>(slot)};
    a.ip[0] = 0xfd;
    a.ip[14] = host_;
    a.ip[15] = static_cast<std::uint8_t>(plane);
    return a;
  }

  std::shared_ptr<MemoryNetwork> network_;
  std::uint8_t host_;
  bool holds_;
};

}  // namespace mrc::test
