// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <string>

#include "nccl/conformance/rig.hpp"

/// What two processes that are connected over the plugin have in common.
namespace nccl_conformance {

/// Exchanges bytes over pipes, as NCCL's bootstrap does over TCP. Both sides write first.
inline void swap_bytes(int to, int from, const char* own, char* other, std::size_t bytes) {
  expect(::write(to, own, bytes) == static_cast<ssize_t>(bytes), "write to the other process");
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::read(from, other + done, bytes - done);
    expect(got > 0, "the other process has ended");
    done += static_cast<std::size_t>(got);
  }
}

/// A connection in each direction between rank 0 of this process and the other process.
struct ProcessLink {
  Setup there;  ///< its `send` is used
  Setup back;   ///< its `receive` is used

  ProcessLink(Job& job, int to, int from) : there{.job = &job}, back{.job = &job} {
    there.from = back.to = 0;
    back.listen();
    swap_bytes(to, from, back.handle, there.handle, sizeof(there.handle));
    until("set-up between processes", [&] {
      const bool connected = there.connect();
      return back.accept() && connected;
    });
  }
  ~ProcessLink() {
    if (there.send) (void)there.job->net().close_send(there.send);
    if (back.receive) (void)back.job->net().close_receive(back.receive);
    if (back.listener) (void)back.job->net().close_listen(back.listener);
  }
  ProcessLink(const ProcessLink&) = delete;
  ProcessLink& operator=(const ProcessLink&) = delete;
};

}  // namespace nccl_conformance
