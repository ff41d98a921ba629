// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mrc/wire/transport.hpp"
#include "support/engine_pair.hpp"

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

  explicit Datagrams(const DatagramSetup& s = {}, std::uint64_t seed = 1)
      : setup(s), pair(s.pair, seed) {
    for (unsigned side = 0; side < 2; ++side) {
      End& end = ends[side];
      Engine& engine = pair[side];
      end.source.resize(1 << 16);
      Random random(seed + side);
      for (auto& byte : end.source) byte = static_cast<std::uint8_t>(random.next());
      end.target.assign(128 * kSlot, 0xEE);
      end.source_key =
          pair.register_memory(side, end.source.data(), end.source.size(), Access::none);
      end.target_key =
          pair.register_memory(side, end.target.data(), end.target.size(), Access::local_write);
      end.send_cq = *engine.create_cq(s.cq_depth);
      end.receive_cq = *engine.create_cq(s.cq_depth);
      end.qpn = create(side);
      start(side, end.qpn);
      engine::DestinationSpec spec;
      spec.peer = PeerId{77};
      for (unsigned p = 0; p < s.pair.planes; ++p)
        for (unsigned i = 0; i < s.pair.paths; ++i)
          spec.paths.push_back(
              {Ev{0x1000 * (p + 1) + i}, static_cast<Plane>(p), static_cast<std::uint16_t>(i)});
      end.other = *engine.add_destination(spec);
    }
  }

  [[nodiscard]] Engine& a() { return pair[0]; }
  [[nodiscard]] Engine& b() { return pair[1]; }

  Qpn create(unsigned side) {
    engine::DatagramInit init;
    init.pd = pair.pd(side);
    init.send_cq = ends[side].send_cq;
    init.receive_cq = ends[side].receive_cq;
    init.capacity = setup.capacity;
    init.mtu = setup.mtu;
    const Result<Qpn> qpn = pair[side].create_datagram_qp(init);
    REQUIRE(qpn.ok());
    return qpn.value();
  }
  /// From RESET to RTS.
  void start(unsigned side, Qpn qpn) {
    Engine& engine = pair[side];
    REQUIRE(engine.modify_datagram_qp(qpn, {QpState::init, kQKey, {}}) == Errc::ok);
    REQUIRE(engine.modify_datagram_qp(qpn, {QpState::rtr, {}, {}}) == Errc::ok);
    REQUIRE(engine.modify_datagram_qp(qpn, {QpState::rts, {}, {}}) == Errc::ok);
  }

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
  Errc post(unsigned side, const Post& p) {
    const End& end = ends[side];
    const Sge sge{end.source.data() + p.offset, p.length, end.source_key};
    DatagramRequest request;
    request.wr_id = p.id;
    request.sges = {&sge, 1};
    request.to = p.to;
    request.remote_qpn = p.remote.value_or(ends[1 - side].qpn);
    request.remote_q_key = p.q_key;
    request.immediate = p.immediate;
    request.flags = p.flags;
    return pair[side].post_datagram(end.qpn, request, end.other);
  }
  /// Posts a receive of that many bytes into a slot of the target.
  Errc receive(unsigned side, std::uint32_t slot, std::uint32_t bytes = kSlot) {
    const Sge sge{target(side, slot), bytes, ends[side].target_key};
    return pair[side].post_datagram_receive(ends[side].qpn, {slot, {&sge, 1}});
  }
  [[nodiscard]] std::uint8_t* target(unsigned side, std::uint64_t slot) {
    return ends[side].target.data() + slot * kSlot;
  }
  /// Is that the payload of a slot?
  [[nodiscard]] bool holds(unsigned side, std::uint64_t slot, std::uint32_t offset,
                           std::uint32_t length) {
    return std::memcmp(target(side, slot) + kGrhBytes, ends[1 - side].source.data() + offset,
                       length) == 0;
  }

  std::vector<Completion> sends(unsigned side) { return poll(side, ends[side].send_cq); }
  std::vector<Completion> receives(unsigned side) { return poll(side, ends[side].receive_cq); }
  std::vector<Completion> poll(unsigned side, CqId cq) {
    std::vector<Completion> all;
    std::array<Completion, 64> some;
    while (const std::size_t n = pair[side].poll_cq(cq, some))
      all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
    return all;
  }

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
