// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "mrc/api/option_table.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/plane/plane_kind.hpp"

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

Error no_verbs_planes(const Config& config) {
#if defined(MRC_BUILDS_LIBRARY)
  const char* why =
      ": OpenMRC was compiled without the headers of libibverbs (Debian: libibverbs-dev); install "
      "them and compile it anew";
#else
  const char* why =
      ": this program was built without verbs planes; include <mrc/verbs.hpp> where it defines "
      "MRC_IMPLEMENTATION, or link the compiled library (OpenMRC::static or OpenMRC::shared)";
#endif
  return {Errc::unsupported, setting_name("verbs", config) + why};
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
