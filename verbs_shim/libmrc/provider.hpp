// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verbs_shim/abi.hpp"
#include "verbs_shim/libmrc/provider.h"

namespace mrc_verbs {

/// The functions behind libmrc.so.1, for the devices of this library. Lives for ever.
[[nodiscard]] const mrc_provider& libmrc_provider() noexcept;

/// The functions themselves; what they do is in mrc.h and mrc_ctl.h. A thread that waits in one may
/// be cancelled there, which leaves it as an exception does.
namespace provided {
#define MRC_PROVIDED(result, otherwise, name, parameters, arguments) \
  result name parameters noexcept;
#define MRC_PROVIDED_WAIT(result, otherwise, name, parameters, arguments) result name parameters;
MRC_PROVIDER_CONTEXT_CALLS(MRC_PROVIDED)
MRC_PROVIDER_ALL_OBJECT_CALLS(MRC_PROVIDED, MRC_PROVIDED_WAIT)
#undef MRC_PROVIDED_WAIT
#undef MRC_PROVIDED
void mrc_ack_cq_events(mrc_cq* cq, unsigned events) noexcept;
void mrc_ack_async_event(mrc_async_event* event) noexcept;
}  // namespace provided

}  // namespace mrc_verbs
