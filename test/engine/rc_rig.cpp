// SPDX-License-Identifier: Apache-2.0
#include "engine/rc_rig.hpp"

#include <numeric>

namespace mrc::test {

RcRig::RcRig(const RcOptions& o) : pair(rc_setup(o), o.seed), options_(o) {
  for (unsigned side = 0; side < 2; ++side) {
    memory[side].assign(kBytes, 0);
    key[side] =
        pair.register_memory(side, memory[side].data(), kBytes,
                             Access::remote_write | Access::remote_read | Access::remote_atomic);
    cq[side] = *pair[side].create_cq(4096);
  }
  if (o.shared) srq = *pair[1].create_srq(pair.pd(1), 64, 4);
}

std::size_t RcRig::add() {
  std::array<Qpn, 2> qpn{};
  for (unsigned side = 0; side < 2; ++side) qpn[side] = create(side);
  pair.connect(qpn[0], qpn[1]);
  qps.push_back(qpn);
  return qps.size() - 1;
}

Qpn RcRig::create(unsigned side) {
  engine::QpInit init;
  init.pd = pair.pd(side);
  init.send_cq = init.receive_cq = cq[side];
  init.capacity = options_.capacity;
  init.attributes = options_.attributes;
  if (side == 1 && options_.shared) init.srq = srq;
  Result<Qpn> qpn = pair[side].create_qp(init);
  REQUIRE(qpn);
  return *qpn;
}

Errc RcRig::receive(unsigned side, std::uint64_t id, std::vector<Sge> sges, std::size_t qp) {
  const ReceiveRequest request{id, sges};
  return side == 1 && options_.shared ? pair[1].post_receive(srq, request)
                                      : pair[side].post_receive(qps[qp][side], request);
}

std::vector<Completion>& RcRig::done(unsigned side) {
  Completion c[64];
  while (const std::size_t n = pair[side].poll_cq(cq[side], c))
    completions_[side].insert(completions_[side].end(), c, c + n);
  return completions_[side];
}

bool RcRig::run(std::size_t a, std::size_t b, Duration limit) {
  return pair.run_for(limit, [&] { return done(0).size() >= a && done(1).size() >= b; });
}

void RcRig::fill(unsigned side) {
  std::iota(memory[side].begin(), memory[side].end(), static_cast<std::uint8_t>(side * 77 + 1));
  for (std::size_t i = 0; i < kBytes; i += 251)
    memory[side][i] = static_cast<std::uint8_t>(memory[side][i] ^ (i >> 8));
}

EnginePair::Setup RcRig::rc_setup(const RcOptions& o) {
  EnginePair::Setup setup;
  setup.head_check = o.head_check;
  setup.rc = true;
  return setup;
}

}  // namespace mrc::test
