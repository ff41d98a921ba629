// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/fabric/packet_kind.hpp"

#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "mrc/fabric/packet_port.hpp"
#include "mrc/fabric/probe_responder.hpp"
#include "mrc/net/interface.hpp"

namespace mrc::inline v0_1::detail {

/// Packets per plane in a burst through packet ports. Each costs microseconds, and a burst goes out
/// plane by plane: if the process is preempted mid-burst, every packet in it is already stamped as
/// sent. 16 instead of 4 save nothing measurable, and beside two busy programs twice as many
/// packets are falsely judged lost.
inline constexpr std::size_t kFabricBurst = 4;

/// See make_packet_kind().
class PacketKind final : public PlaneKind {
 public:
  explicit PacketKind(const Config& config) : fabric_(read_fabric(config)) {}

  [[nodiscard]] Config in_force(const Config& config) const override {
    return detail::in_force(config, fabric_);
  }
  [[nodiscard]] port::IpAddress first_address(const Config& config) const override {
    return self_in(config).addresses.front();
  }
  [[nodiscard]] OpenedPlanes open(const Config& config, std::optional<std::uint8_t> slot,
                                  const Log& log) override {
    OpenedPlanes planes;
    naming_variables(config, {"fabric", "host", "slot", "lock_folder"},
                     [&] { open_ports(planes, config, slot, log); });
    return planes;
  }
  [[nodiscard]] PlanePaths paths_to(const OpenedPlanes&, Plane plane, const port::PeerAddress& peer,
                                    Bytes) const override {
    const fabric::Host* host = fabric_.find_host(plane, peer.ip);
    if (host == nullptr)
      throw Error(Errc::unreachable, "no host of fabric " + fabric_.file + " has address " +
                                         port::format_ip(peer.ip) + " in plane " +
                                         std::to_string(plane) + "; add the peer to it");
    const auto paths = fabric::plane_paths(fabric_, plane, *self_, *host, config_->paths);
    port::PacketPort::Route route{peer, routes_of(paths)};
    FabricSpecs evs = specs_of(paths, !route.outer.empty(), fabric_.planes);
    return {std::move(evs.specs), evs.active, PeerRoute(std::move(route))};
  }
  [[nodiscard]] std::vector<Contact> contacts(const OpenedPlanes&, const port::IpAddress& gid,
                                              Qpn) const override {
    for (unsigned plane = 0; plane < fabric_.planes; ++plane) {
      const fabric::Host* host = fabric_.find_host(static_cast<Plane>(plane), gid);
      if (host == nullptr) continue;
      std::vector<Contact> contacts;
      const std::uint16_t port = peer_ports_.find(gid).value_or(config_->udp_port);
      for (unsigned p = 0; p < fabric_.planes; ++p)
        contacts.push_back({static_cast<Plane>(p), {host->addresses[p], port}});
      return contacts;
    }
    throw Error(Errc::unreachable, "GID " + port::format_ip(gid) + ": no host of fabric " +
                                       fabric_.file + " has that address; add the peer to it");
  }
  /// Packets carry any EV that the fabric forwards by.
  [[nodiscard]] path::EvFormats ev_formats() const noexcept override {
    using path::EvMode;
    if (fabric_.forwarding == fabric::Forwarding::srv6)
      return {bit_of(EvMode::srv6), ev_max_width(EvMode::srv6, srh_fits_)};
    const bool label = fabric_.entropy != wire::EvFormat::udp;
    return {bit_of(EvMode::udp) | bit_of(EvMode::stev),
            ev_max_width(label ? EvMode::stev : EvMode::udp)};
  }
  [[nodiscard]] path::PathSpec path_of(const OpenedPlanes&, path::EvMode mode, const ExpandedEv& ev,
                                       std::uint16_t index) const override {
    const bool routed = fabric_.forwarding == fabric::Forwarding::srv6;
    if (routed != (mode == path::EvMode::srv6))
      throw Error(Errc::unsupported,
                  "fabric " + fabric_.file +
                      (routed ? " forwards by uSIDs: its EVs are SRv6 EVs"
                              : " forwards by source port and flow label, not by SRv6 EVs"));
    if (routed && port::is_unspecified(route_of(ev).destination))
      throw Error(Errc::unsupported, "an SRv6 EV makes no destination address");
    if (routed && route_of(ev).has_srh && !srh_fits_)
      throw Error(Errc::unsupported,
                  "packets of this MTU have no room for the segment routing "
                  "header of an EV over 128 bits; set option mtu lower");
    if (fabric_.entropy == wire::EvFormat::udp && mode == path::EvMode::stev &&
        value(ev.name) > 0xFFFF)
      throw Error(Errc::unsupported,
                  "packets of fabric " + fabric_.file + " carry only the UDP source port of an EV");
    return {ev.name, ev.plane, index};
  }
  [[nodiscard]] PeerRoute route_with(const OpenedPlanes&, Plane plane,
                                     const port::PeerAddress& peer, Bytes,
                                     const EvTable& evs) const override {
    port::PacketPort::Route route{peer, {}};
    if (fabric_.forwarding != fabric::Forwarding::srv6) return PeerRoute(std::move(route));
    // Places of EVs of other planes are filled with one of this plane: it is where the port looks
    // for the next hop if the first is not its own.
    const auto own = [plane](const EvTable::Entry& entry) { return entry.expanded.plane == plane; };
    const auto any = std::find_if(evs.entries.begin(), evs.entries.end(), own);
    if (any == evs.entries.end()) return PeerRoute(std::move(route));
    for (const EvTable::Entry& entry : evs.entries)
      route.outer.push_back(route_of(own(entry) ? entry.expanded : any->expanded));
    return PeerRoute(std::move(route));
  }
  void check(const DeniedPaths& denied) const override {
    const auto number = [&](const std::optional<unsigned>& wanted, unsigned count,
                            const char* what) {
      if (wanted && *wanted >= count)
        throw Error(Errc::invalid_argument, "fabric " + fabric_.file + " has " +
                                                std::to_string(count) + ' ' + what +
                                                " switches in a plane, from number 0 on");
    };
    number(denied.t0, fabric_.t0, "T0");
    number(denied.t1, fabric_.t1, "T1");
    if (denied.t1 && fabric_.forwarding == fabric::Forwarding::ecmp)
      throw Error(Errc::unsupported, "in fabric " + fabric_.file +
                                         " switches choose the T1: deny a T0, a host or a plane");
    if (denied.host.empty()) return;
    const fabric::Host* host = fabric_.find_host(denied.host);
    if (host == nullptr)
      throw Error(Errc::invalid_argument,
                  "fabric " + fabric_.file + " has no host '" + denied.host + "'");
    if (denied.t0 && *denied.t0 != host->t0)
      throw Error(Errc::invalid_argument, "host " + denied.host + " of fabric " + fabric_.file +
                                              " is at T0 " + std::to_string(host->t0));
  }
  [[nodiscard]] bool is_among(const DeniedPaths& denied, const PeerRoute& route,
                              const path::PathSpec& path) const override {
    if (denied.ev) return *denied.ev == path.ev || Ev{value(*denied.ev) | kSecondEv} == path.ev;
    const auto& way = route.as<port::PacketPort::Route>();
    const fabric::Host* host = fabric_.find_host(path.plane, way.address.ip);
    const std::optional<fabric::Denied> part = part_of(denied);
    if (host == nullptr || !part) return false;
    path::UsidRoute usids;
    if (path.port_path < way.outer.size()) {
      const port::PacketRoute& outer = way.outer[path.port_path];
      usids = {outer.destination, outer.segment, outer.has_srh};
    }
    return fabric::leads_over(fabric_, *part, *self_, *host, usids);
  }
  [[nodiscard]] bool shared_routes() const noexcept override { return true; }
  [[nodiscard]] std::string host_name() const override {
    return self_ == nullptr ? std::string() : self_->name;
  }
  [[nodiscard]] std::string crossed_switch(Plane plane, const port::IpAddress& peer,
                                           Ev ev) const override try {
    const fabric::Host* host = fabric_.find_host(plane, peer);
    if (host == nullptr || fabric_.forwarding != fabric::Forwarding::srv6) return {};
    for (const fabric::Path& path :
         fabric::plane_paths(fabric_, plane, *self_, *host, config_->paths)) {
      if ((value(path.ev) & (kSecondEv - 1)) != (value(ev) & (kSecondEv - 1))) continue;
      for (unsigned t1 = 0; t1 < fabric_.t1; ++t1) {
        const fabric::Denied part{.plane = plane, .t1 = t1};
        if (fabric::leads_over(fabric_, part, *self_, *host, path.route))
          return fabric::switch_name(plane, fabric::NodeKind::t1, t1);
      }
      return host->t0 == self_->t0 ? fabric::switch_name(plane, fabric::NodeKind::t0, host->t0)
                                   : std::string();
    }
    return {};
  } catch (const Error&) {  // the description gives no paths
    return {};
  }
  [[nodiscard]] std::string why_none() const override {
    return "all paths to it are denied in " + fabric_.file;
  }

  [[nodiscard]] bool knows_strangers() const noexcept override { return true; }
  bool answer_stranger(Time now, OpenedPlanes& own,
                       const wire::UnconnectedRequest& probe) noexcept override {
    return probe.plane < own.count() && responder_->answer(now, probe, *own.ports[probe.plane]);
  }
  void flush_answers(Time now, OpenedPlanes& own, Plane plane) noexcept override {
    responder_->flush(now, *own.ports[plane]);
  }

 private:
  /// Nothing if the fabric has no such part, or check() refuses it for another reason: rules for
  /// the host may be older than the device.
  [[nodiscard]] std::optional<fabric::Denied> part_of(const DeniedPaths& denied) const {
    const bool chosen = denied.t1 && fabric_.forwarding == fabric::Forwarding::ecmp;
    const fabric::Host* host = denied.host.empty() ? nullptr : fabric_.find_host(denied.host);
    if (chosen || denied.t0.value_or(0) >= fabric_.t0 || denied.t1.value_or(0) >= fabric_.t1 ||
        (host == nullptr && !denied.host.empty()) ||
        (host != nullptr && denied.t0.value_or(host->t0) != host->t0))
      return std::nullopt;
    fabric::Denied part;
    part.plane = denied.plane;
    if (host != nullptr) {
      part.host = static_cast<unsigned>(host - fabric_.hosts.data());
      return part;
    }
    part.t0 = denied.t0.value_or(fabric::Denied::kAny);
    part.t1 = denied.t1.value_or(fabric::Denied::kAny);
    return part;
  }
  /// The first 128 bits are the destination address, the others the segment of an SRH.
  [[nodiscard]] static port::PacketRoute route_of(const ExpandedEv& ev) noexcept {
    port::PacketRoute route;
    const auto half = static_cast<std::ptrdiff_t>(route.destination.size());
    std::copy(ev.fields.begin(), ev.fields.begin() + half, route.destination.begin());
    std::copy(ev.fields.begin() + half, ev.fields.end(), route.segment.begin());
    route.has_srh = !port::is_unspecified(route.segment);
    return route;
  }

  /// This host.
  [[nodiscard]] const fabric::Host& self_in(const Config& config) const {
    return fabric::find_self(fabric_, port::local_addresses(), config.host);
  }
  void open_ports(OpenedPlanes& planes, const Config& config, std::optional<std::uint8_t> slot,
                  const Log& log) {
    const fabric::Host& self = self_in(config);
    const std::vector<port::VerbsPlaneName> devices = devices_of(config, self);
    port::PacketSlotClaim claim =
        port::claim_packet_slot(config.lock_folder, devices.empty() ? slot : only_slot(slot));
    planes.slot = claim.slot;
    planes.slot_claim = std::move(claim.lock);
    // Missing interfaces are tolerated while one exists; with none, opening fails.
    const bool any_interface =
        std::any_of(self.interfaces.begin(), self.interfaces.end(),
                    [](const std::string& name) { return if_nametoindex(name.c_str()) != 0; });
    for (unsigned i = 0; i < fabric_.planes; ++i) {
      port::PacketPortOptions o = port_options(self, static_cast<Plane>(i), config);
      set_shared_options(o, config, static_cast<Plane>(i), planes.slot);
      o.receive_slots = static_cast<std::uint16_t>(std::min(256, 4 * config.expert.rx_batch));
      o.may_be_absent = any_interface;
      auto port = devices.empty() ? std::make_unique<port::PacketPort>(o)
                                  : std::make_unique<port::PacketPort>(
                                        o, open_frames(frames_options(o, devices[i]), config));
      if (!devices.empty())
        log.info("plane " + std::to_string(i) + ": interface " + o.interface +
                 " by raw-packet queue pairs of RDMA device " + devices[i].device + " port " +
                 std::to_string(devices[i].port));
      planes.adopt(std::move(port), config, log);
    }
    planes.burst = std::max<std::size_t>(16, kFabricBurst * fabric_.planes);
    planes.few_packets = planes.burst / 4;
    const std::size_t more =
        wire::kMaxEnvelope - wire::envelope_size(false, fabric::encapsulation_of(fabric_));
    const bool fits = std::all_of(planes.ports.begin(), planes.ports.end(), [&](const auto& port) {
      return planes.mtu + kPacketOverhead + more <= port->capabilities().max_packet;
    });
    srh_fits_ = fits && (self_ == nullptr || srh_fits_);
    planes.own_peers = static_cast<std::uint32_t>(fabric_.hosts.size());
    if (self_ == nullptr) {
      self_ = &self;
      config_ = &config;
      peer_ports_ = PeerPorts(config.peer_ports);
      responder_.emplace(fabric_, self, config);
    }
    log.info("host " + self.name + " of fabric " + fabric_.name + " (" + fabric_.file +
             "): " + std::to_string(fabric_.planes) + " planes of packet ports");
  }

  /// With option verbs: the RDMA device of each plane; else none.
  [[nodiscard]] std::vector<port::VerbsPlaneName> devices_of(const Config& config,
                                                             const fabric::Host& self) const {
    std::vector<port::VerbsPlaneName> devices;
    naming_variables(config, {"verbs"}, [&] {
      if (config.verbs == "all")
        for (unsigned i = 0; i < fabric_.planes; ++i)
          devices.push_back(port::verbs_port_of_interface(self.interfaces[i]));
      else if (!config.verbs.empty())
        devices = port::parse_verbs_planes(config.verbs);
      for (port::VerbsPlaneName& device : devices)
        device.port = std::max<std::uint8_t>(device.port, 1);
      if (!devices.empty() && devices.size() != fabric_.planes)
        throw Error(Errc::invalid_argument, "verbs names " + std::to_string(devices.size()) +
                                                " RDMA devices, and fabric " + fabric_.file +
                                                " has " + std::to_string(fabric_.planes) +
                                                " planes; name one for each, or `all`");
    });
    return devices;
  }
  /// A NIC gives MRC's frames to one process.
  [[nodiscard]] static std::optional<std::uint8_t> only_slot(std::optional<std::uint8_t> slot) {
    if (slot.value_or(0) != 0)
      throw Error(Errc::invalid_argument,
                  "slot " + std::to_string(*slot) +
                      ": only one process of a host can use raw-packet queue pairs, in slot 0; "
                      "unset option slot, or option verbs");
    return std::uint8_t{0};
  }
  [[nodiscard]] static port::VerbsFramesOptions frames_options(const port::PacketPortOptions& o,
                                                               const port::VerbsPlaneName& device) {
    port::VerbsFramesOptions frames;
    frames.device = device;
    frames.encapsulated = o.encapsulation != wire::Encapsulation::none;
    frames.udp_port = o.udp_port;
    frames.receive_bytes = o.receive_buffer;
    return frames;
  }

  [[nodiscard]] static std::unique_ptr<port::FrameChannel> open_frames(
      const port::VerbsFramesOptions& options, const Config& config) {
    if (const auto open = port::verbs_frames.load()) return open(options);
    throw no_verbs_planes(config);
  }

  [[nodiscard]] port::PacketPortOptions port_options(const fabric::Host& self, Plane plane,
                                                     const Config& config) const {
    port::PacketPortOptions o;
    o.interface = self.interfaces[plane];
    o.local = self.addresses[plane];
    o.udp_port = config.udp_port;
    o.mtu = fabric_.mtu;
    o.ev_format = fabric_.entropy;
    if (!self.next_hops.empty()) o.next_hop = self.next_hops[plane];
    o.encapsulation = fabric::encapsulation_of(fabric_);
    o.paths = paths_of(fabric_, self, plane, config.paths);
    return o;
  }

  const fabric::Description fabric_;
  // Of the host, from the first lane on:
  const fabric::Host* self_ = nullptr;
  const Config* config_ = nullptr;
  PeerPorts peer_ports_;
  bool srh_fits_ = false;  ///< packets with a segment routing header are as short as planes allow
  std::optional<ProbeResponder> responder_;
};

std::unique_ptr<PlaneKind> make_packet_kind(const Config& config) {
  return std::make_unique<PacketKind>(config);
}

fabric::Description read_fabric(const Config& config) {
  fabric::Description fabric;
  naming_variables(config, {"fabric"}, [&] {
    try {
      fabric = fabric::read(config.fabric);
    } catch (const json_file::FileError& error) {
      throw Error(Errc::invalid_argument, error.what());
    }
  });
  return fabric;
}

Config in_force(Config config, const fabric::Description& fabric) {
  const Config defaults;
  const auto take = [&](auto Config::*option, auto value) {
    if (config.*option == defaults.*option) config.*option = value;
  };
  const auto take_class = [&](std::uint8_t ExpertConfig::*option, std::uint8_t value) {
    if (config.expert.*option == defaults.expert.*option) config.expert.*option = value;
  };
  take_class(&ExpertConfig::dscp_no_trim, fabric.dscp.no_trim);
  take_class(&ExpertConfig::dscp_trimmable, fabric.dscp.trimmable);
  take_class(&ExpertConfig::dscp_trimmable_retx, fabric.dscp.trimmable_retx);
  take_class(&ExpertConfig::dscp_trimmed, fabric.dscp.trimmed);
  take_class(&ExpertConfig::dscp_trimmed_last_hop, fabric.dscp.trimmed_last_hop);
  take_class(&ExpertConfig::dscp_control, fabric.dscp.control);
  take(&Config::cc_link_speed, fabric.link_speed * fabric.planes);
  take(&Config::cc_base_rtt, fabric.base_rtt);
  config.validate();
  return config;
}

FabricSpecs specs_of(const std::vector<fabric::Path>& paths, bool routed, unsigned planes) {
  FabricSpecs out;
  for (const fabric::Path& path : paths)
    if (!path.denied) out.specs.push_back({path.ev, path.plane, path.uplink});
  out.active = out.specs.size();
  const bool room = 2 * out.active * planes <= path::kMaxPaths;
  for (std::size_t i = 0; routed && room && out.active > 1 && i < out.active; ++i) {
    path::PathSpec second = out.specs[i];
    second.ev = Ev{value(second.ev) | kSecondEv};
    out.specs.push_back(second);
  }
  return out;
}

std::vector<port::PacketRoute> routes_of(const std::vector<fabric::Path>& paths) {
  std::vector<port::PacketRoute> routes;
  for (const fabric::Path& path : paths)
    if (path.route.destination != path::Ipv6{})
      routes.push_back({path.route.destination, path.route.segment, path.route.has_srh});
  return routes;
}

std::vector<port::PortPath> paths_of(const fabric::Description& fabric, const fabric::Host& self,
                                     Plane plane, unsigned ecmp_paths) {
  std::vector<port::PortPath> paths;
  if (fabric.forwarding == fabric::Forwarding::ecmp) {
    for (const fabric::Path& path : fabric::plane_paths(fabric, plane, self, self, ecmp_paths))
      paths.push_back({path.ev, path.uplink});
    return paths;
  }
  for (unsigned u = 0; u < fabric.t1; ++u)
    paths.push_back({fabric::path_ev(fabric, plane, u), static_cast<std::uint16_t>(u)});
  return paths;
}

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1::port {

void PacketPortOptions::check() const {
  constexpr const char* kKind = "packet port";
  PortOptions::check(kKind);
  const auto wrong = [&](const std::string& what) {
    throw Error(Errc::invalid_argument, std::string(kKind) + ": " + what);
  };
  if (interface.empty()) wrong("no interface is named");
  if (is_v4(local) || is_unspecified(local))
    wrong("the local address is " + format_ip(local) + ", must be an IPv6 address");
  if (udp_port == 0) reject(kKind, "udp_port", udp_port, "1 to 65535");
  if (paths.empty()) wrong("it has no paths");
  for (const PortPath& path : paths)
    if (path.port_path >= kMaxPaths)
      reject(kKind, "port_path", path.port_path, ("0 to " + std::to_string(kMaxPaths - 1)).c_str());
}

VerbsPlaneName parse_verbs_plane(std::string_view text) {
  VerbsPlaneName plane;
  const auto bad = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, "verbs plane \"" + std::string(text) + "\": " + why +
                                            "; the form is DEVICE, DEVICE:PORT or "
                                            "DEVICE:PORT@ADDRESS, as mlx5_0:1@192.0.2.1");
  };
  std::string_view rest = text;
  if (const auto at = rest.find('@'); at != rest.npos) {
    try {
      plane.address = parse_ip(rest.substr(at + 1));
    } catch (const Error&) {
      bad("\"" + std::string(rest.substr(at + 1)) + "\" is not a numeric IPv4 or IPv6 address");
    }
    if (is_unspecified(plane.address)) bad("the address names no host");
    if (is_link_local(plane.address))
      bad("link-local addresses are never used, since they do not say by which network a peer is "
          "reached");
    rest = rest.substr(0, at);
  }
  if (const auto colon = rest.find(':'); colon != rest.npos) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), plane.port);
    if (error != std::errc{} || end != digits.data() + digits.size() || plane.port == 0)
      bad("\"" + std::string(digits) + "\" is not the number of a port");
    rest = rest.substr(0, colon);
  }
  if (rest.empty() || rest.find_first_of("/ \t") != rest.npos) bad("no device is named");
  plane.device = rest;
  return plane;
}

std::vector<VerbsPlaneName> parse_verbs_planes(std::string_view list) {
  std::vector<VerbsPlaneName> planes;
  while (!list.empty()) {
    const std::string_view text = list.substr(0, list.find(','));
    planes.push_back(parse_verbs_plane(text));
    list.remove_prefix(std::min(list.size(), text.size() + 1));
  }
  return planes;
}

VerbsPlaneName verbs_port_of_interface(const std::string& interface, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code none;  // a folder that is not there, or goes away meanwhile, is empty
  for (const auto& device : fs::directory_iterator(folder, none))
    for (const auto& port : fs::directory_iterator(device.path() / "ports", none))
      for (const auto& gid : fs::directory_iterator(port.path() / "gid_attrs" / "ndevs", none)) {
        std::string name;
        std::getline(std::ifstream(gid.path()), name);
        if (name != interface) continue;
        return parse_verbs_plane(device.path().filename().string() + ":" +
                                 port.path().filename().string());
      }
  throw Error(Errc::not_found, "interface " + interface +
                                   " belongs to no RDMA device; `rdma link` lists those that do");
}

}  // namespace mrc::inline v0_1::port
