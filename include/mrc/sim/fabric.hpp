// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/fabric/usid.hpp"
#include "mrc/sim/network.hpp"
#include "mrc/sim/switch.hpp"

namespace mrc::inline v0_1::sim {

/// Topology of a fabric. Every plane is a separate network; host h has one port in each.
enum class Topology : std::uint8_t {
  clos,           ///< two tiers: each T0 of a plane has one link to each T1 of that plane
  single_switch,  ///< all hosts on one T0 per plane
  dumbbell,       ///< two T0s per plane with half of the hosts each and one link between them
};

/// Parameters of a fabric.
struct FabricSettings {
  Topology topology = Topology::clos;        ///< shape of each plane
  Forwarding forwarding = Forwarding::srv6;  ///< how switches forward
  unsigned planes = 8;                       ///< 1 .. 16
  unsigned hosts = 16;                       ///< 1 .. 1,023 with over 8 planes, else 2,047
  unsigned hosts_per_t0 = 8;                 ///< clos: radix towards the hosts
  unsigned t1s = 8;            ///< clos: T1 switches per plane = uplinks per T0; 1 .. 256
  double host_gbps = 100;      ///< rate of a NIC port
  double fabric_gbps = 100;    ///< rate of a link between switches
  Duration host_delay{600};    ///< one way on a NIC-T0 link, including forwarding in the nodes
  Duration fabric_delay{600};  ///< one way between switches, likewise
  QueueSettings queue{.data_limit = 256 * 1024,
                      .ecn_min = 64 * 1024,
                      .ecn_max = 192 * 1024,
                      .overflow = Overflow::trim};  ///< of every switch port
  std::uint8_t trimmed_last_hop_dscp = 16;          ///< DSCP of packets trimmed by the last switch
  bool ecn_last_hop = false;        ///< ECN marking on links to hosts too (DCQCN needs it)
  std::uint64_t shared_buffer = 0;  ///< bytes per switch; 0: each port has its own queue.data_limit
  double buffer_alpha = 1;          ///< largest part of the free buffer that one queue may use
  PfcSettings pfc;                  ///< priority flow control of all switches

  /// Throws mrc::Error that names the field that is out of range.
  void check() const;
  /// Number of T0 switches per plane.
  [[nodiscard]] unsigned t0s() const noexcept {
    if (topology == Topology::single_switch) return 1;
    if (topology == Topology::dumbbell) return 2;
    return (hosts + hosts_per_t0 - 1) / hosts_per_t0;
  }
  /// Number of T1 switches per plane.
  [[nodiscard]] unsigned t1_count() const noexcept { return topology == Topology::clos ? t1s : 0; }
};

/// The name of a part of a fabric as reports have it: with today's names of switches. Text that is
/// no such name is returned as it is.
[[nodiscard]] std::string canonical_name(std::string_view name);
/// The name of a switch of `tier` 0 or 1: "p1t0-2".
[[nodiscard]] std::string switch_name(unsigned tier, unsigned plane, unsigned number);

/// Switches and links of a fabric, with the names used by faults and reports:
///
///   h3                host 3, all its links            h3.p0       its port in plane 0
///   p1t0-2            T0 switch 2 of plane 1           p1t1-2      T1 switch 2 of plane 1
///   p1t0-2-p1t1-3     cable, both directions           p1          all of plane 1
///   p1t0-2>p1t1-3     one direction; also h3.p0>p0t0-1
///
/// Older files call switches t0.1.2 and t1.1.2 (PLANE.N); these names are read, too.
///
/// One thread at a time, that of its network.
class Fabric {
 public:
  /// `hosts`: their nodes, FabricSettings::hosts of them. Throws mrc::Error (settings).
  Fabric(Network& network, const FabricSettings& settings, std::span<const NodeId> hosts,
         std::uint64_t seed);

  /// The parameters it was built with.
  [[nodiscard]] const FabricSettings& settings() const noexcept { return settings_; }
  /// Index of the host's T0 switch in each plane.
  [[nodiscard]] unsigned t0_of(unsigned host) const noexcept { return host / per_t0_; }

  /// The link from a host's port to its T0.
  [[nodiscard]] LinkId host_up(unsigned host, unsigned plane) const {
    return host_up_[host * settings_.planes + plane];
  }
  /// The link from the T0 to the host's port.
  [[nodiscard]] LinkId host_down(unsigned host, unsigned plane) const {
    return host_down_[host * settings_.planes + plane];
  }
  /// The link from a T0 to a T1 (clos), or from T0 `t0` to the other one (dumbbell).
  [[nodiscard]] LinkId fabric_up(unsigned plane, unsigned t0, unsigned t1) const {
    return fabric_up_[(plane * settings_.t0s() + t0) * uplinks() + t1];
  }
  /// The opposite direction of fabric_up().
  [[nodiscard]] LinkId fabric_down(unsigned plane, unsigned t0, unsigned t1) const {
    return fabric_down_[(plane * settings_.t0s() + t0) * uplinks() + t1];
  }
  /// Number of uplinks of a T0 in its plane.
  [[nodiscard]] unsigned uplinks() const noexcept {
    return settings_.topology == Topology::single_switch ? 0u
           : settings_.topology == Topology::dumbbell    ? 1u
                                                         : settings_.t1s;
  }

  /// A host's address in a plane.
  [[nodiscard]] static wire::IpAddress address(unsigned host, unsigned plane) noexcept;
  /// The outer destination address from one host to another over `uplink` (ignored where there is
  /// one path only).
  [[nodiscard]] wire::IpAddress route(unsigned from, unsigned to, unsigned plane,
                                      unsigned uplink) const;
  /// Number of distinct paths per plane from one host to another.
  [[nodiscard]] unsigned paths(unsigned from, unsigned to) const noexcept {
    return t0_of(from) == t0_of(to) ? 1 : std::max(1u, uplinks());
  }
  /// The EV of a path, as in feedback.
  [[nodiscard]] Ev ev(unsigned plane, unsigned uplink) const noexcept;

  /// The directed links with this name (see above). Throws mrc::Error that lists the valid names.
  [[nodiscard]] std::vector<LinkId> find(std::string_view name) const;
  /// The index of the host with this name ("h3"), or -1.
  [[nodiscard]] int host_of(std::string_view name) const;

  /// All switches.
  [[nodiscard]] const std::vector<std::unique_ptr<Switch>>& switches() const noexcept {
    return switches_;
  }
  /// Packets dropped by switches for lack of a route.
  [[nodiscard]] std::uint64_t unroutable() const noexcept;

 private:
  /// Kind of a uSID, in its top two bits.
  enum class UsidKind : std::uint16_t { t0 = 0, t1 = 1, host = 2 };
  static constexpr std::uint32_t kBlock = 0xFC000001;

  [[nodiscard]] unsigned plane_bits() const noexcept { return settings_.planes > 8 ? 4 : 3; }
  [[nodiscard]] unsigned number_bits() const noexcept { return 14 - plane_bits(); }
  [[nodiscard]] path::Usid usid(UsidKind kind, unsigned plane, unsigned number) const noexcept {
    return static_cast<path::Usid>(static_cast<unsigned>(kind) << 14 | plane << number_bits() |
                                   number);
  }
  void build_plane(unsigned plane, std::span<const NodeId> hosts, Random& random);
  void set_buffers(const Switch& s, NodeId node);
  Switch& add_switch(path::Usid usid, Random& random, NodeId& node);
  void connect_hosts(unsigned plane, std::span<const NodeId> hosts, std::span<const NodeId> t0s,
                     std::span<Switch*> t0_switches);
  void connect_tiers(unsigned plane, std::span<const NodeId> t0s, std::span<Switch*> t0_switches,
                     Random& random);
  void connect_dumbbell(unsigned plane, std::span<const NodeId> t0s,
                        std::span<Switch*> t0_switches);
  [[nodiscard]] LinkSettings link(double gbps, Duration delay, bool from_host, bool to_host) const;
  [[nodiscard]] path::UsidTemplate route_template(unsigned from, unsigned to) const;

  Network& network_;
  FabricSettings settings_;
  unsigned per_t0_;
  std::vector<std::unique_ptr<Switch>> switches_;
  std::vector<LinkId> host_up_, host_down_;      // [host][plane]
  std::vector<LinkId> fabric_up_, fabric_down_;  // [plane][t0][t1]
};

}  // namespace mrc::inline v0_1::sim
