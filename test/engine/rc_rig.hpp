// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
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

  explicit RcRig(const RcOptions& o = {});

  /// A connected pair of queue pairs: its index.
  std::size_t add();
  Qpn create(unsigned side);

  [[nodiscard]] Sge sge(unsigned side, std::size_t offset, std::size_t length) const {
    return {memory[side].data() + offset, static_cast<std::uint32_t>(length), key[side]};
  }
  [[nodiscard]] RemoteAddress at(unsigned side, std::size_t offset) const {
    return {reinterpret_cast<std::uint64_t>(memory[side].data()) + offset, key[side]};
  }
  Errc post(unsigned side, const SendRequest& request, std::size_t qp = 0) {
    return pair[side].post_send(qps[qp][side], request, pair.now());
  }
  Errc receive(unsigned side, std::uint64_t id, std::vector<Sge> sges, std::size_t qp = 0);
  /// Everything that has completed on a side.
  std::vector<Completion>& done(unsigned side);
  bool run(std::size_t a, std::size_t b, Duration limit = 2s);
  void fill(unsigned side);

  EnginePair pair;
  std::array<std::vector<std::uint8_t>, 2> memory;
  std::array<std::uint32_t, 2> key{};
  std::array<CqId, 2> cq{};
  SrqId srq{};
  std::vector<std::array<Qpn, 2>> qps;

 private:
  static EnginePair::Setup rc_setup(const RcOptions& o);

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
