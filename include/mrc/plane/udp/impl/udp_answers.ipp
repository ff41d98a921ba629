// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "mrc/core/linkage.hpp"
#include "mrc/plane/udp/udp_answers.hpp"
#include "mrc/plane/udp/udp_port.hpp"

namespace mrc::inline v0_1::detail {

MRC_SETUP bool UdpAnswers::answer(Time now, const wire::UnconnectedProbe& request,
                                  const port::PeerAddress& to, port::Port& port) noexcept try {
  Guest& guest = guests_[port::source_tag(to.ip) % guests_.size()];
  if (guest.address != to.ip) guest = {to.ip};
  if (!guest.answers.take(now) || !answers_.take(now)) return false;
  const auto paths = port.paths();
  const port::PortPath& path = paths[value(request.entropy) % paths.size()];
  port.add_peer(peer_, port::PeerRoute(port::UdpPort::Route(to)));
  burst_.clear();
  wire::TxPacket& packet = burst_.append();
  write_endpoint_answer(request, dscp_, packet);
  packet.peer = peer_;
  packet.entropy = path.ev;
  packet.port_path = path.port_path;
  burst_.commit();
  (void)port.transmit(now, burst_, burst_.groups());
  port.remove_peer(peer_);
  return true;
} catch (const std::exception&) {  // out of memory, or an address that can't be a peer's
  return false;
}

}  // namespace mrc::inline v0_1::detail
