// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mrc_probe/network.hpp"
#include "probe/paths.hpp"
#include "probe/report.hpp"
#include "probe/second_look.hpp"
#include "probe/sweep.hpp"

namespace mrc::probe_tool {

using namespace probe;

/// What to probe, and how often.
struct ProberOptions {
  bool loops = true;
  std::vector<unsigned> hosts;        ///< to which paths are probed
  unsigned evs = fabric::kEcmpPaths;  ///< of each plane to each host, where switches choose the way
  unsigned tries = 3;
  bool full = true;   ///< probes of full size, too
  bool load = false;  ///< and trains of them
  SweepOptions sweep;
};

/// Sweeps over the paths of a host. One thread at a time.
class Prober {
 public:
  /// All of these have to outlive it. Throws mrc::Error, also if there are too many paths.
  Prober(const Description& d, unsigned self, Network& network, const ProberOptions& options);

  /// Probes all paths, those of planes with losses again, and then paths that small packets pass
  /// with packets of full size, and with trains of them. Ends early when the program is
  /// interrupted; then the report is of no use.
  [[nodiscard]] Report sweep();

 private:
  void add_ways(const std::vector<ProbePath>& paths, unsigned loop_peer);
  [[nodiscard]] std::vector<PathResult> look(const std::vector<std::size_t>& asked,
                                             std::uint32_t full_size);
  void add_more(SecondLook& more, unsigned loop_peer);
  void part_dead_from_narrow(Report& report);
  void load(Report& report);
  void send_trains(const std::vector<std::size_t>& asked, std::vector<PathLoad>& loads);
  template <class Pace>
  void run(Pace& pace);
  void send(const Sweep::Probe& probe);
  [[nodiscard]] std::uint32_t padding(const ProbePath& path, std::size_t header) const noexcept;
  template <class Pace>
  void on_packet(Pace& pace, const wire::RxPacket& packet);

  const Description& d_;
  unsigned self_;
  Network& network_;
  ProberOptions options_;
  PathMaker maker_;
  std::vector<ProbePath> paths_;
  std::vector<Way> ways_;  ///< [path]
  std::uint16_t next_id_;
  std::uint32_t full_size_ = 0;  ///< of probes; 0: small
  std::uint64_t sent_ = 0;
};

}  // namespace mrc::probe_tool
