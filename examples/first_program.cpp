// SPDX-License-Identifier: Apache-2.0
// The first program: one process writes into its own memory over the network.
#include <array>
#include <cstdio>
#include <cstring>

#include "mrc/device.hpp"

int main() {
  mrc::Device device;  // planes and all else from MRC_* variables; loopback without any
  std::array<char, 64> from{"hello from the other side of the fabric"}, to{};
  auto source = device.register_memory(std::span<char>(from), mrc::Access::none);
  auto target = device.register_memory(std::span<char>(to),
                                       mrc::Access::local_write | mrc::Access::remote_write);
  auto cq = device.create_cq(16);
  mrc::QpOptions options;
  options.send_cq = &cq;
  auto a = device.create_qp(options), b = device.create_qp(options);
  a.connect(b.local_info());  // two processes would exchange these over TCP (mrc::exchange)
  b.connect(a.local_info());

  const mrc::Sge piece{from.data(), from.size(), source.lkey()};
  mrc::WriteRequest write;
  write.pieces = {&piece, 1};
  write.remote = target.remote();
  if (a.post_write(write) != mrc::Errc::ok) return 1;
  mrc::Completion done;
  if (cq.wait({&done, 1}, std::chrono::seconds(5)) == 0) return 1;
  std::printf("%s: \"%s\"\n", mrc::to_string(done.status), to.data());
  return std::memcmp(from.data(), to.data(), from.size()) == 0 ? 0 : 1;
}
