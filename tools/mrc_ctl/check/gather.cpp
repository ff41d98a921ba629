// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/gather.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/exchange.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/plane/udp_kind.hpp"
#include "mrc/version.hpp"
#include "mrc_ctl/check/fabric_paths.hpp"
#include "mrc_ctl/check/port_owner.hpp"
#include "mrc_ctl/check/route.hpp"

namespace mrc::check_tool {
namespace {

std::uint64_t system_setting(const std::string& file) {
  std::uint64_t value = 0;
  std::ifstream(file) >> value;
  return value;
}

/// A mark that equal texts have in common.
std::string text_mark(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return "unreadable";
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  return fmt::format("{:016x}", siphash(SipKey{}, {bytes, text.size()}));
}

/// Of what devices exchange when they connect: it stands behind the four bytes of the magic.
unsigned connection_version() {
  ConnectionInfo any;
  any.qpn = Qpn{0x100};
  any.planes = {{port::make_v4(127, 0, 0, 1), 1}};
  const std::vector<std::uint8_t> blob = encode(any);
  return unsigned{blob.at(4)} << 8 | blob.at(5);
}

void look_at_sockets(HostFacts& facts, const Config& config, const port::IpAddress& address) {
  const port::Socket socket = port::make_udp_socket({address, {}});
  facts.receive_wanted = config.receive_buffer;
  facts.send_wanted = config.send_buffer;
  // The kernel doubles what was set.
  facts.receive_got =
      port::set_buffer(socket, SO_RCVBUF, SO_RCVBUFFORCE, config.receive_buffer) / 2;
  facts.send_got = port::set_buffer(socket, SO_SNDBUF, SO_SNDBUFFORCE, config.send_buffer) / 2;
  facts.rmem_max = system_setting("/proc/sys/net/core/rmem_max");
  facts.wmem_max = system_setting("/proc/sys/net/core/wmem_max");
  facts.gso_wanted = config.gso != port::Offload::off;
  facts.gro_wanted = config.gro != port::Offload::off;
  facts.gso = port::try_option(socket, SOL_UDP, UDP_SEGMENT, 0);
  facts.gro = port::try_option(socket, SOL_UDP, UDP_GRO, 1);
}

/// What OpenedPlanes::adopt() would make of it.
void fit_mtu(HostFacts& facts, const Config& config) {
  std::uint32_t mtu = config.mtu != 0 ? config.mtu : kLargestUdpMtu;
  for (const PlaneFacts& plane : facts.planes)
    mtu = fitting_mtu(mtu, std::min(plane.interface_mtu, 65'535u) - headers_of(plane),
                      mrc::detail::kPacketOverhead);
  facts.mtu = config.strict ? mrc_mtu(mtu) : mtu;
}

/// Of an IPv4 interface: the larger one of its own value and that for all.
std::uint64_t ipv4_setting(const std::string& interface, const std::string& name) {
  const std::string folder = "/proc/sys/net/ipv4/conf/";
  return std::max(system_setting(folder + "all/" + name),
                  system_setting(folder + interface + "/" + name));
}

/// Another plane has an address of its subnet at another interface.
bool shares_subnet(const HostFacts& facts, const PlaneFacts& plane) {
  const mrc::detail::OwnAddress own{plane.address, port::prefix_length(plane.address), 0};
  return plane.on_link &&
         std::any_of(facts.planes.begin(), facts.planes.end(), [&](const PlaneFacts& other) {
           return other.on_link && other.interface != plane.interface &&
                  mrc::detail::in_subnet(own, other.address);
         });
}

}  // namespace

Config job_config(const ctl_tool::CheckOptions& options) {
  Config config = Config::from_environment(DefaultPlanes::default_route);
  for (const std::string& assignment : options.options) set_option(config, assignment);
  config.validate();
  return config;
}

OwnHost open_host(const Config& config, const ctl_tool::CheckOptions& options) {
  OwnHost own;
  own.config = config;
  HostFacts& facts = own.facts;
  facts.host = host_name();
  facts.version = std::string(version_string());
  facts.protocol = connection_version();
  facts.kind = !config.fabric.empty() ? "fabric" : !config.verbs.empty() ? "rdma" : "udp";
  facts.paths = config.paths;
  if (!config.fabric.empty()) {
    facts.fabric = text_mark(config.fabric);
    facts.fabric_host = name_in_fabric(config);
  }
  if (facts.kind != "udp") {
    facts.mtu = config.mtu;
    look_at_sockets(facts, config, port::make_v4(127, 0, 0, 1));
    return own;
  }
  facts.probed = std::min<unsigned>({config.paths, options.paths, kMostPaths});
  std::vector<port::LocalAddress> opened;
  for (const std::string& text : config.plane_list()) {
    const port::LocalAddress local = text == Config::kDefaultRoute
                                         ? port::LocalAddress{port::default_route_address(), ""}
                                         : port::parse_local_address(text);
    PlaneFacts plane;
    plane.address = port::resolve(local).ip;
    const auto same = std::count(opened.begin(), opened.end(), port::resolve(local));
    opened.push_back(port::resolve(local));
    plane.udp_port = static_cast<std::uint16_t>(config.udp_port + port::kSlots * same);
    const std::uint16_t wanted = options.udp_port != 0
                                     ? static_cast<std::uint16_t>(options.udp_port + same)
                                     : plane.udp_port;
    own.planes.emplace_back(local, wanted, facts.probed);
    plane.probe_port = own.planes.back().port();
    if (plane.probe_port != wanted) plane.in_use = udp_owner(plane.address, wanted);
    facts.planes.push_back(std::move(plane));
  }
  refresh(own);
  look_at_sockets(facts, config, facts.planes.front().address);
  return own;
}

void refresh(OwnHost& own) {
  if (own.planes.empty()) return;
  for (std::size_t i = 0; i < own.planes.size(); ++i) {
    PlaneFacts& plane = own.facts.planes[i];
    const port::Interface found = own.planes[i].interface();
    plane.interface = found.name;
    plane.on_link = found.link || port::is_loopback(plane.address);
    plane.interface_mtu =
        port::outgoing_mtu(port::make_udp_socket({plane.address, {}}), found, plane.address);
    plane.running = found.running;
  }
  for (PlaneFacts& plane : own.facts.planes) {
    const bool shared = port::is_v4(plane.address) && shares_subnet(own.facts, plane);
    plane.answers_for_all = shared && ipv4_setting(plane.interface, "arp_ignore") == 0;
    plane.strict_source = shared && ipv4_setting(plane.interface, "rp_filter") == 1;
  }
  fit_mtu(own.facts, own.config);
}

void find_routes(HostFacts& own, const HostFacts& other) {
  for (PlaneFacts& plane : own.planes) {
    plane.leaves.clear();
    for (const PlaneFacts& to : other.planes)
      plane.leaves.push_back(way_interface({plane.address, plane.interface}, to.address));
  }
}

}  // namespace mrc::check_tool
