// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/types.hpp"
#include "nccl_perf/collective.hpp"

namespace mrc::nccl_perf {

/// A rank that is ended by SIGKILL.
struct Kill {
  int rank = 0;
  Duration after{};  ///< since the ranks were started
};

/// An environment variable of a rank; -1: of all ranks.
struct RankVariable {
  int rank = -1;
  std::string name, value;
};

/// The command line.
struct Options {
  std::vector<Collective> collectives{Collective::all_reduce};
  std::vector<std::uint64_t> sizes{1 << 20, 4 << 20, 16 << 20};
  Shape shape;
  std::string net = "mrc";  ///< "mrc", "socket", or a name or path for NCCL_NET_PLUGIN
  std::string against;      ///< likewise: takes turns with `net`; empty: none
  int api = 0;              ///< version of the plugin's interface; 0: the newest
  int sockets = 0;          ///< NCCL_NSOCKS_PERTHREAD
  int threads = 0;          ///< NCCL_SOCKET_NTHREADS
  std::string congestion;   ///< of TCP; empty: the machine's default
  int repetitions = 5;
  int iterations = 0;  ///< operations per repetition; 0: by size
  int warmup = 2;      ///< operations of each network
  bool check = false;
  bool pin = false;
  bool quiet = false;
  Duration patience = std::chrono::seconds(60);
  std::vector<std::string> netns;
  std::vector<RankVariable> variables;
  std::vector<RankVariable> against_variables;  ///< set while the second network is opened
  std::optional<Kill> kill;
  std::string json;
  std::string command;  ///< as it was given

  /// `net` and, if there is one, `against`.
  [[nodiscard]] std::vector<std::string> nets() const;
  /// Of an operation of this size: so that a repetition moves 64 MiB or so.
  [[nodiscard]] int iterations_of(std::uint64_t size) const noexcept;
};

/// Throws tools::Exit after --help, or for wrong options, which it has explained.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace mrc::nccl_perf
