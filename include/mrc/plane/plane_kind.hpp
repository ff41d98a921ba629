// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/api/device_config.hpp"
#include "mrc/api/log.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/plane/device_port.hpp"
#include "mrc/plane/ev_table.hpp"
#include "mrc/plane/host_addresses.hpp"
#include "mrc/plane/port_options.hpp"
#include "mrc/wire/dscp.hpp"
#include "mrc/wire/overhead.hpp"

/// What a device knows of its planes. A kind of plane (UDP sockets, packet ports of a fabric) is a
/// PlaneOpener; it alone knows which ports these are and how a peer is reached through them.
namespace mrc::inline v0_1::detail {

/// Bytes of the longest packets besides their payload: headers and iCRC. They have no pad, since an
/// MTU is a multiple of 4.
inline constexpr std::uint32_t kPacketOverhead = wire::kMaxWriteHeader + wire::kIcrcSize;

/// How a peer is reached in one plane.
struct PlanePaths {
  std::vector<path::PathSpec> specs;  ///< its EVs; the first `active` carry data from the start
  std::size_t active = 0;             ///< the rest are backups
  PeerRoute route;                    ///< for DevicePort::add_peer()
};

/// Knows the paths to peers. Set-up only; any thread, since nothing in it changes.
class PathProvider {
 public:
  virtual ~PathProvider() = default;
  /// Where a device with that GID is reached, and there the process with that queue pair: at least
  /// one. Throws mrc::Error if no plane leads there.
  [[nodiscard]] virtual std::vector<Contact> contacts(const port::IpAddress& gid,
                                                      Qpn qpn) const = 0;
  /// Where that process may answer when it is asked, likeliest first: at its GID, and at other
  /// addresses that it probably has or has told of itself (`told`). `first`: the plane whose
  /// address this device goes by. Throws as contacts() does.
  [[nodiscard]] virtual std::vector<Contact> ways(const port::IpAddress& gid, Qpn qpn, Plane first,
                                                  std::span<const port::PeerAddress> told) const {
    (void)first, (void)told;
    return contacts(gid, qpn);
  }
  /// In which of these planes single packets to that GID leave: for the address of a peer's plane,
  /// the own plane from which there is a route to it.
  [[nodiscard]] virtual Plane nearest(const port::IpAddress& gid,
                                      std::span<const Contact> contacts) const {
    for (const Contact& contact : contacts)
      if (contact.address.ip == gid) return contact.plane;
    return contacts.front().plane;
  }
  /// RxPacket::source of packets from that address.
  [[nodiscard]] virtual std::uint64_t source_tag(Plane, const port::IpAddress& ip) const noexcept {
    return port::source_tag(ip);
  }
  /// The paths of `plane` to the peer with that address, whose port has said `data`
  /// (DevicePort::connection_data()); no data if it is not known. No specs: none may be used,
  /// why_none() says why. Throws mrc::Error if the address cannot be a peer's.
  [[nodiscard]] virtual PlanePaths paths_to(Plane plane, const port::PeerAddress& peer,
                                            Bytes data) const = 0;
  /// How an EV of a profile is sent: its path; `index` is its place in the profile. Throws
  /// mrc::Error (unsupported) that says why the ports can't send it; those that have only paths of
  /// their own can send none.
  [[nodiscard]] virtual path::PathSpec path_of(path::EvMode, const ExpandedEv&,
                                               std::uint16_t) const {
    throw Error(Errc::unsupported, "planes of this kind take no EVs: they have paths of their own");
  }
  /// What DevicePort::add_peer() needs to send the EVs of a profile to a peer; as paths_to().route.
  [[nodiscard]] virtual PeerRoute route_with(Plane plane, const port::PeerAddress& peer, Bytes data,
                                             const EvTable&) const {
    return paths_to(plane, peer, data).route;
  }
  /// Makes `route` one to another implementation of MRC, which checks the iCRC over the headers as
  /// they arrive. True if packets on it cost more for that reason.
  [[nodiscard]] virtual bool keep_real_header(Plane, PeerRoute&) const { return false; }
  /// Several EVs share a route (path::PathSetOptions::shared_routes).
  [[nodiscard]] virtual bool shared_routes() const noexcept = 0;
  /// Why paths_to() may return no specs, for an error message.
  [[nodiscard]] virtual std::string why_none() const = 0;
};

/// Answers EV probes of hosts to which no queue pair is connected (mrc-1.0 §5). Under the lane's
/// lock.
class UnconnectedProbes {
 public:
  /// Probes that wait to be answered: as many as a port receives at once.
  static constexpr std::uint32_t kQueue = 256;

  virtual ~UnconnectedProbes() = default;
  /// Prepares an answer to a probe that came through probe.plane. False: it is not for this process
  /// to answer.
  virtual bool answer(Time now, const engine::UnconnectedProbe& probe) noexcept = 0;
  /// Sends the answers that were prepared for probes of that plane.
  virtual void flush(Time now, Plane plane) noexcept = 0;
};

/// Open planes: ports, and what comes with them. Not synchronized: the owner's lock guards it.
struct OpenedPlanes {
  std::vector<std::unique_ptr<DevicePort>> ports;  ///< [plane]
  std::uint8_t slot = 0;  ///< of this process on this host: top 8 bits of its QPNs
  UniqueFd slot_claim;    ///< keeps the slot claimed; not open where a port's socket does
  /// The plane whose address this device goes by, its GID: one that is up, if there is any.
  Plane gid_plane = 0;
  std::uint32_t mtu = 0;         ///< payload of a packet: option mtu, or less if a port needs it
  std::size_t burst = 256;       ///< packets of all planes that are taken from the engine at a time
  std::size_t few_packets = 16;  ///< bursts up to this size are treated as latency-sensitive
  /// Numbers of peers in the ports, from Config::max_peers + 1 on, that its parts use themselves.
  std::uint32_t own_peers = 0;
  std::unique_ptr<PathProvider> paths;
  std::unique_ptr<UnconnectedProbes> unconnected_probes;  ///< null: such probes are dropped

  [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(ports.size()); }
  /// Adds the port of the next plane: logs its notes, and lowers the MTU to what it carries. Throws
  /// mrc::Error if that is too little.
  void adopt(std::unique_ptr<DevicePort> port, const Config& config, const Log& log);
};

/// Opens planes of one kind. One object serves a device for its life; what it opens may refer to
/// it.
class PlaneOpener {
 public:
  virtual ~PlaneOpener() = default;
  /// The configuration in force: the user's, except that options left at their default get this
  /// opener's default. Throws mrc::Error if the result is not valid.
  [[nodiscard]] virtual Config in_force(const Config& config) const = 0;
  /// Opens the ports of one lane with a claim of that slot, or of the lowest free one; called once
  /// per lane. `config` is in_force() and must outlive what is returned; the seed of injected
  /// faults counts up from `fault_seed` by plane; `log` is for this call only. Throws mrc::Error.
  [[nodiscard]] virtual OpenedPlanes open(const Config& config, std::optional<std::uint8_t> slot,
                                          std::uint64_t fault_seed, const Log& log) = 0;
};

[[nodiscard]] inline wire::DscpMap dscp_of(const Config& c) noexcept {
  const ExpertConfig& e = c.expert;
  return {e.dscp_no_trim, e.dscp_trimmable,        e.dscp_trimmable_retx,
          e.dscp_trimmed, e.dscp_trimmed_last_hop, e.dscp_control};
}

/// Fills in the options that all kinds of ports share.
void set_shared_options(port::PortOptions& options, const Config& config, Plane plane,
                        std::uint8_t slot, std::uint64_t fault_seed);

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/plane/impl/plane_kind.ipp"
#endif
