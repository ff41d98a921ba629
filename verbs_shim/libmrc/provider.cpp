// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/libmrc/provider.hpp"

namespace mrc_verbs {

const mrc_provider& libmrc_provider() noexcept {
  static constexpr mrc_provider table{
      MRC_PROVIDER_MAGIC, &provided::mrc_ack_cq_events, &provided::mrc_ack_async_event,
#define MRC_ENTRY(result, otherwise, name, parameters, arguments) &provided::name,
      MRC_PROVIDER_CONTEXT_CALLS(MRC_ENTRY) MRC_PROVIDER_OBJECT_CALLS(MRC_ENTRY)
#undef MRC_ENTRY
  };
  return table;
}

}  // namespace mrc_verbs
