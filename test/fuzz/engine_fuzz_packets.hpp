// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fuzz/engine_fuzz_rig.hpp"
#include "mrc/wire/opcode.hpp"
#include "mrc/wire/transport.hpp"

// Packets from nowhere for engine_fuzz.cpp: random bytes, with numbers of which some mean something
// to the queue pair that they are for. And what may happen to a packet on its way.
namespace mrc::fuzz {

/// An opcode that engines know.
inline std::uint8_t invented_opcode(Input& in) {
  for (;;) {
    const auto code = static_cast<std::uint8_t>(0xC0 + in.below(32));
    if (wire::is_known(code) && code != static_cast<std::uint8_t>(wire::Opcode::resolution))
      return code;
    if (in.done()) return static_cast<std::uint8_t>(wire::Opcode::sack);
  }
}

inline void put_be(std::vector<std::uint8_t>& bytes, std::size_t at, std::uint64_t value,
                   std::size_t width) {
  if (bytes.size() < at + width) return;
  for (std::size_t i = 0; i < width; ++i)
    bytes[at + i] = static_cast<std::uint8_t>(value >> 8 * (width - 1 - i));
}

/// Message number and target of a data packet: what the queue pair expects next, or nearly.
inline void aim_message(Input& in, const Side& side, const QueuePairState& qp,
                        std::vector<std::uint8_t>& bytes) {
  const auto opcode = static_cast<wire::Opcode>(bytes[0]);
  const auto near = [&](auto number) { return number.value() + in.below(4) - in.below(2); };
  if (qp.rc_state && wire::is_request(opcode))
    put_be(bytes, 12, near(qp.rc_state->requests.next()), 2);
  else if (qp.rc_state && wire::is_response(opcode))
    put_be(bytes, 12, near(qp.rc_state->reads.oldest()), 2);
  else
    put_be(bytes, 12, near(qp.rx.wimms.next()), 2);
  const bool stamped = wire::view_as<wire::Bth>(bytes).has_timestamp();
  const std::size_t reth = 16 + (stamped ? sizeof(wire::Tseth) : 0);
  const std::uint32_t where = in.byte();
  if (wire::is_send(opcode) || wire::is_response(opcode)) {
    put_be(bytes, reth, where % 4 * 256, 8);
    put_be(bytes, reth + 8, 0, 4);
  } else if (!side.regions.empty()) {
    const Region& region = side.regions[where % side.regions.size()];
    const auto slot = reinterpret_cast<std::uint64_t>(side.arena.slot(region.slot));
    put_be(bytes, reth, slot + in.below(140) * 8, 8);
    put_be(bytes, reth + 8, region.key, 4);
  }
  const std::size_t headers = reth + sizeof(wire::Reth);
  const std::size_t rest = bytes.size() < headers ? 0 : bytes.size() - headers;
  const std::uint64_t lengths[] = {8, 300, in.byte(), rest};
  put_be(bytes, reth + 12, lengths[in.below(4)], 4);
}

/// Moves PSN, message number and target into the neighbourhood of what the queue pair expects.
inline void aim(Input& in, const Side& side, Qpn qpn, std::vector<std::uint8_t>& bytes) {
  const auto* qp = side.engine->find_qp(qpn);
  if (qp == nullptr || in.below(4) == 0) return;
  const auto opcode = static_cast<wire::Opcode>(bytes[0]);
  const Psn base = wire::is_data(opcode) ? qp->rx.window.cack() : qp->tx.window.unacked();
  const Psn psn = base + (static_cast<std::int32_t>(in.byte()) - 64);
  put_be(bytes, 9, psn.value(), 3);
  if (opcode == wire::Opcode::sack || opcode == wire::Opcode::nack)
    put_be(bytes, 12 + 13, psn.value(), 3);
  if (wire::is_data(opcode) && in.below(4) != 0) aim_message(in, side, *qp, bytes);
}

/// Trims, marks or cuts a packet, or lets it come from elsewhere, and changes some of its bytes.
inline void tamper_with(Input& in, Packet& p) {
  switch (in.below(4)) {
    case 0:
      p.trim = in.below(2) == 0 ? wire::Trim::trimmed : wire::Trim::trimmed_last_hop;
      p.bytes.resize(std::min<std::size_t>(p.bytes.size(), in.below(64)));
      break;
    case 1:
      p.ecn = Ecn::ce;
      break;
    case 2:
      p.bytes.resize(in.below(2) == 0 ? in.byte() : p.bytes.size());
      break;
    default:
      p.plane = static_cast<Plane>(in.below(40));
      p.source = in.below(4) == 0 ? in.byte() : p.source;
      break;
  }
  for (std::uint32_t n = in.below(6); n > 0 && !p.bytes.empty(); --n)
    p.bytes[in.byte() % p.bytes.size()] = in.byte();
}

}  // namespace mrc::fuzz
