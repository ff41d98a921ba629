// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/settings/rank.hpp"

#include "mrc/core/value_text.hpp"

namespace mrc_nccl {

std::optional<ProcessRank> rank_of_process(const Environment& environment) {
  for (const char* name :
       {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const auto text = environment.find(name);
    const auto number = text ? mrc::parse_integer<int>(*text) : std::nullopt;
    if (number && *number >= 0) return ProcessRank{*number, name};
  }
  return std::nullopt;
}

}  // namespace mrc_nccl
