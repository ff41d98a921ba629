// SPDX-License-Identifier: Apache-2.0
// The first program: one process writes into its own memory over the network.
#include <array>
#include <cstdio>
#include <cstring>

#include "mrc/mrc.hpp"

int main() {
  mrc::Device device;  // configured by MRC_* variables; without any, one loopback plane
  std::array<char, 64> from{"hello from the other side of the fabric"}, to{};
  auto source = device.register_memory(from, mrc::Access::none);
  auto target = device.register_memory(to, mrc::Access::remote_write);
  auto cq = device.create_cq(16);
  auto a = device.create_qp({.send_cq = &cq}), b = device.create_qp({.send_cq = &cq});
  a.connect(b.local_info());  // two processes would exchange these over TCP (mrc::exchange)
  b.connect(a.local_info());

  const mrc::Sge sge{from.data(), from.size(), source.lkey()};
  if (a.post_send({.sges = {&sge, 1}, .remote = target.remote()}) != mrc::Errc::ok) return 1;
  mrc::Completion done;
  if (cq.wait({&done, 1}, std::chrono::seconds(5)) == 0) return 1;
  std::printf("%s: \"%s\"\n", mrc::to_string(done.status), to.data());
  return std::memcmp(from.data(), to.data(), from.size()) == 0 ? 0 : 1;
}
