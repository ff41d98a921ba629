// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc_ctl/serve/errand.hpp"
#include "mrc_ctl/serve/host_port.hpp"

namespace mrc::ctl_tool {

/// Is this an answer of another host's `mrc_ctl serve`, as far as it can be shown: an object with
/// the fields "host" and "devices", not nested deeper than such an answer is? Takes little memory.
[[nodiscard]] bool is_snapshot(std::string_view body);

/// Other hosts, by their `mrc_ctl serve`. Each is asked by a thread of its own. One that does not
/// answer is waited for once, `patience` long, and then not again until it has answered. What they
/// answer may take 4 MiB together, each an even share. Any thread.
class PeerWatch {
 public:
  PeerWatch(std::vector<HostPort> peers, Duration patience);

  /// For each, as JSON: its snapshot, or {"problem": why there is none}; with "at", as it was
  /// named.
  [[nodiscard]] std::vector<std::string> snapshots();

 private:
  struct Peer {
    Peer(HostPort where, Duration patience, std::size_t share);
    void fetch();

    const HostPort at;
    const Duration patience;
    const std::size_t share;
    std::mutex mutex;
    std::string newest;   ///< empty: none
    std::string problem;  ///< why there is none
    bool answers = true;  ///< the last time, or it was not asked yet; of the asking thread
    Errand errand;
  };

  const Duration patience_;
  std::mutex asking_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace mrc::ctl_tool
