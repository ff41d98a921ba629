// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mrc/core/time.hpp"
#include "mrc_ctl/serve/errand.hpp"
#include "mrc_ctl/serve/host_port.hpp"
#include "mrc_ctl/serve/snapshot.hpp"

namespace mrc::ctl_tool {

/// The body of an answer of another host's `mrc_ctl serve`, as far as it can be shown: an object
/// with the fields "host" and "devices", not nested deeper than such an answer is. Null otherwise.
[[nodiscard]] Json checked_snapshot(const std::string& body);

/// Other hosts, by their `mrc_ctl serve`. Each is asked by a thread of its own. One that does not
/// answer is waited for once, `patience` long, and then not again until it has answered. Any
/// thread.
class PeerWatch {
 public:
  PeerWatch(std::vector<HostPort> peers, Duration patience);

  /// For each: its snapshot, or {"problem": why there is none}; with "at", as it was named.
  [[nodiscard]] std::vector<Json> snapshots();

 private:
  struct Peer {
    Peer(HostPort where, Duration patience);
    void fetch();

    const HostPort at;
    const Duration patience;
    std::mutex mutex;
    Json newest;          ///< null: none
    std::string problem;  ///< why there is none
    bool answers = true;  ///< the last time, or it was not asked yet; of the asking thread
    Errand errand;
  };

  const Duration patience_;
  std::mutex asking_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace mrc::ctl_tool
