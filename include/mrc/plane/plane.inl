// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/plane/plane.hpp"

namespace mrc::inline v0_1::port {

void ReceiveCheck::pass(const RawPacket& raw, RxBurst& rx, PortStats& stats) noexcept {
  wire::RxPacket packet = raw.facts;
  const bool trimmed = packet.trim != wire::Trim::none;  // then there is no iCRC
  const std::size_t tail = trimmed ? 0 : wire::kIcrcSize;
  if (raw.bytes.size() < sizeof(wire::Bth) + tail) {
    ++stats.rx_malformed;
    return;
  }
  packet.bytes = Bytes(raw.bytes).first(raw.bytes.size() - tail);
  if (icrc_ && !trimmed) packet.check = check_of(raw, packet);
  ++stats.rx_packets;
  stats.rx_bytes += raw.bytes.size();
  if (wire::has_origin(wire::view_as<wire::Bth>(packet.bytes).opcode())) [[unlikely]]
    return rx.push(packet, {raw.from, local_, raw.flow_label, raw.traffic_class, 0});
  rx.push(packet);
}

ReceiveCheck::Heads* ReceiveCheck::find_heads(const IpAddress& from) noexcept {
  const auto at = std::find_if(heads_.begin(), heads_.end(),
                               [&](const Heads& heads) { return heads.ip == from; });
  return at == heads_.end() ? nullptr : &*at;
}

void ReceiveCheck::take_heads(const IpAddress& from) {
  if (Heads* known = find_heads(from)) {
    ++known->times;
    return;
  }
  heads_.push_back({from, 1});
  sources_ = {};
}

void ReceiveCheck::forget_heads(const IpAddress& from) noexcept {
  Heads* known = find_heads(from);
  if (known == nullptr || --known->times > 0) return;
  *known = heads_.back();
  heads_.pop_back();
  sources_ = {};
}

std::uint32_t ReceiveCheck::check_of(const RawPacket& raw, const wire::RxPacket& packet) noexcept {
  Source& source = sources_[packet.source % sources_.size()];
  if (source.tag != packet.source || source.ip != raw.from || source.to_port != raw.to_port) {
    source.ip = raw.from;
    source.tag = packet.source;
    source.to_port = raw.to_port;
    source.heads = find_heads(raw.from) != nullptr;
    source.prefix = wire::IcrcPrefix::make(raw.from, local_, raw.to_port);
  }
  source.prefix.patch(raw.port, static_cast<std::uint16_t>(packet.udp_length));
  const std::uint32_t found = wire::load_icrc(packet.bytes.data() + packet.bytes.size());
  if (source.heads && wire::view_as<wire::Bth>(packet.bytes).head_check())
    return found - wire::icrc_of_head(source.prefix, packet.bytes);
  return found - wire::icrc(source.prefix, packet.bytes);
}

void PortOptions::check(const char* kind) const {
  if (receive_slots < 1 || receive_slots > 256)
    reject(kind, "receive_slots", receive_slots, "1 to 256");
  if (plane >= kMaxPlanes) reject(kind, "plane", plane, "0 to 31");
  if (!dscp.valid())
    throw Error(Errc::invalid_argument,
                std::string(kind) +
                    ": DSCP values must be below 64, and those of trimmed packets different "
                    "from all that hosts send");
}

void PortOptions::reject(const char* kind, const char* name, std::size_t value,
                         const char* allowed) {
  throw Error(Errc::invalid_argument, std::string(kind) + ": " + name + " is " +
                                          std::to_string(value) + ", allowed is " + allowed);
}

}  // namespace mrc::inline v0_1::port

namespace mrc::inline v0_1::detail {

void OpenedPlanes::adopt(std::unique_ptr<Port> port, const Config& config, const Log& log) {
  const std::string plane = "plane " + std::to_string(ports.size()) + ": ";
  for (const std::string& note : port->notes()) log.warn(plane + note);
  if (wanted_mtu == 0) wanted_mtu = config.mtu != 0 ? config.mtu : kLargestMrcMtu;
  if (mtu == 0) mtu = wanted_mtu;
  const std::uint32_t room = port->capabilities().max_packet;
  mtu = fitting_mtu(mtu, room, kPacketOverhead);
  if (config.strict) mtu = mrc_mtu(mtu);
  if (mtu == 0)
    throw Error(Errc::invalid_argument, plane + "the interface's MTU leaves " +
                                            std::to_string(room) +
                                            " bytes for a packet, needed are " +
                                            std::to_string(kSmallestMtu + kPacketOverhead) +
                                            "; raise it with `ip link set`");
  ports.push_back(std::move(port));
}

Error lacking(const std::string& what, const char* parts, const char* header) {
  return {Errc::unsupported, what + ": this program was built without " + parts +
                                 "; include <mrc/" + header +
                                 ".hpp> where it defines MRC_IMPLEMENTATION, or link the compiled "
                                 "library (OpenMRC::static or OpenMRC::shared)"};
}

Error no_verbs_planes(const Config& config) {
  const std::string setting = setting_name("verbs", config);
#if defined(MRC_BUILDS_LIBRARY)
  return {Errc::unsupported,
          setting +
              ": OpenMRC was compiled without the headers of libibverbs (Debian: libibverbs-dev); "
              "install them and compile it anew"};
#else
  return lacking(setting, "verbs planes", "verbs");
#endif
}

void set_shared_options(port::PortOptions& o, const Config& config, Plane plane,
                        std::uint8_t slot) {
  o.plane = plane;
  o.slot = slot;
  o.receive_buffer = config.receive_buffer;
  o.send_buffer = config.send_buffer;
  o.receive_slots = config.expert.rx_batch;
  o.icrc = config.icrc != port::Offload::off;
  o.dscp = dscp_of(config);
}

}  // namespace mrc::inline v0_1::detail
