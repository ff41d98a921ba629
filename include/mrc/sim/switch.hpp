// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/fabric/usid.hpp"
#include "mrc/sim/network.hpp"

namespace mrc::inline v0_1::sim {

/// How switches select the next hop.
enum class Forwarding : std::uint8_t {
  srv6,  ///< source routed: uSIDs in the outer destination address (mrc-1.0 §4)
  stev,  ///< structured EV: its first byte is the uplink (mrc-1.0 §3.1)
  udp,   ///< hash of addresses and ports over the uplinks that are up
};

/// A lookup table from dense numbers to ports.
class RouteTable {
 public:
  /// Index of a port of the switch.
  using Port = std::uint16_t;
  /// No port.
  static constexpr Port kNoPort = 0xFFFF;

  /// Adds or replaces an entry.
  void set(std::uint32_t key, Port port) {
    if (ports_.empty()) first_ = key;
    if (key < first_) {
      ports_.insert(ports_.begin(), first_ - key, kNoPort);
      first_ = key;
    }
    if (key - first_ >= ports_.size()) ports_.resize(key - first_ + 1, kNoPort);
    ports_[key - first_] = port;
  }
  /// The port for a key; kNoPort if there is none.
  [[nodiscard]] Port operator[](std::uint32_t key) const noexcept {
    return key - first_ < ports_.size() ? ports_[key - first_] : kNoPort;
  }

 private:
  std::vector<Port> ports_;
  std::uint32_t first_ = 0;
};

/// A switch of one tier and plane. It forwards by the packet's real outermost header (hashing and
/// structured EVs also use the UDP header) and static tables, without a routing protocol. Counts
/// packets that it can't forward.
class Switch : public Node {
 public:
  /// Index among the outgoing links.
  using Port = RouteTable::Port;
  /// No port.
  static constexpr Port kNoPort = RouteTable::kNoPort;
  /// The local uSID (uA) of port n is this value + n.
  static constexpr path::Usid kFirstLocal = 0xE000;

  /// `usid`: its own (uN); `block`: upper 32 bits of all uSID addresses; `salt`: for its hash.
  Switch(Network& network, Forwarding forwarding, std::uint32_t block, path::Usid usid,
         std::uint64_t salt)
      : network_(network), forwarding_(forwarding), block_(block), usid_(usid), salt_(salt) {}

  // --- Building ---------------------------------------------------------------------------------

  /// Adds an outgoing link; returns its port.
  Port add_port(LinkId out) {
    ports_.push_back(out);
    return static_cast<Port>(ports_.size() - 1);
  }
  /// Declares one of the ports for hosts without a route of their own.
  void add_uplink(Port port) { uplinks_.push_back(port); }
  /// Static /48 route to the node or downlink that the uSID names.
  void route_usid(path::Usid usid, Port port) { usid_routes_[usid >> 14].set(usid, port); }
  /// Route to a host by its index, the last four bytes of its address.
  void route_host(std::uint32_t host, Port port) { host_routes_.set(host, port); }

  void on_packet(LinkId, PacketId id) override {
    Packet& p = network_.packets()[id];
    const Port port = forward(p);
    if (port == kNoPort || p.outer().hop_limit <= 1) {
      ++unroutable_;
      return network_.drop(id, PacketFate::no_route);
    }
    --p.outer().hop_limit;
    network_.send(ports_[port], id);
  }

  /// Outgoing links, by port.
  [[nodiscard]] const std::vector<LinkId>& ports() const noexcept { return ports_; }
  /// Packets dropped for lack of a route or an expired hop limit.
  [[nodiscard]] std::uint64_t unroutable() const noexcept { return unroutable_; }

 private:
  [[nodiscard]] Port forward(Packet& p) const noexcept {
    wire::Ipv6& ip = p.outer();
    if (path::usid_block(ip.destination) == block_) return by_usid(ip);
    std::uint32_t host = 0;
    for (unsigned i = 12; i < 16; ++i) host = host << 8 | ip.destination[i];
    const Port direct = host_routes_[host];
    if (direct != kNoPort || uplinks_.empty()) return direct;
    return forwarding_ == Forwarding::stev ? by_structure(p) : by_hash(p);
  }

  /// uN: the own uSID at the front is shifted out and the next one looked up (mrc-1.0 §4.1). uA: a
  /// local uSID is also shifted out and directly determines the port.
  [[nodiscard]] Port by_usid(wire::Ipv6& ip) const noexcept {
    if (path::usid_at(ip.destination, 0) == usid_) ip.destination = path::shift(ip.destination);
    const path::Usid next = path::usid_at(ip.destination, 0);
    if (path::is_local(next)) {
      ip.destination = path::shift(ip.destination);
      const std::size_t port = next - kFirstLocal;
      return port < ports_.size() ? static_cast<Port>(port) : kNoPort;
    }
    return usid_routes_[next >> 14][next];
  }

  [[nodiscard]] Port by_structure(const Packet& p) const noexcept {
    const std::uint32_t first = p.inner().flow_label() >> 8 & 0xFF;
    return first < uplinks_.size() ? uplinks_[first] : kNoPort;
  }

  /// The flows of an uplink that is down go to the next uplink that is up.
  [[nodiscard]] Port by_hash(const Packet& p) const noexcept {
    const std::uint64_t h = hash(p);
    for (std::size_t i = 0; i < uplinks_.size(); ++i) {
      const Port port = uplinks_[((h >> 32) + i) % uplinks_.size()];
      if (network_[ports_[port]].up) return port;
    }
    return kNoPort;
  }

  [[nodiscard]] std::uint64_t hash(const Packet& p) const noexcept {
    std::uint64_t h = salt_;
    const auto mix = [&h](std::uint64_t v) {
      h = (h ^ v) * 0xFF51AFD7ED558CCDu;
      h ^= h >> 32;
    };
    const wire::Ipv6& ip = p.outer();
    for (const auto* address : {&ip.source, &ip.destination})
      for (unsigned half = 0; half < 16; half += 8) {
        std::uint64_t v = 0;
        for (unsigned i = 0; i < 8; ++i) v = v << 8 | (*address)[half + i];
        mix(v);
      }
    mix(std::uint64_t{p.udp_header().source_port} << 16 | p.udp_header().destination_port);
    return h * 0xC4CEB9FE1A85EC53u;
  }

  Network& network_;
  Forwarding forwarding_;
  std::uint32_t block_;
  path::Usid usid_;
  std::uint64_t salt_;
  std::vector<LinkId> ports_;
  std::vector<Port> uplinks_;
  std::array<RouteTable, 4> usid_routes_;  // by the top two bits, so that each is dense
  RouteTable host_routes_;
  std::uint64_t unroutable_ = 0;
};

}  // namespace mrc::inline v0_1::sim
