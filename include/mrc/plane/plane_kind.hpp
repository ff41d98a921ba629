// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/profiles.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/plane/ev_table.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/plane/slot.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"

namespace mrc::inline v0_1::detail {

/// What a device knows of its planes. A kind of plane (UDP sockets, packet ports of a fabric, RDMA
/// devices) is a Port and a PlaneKind: the port sends and receives, the kind opens ports and knows
/// how a peer is reached through them. Nothing else depends on the kind.

using port::PeerRoute;
using port::Port;

/// Bytes of the longest packets besides their payload: headers and iCRC. They have no pad, since an
/// MTU is a multiple of 4.
inline constexpr std::uint32_t kPacketOverhead = wire::kMaxWriteHeader + wire::kIcrcSize;

/// How a peer is reached in one plane.
struct PlanePaths {
  std::vector<path::PathSpec> specs;  ///< its EVs; the first `active` carry data from the start
  std::size_t active = 0;             ///< the rest are backups
  PeerRoute route;                    ///< for Port::add_peer()
};

class PlaneKind;

/// The ports of a lane, one for each plane. Not synchronized: the lane's lock guards it.
struct OpenedPlanes {
  PlaneKind* kind = nullptr;                 ///< that opened them; set by the lane
  std::vector<std::unique_ptr<Port>> ports;  ///< [plane]
  PlaneMask disabled = 0;                    ///< planes that an administrator has taken out of use
  std::uint8_t slot = 0;  ///< of this process on this host: top 8 bits of its QPNs
  UniqueFd slot_claim;    ///< keeps the slot claimed; not open where a port's socket does
  /// The plane whose address this device goes by, its GID: one that is up, if there is any.
  Plane gid_plane = 0;
  std::uint32_t mtu = 0;         ///< payload of a packet: option mtu, or less if a port needs it
  std::uint32_t wanted_mtu = 0;  ///< option mtu, or what `auto` means with these planes
  /// ConnectionInfo::network_namespace of this device: not 0 if its ports may leave the payload of
  /// packets to processes of this host out of the iCRC.
  std::uint64_t network_namespace = 0;
  std::size_t burst = 256;       ///< packets of all planes that are taken from the engine at a time
  std::size_t few_packets = 16;  ///< bursts up to this size are treated as latency-sensitive
  /// Numbers of peers in the ports, from Config::max_peers + 1 on, that the kind uses itself.
  std::uint32_t own_peers = 0;
  /// Bits of an EV by which profiles, and events of paths without one, name it: those of UDP are
  /// source ports.
  unsigned ev_bits = 32;

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(ports.size()); }
  [[nodiscard]] bool enabled(unsigned plane) const noexcept { return (disabled >> plane & 1) == 0; }
  /// Packets can pass: the plane is enabled, and its link is there.
  [[nodiscard]] bool up(unsigned plane) const noexcept {
    return enabled(plane) && ports[plane]->link_up();
  }
  /// The EV of a path of that plane, as profiles name it.
  [[nodiscard]] ProfileEv profile_ev(Plane plane, Ev ev) const noexcept {
    ProfileEv out;
    path::put_bits(out.value, 0, ev_bits,
                   value(ev) & static_cast<std::uint32_t>((std::uint64_t{1} << ev_bits) - 1));
    out.port = static_cast<std::uint8_t>(plane + 1);
    return out;
  }
  /// Adds the port of the next plane: logs its notes, and lowers the MTU to what it carries. Throws
  /// mrc::Error if that is too little.
  void adopt(std::unique_ptr<Port> port, const Config& config, const Log& log);
};

/// A kind of plane. One object serves a device for its life: it opens the ports of each lane, and
/// knows how peers are reached through them.
///
/// Thread contract: in_force(), first_address() and open() are called by one thread, before the
/// device is open. The rest, but for answer_stranger() and flush_answers(), is const and set-up,
/// may be called by any thread beside the data path, and of `own`, the lane's planes, uses only
/// what does not change: addresses, paths and slot.
class PlaneKind {
 public:
  virtual ~PlaneKind() = default;
  /// The configuration in force: the user's, except that options left at their default get this
  /// kind's default. Throws mrc::Error if the result is not valid.
  [[nodiscard]] virtual Config in_force(const Config& config) const { return config; }
  /// The address of plane 0 of the ports that open() would open: it opens none. Throws mrc::Error.
  [[nodiscard]] virtual port::IpAddress first_address(const Config& config) const {
    (void)config;
    throw Error(Errc::unsupported, "planes of this kind have no address before they are open");
  }
  /// Opens the ports of one lane with a claim of that slot, or of the lowest free one; called once
  /// per lane. `config` is in_force() and outlives this object; `log` is for this call only. Throws
  /// mrc::Error.
  [[nodiscard]] virtual OpenedPlanes open(const Config& config, std::optional<std::uint8_t> slot,
                                          const Log& log) = 0;

  /// Where a device with that GID is reached, and there the process with that queue pair: at least
  /// one. Throws mrc::Error if no plane leads there.
  [[nodiscard]] virtual std::vector<Contact> contacts(const OpenedPlanes& own,
                                                      const port::IpAddress& gid,
                                                      Qpn qpn) const = 0;
  /// Where that process may answer when it is asked, likeliest first: at its GID, and at other
  /// addresses that it probably has or has told of itself (`told`). `first`: the plane whose
  /// address this device goes by. Throws as contacts() does.
  [[nodiscard]] virtual std::vector<Contact> ways(const OpenedPlanes& own,
                                                  const port::IpAddress& gid, Qpn qpn, Plane first,
                                                  std::span<const port::PeerAddress> told) const {
    (void)first, (void)told;
    return contacts(own, gid, qpn);
  }
  /// In which of these planes single packets to that GID leave: for the address of a peer's plane,
  /// the own plane from which there is a route to it.
  [[nodiscard]] virtual Plane nearest(const OpenedPlanes& own, const port::IpAddress& gid,
                                      std::span<const Contact> contacts) const {
    (void)own;
    for (const Contact& contact : contacts)
      if (contact.address.ip == gid) return contact.plane;
    return contacts.front().plane;
  }
  /// RxPacket::source of packets from that address.
  [[nodiscard]] virtual std::uint64_t source_tag(Plane plane,
                                                 const port::IpAddress& ip) const noexcept {
    (void)plane;
    return port::source_tag(ip);
  }
  /// The paths of `plane` to the peer with that address, whose port has said `data`
  /// (Port::connection_data()); no data if it is not known. No specs: none may be used, why_none()
  /// says why. Throws mrc::Error if the address cannot be a peer's.
  [[nodiscard]] virtual PlanePaths paths_to(const OpenedPlanes& own, Plane plane,
                                            const port::PeerAddress& peer, Bytes data) const = 0;
  /// Which EVs path_of() takes.
  [[nodiscard]] virtual path::EvFormats ev_formats() const noexcept { return {}; }
  /// The EVs that path_of() takes in `own` planes, where they are few: those of the paths that the
  /// ports have opened, in EvMode::udp, plane by plane in the order of the port's paths.
  [[nodiscard]] virtual std::vector<ProfileEv> own_evs(const OpenedPlanes& own) const {
    (void)own;
    return {};
  }
  /// How an EV of a profile is sent: its path; `index` is its place in the profile. Throws
  /// mrc::Error (unsupported) that says why the ports can't send it; those that have only paths of
  /// their own can send none.
  [[nodiscard]] virtual path::PathSpec path_of(const OpenedPlanes& own, path::EvMode mode,
                                               const ExpandedEv& ev, std::uint16_t index) const {
    (void)own, (void)mode, (void)ev, (void)index;
    throw Error(Errc::unsupported, "planes of this kind take no EVs: they have paths of their own");
  }
  /// What Port::add_peer() needs to send the EVs of a profile to a peer; as paths_to().route.
  [[nodiscard]] virtual PeerRoute route_with(const OpenedPlanes& own, Plane plane,
                                             const port::PeerAddress& peer, Bytes data,
                                             const EvTable& evs) const {
    (void)evs;
    return paths_to(own, plane, peer, data).route;
  }
  /// Makes `route` one to another implementation of MRC, which checks the iCRC over the headers as
  /// they arrive. True if packets on it cost more for that reason.
  [[nodiscard]] virtual bool keep_real_header(const OpenedPlanes& own, Plane plane,
                                              PeerRoute& route) const {
    (void)own, (void)plane, (void)route;
    return false;
  }
  /// Throws mrc::Error if there is nothing in the planes that `denied` could mean;
  /// Errc::unsupported if this kind does not know over which parts its paths lead.
  virtual void check(const DeniedPaths& denied) const {
    if (denied.t0 || denied.t1 || !denied.host.empty())
      throw Error(Errc::unsupported,
                  "planes of this kind don't know the switches that paths lead over: deny EVs, or "
                  "use a fabric description (option fabric)");
  }
  /// Whether a path of the denied plane, on that route to a peer, is among the denied ones.
  [[nodiscard]] virtual bool is_among(const DeniedPaths& denied, const PeerRoute& route,
                                      const path::PathSpec& path) const {
    (void)route;
    if (denied.t0 || denied.t1 || !denied.host.empty()) return false;
    return !denied.ev || *denied.ev == path.ev;
  }
  /// If packets to and from that address stay on the loopback interface in that plane: makes
  /// `route` one to a process of this host with which it is agreed that packets may leave the
  /// payload out of the iCRC, so that such packets are taken from it, and returns true.
  [[nodiscard]] virtual bool take_heads(const OpenedPlanes& own, Plane plane,
                                        const port::PeerAddress& peer, PeerRoute& route) const {
    (void)own, (void)plane, (void)peer, (void)route;
    return false;
  }
  /// Several EVs share a route (path::PathSetOptions::shared_routes).
  [[nodiscard]] virtual bool shared_routes() const noexcept { return false; }
  /// What the fabric of the planes calls this host; empty if they have no description of one.
  [[nodiscard]] virtual std::string host_name() const { return {}; }
  /// The switch farthest from the hosts that a path which paths_to() gave crosses, such as
  /// "p1t1-2"; empty if it is not known.
  [[nodiscard]] virtual std::string crossed_switch(Plane plane, const port::IpAddress& peer,
                                                   Ev ev) const {
    (void)plane, (void)peer, (void)ev;
    return {};
  }
  /// Why paths_to() may return no specs, for an error message.
  [[nodiscard]] virtual std::string why_none() const = 0;

  /// Endpoint requests of unconnected hosts that wait to be answered, most: as many as a port
  /// receives at once.
  static constexpr std::uint32_t kStrangers = 256;
  /// Endpoint requests (mrc-1.0 §5) of hosts to which no queue pair is connected get answers; else
  /// they are dropped.
  [[nodiscard]] virtual bool knows_strangers() const noexcept { return false; }
  /// Sends or prepares an answer to one, which came to the device's first lane. False: it gets
  /// none, or another process answers. This and flush_answers() are data path, under that lane's
  /// lock.
  virtual bool answer_stranger(Time now, OpenedPlanes& own,
                               const wire::UnconnectedRequest& request) noexcept {
    (void)now, (void)own, (void)request;
    return false;
  }
  /// Sends the answers that were prepared for requests of that plane.
  virtual void flush_answers(Time now, OpenedPlanes& own, Plane plane) noexcept {
    (void)now, (void)own, (void)plane;
  }
};

[[nodiscard]] inline wire::DscpMap dscp_of(const Config& c) noexcept {
  const ExpertConfig& e = c.expert;
  return {e.dscp_no_trim, e.dscp_trimmable,        e.dscp_trimmable_retx,
          e.dscp_trimmed, e.dscp_trimmed_last_hop, e.dscp_control};
}

/// Why this program cannot use RDMA devices: for the kinds that may need them.
[[nodiscard]] Error no_verbs_planes(const Config& config);

/// Fills in the options that all kinds of ports share.
void set_shared_options(port::PortOptions& options, const Config& config, Plane plane,
                        std::uint8_t slot);

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1::port {

/// A port's address table: one entry per peer, Entry{} for unknown ones. One thread at a time.
template <class Entry>
class PeerTable {
 public:
  /// Empties the entry of a peer and returns it. Throws Error if the peer's number is too large.
  /// Invalidates pointers to other entries.
  [[nodiscard]] Entry& claim(PeerId id) {
    if (value(id) >= kMaxPeers)
      throw Error(Errc::no_resources, "peer number " + std::to_string(value(id)) +
                                          " is over the limit of " + std::to_string(kMaxPeers));
    if (value(id) >= entries_.size()) entries_.resize(value(id) + std::size_t{1});
    return entries_[value(id)] = {};
  }
  /// Empties the entry; unknown peers are ignored.
  void remove(PeerId id) noexcept {
    if (value(id) < entries_.size()) entries_[value(id)] = {};
  }
  /// The entry, which may be empty; null beyond the table.
  [[nodiscard]] Entry* find(PeerId id) noexcept {
    return value(id) < entries_.size() ? &entries_[value(id)] : nullptr;
  }
  /// The same.
  [[nodiscard]] const Entry* find(PeerId id) const noexcept {
    return value(id) < entries_.size() ? &entries_[value(id)] : nullptr;
  }

  /// All entries, also empty ones, in the order of the peers' numbers.
  [[nodiscard]] auto begin() noexcept { return entries_.begin(); }
  /// End of the entries.
  [[nodiscard]] auto end() noexcept { return entries_.end(); }

 private:
  static constexpr std::uint32_t kMaxPeers = 1u << 20;
  std::vector<Entry> entries_;
};

}  // namespace mrc::inline v0_1::port
