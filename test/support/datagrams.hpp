// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "mrc/datagram.hpp"
#include "mrc/resolve/datagrams.hpp"
#include "support/engine_pair.hpp"
#include "support/header_of.hpp"

/// A datagram queue pair on each side of two engines, with memory and completion queues.
namespace mrc::test {

struct DatagramSetup {
  EnginePair::Setup pair;
  QpCapacity capacity{
      .send = 64, .receive = 128, .send_sges = 3, .inline_bytes = 100, .receive_sges = 3};
  std::uint32_t mtu = 1024;
  std::uint32_t cq_depth = 1024;
};

struct Datagrams {
  static constexpr std::uint32_t kQKey = 0x1234'5678;
  static constexpr std::size_t kSlot = 2048;  ///< bytes for each receive

  struct End {
    std::vector<std::uint8_t> source, target;
    std::uint32_t source_key = 0, target_key = 0;
    CqId send_cq{}, receive_cq{};
    Qpn qpn{};
    engine::DestinationId other{};  ///< the other side
  };

  explicit Datagrams(const DatagramSetup& s = {}, std::uint64_t seed = 1);

  [[nodiscard]] Engine& a() { return pair[0]; }
  [[nodiscard]] Engine& b() { return pair[1]; }

  Qpn create(unsigned side);
  /// From RESET to RTS.
  void start(unsigned side, Qpn qpn);

  /// What a test sends: bytes of the source, from that offset.
  struct Post {
    std::uint64_t id = 0;
    std::uint32_t offset = 0, length = 100;
    std::uint32_t q_key = kQKey;
    std::optional<std::uint32_t> immediate{};
    SendFlags flags{};
    AddressHandle to{};
    std::optional<Qpn> remote{};  ///< default: the other side's queue pair
  };
  Errc post(unsigned side, const Post& p);
  /// Posts a receive of that many bytes into a slot of the target.
  Errc receive(unsigned side, std::uint32_t slot, std::uint32_t bytes = kSlot);
  [[nodiscard]] std::uint8_t* target(unsigned side, std::uint64_t slot);
  /// Is that the payload of a slot?
  [[nodiscard]] bool holds(unsigned side, std::uint64_t slot, std::uint32_t offset,
                           std::uint32_t length);

  std::vector<Completion> sends(unsigned side) { return poll(side, ends[side].send_cq); }
  std::vector<Completion> receives(unsigned side) { return poll(side, ends[side].receive_cq); }
  std::vector<Completion> poll(unsigned side, CqId cq);

  DatagramSetup setup;
  EnginePair pair;
  std::array<End, 2> ends;
};

/// What a datagram's packet looks like on the wire.
struct SeenDatagram {
  wire::DatagramHeader header;
  std::uint8_t dscp = 0;
  Ecn ecn{};
  Ev ev{};
  Plane plane = 0;
};

/// Notes the datagrams that a side sends.
inline std::vector<SeenDatagram>& watch(Datagrams& d, std::vector<SeenDatagram>& seen) {
  d.pair.tap = [&seen](unsigned, const wire::TxPacket& p, std::vector<std::uint8_t>& bytes) {
    if (!wire::is_datagram(wire::view_as<wire::Bth>(bytes).opcode())) return;
    seen.push_back(
        {wire::header_of(wire::view_datagram(bytes)), p.dscp, p.ecn, p.entropy, p.plane});
  };
  return seen;
}

}  // namespace mrc::test
