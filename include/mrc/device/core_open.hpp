// SPDX-License-Identifier: Apache-2.0
// DeviceCore: opening planes and engine from a Config, and closing them.
#pragma once

#include <sys/eventfd.h>
#include <sys/random.h>

#include <bit>
#include <cstdio>

#include "mrc/config/setting_source.hpp"
#include "mrc/device/core.hpp"
#include "mrc/device/fabric_settings.hpp"
#include "mrc/port/udp_slot.hpp"

namespace mrc::inline v0_1::detail {

/// Largest GSO message, and so the most bytes of a burst on one path.
inline constexpr std::uint32_t kMaxBurstBytes = 65'507;

[[nodiscard]] inline std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed))
    throw Error(std::error_code(errno, std::generic_category()), "cannot get random numbers");
  return seed;
}

inline DeviceCore::DeviceCore(const Config& config)
    : fabric_((config.validate(), read_fabric(config))), config_(in_force(config, fabric_)) {
  if (const std::string unknown = unknown_variables_once(); !unknown.empty())
    log(LogLevel::warn, unknown);
  guid_ = random_seed();
  if (fabric_)
    naming_variables(config_, {"fabric", "host", "slot"}, [this] { open_fabric_ports(); });
  else
    naming_variables(config_, {"planes", "paths", "udp_port", "slot", "gso", "gro"},
                     [this] { open_udp_ports(); });
  if (mtu_ != config_.mtu)
    log(LogLevel::warn, "mtu lowered from " + std::to_string(config_.mtu) + " to " +
                            std::to_string(mtu_) + ": larger packets do not fit the interfaces");
  open_engine();
  if (!config_.faults.empty())
    set_faults(config_.faults, setting_name("faults", config_) + ": value '" + config_.faults +
                                   "' is not allowed; ");
  start_helper();
}

inline DeviceCore::~DeviceCore() {
  if (helper_.joinable()) {
    stop_.store(true);
    wake_helper();
    helper_.join();
  }
  const std::lock_guard lock(mutex_);
  (void)advance(monotonic_now());  // answers that wait go out before the end
  for (const int fd : cq_fds_)
    if (fd >= 0) ::close(fd);  // of queues that were still used when their handle went
}

inline void DeviceCore::open_udp_ports() {
  std::vector<port::LocalAddress> addresses;
  for (const std::string& text : config_.plane_list())
    addresses.push_back(port::parse_local_address(text));
  std::optional<std::uint8_t> wanted;
  if (config_.slot >= 0) wanted = static_cast<std::uint8_t>(config_.slot);
  port::SlotClaim claim = port::claim_slot(addresses, config_.udp_port, wanted);
  slot_ = claim.slot;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    port::UdpPortOptions o;
    set_shared(o, static_cast<Plane>(i));
    o.local = addresses[i];
    o.base_port = claim.base_ports[i];
    o.paths = config_.paths;
    o.gso = config_.gso;
    o.gro = config_.gro;
    adopt(DevicePort(port::UdpPort(o, std::move(claim.sockets[i]))));
  }
}

/// What the configuration says of ports of all kinds.
inline void DeviceCore::set_shared(port::PortOptions& o, Plane plane) const {
  o.plane = plane;
  o.slot = slot_;
  o.receive_buffer = config_.receive_buffer;
  o.send_buffer = config_.send_buffer;
  o.receive_slots = config_.rx_batch;
  o.icrc = config_.icrc;
  o.dscp = dscp_of(config_);
  o.fault_seed = (config_.seed != 0 ? config_.seed : guid_) + plane;
}

/// Takes a port for the next plane: what it can't do, and whether it is up.
inline void DeviceCore::adopt(DevicePort opened) {
  const auto plane = static_cast<Plane>(ports_.size());
  ports_.push_back(std::make_unique<DevicePort>(std::move(opened)));
  const DevicePort& port = *ports_.back();
  for (const std::string& note : port.notes())
    log(LogLevel::warn, "plane " + std::to_string(plane) + ": " + note);
  if (mtu_ == 0) mtu_ = config_.mtu;
  const std::uint32_t room = port.capabilities().max_packet;
  while (mtu_ > 256 && mtu_ + kPacketOverhead > room) mtu_ /= 2;
  if (fabric_ && mtu_ + kPacketOverhead > room)
    throw Error(Errc::invalid_argument,
                "plane " + std::to_string(plane) + ": the interface's MTU leaves " +
                    std::to_string(room) + " bytes for a packet, needed are " +
                    std::to_string(256 + kPacketOverhead) + "; raise it with `ip link set`");
  if (port.link_up()) planes_up_ |= plane_bit(plane);
}

inline void DeviceCore::open_engine() {
  engine::EngineOptions o;
  o.slot = slot_;
  o.seed = config_.seed != 0 ? config_.seed : random_seed();
  o.start = monotonic_now();
  o.max_qps = config_.max_qps;
  o.max_cqs = config_.max_cqs;
  o.max_mrs = config_.max_mrs;
  o.max_pds = config_.max_pds;
  o.max_peers = config_.max_peers;
  o.max_outstanding = config_.max_outstanding;
  o.sack_threshold = config_.sack_threshold;
  if (fabric_) o.unconnected_probes = ProbeResponder::kQueue;
  o.trimming = config_.trim;
  o.dscp = dscp_of(config_);
  std::uint32_t burst = config_.burst;
  if (burst == 0) {  // as much as one system call takes
    burst = std::max(1u, kMaxBurstBytes / (mtu_ + kPacketOverhead));
    for (const auto& port : ports_) burst = std::min(burst, port->capabilities().max_burst);
  }
  o.burst = burst;
  o.paths.active = config_.active_paths;
  o.paths.min_active = config_.min_active_paths;
  o.paths.loss_strikes = config_.loss_strikes;
  o.paths.probe_successes = config_.probe_successes;

  o.cc.algorithm = config_.cc;
  o.cc.fixed_window = config_.cc_fixed_window;
  cc::NsccOptions& n = o.cc.nscc;
  n.link_speed = static_cast<std::uint64_t>(config_.cc_link_speed * 1e9);
  n.base_rtt = config_.cc_base_rtt;
  n.base_rtt_floor = config_.cc_base_rtt;  // hosts batch: a lucky short round trip is no measure
  n.zero_delay = std::max<Duration>(n.zero_delay, config_.cc_base_rtt / 8);
  n.mtu = mtu_ + kPacketOverhead + wire::kNominalOverhead;
  if (config_.cc_target_delay.count() > 0) n.target_delay = config_.cc_target_delay;
  n.ack_gen_trigger = config_.sack_threshold;
  engine_ = std::make_unique<engine::Engine>(o);
  default_pd_ = *engine_->alloc_pd();
  by_plane_.resize(ports_.size());
  for (auto& groups : by_plane_) groups.reserve(tx_.room());
  for (unsigned i = 0; i < ports_.size(); ++i)
    if ((planes_up_ >> i & 1) == 0) engine_->set_plane_up(o.start, static_cast<Plane>(i), false);
}

inline void DeviceCore::start_helper() {
  if (!config_.helper) return;
  wake_up_ = port::Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_up_.open())
    throw Error(std::error_code(errno, std::generic_category()), "cannot start the helper thread");
  helper_ = std::thread([this] { run_helper(); });
}

inline void DeviceCore::log(LogLevel level, const std::string& line) const {
  if (static_cast<int>(level) <= static_cast<int>(config_.log))
    std::fprintf(stderr, "openmrc: %s\n", line.c_str());
}

}  // namespace mrc::inline v0_1::detail
