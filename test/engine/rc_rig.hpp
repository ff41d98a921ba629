// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/engine_pair.hpp"

/// Two engines in virtual time whose queue pairs offer SEND, READ and atomics.
namespace mrc::test {

using namespace std::chrono_literals;

struct RcOptions {
  QpAttributes attributes{};
  QpCapacity capacity{.send = 256,
                      .receive = 256,
                      .send_sges = 4,
                      .inline_bytes = 64,
                      .receive_sges = 4,
                      .atomics = true};
  bool shared = false;      ///< receives of side 1 come from a shared queue
  bool head_check = false;  ///< both leave the payload out of the iCRC
  std::uint64_t seed = 1;
};

/// Two sides with memory of 1 MiB each, and one or more queue pairs.
class RcRig {
 public:
  static constexpr std::size_t kBytes = 1 << 20;
  static constexpr std::size_t kSpare = 64;  // bytes behind what a program uses

  explicit RcRig(const RcOptions& o = {}) : pair(rc_setup(o), o.seed), options_(o) {
    for (unsigned side = 0; side < 2; ++side) {
      memory[side].assign(kBytes, 0);
      key[side] =
          pair.register_memory(side, memory[side].data(), kBytes,
                               Access::remote_write | Access::remote_read | Access::remote_atomic);
      cq[side] = *pair[side].create_cq(4096);
    }
    if (o.shared) srq = *pair[1].create_srq(pair.pd(1), 64, 4);
  }

  /// A connected pair of queue pairs: its index.
  std::size_t add() {
    std::array<Qpn, 2> qpn{};
    for (unsigned side = 0; side < 2; ++side) qpn[side] = create(side);
    pair.connect(qpn[0], qpn[1]);
    qps.push_back(qpn);
    return qps.size() - 1;
  }
  Qpn create(unsigned side) {
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

  [[nodiscard]] Sge sge(unsigned side, std::size_t offset, std::size_t length) const {
    return {memory[side].data() + offset, static_cast<std::uint32_t>(length), key[side]};
  }
  [[nodiscard]] RemoteAddress at(unsigned side, std::size_t offset) const {
    return {reinterpret_cast<std::uint64_t>(memory[side].data()) + offset, key[side]};
  }
  Errc post(unsigned side, const SendRequest& request, std::size_t qp = 0) {
    return pair[side].post_send(qps[qp][side], request, pair.now());
  }
  Errc receive(unsigned side, std::uint64_t id, std::vector<Sge> sges, std::size_t qp = 0) {
    const ReceiveRequest request{id, sges};
    return side == 1 && options_.shared ? pair[1].post_receive(srq, request)
                                        : pair[side].post_receive(qps[qp][side], request);
  }
  /// Everything that has completed on a side.
  std::vector<Completion>& done(unsigned side) {
    Completion c[64];
    while (const std::size_t n = pair[side].poll_cq(cq[side], c))
      completions_[side].insert(completions_[side].end(), c, c + n);
    return completions_[side];
  }
  bool run(std::size_t a, std::size_t b, Duration limit = 2s) {
    return pair.run_for(limit, [&] { return done(0).size() >= a && done(1).size() >= b; });
  }
  void fill(unsigned side) {
    std::iota(memory[side].begin(), memory[side].end(), static_cast<std::uint8_t>(side * 77 + 1));
    for (std::size_t i = 0; i < kBytes; i += 251)
      memory[side][i] = static_cast<std::uint8_t>(memory[side][i] ^ (i >> 8));
  }

  EnginePair pair;
  std::array<std::vector<std::uint8_t>, 2> memory;
  std::array<std::uint32_t, 2> key{};
  std::array<CqId, 2> cq{};
  SrqId srq{};
  std::vector<std::array<Qpn, 2>> qps;

 private:
  static EnginePair::Setup rc_setup(const RcOptions& o) {
    EnginePair::Setup setup;
    setup.head_check = o.head_check;
    setup.rc = true;
    return setup;
  }

  RcOptions options_;
  std::array<std::vector<Completion>, 2> completions_;
};

/// Of a network that loses, reorders, duplicates and corrupts.
inline Faults rough() {
  Faults f;
  f.loss = f.duplicate = 0.05;
  f.reorder = 0.1;
  f.corrupt = 0.02;
  f.jitter = 30us;
  return f;
}

}  // namespace mrc::test
