// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/api/option_table.hpp"
#include "mrc/core/error.hpp"
#include "mrc/plane/slot.hpp"
#include "mrc/plane/verbs/verbs_kind.hpp"
#include "mrc/plane/verbs/verbs_port.hpp"

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
                                  std::uint64_t fault_seed, const Log& log) override {
    OpenedPlanes planes;
    naming_variables(config, {"verbs", "paths", "udp_port", "slot"}, [&] {
      if (planes_.empty()) planes_ = port::all_verbs_planes();
      open_ports(planes, config, slot, fault_seed, log);
    });
    return planes;
  }

 private:
  void open_ports(OpenedPlanes& planes, const Config& config, std::optional<std::uint8_t> slot,
                  std::uint64_t fault_seed, const Log& log) const {
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
      set_shared_options(o, config, static_cast<Plane>(i), claim.slot, fault_seed);
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
