// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/environment.hpp"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "mrc/core/unique_fd.hpp"
#include "nccl_perf/failure.hpp"

namespace mrc::nccl_perf {
namespace {

void enter_netns(const std::string& name) {
  const UniqueFd netns(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!netns.open() || setns(netns.fd(), CLONE_NEWNET) != 0)
    throw Failure(
        fmt::format("can't enter network namespace '{}': {} (`ip netns add` makes one; "
                    "it needs root)",
                    name, std::strerror(errno)));
}

void pin(int rank) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &all)) processors.push_back(i);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processors[static_cast<std::size_t>(rank) % processors.size()], &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

}  // namespace

void enter_environment(const Options& options, int rank) {
  for (const RankVariable& v : options.variables)
    if (v.rank < 0 || v.rank == rank) setenv(v.name.c_str(), v.value.c_str(), 1);
  if (!options.netns.empty()) enter_netns(options.netns[static_cast<std::size_t>(rank)]);
  if (options.pin) pin(rank);
}

ScopedVariables::ScopedVariables(const std::vector<RankVariable>& variables, int rank) {
  for (const RankVariable& v : variables) {
    if (v.rank >= 0 && v.rank != rank) continue;
    const char* const before = getenv(v.name.c_str());
    before_.emplace_back(v.name, before == nullptr ? std::nullopt : std::optional(before));
    setenv(v.name.c_str(), v.value.c_str(), 1);
  }
}

ScopedVariables::~ScopedVariables() {
  for (auto v = before_.rbegin(); v != before_.rend(); ++v)
    if (v->second)
      setenv(v->first.c_str(), v->second->c_str(), 1);
    else
      unsetenv(v->first.c_str());
}

}  // namespace mrc::nccl_perf
