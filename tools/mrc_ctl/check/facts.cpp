// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/facts.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::check_tool {
namespace {

constexpr std::size_t kLongestText = 256;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

[[noreturn]] void bad_field(const char* name) {
  throw std::runtime_error(fmt::format("field {} is missing, or not what it should be", name));
}

const Json& field(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) bad_field(name);
  return *found;
}

std::string text_of(const Json& json, const char* name) {
  const Json& value = field(json, name);
  if (!value.is_string()) bad_field(name);
  const auto text = value.get<std::string>();
  if (text.size() > kLongestText) bad_field(name);
  return ctl_tool::printable(text);
}

std::uint64_t number_of(const Json& json, const char* name, std::uint64_t most) {
  const Json& value = field(json, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) bad_field(name);
  return value.get<std::uint64_t>();
}

bool flag_of(const Json& json, const char* name) {
  const Json& value = field(json, name);
  if (!value.is_boolean()) bad_field(name);
  return value.get<bool>();
}

PlaneFacts plane_from(const Json& json) {
  if (!json.is_object()) bad_field("planes");
  PlaneFacts plane;
  try {
    plane.address = port::parse_ip(text_of(json, "address"));
  } catch (const Error&) {
    bad_field("address");
  }
  if (port::is_unspecified(plane.address)) bad_field("address");
  plane.interface = text_of(json, "interface");
  plane.interface_mtu = static_cast<std::uint32_t>(number_of(json, "interface_mtu", UINT32_MAX));
  plane.running = flag_of(json, "running");
  plane.on_link = flag_of(json, "on_link");
  plane.answers_for_all = flag_of(json, "answers_for_all");
  plane.strict_source = flag_of(json, "strict_source");
  plane.udp_port = static_cast<std::uint16_t>(number_of(json, "udp_port", UINT16_MAX));
  plane.probe_port = static_cast<std::uint16_t>(number_of(json, "probe_port", UINT16_MAX));
  plane.in_use = text_of(json, "in_use");
  const Json& leaves = field(json, "leaves");
  if (!leaves.is_array() || leaves.size() > kMaxPlanes) bad_field("leaves");
  for (const Json& name : leaves) {
    if (!name.is_string() || name.get_ref<const std::string&>().size() > kLongestText)
      bad_field("leaves");
    plane.leaves.push_back(ctl_tool::printable(name.get<std::string>()));
  }
  return plane;
}

}  // namespace

std::string address_text(const PlaneFacts& plane) {
  return port::format_local({plane.address, plane.interface});
}

Json to_json(const HostFacts& facts) {
  Json planes = Json::array();
  for (const PlaneFacts& plane : facts.planes)
    planes.push_back({{"address", port::format_ip(plane.address)},
                      {"interface", plane.interface},
                      {"interface_mtu", plane.interface_mtu},
                      {"running", plane.running},
                      {"on_link", plane.on_link},
                      {"answers_for_all", plane.answers_for_all},
                      {"strict_source", plane.strict_source},
                      {"udp_port", plane.udp_port},
                      {"probe_port", plane.probe_port},
                      {"in_use", plane.in_use},
                      {"leaves", plane.leaves}});
  return {{"host", facts.host},
          {"version", facts.version},
          {"protocol", facts.protocol},
          {"kind", facts.kind},
          {"fabric", facts.fabric},
          {"fabric_host", facts.fabric_host},
          {"mtu", facts.mtu},
          {"paths", facts.paths},
          {"probed", facts.probed},
          {"receive_wanted", facts.receive_wanted},
          {"receive_got", facts.receive_got},
          {"send_wanted", facts.send_wanted},
          {"send_got", facts.send_got},
          {"rmem_max", facts.rmem_max},
          {"wmem_max", facts.wmem_max},
          {"gso_wanted", facts.gso_wanted},
          {"gso", facts.gso},
          {"gro_wanted", facts.gro_wanted},
          {"gro", facts.gro},
          {"planes", std::move(planes)}};
}

HostFacts facts_from(const Json& json) {
  if (!json.is_object()) bad_field("facts");
  HostFacts facts;
  facts.host = text_of(json, "host");
  facts.version = text_of(json, "version");
  facts.protocol = static_cast<unsigned>(number_of(json, "protocol", 1'000'000));
  facts.kind = text_of(json, "kind");
  facts.fabric = text_of(json, "fabric");
  facts.fabric_host = text_of(json, "fabric_host");
  facts.mtu = static_cast<std::uint32_t>(number_of(json, "mtu", UINT16_MAX));
  facts.paths = static_cast<unsigned>(number_of(json, "paths", UINT16_MAX));
  facts.probed = static_cast<unsigned>(number_of(json, "probed", kMostPaths));
  facts.receive_wanted = number_of(json, "receive_wanted", kMostBytes);
  facts.receive_got = number_of(json, "receive_got", kMostBytes);
  facts.send_wanted = number_of(json, "send_wanted", kMostBytes);
  facts.send_got = number_of(json, "send_got", kMostBytes);
  facts.rmem_max = number_of(json, "rmem_max", kMostBytes);
  facts.wmem_max = number_of(json, "wmem_max", kMostBytes);
  facts.gso_wanted = flag_of(json, "gso_wanted");
  facts.gso = flag_of(json, "gso");
  facts.gro_wanted = flag_of(json, "gro_wanted");
  facts.gro = flag_of(json, "gro");
  const Json& planes = field(json, "planes");
  if (!planes.is_array() || planes.size() > kMaxPlanes) bad_field("planes");
  for (const Json& plane : planes) facts.planes.push_back(plane_from(plane));
  return facts;
}

}  // namespace mrc::check_tool
