// SPDX-License-Identifier: Apache-2.0
#include "support/datagrams.hpp"

#include <cstring>

namespace mrc::test {

Datagrams::Datagrams(const DatagramSetup& s, std::uint64_t seed) : setup(s), pair(s.pair, seed) {
  for (unsigned side = 0; side < 2; ++side) {
    End& end = ends[side];
    Engine& engine = pair[side];
    end.source.resize(1 << 16);
    Random random(seed + side);
    for (auto& byte : end.source) byte = static_cast<std::uint8_t>(random.next());
    end.target.assign(128 * kSlot, 0xEE);
    end.source_key = pair.register_memory(side, end.source.data(), end.source.size(), Access::none);
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
    end.other = *add_destination(engine, spec);
  }
}

Qpn Datagrams::create(unsigned side) {
  engine::DatagramInit init;
  init.pd = pair.pd(side);
  init.send_cq = ends[side].send_cq;
  init.receive_cq = ends[side].receive_cq;
  init.capacity = setup.capacity;
  init.mtu = setup.mtu;
  const Result<Qpn> qpn = create_datagram_qp(pair[side], init);
  REQUIRE(qpn.ok());
  return qpn.value();
}

void Datagrams::start(unsigned side, Qpn qpn) {
  Engine& engine = pair[side];
  REQUIRE(modify_datagram_qp(engine, qpn, {QpState::init, kQKey, {}}) == Errc::ok);
  REQUIRE(modify_datagram_qp(engine, qpn, {QpState::rtr, {}, {}}) == Errc::ok);
  REQUIRE(modify_datagram_qp(engine, qpn, {QpState::rts, {}, {}}) == Errc::ok);
}

Errc Datagrams::post(unsigned side, const Post& p) {
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
  return post_datagram(pair[side], end.qpn, request, end.other);
}

Errc Datagrams::receive(unsigned side, std::uint32_t slot, std::uint32_t bytes) {
  const Sge sge{target(side, slot), bytes, ends[side].target_key};
  return post_datagram_receive(pair[side], ends[side].qpn, {slot, {&sge, 1}});
}

std::uint8_t* Datagrams::target(unsigned side, std::uint64_t slot) {
  return ends[side].target.data() + slot * kSlot;
}

bool Datagrams::holds(unsigned side, std::uint64_t slot, std::uint32_t offset,
                      std::uint32_t length) {
  return std::memcmp(target(side, slot) + kGrhBytes, ends[1 - side].source.data() + offset,
                     length) == 0;
}

std::vector<Completion> Datagrams::poll(unsigned side, CqId cq) {
  std::vector<Completion> all;
  std::array<Completion, 64> some;
  while (const std::size_t n = pair[side].poll_cq(cq, some))
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
  return all;
}

}  // namespace mrc::test
